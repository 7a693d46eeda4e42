//! Whose state records are: the kinds of [`storage::Owner`] that this crate uses, in one list so that none is given
//! twice. Fixed for ever once given (see FORMAT.md).

use model::LogId;
use storage::Owner;

/// The catalog; one owner, id 0.
pub(crate) const CATALOG: u8 = 1;
/// Blocks of ids that may have been given; one owner for each sequence.
pub(crate) const IDS: u8 = 2;
/// The idempotent producers of a log; the owner's id is the log's.
pub(crate) const PRODUCERS: u8 = 3;
/// A queue's cursor; the owner's id is the queue's.
pub(crate) const CURSOR: u8 = 4;

/// That damage was once found; one owner, id 0, one record whose content says nothing. From then on a log that nothing
/// names is not taken for deleted: what named it may be what was damaged.
pub(crate) const DAMAGED_ONCE: u8 = 5;

/// How far a log of a topic has fed the queues bound to that topic; the owner's id is the log's.
pub(crate) const FEED: u8 = 6;

/// A bucket of delayed messages; the owner's id is its log's.
pub(crate) const DELAYS: u8 = 7;

/// The one owner of the catalog.
pub(crate) const CATALOG_OWNER: Owner = Owner { kind: CATALOG, id: 0 };

/// The producers of `log`.
pub(crate) fn producers_of(log: LogId) -> Owner {
    Owner { kind: PRODUCERS, id: log.0 }
}

/// How far `log` has been fed.
pub(crate) fn feed_of(log: LogId) -> Owner {
    Owner { kind: FEED, id: log.0 }
}

/// The cursor of queue `id`.
pub(crate) fn cursor_of(id: u64) -> Owner {
    Owner { kind: CURSOR, id }
}

/// The bucket of delayed messages in `log`.
pub(crate) fn delays_of(log: LogId) -> Owner {
    Owner { kind: DELAYS, id: log.0 }
}
