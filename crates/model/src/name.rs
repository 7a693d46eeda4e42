//! Names that came from a user, checked once. They never become paths: files are named by id.

use std::fmt;
use std::sync::Arc;

/// The longest name of anything, in bytes (a short string of AMQP 0-9-1; Kafka's topics are shorter still).
pub const NAME_BYTES_MAX: usize = 255;

/// A tenant's, topic's, queue's, exchange's, group's or user's name: UTF-8, 0 to 255 bytes, no control characters.
/// Cheap to clone. Each tongue narrows it further at its own border.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

/// Why a text is not a [`Name`].
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NameError {
    /// More than [`NAME_BYTES_MAX`] bytes.
    #[error("the name is {0} bytes long; at most {NAME_BYTES_MAX} are allowed")]
    TooLong(usize),
    /// A character below U+0020 or U+007F.
    #[error("the name holds a control character")]
    Control,
}

impl Name {
    /// Checks `text`.
    ///
    /// # Errors
    /// [`NameError`] when it is too long or holds a control character.
    pub fn new(text: &str) -> Result<Name, NameError> {
        if text.len() > NAME_BYTES_MAX {
            return Err(NameError::TooLong(text.len()));
        }
        if text.chars().any(char::is_control) {
            return Err(NameError::Control);
        }
        Ok(Name(text.into()))
    }

    /// A name from a constant of ours.
    ///
    /// # Panics
    /// When the constant is not a name: a mistake in this program.
    #[must_use]
    pub fn fixed(text: &'static str) -> Name {
        assert!(text.len() <= NAME_BYTES_MAX && !text.chars().any(char::is_control), "{text:?} is not a name");
        Name(text.into())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl std::borrow::Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl std::ops::Deref for Name {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_at_most_255_bytes_without_control_characters() {
        assert!(Name::new(&"é".repeat(127)).is_ok());
        assert_eq!(Name::new(&"é".repeat(128)), Err(NameError::TooLong(256)));
        assert_eq!(Name::new("a\nb"), Err(NameError::Control));
        assert_eq!(Name::new("").map(|n| n.as_str().len()), Ok(0));
    }
}
