//! The bytes of the protocol: frames, strings, tables, properties. Nothing here knows what a method does.

pub mod frame;
pub mod props;
pub mod table;
pub mod text;

pub use text::{long, short};

/// Why bytes are not what the protocol allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WireError {
    /// Too few bytes, or a length that lies.
    #[error("malformed fields: {0}")]
    Read(#[from] model::ReadError),
    /// A short string that is not UTF-8.
    #[error("Malformed UTF-8 in shortstr")]
    ShortUtf8,
    /// A letter that names no type of field.
    #[error("unknown table field type {0}")]
    Letter(u8),
    /// Tables and arrays nested deeper than allowed.
    #[error("tables nested deeper than {}", crate::config::TABLE_DEPTH_MAX)]
    Depth,
    /// A property flag that names no property, or bytes behind the last one.
    #[error("malformed content properties")]
    Properties,
}
