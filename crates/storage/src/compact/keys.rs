//! Which offset a key was written at last: a table in bounded memory. Keys are not kept but 128 bits of each, hashed
//! with keys of this process, so that no sender can make two of them collide.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, RandomState};

use model::Offset;

use crate::index::IdHasher;

/// What an entry takes in memory, about: the table is at least three sevenths full.
const ENTRY_BYTES: usize = 24 * 16 / 7;

/// The last offsets of keys.
pub(crate) struct KeyMap {
    hashers: [RandomState; 2],
    last: HashMap<(u64, u64), u64, BuildHasherDefault<IdHasher>>,
    entries_max: usize,
}

impl KeyMap {
    /// A table of about `bytes_max`.
    pub(crate) fn new(bytes_max: usize) -> KeyMap {
        let hashers = [RandomState::new(), RandomState::new()];
        KeyMap { hashers, last: HashMap::default(), entries_max: (bytes_max / ENTRY_BYTES).max(1) }
    }

    fn id(&self, key: &[u8]) -> (u64, u64) {
        let [first, second] = &self.hashers;
        (first.hash_one(key), second.hash_one(key))
    }

    /// `key` was written at `offset`, which is after all before.
    pub(crate) fn note(&mut self, key: &[u8], offset: Offset) {
        let id = self.id(key);
        self.last.insert(id, offset.0);
    }

    /// Whether the key of a message at `offset` was written again later.
    pub(crate) fn is_superseded(&self, key: &[u8], offset: Offset) -> bool {
        self.last.get(&self.id(key)).is_some_and(|last| *last > offset.0)
    }

    /// Whether it takes no more.
    pub(crate) fn is_full(&self) -> bool {
        self.last.len() >= self.entries_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_written_again_later_is_superseded() {
        let mut keys = KeyMap::new(3 * ENTRY_BYTES);
        keys.note(b"a", Offset(1));
        keys.note(b"b", Offset(2));
        assert!(!keys.is_full());
        keys.note(b"a", Offset(3));
        assert!(keys.is_superseded(b"a", Offset(1)) && !keys.is_superseded(b"a", Offset(3)));
        assert!(!keys.is_superseded(b"a", Offset(4)) && !keys.is_superseded(b"c", Offset(0)));
        keys.note(b"", Offset(4));
        assert!(keys.is_full());
    }
}
