//! Words shared by every crate: ids, offsets, the neutral message, units and their formats, bounded byte
//! readers and writers, checksums, time.
//!
//! This crate knows nothing of sockets, files, clocks or of any tongue. Everybody may import it; it imports nobody.

pub mod bytes_reader;
pub mod bytes_writer;
pub mod checksum;
pub mod format;
pub mod ids;
pub mod keyed;
pub mod marks;
pub mod message;
pub mod name;
pub mod time;

pub use bytes_reader::{ByteReader, ReadError};
pub use bytes_writer::ByteWriter;
pub use format::{Format, FormatError, FormatTag, Formats, Sought, Stamp, UnitAt};
pub use ids::{LogId, Offset, TopicId};
pub use keyed::{Keyed, Left, Sieve};
pub use marks::{Address, DeadLetters, Death, Marks, Reason};
pub use message::{Facts, Header, HeaderValue, Message};
pub use name::{Name, NameError};
pub use time::{Mono, Now, Wall, interval_ms};
