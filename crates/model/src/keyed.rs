//! What compaction asks of a format: which keys a unit's messages have, and what is left of it without some of them.

use std::ops::ControlFlow;

use bytes::Bytes;

use crate::{Format, FormatError, Offset, Stamp, Wall};

/// What compaction must know of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Keyed<'a> {
    /// Its place in the log.
    pub offset: Offset,
    /// Its key, if it has one.
    pub key: Option<&'a [u8]>,
    /// It says that nothing is under its key any more.
    pub is_tombstone: bool,
    /// Until when it stays though it is a tombstone, if that was decided before.
    pub stays_until: Option<Wall>,
}

/// Called once for each message.
pub type VisitKeyed<'v> = dyn FnMut(&Keyed<'_>) + 'v;

/// What is to become of a unit's messages.
pub struct Sieve<'s> {
    /// Whether a message stays.
    pub keep: &'s mut dyn FnMut(&Keyed<'_>) -> bool,
    /// Until when tombstones stay that are met for the first time; `None`: that is not decided yet.
    pub tombstones_until: Option<Wall>,
}

/// What is left of a unit. It keeps its place, whichever of its messages are gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Left {
    /// Offset of the last message that it held when it was written.
    pub last: Offset,
    /// How many messages are left.
    pub count: u32,
    /// The latest time of those.
    pub time_max: Wall,
}

/// Without a way of its own, by opening the unit.
pub(crate) fn keys<F: Format + ?Sized>(
    format: &F,
    unit: &Bytes,
    base: Offset,
    visit: &mut VisitKeyed<'_>,
) -> Result<(), FormatError> {
    format.open(unit, base, &mut |offset, message| {
        let (key, is_tombstone) = (message.key.as_deref(), message.value.is_none());
        visit(&Keyed { offset, key, is_tombstone, stays_until: None });
        ControlFlow::Continue(())
    })
}

/// Without a way of its own a unit stays whole as long as one of its messages does.
pub(crate) fn weed<F: Format + ?Sized>(
    format: &F,
    unit: &Bytes,
    base: Offset,
    sieve: &mut Sieve<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Left>, FormatError> {
    let mut stays = false;
    let mut left = Left { last: base, count: 0, time_max: Wall(i64::MIN) };
    format.open(unit, base, &mut |offset, message| {
        let (key, is_tombstone) = (message.key.as_deref(), message.value.is_none());
        stays |= (sieve.keep)(&Keyed { offset, key, is_tombstone, stays_until: None });
        left = Left {
            last: offset,
            count: left.count + 1,
            time_max: left.time_max.max(message.created.unwrap_or(left.time_max)),
        };
        ControlFlow::Continue(())
    })?;
    if !stays {
        return Ok(None);
    }
    let at = out.len();
    out.extend_from_slice(unit);
    if let Some(copy) = out.get_mut(at..) {
        format.stamp(copy, Stamp { base, epoch: 0, at: Wall(0) });
    }
    Ok(Some(left))
}
