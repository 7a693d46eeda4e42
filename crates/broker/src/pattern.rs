//! Patterns that names are held against: regular expressions as Perl's, of bounded size and effort.

use fancy_regex::{Regex, RegexBuilder};

use crate::BrokerError;

/// Bytes of a pattern.
const PATTERN_BYTES_MAX: usize = 4096;
/// Bytes of memory that a compiled pattern takes.
const COMPILED_BYTES_MAX: usize = 1 << 20;
/// Steps back in one match of a pattern with look-around; beyond them nothing is found.
const BACKTRACKS_MAX: usize = 10_000;

/// A compiled pattern.
#[derive(Clone, Debug)]
pub(crate) struct Pattern(Regex);

impl Pattern {
    /// # Errors
    /// [`BrokerError::Invalid`] that says what is wrong with it.
    pub(crate) fn new(text: &str) -> Result<Pattern, BrokerError> {
        if text.len() > PATTERN_BYTES_MAX {
            let why = format!("a pattern has at most {PATTERN_BYTES_MAX} bytes, not {}", text.len());
            return Err(BrokerError::Invalid(why));
        }
        let mut builder = RegexBuilder::new(text);
        builder.backtrack_limit(BACKTRACKS_MAX);
        builder.delegate_size_limit(COMPILED_BYTES_MAX).delegate_dfa_size_limit(COMPILED_BYTES_MAX);
        let why = |error| BrokerError::Invalid(format!("pattern should be regular expression but is invalid: {error}"));
        builder.build().map(Pattern).map_err(why)
    }

    /// Whether it is found anywhere in `name`.
    pub(crate) fn is_in(&self, name: &str) -> bool {
        self.0.is_match(name).unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_looked_for_anywhere_and_may_look_around() {
        for (pattern, name, found) in [
            ("", "anything", true),
            ("b", "abc", true),
            ("^b", "abc", false),
            ("^(?!amq\\.).*", "amq.gen-1", false),
            ("^(?!amq\\.).*", "orders", true),
            (".*", "", true),
            ("^(a|b)\\.\\d+$", "a.17", true),
        ] {
            assert_eq!(Pattern::new(pattern).unwrap().is_in(name), found, "{pattern} in {name}");
        }
    }

    #[test]
    fn a_pattern_costs_no_more_than_so_much() {
        for bad in ["(", "a{1000000}{1000000}", "(?<x", &"x".repeat(5000)] {
            assert!(Pattern::new(bad).is_err(), "{bad}");
        }
        let name = "a".repeat(200);
        let slow = Pattern::new("^(?=(a+)+b)").unwrap(); // ends, whatever it finds
        assert!(!slow.is_in(&name));
    }
}
