//! The table of state records: for each owner its last snapshot and the deltas after it. In memory; it knows nothing of
//! what the records mean.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

use crate::Owner;
use crate::journal::record::StateChangeRecord;

// Below this many deltas a new snapshot would not pay.
const DELTAS_MIN: usize = 64;
// Beyond this many it pays even when the snapshot is large: recovery applies them one by one.
const DELTAS_MAX: usize = 4096;

/// The records of one owner, back to back.
#[derive(Clone, Default, Debug)]
pub(crate) struct OwnerRecords {
    bytes: Vec<u8>,
    /// Where each record ends.
    ends: Vec<u32>,
    /// Bytes of the first record if it is a snapshot, else 0.
    snapshot_bytes: usize,
    starts_with_snapshot: bool,
    /// Named by `wants_snapshot` and not answered yet.
    named: bool,
}

impl OwnerRecords {
    fn push(&mut self, content: &[u8]) {
        self.bytes.extend_from_slice(content);
        self.ends.push(self.bytes.len() as u32);
    }

    /// The records in order.
    pub(crate) fn records(&self) -> impl Iterator<Item = &[u8]> {
        let mut from = 0;
        self.ends.iter().map(move |end| {
            let record = &self.bytes[from..*end as usize];
            from = *end as usize;
            record
        })
    }

    /// How many records.
    pub(crate) fn count(&self) -> usize {
        self.ends.len()
    }

    /// Whether the first record is a snapshot.
    pub(crate) fn starts_with_snapshot(&self) -> bool {
        self.starts_with_snapshot
    }

    fn outgrown(&self) -> bool {
        let deltas = self.ends.len();
        deltas > DELTAS_MAX || (deltas > DELTAS_MIN && self.bytes.len() > 3 * self.snapshot_bytes)
    }
}

/// All owners' records. A slice of them is cheap: owners are shared until they change.
#[derive(Default)]
pub(crate) struct StateTable {
    owners: BTreeMap<Owner, Arc<OwnerRecords>>,
    outgrown: VecDeque<Owner>,
}

impl StateTable {
    pub(crate) fn apply(&mut self, owner: Owner, change: StateChangeRecord<'_>) {
        match change {
            StateChangeRecord::Snapshot(content) => {
                let mut records = OwnerRecords {
                    snapshot_bytes: content.len(),
                    starts_with_snapshot: true,
                    ..OwnerRecords::default()
                };
                records.push(content);
                self.owners.insert(owner, Arc::new(records));
            }
            StateChangeRecord::Delta(content) => {
                let records = Arc::make_mut(self.owners.entry(owner).or_default());
                records.push(content);
                if !records.named && records.outgrown() {
                    records.named = true;
                    self.outgrown.push_back(owner);
                }
            }
            StateChangeRecord::Drop => {
                self.owners.remove(&owner);
            }
        }
    }

    /// The next owner whose deltas have outgrown its snapshot. Each is named once until it has a new snapshot.
    pub(crate) fn next_outgrown(&mut self) -> Option<Owner> {
        while let Some(owner) = self.outgrown.pop_front() {
            // It may have had a snapshot since, or be gone.
            if self.owners.get(&owner).is_some_and(|records| records.named) {
                return Some(owner);
            }
        }
        None
    }

    /// At most `count` owners behind `after`, in order.
    pub(crate) fn slice(&self, after: Option<Owner>, count: usize) -> Vec<(Owner, Arc<OwnerRecords>)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let owners = self.owners.range((from, Bound::Unbounded)).take(count);
        owners.map(|(owner, records)| (*owner, Arc::clone(records))).collect()
    }

    fn iter(&self) -> impl Iterator<Item = (Owner, &OwnerRecords)> {
        self.owners.iter().map(|(owner, records)| (*owner, &**records))
    }

    pub(crate) fn len(&self) -> usize {
        self.owners.len()
    }

    /// Everything, as recovery hands it on.
    pub(crate) fn to_recovered(&self) -> Vec<(Owner, Vec<Bytes>)> {
        let of = |records: &OwnerRecords| {
            let all = Bytes::copy_from_slice(&records.bytes);
            let mut from = 0;
            let cut = records.ends.iter().map(|end| {
                let record = all.slice(from..*end as usize);
                from = *end as usize;
                record
            });
            cut.collect()
        };
        self.iter().map(|(owner, records)| (owner, of(records))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: Owner = Owner { kind: 1, id: 2 };

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
}
