//! Patterns of permissions: as those of policies, but the empty one takes nothing.

use crate::BrokerError;
use crate::pattern::Pattern as Expression;

/// One compiled pattern. It matches anywhere in a name unless it is anchored.
#[derive(Debug)]
pub(crate) enum Pattern {
    /// The empty one.
    Nothing,
    /// `.*`, which most users have.
    Everything,
    /// Any other.
    Expression(Expression),
}

impl Pattern {
    /// Compiles `text`.
    ///
    /// # Errors
    /// [`BrokerError::Invalid`] that says what is wrong with it.
    pub(crate) fn new(text: &str) -> Result<Pattern, BrokerError> {
        Ok(match text {
            "" => Pattern::Nothing,
            ".*" | "^.*$" => Pattern::Everything,
            _ => Pattern::Expression(Expression::new(text)?),
        })
    }

    /// Whether `name` matches.
    pub(crate) fn takes(&self, name: &str) -> bool {
        match self {
            Pattern::Nothing => false,
            Pattern::Everything => true,
            Pattern::Expression(expression) => expression.is_in(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_anywhere_unless_it_is_anchored() {
        for (pattern, name, takes) in [
            ("", "", false),
            ("", "a", false),
            (".*", "", true),
            ("^.*$", "a", true),
            ("a", "xay", true),
            ("^a$", "xay", false),
            ("^$", "a", false),
            ("^(a|b)-", "b-1", true),
            ("^a$|^amq\\.gen", "amq.gen-x", true),
            ("^(?!secret).*", "secret-1", false),
            ("^(?!secret).*", "open-1", true),
        ] {
            assert_eq!(Pattern::new(pattern).unwrap().takes(name), takes, "{pattern} {name}");
        }
    }

    #[test]
    fn what_is_no_pattern_or_too_large_is_refused() {
        for bad in ["(", "*", "((a{99}){99}){99}", &"a".repeat(5000)] {
            assert!(matches!(Pattern::new(bad), Err(BrokerError::Invalid(_))), "{bad}");
        }
    }
}
