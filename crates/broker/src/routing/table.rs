//! Bindings compiled: from a key, or from headers, to destinations by a look-up. Each kind of exchange has its own.

use std::collections::HashMap;

use model::{Header, Name};

use super::ExchangeKind;
use super::exchange::Arguments;
use super::headers::Pattern;
use super::trie::Trie;

/// What a binding leads to, by the ids of this process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Dest {
    /// A queue.
    Queue(u64),
    /// An exchange.
    Exchange(u64),
}

/// Answers kept for keys that come again, at most.
const KEYS_KEPT_MAX: usize = 4096;

/// … and destinations in all of them together.
const DESTS_KEPT_MAX: usize = 1 << 18;

/// The bindings of one exchange, compiled.
#[derive(Debug)]
pub(super) enum Table {
    /// Each destination once per key.
    Direct(HashMap<Name, Vec<Dest>>),
    /// Each destination once per key that it is bound with: counted, so that it stays until the last is gone.
    Fanout { all: Vec<Dest>, counts: HashMap<Dest, u32> },
    /// Patterns, and what was found for the latest keys.
    Topic { trie: Trie, kept: Kept },
    /// Each binding by itself.
    Headers(Vec<(Dest, Name, Arguments, Pattern)>),
}

impl Table {
    pub(super) fn new(kind: ExchangeKind) -> Table {
        match kind {
            ExchangeKind::Direct => Table::Direct(HashMap::new()),
            ExchangeKind::Fanout => Table::Fanout { all: Vec::new(), counts: HashMap::new() },
            ExchangeKind::Topic => Table::Topic { trie: Trie::default(), kept: Kept::default() },
            ExchangeKind::Headers => Table::Headers(Vec::new()),
        }
    }

    /// A binding was made; `first` of those that differ only in arguments.
    pub(super) fn add(&mut self, dest: Dest, key: &Name, arguments: &Arguments, first: bool) {
        match self {
            Table::Headers(all) => all.push((dest, key.clone(), arguments.clone(), Pattern::new(arguments))),
            _ if !first => {}
            Table::Direct(by_key) => by_key.entry(key.clone()).or_default().push(dest),
            Table::Fanout { all, counts } => {
                let count = counts.entry(dest).or_default();
                *count += 1;
                if *count == 1 {
                    all.push(dest);
                }
            }
            Table::Topic { trie, kept } => {
                kept.clear();
                trie.insert(key, dest);
            }
        }
    }

    /// A binding is gone; `last` of those that differ only in arguments.
    pub(super) fn remove(&mut self, dest: Dest, key: &Name, arguments: &Arguments, last: bool) {
        match self {
            Table::Headers(all) => {
                all.retain(|(known, of, with, _)| (*known, of, with) != (dest, key, arguments));
            }
            _ if !last => {}
            Table::Direct(by_key) => {
                if let Some(dests) = by_key.get_mut(key) {
                    dests.retain(|known| *known != dest);
                    if dests.is_empty() {
                        by_key.remove(key);
                    }
                }
            }
            Table::Fanout { all, counts } => {
                let count = counts.entry(dest).or_default();
                *count = count.saturating_sub(1);
                if *count == 0 {
                    counts.remove(&dest);
                    all.retain(|known| *known != dest);
                }
            }
            Table::Topic { trie, kept } => {
                kept.clear();
                trie.remove(key, dest);
            }
        }
    }

    /// Calls `visit` with each destination of a message, once.
    pub(super) fn find(&mut self, key: &str, headers: &mut Opened<'_>, mut visit: impl FnMut(Dest)) {
        match self {
            Table::Direct(by_key) => by_key.get(key).into_iter().flatten().copied().for_each(visit),
            Table::Fanout { all, .. } => all.iter().copied().for_each(visit),
            Table::Topic { trie, kept } => kept.find(key, trie).iter().copied().for_each(visit),
            Table::Headers(all) => {
                let mut found = Vec::new();
                for (dest, _, _, pattern) in all {
                    if !found.contains(dest) && pattern.matches(headers.get()) {
                        found.push(*dest);
                        visit(*dest);
                    }
                }
            }
        }
    }
}

/// What was found for the latest keys: publishers use few keys, and mostly the same again.
#[derive(Debug, Default)]
pub(super) struct Kept {
    by_key: HashMap<Box<str>, Box<[Dest]>>,
    dests: usize,
    none: Vec<Dest>,
}

impl Kept {
    fn clear(&mut self) {
        self.by_key.clear();
        self.dests = 0;
    }

    fn find(&mut self, key: &str, trie: &mut Trie) -> &[Dest] {
        if !self.by_key.contains_key(key) {
            let mut found = std::mem::take(&mut self.none);
            found.clear();
            trie.find(key, &mut found);
            found.sort_unstable();
            found.dedup();
            if self.by_key.len() >= KEYS_KEPT_MAX || self.dests + found.len() > DESTS_KEPT_MAX {
                self.clear();
            }
            self.dests += found.len();
            self.by_key.insert(key.into(), found.as_slice().into());
            self.none = found; // keeps its room
        }
        self.by_key.get(key).map_or(&[], |dests| dests)
    }
}

/// A message's headers, read when first asked for.
pub(super) struct Opened<'a> {
    read: &'a dyn Fn() -> Vec<Header>,
    headers: Option<Vec<Header>>,
}

impl<'a> Opened<'a> {
    pub(super) fn new(read: &'a dyn Fn() -> Vec<Header>) -> Opened<'a> {
        Opened { read, headers: None }
    }

    /// The headers.
    pub(super) fn get(&mut self) -> &[Header] {
        self.headers.get_or_insert_with(|| (self.read)())
    }
}
