//! A map and a list that are empty nearly always: while they are, they cost a pointer. Queues are many, and most do
//! nothing unusual.

use std::collections::{BTreeMap, VecDeque};

/// A map by offset.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(clippy::box_collection)] // a map is three words, and there are many
pub(crate) struct RareMap<V>(Option<Box<BTreeMap<u64, V>>>);

impl<V> Default for RareMap<V> {
    fn default() -> Self {
        RareMap(None)
    }
}

impl<V> RareMap<V> {
    /// Whether nothing is in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// How many entries.
    pub(crate) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |map| map.len())
    }

    /// One of them.
    pub(crate) fn get(&self, at: u64) -> Option<&V> {
        self.0.as_ref()?.get(&at)
    }

    /// One of them, to change.
    pub(crate) fn get_mut(&mut self, at: u64) -> Option<&mut V> {
        self.0.as_mut()?.get_mut(&at)
    }

    /// The lowest.
    pub(crate) fn first(&self) -> Option<(u64, &V)> {
        self.0.as_ref()?.first_key_value().map(|(at, value)| (*at, value))
    }

    /// All, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&u64, &V)> {
        self.0.iter().flat_map(|map| map.iter())
    }

    /// Puts one in.
    pub(crate) fn insert(&mut self, at: u64, value: V) {
        self.0.get_or_insert_default().insert(at, value);
    }

    /// Puts several in.
    pub(crate) fn extend(&mut self, all: impl IntoIterator<Item = (u64, V)>) {
        for (at, value) in all {
            self.insert(at, value);
        }
    }

    /// Takes one out.
    pub(crate) fn remove(&mut self, at: u64) -> Option<V> {
        let removed = self.0.as_mut()?.remove(&at);
        self.shrink();
        removed
    }

    /// Takes the lowest out.
    pub(crate) fn pop_first(&mut self) -> Option<(u64, V)> {
        let first = self.0.as_mut()?.pop_first();
        self.shrink();
        first
    }

    /// Takes out those from `at` on.
    pub(crate) fn split_off(&mut self, at: u64) -> RareMap<V> {
        let mut rest = RareMap(self.0.as_mut().map(|map| Box::new(map.split_off(&at))));
        rest.shrink();
        self.shrink();
        rest
    }

    /// Takes out those of `from..to`.
    pub(crate) fn remove_range(&mut self, from: u64, to: u64) {
        if self.is_empty() || from >= to {
            return;
        }
        let mut rest = self.split_off(from);
        if let Some(mut beyond) = rest.split_off(to).0 {
            self.0.get_or_insert_default().append(&mut beyond);
        }
    }

    /// Keeps those of which `keep` says so.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(u64) -> bool) {
        if let Some(map) = &mut self.0 {
            map.retain(|at, _| keep(*at));
        }
        self.shrink();
    }

    fn shrink(&mut self) {
        if self.0.as_ref().is_some_and(|map| map.is_empty()) {
            self.0 = None;
        }
    }
}

/// A list that is never used in most places where it stands: until then it costs a pointer.
#[derive(Clone, Debug)]
#[allow(clippy::box_collection)] // as above
pub(crate) struct RareList<T>(Option<Box<VecDeque<T>>>);

impl<T> Default for RareList<T> {
    fn default() -> Self {
        RareList(None)
    }
}

impl<T> RareList<T> {
    /// Whether nothing is in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(|list| list.is_empty())
    }

    /// Appends one.
    pub(crate) fn push(&mut self, one: T) {
        self.0.get_or_insert_default().push_back(one);
    }

    /// The oldest.
    pub(crate) fn front(&self) -> Option<&T> {
        self.0.as_ref()?.front()
    }

    /// Takes the oldest out; its room stays.
    pub(crate) fn pop_front(&mut self) -> Option<T> {
        self.0.as_mut()?.pop_front()
    }

    /// Gives the memory back if it is empty and has room for more than `kept`.
    pub(crate) fn shrink(&mut self, kept: usize) {
        self.0.take_if(|list| list.is_empty() && list.capacity() > kept);
    }

    /// Takes all out, and gives the memory back.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = T> + use<T> {
        self.0.take().into_iter().flat_map(|list| list.into_iter())
    }

    /// All, the oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().flat_map(|list| list.iter())
    }

    /// All, the latest first, to change.
    pub(crate) fn latest_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut().flat_map(|list| list.iter_mut().rev())
    }

    /// Keeps those of which `keep` says so.
    pub(crate) fn retain(&mut self, keep: impl FnMut(&T) -> bool) {
        if let Some(list) = &mut self.0 {
            list.retain(keep);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_one_is_a_pointer_and_becomes_empty_again() {
        assert_eq!(size_of::<RareMap<u32>>(), size_of::<usize>());
        let mut map = RareMap::default();
        map.extend([(1, 'a'), (5, 'b'), (9, 'c')]);
        map.remove_range(2, 9);
        assert_eq!(map.iter().collect::<Vec<_>>(), [(&1, &'a'), (&9, &'c')]);
        assert_eq!((map.pop_first(), map.remove(9), map.is_empty()), (Some((1, 'a')), Some('c'), true));
        assert_eq!(map, RareMap::default());
    }
}
