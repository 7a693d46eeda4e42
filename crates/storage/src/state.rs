//! The table of state records: for each owner its last snapshot and the deltas after it. In memory; it knows nothing of
//! what the records mean.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

use crate::Owner;
use crate::index::IdMap;
use crate::journal::record::StateChangeRecord;

// Below this many deltas a new snapshot would not pay.
const DELTAS_MIN: usize = 64;
// Beyond this many it pays even when the snapshot is large: recovery applies them one by one.
const DELTAS_MAX: usize = 4096;

// An owner of no more bytes than this is worth a new snapshot as soon as it rests.
const SMALL_BYTES: usize = 4 << 10;

/// The records of one owner that are more than one snapshot, back to back.
#[derive(Clone, Default, Debug)]
pub(crate) struct Several {
    bytes: Vec<u8>,
    /// Where each record ends.
    ends: Vec<u32>,
    /// Bytes of the first record if it is a snapshot, else 0.
    snapshot_bytes: usize,
    starts_with_snapshot: bool,
    /// Named by `wants_snapshot` and not answered yet.
    named: bool,
    /// It has changed since the last checkpoint.
    changed: bool,
}

/// A snapshot of no more bytes than this takes no memory of its own: one owner's records are three words with it.
const INLINE_BYTES: usize = 22;

/// The records of one owner. Most owners are at rest: one snapshot, and mostly a small one.
#[derive(Clone, Debug)]
pub(crate) enum OwnerRecords {
    Small(u8, [u8; INLINE_BYTES]),
    Snapshot(Arc<[u8]>),
    Several(Arc<Several>),
}

impl Several {
    fn push(&mut self, content: &[u8]) {
        if self.bytes.capacity() - self.bytes.len() < content.len() {
            self.bytes.reserve_exact(content.len() + self.bytes.len() / 4);
        }
        self.bytes.extend_from_slice(content);
        self.ends.push(self.bytes.len() as u32);
    }

    fn records(&self) -> impl Iterator<Item = &[u8]> {
        let mut from = 0;
        self.ends.iter().map(move |end| {
            let record = &self.bytes[from..*end as usize];
            from = *end as usize;
            record
        })
    }

    fn outgrown(&self) -> bool {
        let deltas = self.ends.len();
        deltas > DELTAS_MAX || (deltas > DELTAS_MIN && self.bytes.len() > 3 * self.snapshot_bytes)
    }

    // It rests, and a snapshot instead of what it has would be worth its while.
    fn rests(&self) -> bool {
        let deltas = self.bytes.len() - self.snapshot_bytes;
        !self.changed && (self.bytes.len() <= SMALL_BYTES || deltas > self.snapshot_bytes / 4)
    }
}

impl OwnerRecords {
    /// One snapshot.
    fn snapshot(content: &[u8]) -> OwnerRecords {
        let mut small = [0; INLINE_BYTES];
        match small.get_mut(..content.len()) {
            Some(room) => {
                room.copy_from_slice(content);
                OwnerRecords::Small(content.len() as u8, small)
            }
            None => OwnerRecords::Snapshot(content.into()),
        }
    }

    /// The records in order.
    pub(crate) fn records(&self) -> impl Iterator<Item = &[u8]> {
        let (snapshot, several) = match self {
            OwnerRecords::Small(..) | OwnerRecords::Snapshot(_) => (self.only_snapshot(), None),
            OwnerRecords::Several(several) => (None, Some(several.records())),
        };
        snapshot.into_iter().chain(several.into_iter().flatten())
    }

    // Its snapshot, if there is nothing else.
    fn only_snapshot(&self) -> Option<&[u8]> {
        match self {
            OwnerRecords::Small(bytes, content) => content.get(..usize::from(*bytes)),
            OwnerRecords::Snapshot(content) => Some(content),
            OwnerRecords::Several(_) => None,
        }
    }

    /// How many records.
    pub(crate) fn count(&self) -> usize {
        match self {
            OwnerRecords::Small(..) | OwnerRecords::Snapshot(_) => 1,
            OwnerRecords::Several(several) => several.ends.len(),
        }
    }

    /// Whether the first record is a snapshot.
    pub(crate) fn starts_with_snapshot(&self) -> bool {
        match self {
            OwnerRecords::Small(..) | OwnerRecords::Snapshot(_) => true,
            OwnerRecords::Several(several) => several.starts_with_snapshot,
        }
    }

    // Copies of the records, all in one piece of memory, which is given back as a whole.
    fn to_recovered(&self) -> Vec<Bytes> {
        match self {
            OwnerRecords::Several(several) => {
                let bytes = Bytes::copy_from_slice(&several.bytes);
                let from = std::iter::once(&0).chain(&several.ends);
                from.zip(&several.ends).map(|(from, to)| bytes.slice(*from as usize..*to as usize)).collect()
            }
            _ => self.only_snapshot().map(Bytes::copy_from_slice).into_iter().collect(),
        }
    }

    // The same, with room for more than a snapshot.
    fn opened(&self) -> Several {
        let mut several = Several { starts_with_snapshot: true, ..Several::default() };
        if let Some(content) = self.only_snapshot() {
            several.snapshot_bytes = content.len();
            several.push(content);
        }
        several
    }
}

/// All owners' records. A slice of them is cheap: owners are shared until they change.
#[derive(Default)]
pub(crate) struct StateTable {
    owners: IdMap<Owner, OwnerRecords>,
    /// All of them, for who goes through them in slices: it changes only when an owner comes or goes.
    order: BTreeSet<Owner>,
    outgrown: VecDeque<Owner>,
}

impl StateTable {
    pub(crate) fn apply(&mut self, owner: Owner, change: StateChangeRecord<'_>) {
        match change {
            StateChangeRecord::Snapshot(content) => {
                if self.owners.insert(owner, OwnerRecords::snapshot(content)).is_none() {
                    self.order.insert(owner);
                }
            }
            StateChangeRecord::Delta(content) => {
                let records = self.owners.entry(owner).or_insert_with(|| {
                    self.order.insert(owner);
                    OwnerRecords::Several(Arc::default())
                });
                if records.only_snapshot().is_some() {
                    *records = OwnerRecords::Several(Arc::new(records.opened()));
                }
                let OwnerRecords::Several(several) = records else { return };
                let several = Arc::make_mut(several);
                several.push(content);
                several.changed = true;
                if !several.named && several.outgrown() {
                    several.named = true;
                    self.outgrown.push_back(owner);
                }
            }
            StateChangeRecord::Drop => {
                self.owners.remove(&owner);
                self.order.remove(&owner);
            }
        }
    }

    /// The next owner whose deltas have outgrown its snapshot. Each is named once until it has a new snapshot.
    pub(crate) fn next_outgrown(&mut self) -> Option<Owner> {
        while let Some(owner) = self.outgrown.pop_front() {
            // It may have had a snapshot since, or be gone.
            if matches!(self.owners.get(&owner), Some(OwnerRecords::Several(several)) if several.named) {
                return Some(owner);
            }
        }
        None
    }

    /// At most `count` owners behind `after`, in order, for a checkpoint. Those that have not changed since the last
    /// one are named as worth a new snapshot.
    pub(crate) fn slice(&mut self, after: Option<Owner>, count: usize) -> Vec<(Owner, OwnerRecords)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut taken = Vec::new();
        for owner in self.order.range((from, Bound::Unbounded)).take(count) {
            let Some(records) = self.owners.get_mut(owner) else { continue };
            // Nobody shares them: the last checkpoint is written.
            if let OwnerRecords::Several(several) = records
                && let Some(several) = Arc::get_mut(several)
            {
                if several.rests() && !several.named {
                    several.named = true;
                    self.outgrown.push_back(*owner);
                }
                several.changed = false;
            }
            taken.push((*owner, records.clone()));
        }
        taken
    }

    fn iter(&self) -> impl Iterator<Item = (Owner, &OwnerRecords)> {
        self.order.iter().filter_map(|owner| Some((*owner, self.owners.get(owner)?)))
    }

    pub(crate) fn len(&self) -> usize {
        self.owners.len()
    }

    /// Everything, as recovery hands it on.
    pub(crate) fn to_recovered(&self) -> Vec<(Owner, Vec<Bytes>)> {
        self.iter().map(|(owner, records)| (owner, records.to_recovered())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: Owner = Owner { kind: 1, id: 2 };

    #[test]
    fn the_records_of_an_owner_are_three_words() {
        assert_eq!(size_of::<OwnerRecords>(), 24);
        for bytes in [0, 1, INLINE_BYTES, INLINE_BYTES + 1, 100] {
            let mut table = StateTable::default();
            let content = vec![7; bytes];
            table.apply(OWNER, StateChangeRecord::Snapshot(&content));
            assert_eq!(table.to_recovered(), [(OWNER, vec![Bytes::from(content.clone())])]);
            table.apply(OWNER, StateChangeRecord::Delta(b"d"));
            assert_eq!(table.to_recovered(), [(OWNER, vec![Bytes::from(content), Bytes::from("d")])]);
        }
    }

    #[test]
    fn a_snapshot_replaces_and_deltas_follow() {
        let mut table = StateTable::default();
        table.apply(OWNER, StateChangeRecord::Delta(b"a"));
        table.apply(OWNER, StateChangeRecord::Snapshot(b"S"));
        table.apply(OWNER, StateChangeRecord::Delta(b""));
        table.apply(OWNER, StateChangeRecord::Delta(b"bc"));
        let shared = table.slice(None, 1);
        table.apply(OWNER, StateChangeRecord::Delta(b"e"));
        let records = table.to_recovered().remove(0).1;
        assert_eq!(records, [Bytes::from("S"), Bytes::new(), Bytes::from("bc"), Bytes::from("e")]);
        let records: Vec<&[u8]> = shared[0].1.records().collect();
        assert_eq!(records, [b"S".as_slice(), b"", b"bc"]);
        assert!(table.slice(Some(OWNER), 1).is_empty());
        table.apply(OWNER, StateChangeRecord::Drop);
        assert!(table.to_recovered().is_empty());
    }

    #[test]
    fn an_outgrown_owner_is_named_once_until_its_snapshot() {
        let mut table = StateTable::default();
        table.apply(OWNER, StateChangeRecord::Snapshot(b"0123456789"));
        for _ in 0..100 {
            table.apply(OWNER, StateChangeRecord::Delta(b"x"));
        }
        assert_eq!(table.next_outgrown(), Some(OWNER));
        assert_eq!(table.next_outgrown(), None);
        table.apply(OWNER, StateChangeRecord::Snapshot(b"0"));
        assert_eq!(table.next_outgrown(), None);
    }

    #[test]
    fn an_owner_that_rests_is_asked_for_a_snapshot_once() {
        let mut table = StateTable::default();
        table.apply(OWNER, StateChangeRecord::Snapshot(b"0123456789"));
        table.apply(OWNER, StateChangeRecord::Delta(b"x"));
        drop(table.slice(None, 9));
        assert_eq!(table.next_outgrown(), None, "it has just changed");
        drop(table.slice(None, 9));
        drop(table.slice(None, 9));
        assert_eq!((table.next_outgrown(), table.next_outgrown()), (Some(OWNER), None));
        table.apply(OWNER, StateChangeRecord::Snapshot(b"0"));
        (0..3).for_each(|_| drop(table.slice(None, 9)));
        assert_eq!(table.next_outgrown(), None);
    }
}
