//! What is said of reading a stream.

use model::Wall;

/// Where a reader of a stream begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ReadFrom {
    /// At the oldest message kept.
    First,
    /// At the newest message there is.
    Last,
    /// Behind all there is.
    #[default]
    Next,
    /// At this offset, or the next that there is; what comes before it is passed over, also where it is yet to come.
    Offset(u64),
    /// At the first message that is not older than this; behind all there is if all are.
    Time(Wall),
}

/// How a stream is read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReadSpec {
    /// Where it begins, in each partition.
    pub from: ReadFrom,
    /// Only this partition of the stream's topic; all of them in turn if `None`.
    pub partition: Option<u32>,
    /// Only some of the messages.
    pub filter: Option<ReadFilter>,
}

/// Which messages of a stream a reader wants: those with one of some texts in a header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReadFilter {
    /// The header.
    pub header: String,
    /// What it may be.
    pub values: Vec<String>,
    /// Messages without that header too.
    pub unmarked: bool,
}
