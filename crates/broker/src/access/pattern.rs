//! Patterns of permissions: regular expressions over names. They come from administrators, and no memory beyond a bound
//! is spent on one; matching takes time in proportion to the name.

use regex::bytes::{Regex, RegexBuilder};

use crate::BrokerError;

/// The longest pattern, in bytes.
const PATTERN_BYTES_MAX: usize = 4096;

/// The most memory that one compiled pattern, and matching by it, takes.
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// One compiled pattern. It matches anywhere in a name unless it is anchored.
#[derive(Debug)]
pub(crate) enum Pattern {
    /// The empty one.
    Nothing,
    /// `.*`, which most users have.
    Everything,
    /// Any other.
    Regex(Box<Regex>),
}

impl Pattern {
    /// Compiles `text`. Bytes are matched, not characters, as clients know it.
    pub(crate) fn new(text: &str) -> Result<Pattern, BrokerError> {
        match text {
            "" => return Ok(Pattern::Nothing),
            ".*" | "^.*$" => return Ok(Pattern::Everything),
            _ => {}
        }
        if text.len() > PATTERN_BYTES_MAX {
            let why = format!("a pattern has at most {PATTERN_BYTES_MAX} bytes, not {}", text.len());
            return Err(BrokerError::Invalid(why));
        }
        let mut builder = RegexBuilder::new(text);
        builder.unicode(false).size_limit(COMPILED_BYTES_MAX).dfa_size_limit(COMPILED_BYTES_MAX);
        let failed = |why| BrokerError::Invalid(format!("'{text}' is not a regular expression served here: {why}"));
        Ok(Pattern::Regex(Box::new(builder.build().map_err(failed)?)))
    }

    /// Whether `name` matches.
    pub(crate) fn takes(&self, name: &str) -> bool {
        match self {
            Pattern::Nothing => false,
            Pattern::Everything => true,
            Pattern::Regex(regex) => regex.is_match(name.as_bytes()),
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
        ] {
            assert_eq!(Pattern::new(pattern).unwrap().takes(name), takes, "{pattern} {name}");
        }
    }

    #[test]
    fn what_is_no_pattern_or_too_large_is_refused() {
        for bad in ["(", "*", "(?!a)", "((a{99}){99}){99}", &"a".repeat(5000)] {
            assert!(matches!(Pattern::new(bad), Err(BrokerError::Invalid(_))));
        }
    }
}
