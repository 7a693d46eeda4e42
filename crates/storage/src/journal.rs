//! The journal: one sequence of entries in a window of files. What one turn committed is one entry (or a few), written
//! at once; FORMAT.md has every byte. Nothing here knows what the units mean.

pub(crate) mod aside;
pub(crate) mod entry;
pub(crate) mod files;
pub(crate) mod frame;
pub(crate) mod heads;
pub(crate) mod record;
pub(crate) mod recover;
pub(crate) mod scan;
pub(crate) mod writer;
