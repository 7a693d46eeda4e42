//! A format whose units hold several messages with keys, say their own offsets, and can be weeded: as a record batch.

use std::ops::ControlFlow;

use bytes::Bytes;
use model::format::{Visit, VisitUnit};
use model::keyed::VisitKeyed;
use model::{Format, FormatError, FormatTag, Keyed, Left, Message, Offset, Sieve, Stamp, UnitAt, Wall};

/// `u64` base, `u32` bytes behind it, `u32` last delta, `i64` until (0: not said), then for each message `u32` delta,
/// `u8` key, `u8` 1 if it has a value, `u32` which.
pub struct Book;

/// One message: its distance, key, value (none: a tombstone).
pub type Entry = (u32, u8, Option<u32>);

const HEAD: usize = 24;
const ENTRY: usize = 10;

pub fn page(entries: &[Entry]) -> Vec<u8> {
    page_of(0, entries.last().unwrap().0, 0, entries)
}

fn page_of(base: u64, last_delta: u32, until: i64, entries: &[Entry]) -> Vec<u8> {
    let mut page = base.to_be_bytes().to_vec();
    page.extend_from_slice(&((12 + entries.len() * ENTRY) as u32).to_be_bytes());
    page.extend_from_slice(&last_delta.to_be_bytes());
    page.extend_from_slice(&until.to_be_bytes());
    for (delta, key, value) in entries {
        page.extend_from_slice(&delta.to_be_bytes());
        page.extend_from_slice(&[*key, u8::from(value.is_some())]);
        page.extend_from_slice(&value.unwrap_or(0).to_be_bytes());
    }
    page
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn base_of(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes[..8].try_into().unwrap())
}

fn until_of(page: &[u8]) -> i64 {
    i64::from_be_bytes(page[16..24].try_into().unwrap())
}

fn entries(page: &[u8]) -> Vec<Entry> {
    let entry = |bytes: &[u8]| (u32_at(bytes, 0), bytes[4], (bytes[5] == 1).then(|| u32_at(bytes, 6)));
    page[HEAD..].chunks(ENTRY).map(entry).collect()
}

fn keyed<'a>(page: &[u8], base: Offset, entry: &'a Entry) -> Keyed<'a> {
    let stays_until = Some(Wall(until_of(page))).filter(|until| until.0 != 0);
    let offset = base.plus(u64::from(entry.0));
    Keyed { offset, key: Some(std::slice::from_ref(&entry.1)), is_tombstone: entry.2.is_none(), stays_until }
}

/// All messages of units back to back, by offset.
pub fn read(units: &[u8], first: Offset) -> Vec<(u64, u8, Option<u32>)> {
    let mut all = Vec::new();
    let visit = &mut |unit: UnitAt| {
        let of = entries(&units[unit.at..unit.at + unit.bytes]);
        all.extend(of.into_iter().map(|(delta, key, value)| (unit.first.0 + u64::from(delta), key, value)));
        ControlFlow::Continue(())
    };
    Book.split(units, first, visit).unwrap();
    all
}

impl Format for Book {
    fn tag(&self) -> FormatTag {
        FormatTag(8)
    }
    fn stamp(&self, units: &mut [u8], stamp: Stamp) {
        let (mut at, mut base) = (0, stamp.base.0);
        while at < units.len() {
            units[at..at + 8].copy_from_slice(&base.to_be_bytes());
            base += u64::from(u32_at(units, at + 12)) + 1;
            at += 12 + u32_at(units, at + 8) as usize;
        }
    }
    fn split(&self, units: &[u8], base: Offset, visit: &mut VisitUnit<'_>) -> Result<(), FormatError> {
        let mut at = 0;
        let own = base_of(units);
        while at < units.len() {
            let bytes = 12 + u32_at(units, at + 8) as usize;
            let first = base.plus(base_of(&units[at..]) - own);
            if visit(UnitAt { first, count: ((bytes - HEAD) / ENTRY) as u32, at, bytes }).is_break() {
                break;
            }
            at += bytes;
        }
        Ok(())
    }
    fn open(&self, _: &Bytes, _: Offset, _: &mut Visit<'_>) -> Result<(), FormatError> {
        Err(FormatError::Malformed("not needed here"))
    }
    fn build(&self, _: &[(Offset, Message)], _: &mut Vec<u8>) -> Result<(), FormatError> {
        Err(FormatError::Malformed("not needed here"))
    }
    fn allows_gaps(&self) -> bool {
        true
    }
    fn keys(&self, unit: &Bytes, base: Offset, visit: &mut VisitKeyed<'_>) -> Result<(), FormatError> {
        entries(unit).iter().for_each(|entry| visit(&keyed(unit, base, entry)));
        Ok(())
    }
    fn weed(
        &self,
        unit: &Bytes,
        base: Offset,
        sieve: &mut Sieve<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Option<Left>, FormatError> {
        let mut left = entries(unit);
        left.retain(|entry| (sieve.keep)(&keyed(unit, base, entry)));
        if left.is_empty() {
            return Ok(None);
        }
        let has_tombstone = left.iter().any(|entry| entry.2.is_none());
        let until = match until_of(unit) {
            _ if !has_tombstone => 0,
            0 => sieve.tombstones_until.map_or(0, |until| until.0),
            said => said,
        };
        let last_delta = u32_at(unit, 12);
        out.extend_from_slice(&page_of(base.0, last_delta, until, &left));
        let last = base.plus(u64::from(last_delta));
        Ok(Some(Left { last, count: left.len() as u32, time_max: Wall(1) }))
    }
}
