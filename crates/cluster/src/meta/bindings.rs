//! All bindings of the catalog, in the order made. There may be very many: each is found, and goes with either of its
//! ends, without looking at the others.
//!
//! What a binding is stands in `exchange.rs`; here is only how they are kept.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Binding, Destination, Key};

/// Bindings by number: later ones have higher numbers.
#[derive(Clone, Debug, Default)]
pub struct Bindings {
    by_tenant: BTreeMap<String, Own>,
    last: u64,
}

/// Those of one tenant.
#[derive(Clone, Debug, Default)]
struct Own {
    made: BTreeMap<u64, Binding>,
    /// By a digest of all but the arguments.
    alike: HashMap<u64, Vec<u64>>,
    to: BTreeMap<Destination, BTreeSet<u64>>,
    /// By whether they are fed, and the name of what feeds them or of their exchange.
    from: BTreeMap<(bool, String), BTreeSet<u64>>,
}

impl Bindings {
    /// All of them, in the order made.
    pub fn iter(&self) -> impl Iterator<Item = &Binding> {
        let mut all: Vec<(&u64, &Binding)> = self.by_tenant.values().flat_map(|own| &own.made).collect();
        all.sort_unstable_by_key(|(number, _)| **number);
        all.into_iter().map(|(_, binding)| binding)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_tenant.values().map(|own| own.made.len()).sum()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_tenant.is_empty()
    }

    /// Adds one, unless it is there.
    pub(super) fn insert(&mut self, binding: &Binding) {
        if !self.by_tenant.contains_key(&binding.tenant) {
            self.by_tenant.insert(binding.tenant.clone(), Own::default());
        }
        let Some(own) = self.by_tenant.get_mut(&binding.tenant) else { return };
        if own.find(binding).is_none() {
            self.last += 1;
            own.insert(self.last, binding.clone());
        }
    }

    /// Removes one.
    pub(super) fn remove(&mut self, binding: &Binding) {
        let found = self.by_tenant.get(&binding.tenant).and_then(|own| own.find(binding));
        self.remove_numbers(&binding.tenant, found.into_iter().collect());
    }

    /// Removes all that lead to a queue or an exchange.
    pub(super) fn remove_to(&mut self, tenant: &str, to: &Destination) {
        let numbers = self.by_tenant.get(tenant).and_then(|own| own.to.get(to));
        self.remove_numbers(tenant, numbers.cloned().unwrap_or_default());
    }

    /// Removes all that come from an exchange, or, if they are fed, from a topic.
    pub(super) fn remove_from(&mut self, key: &Key, is_fed: bool) {
        let numbers = self.by_tenant.get(&key.0).and_then(|own| own.from.get(&(is_fed, key.1.clone())));
        self.remove_numbers(&key.0, numbers.cloned().unwrap_or_default());
    }

    /// Removes all of a tenant.
    pub(super) fn remove_tenant(&mut self, tenant: &str) {
        self.by_tenant.remove(tenant);
    }

    fn remove_numbers(&mut self, tenant: &str, numbers: BTreeSet<u64>) {
        let Some(own) = self.by_tenant.get_mut(tenant) else { return };
        for number in numbers {
            own.remove(number);
        }
        if own.made.is_empty() {
            self.by_tenant.remove(tenant);
        }
    }
}

impl Own {
    fn find(&self, binding: &Binding) -> Option<u64> {
        let alike = self.alike.get(&digest(binding))?;
        let is_same = |number: &u64| self.made.get(number).is_some_and(|other| other.is_same(binding));
        alike.iter().copied().find(is_same)
    }

    fn insert(&mut self, number: u64, binding: Binding) {
        self.alike.entry(digest(&binding)).or_default().push(number);
        self.to.entry(binding.destination.clone()).or_default().insert(number);
        self.from.entry((binding.is_fed(), binding.exchange.clone())).or_default().insert(number);
        self.made.insert(number, binding);
    }

    fn remove(&mut self, number: u64) {
        let Some(binding) = self.made.remove(&number) else { return };
        let digest = digest(&binding);
        if let Some(alike) = self.alike.get_mut(&digest) {
            alike.retain(|other| *other != number);
            if alike.is_empty() {
                self.alike.remove(&digest);
            }
        }
        let from = (binding.is_fed(), binding.exchange);
        take_out(&mut self.to, &binding.destination, number);
        take_out(&mut self.from, &from, number);
    }
}

fn take_out<K: Ord>(sets: &mut BTreeMap<K, BTreeSet<u64>>, key: &K, number: u64) {
    if let Some(set) = sets.get_mut(key) {
        set.remove(&number);
        if set.is_empty() {
            sets.remove(key);
        }
    }
}

/// The same for bindings that differ at most in their arguments, on every run.
fn digest(binding: &Binding) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&binding.exchange, &binding.destination, &binding.key, binding.is_fed()).hash(&mut hasher);
    hasher.finish()
}

impl PartialEq for Bindings {
    fn eq(&self, other: &Bindings) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Serialize for Bindings {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for Bindings {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Bindings, D::Error> {
        let mut all = Bindings::default();
        Vec::<Binding>::deserialize(from)?.iter().for_each(|binding| all.insert(binding));
        Ok(all)
    }
}
