//! Exchanges with their bindings compiled: a look-up per published message, no search.
//!
//! It knows queues by their ids only; it stores nothing and appends nothing.

use std::collections::{BTreeMap, HashMap};

use model::Name;

use super::{ExchangeKind, ExchangeSpec};

/// Arguments of a binding: two bindings that differ only here are two.
pub(crate) type Arguments = BTreeMap<String, serde_json::Value>;

/// One exchange.
pub(crate) struct Exchange {
    /// As it was declared.
    pub(crate) spec: ExchangeSpec,
    /// All bindings by queue and key.
    bindings: BTreeMap<(u64, Name), Vec<Arguments>>,
    /// Compiled: each queue once per key (direct) or once (fanout, under no key).
    by_key: HashMap<Name, Vec<u64>>,
    all: Vec<u64>,
}

impl Exchange {
    fn new(spec: ExchangeSpec) -> Exchange {
        Exchange { spec, bindings: BTreeMap::new(), by_key: HashMap::new(), all: Vec::new() }
    }

    /// The queues to which a message with `key` goes, each once.
    pub(crate) fn route(&self, key: &str) -> &[u64] {
        match self.spec.kind {
            ExchangeKind::Direct => self.by_key.get(key).map_or(&[], Vec::as_slice),
            ExchangeKind::Fanout => &self.all,
        }
    }

    /// Whether nothing is bound.
    pub(crate) fn is_unused(&self) -> bool {
        self.bindings.is_empty()
    }

    /// Adds a binding; false when it was there.
    pub(crate) fn bind(&mut self, queue: u64, key: &Name, arguments: &Arguments) -> bool {
        let first_of_queue = self.of_queue(queue).next().is_none();
        let same_key = self.bindings.entry((queue, key.clone())).or_default();
        if same_key.contains(arguments) {
            return false;
        }
        same_key.push(arguments.clone());
        match self.spec.kind {
            ExchangeKind::Direct if same_key.len() == 1 => self.by_key.entry(key.clone()).or_default().push(queue),
            ExchangeKind::Fanout if first_of_queue => self.all.push(queue),
            ExchangeKind::Direct | ExchangeKind::Fanout => {}
        }
        true
    }

    /// Whether that binding is there.
    pub(crate) fn has(&self, queue: u64, key: &Name, arguments: &Arguments) -> bool {
        self.bindings.get(&(queue, key.clone())).is_some_and(|same_key| same_key.contains(arguments))
    }

    /// Removes a binding; false when it was not there.
    pub(crate) fn unbind(&mut self, queue: u64, key: &Name, arguments: &Arguments) -> bool {
        let at = (queue, key.clone());
        let Some(same_key) = self.bindings.get_mut(&at) else { return false };
        let before = same_key.len();
        same_key.retain(|known| known != arguments);
        let removed = same_key.len() < before;
        if same_key.is_empty() {
            self.bindings.remove(&at);
            self.forget(queue, key);
        }
        removed
    }

    /// Removes all bindings of a queue; false when there was none.
    pub(crate) fn unbind_queue(&mut self, queue: u64) -> bool {
        let keys = self.of_queue(queue).cloned().collect::<Vec<_>>();
        for key in &keys {
            self.bindings.remove(&(queue, key.clone()));
            self.forget(queue, key);
        }
        !keys.is_empty()
    }

    fn of_queue(&self, queue: u64) -> impl Iterator<Item = &Name> {
        let from = (queue, Name::fixed(""));
        self.bindings.range(from..).map(|(at, _)| at).take_while(move |at| at.0 == queue).map(|at| &at.1)
    }

    /// Takes a queue that has no more binding with `key` out of the compiled lists.
    fn forget(&mut self, queue: u64, key: &Name) {
        if let Some(queues) = self.by_key.get_mut(key) {
            queues.retain(|&known| known != queue);
            if queues.is_empty() {
                self.by_key.remove(key);
            }
        }
        if self.spec.kind == ExchangeKind::Fanout && self.of_queue(queue).next().is_none() {
            self.all.retain(|&known| known != queue);
        }
    }
}

/// The exchanges of all tenants. Looked up by borrowed names: nothing is allocated for a publish.
#[derive(Default)]
pub(crate) struct Exchanges {
    /// Exchanges that every tenant always has. Their spec's tenant says nothing.
    builtin: Vec<ExchangeSpec>,
    tenants: HashMap<Name, HashMap<Name, Exchange>>,
}

impl Exchanges {
    /// No exchanges but those that every tenant always has.
    pub(crate) fn new(builtin: Vec<ExchangeSpec>) -> Exchanges {
        Exchanges { builtin, tenants: HashMap::new() }
    }

    /// Whether every tenant always has it.
    pub(crate) fn is_builtin(&self, name: &str) -> bool {
        self.builtin.iter().any(|spec| spec.name.as_str() == name)
    }

    /// An exchange that was declared, or is built in and has been bound to.
    pub(crate) fn get(&self, tenant: &str, name: &str) -> Option<&Exchange> {
        self.tenants.get(tenant)?.get(name)
    }

    /// An exchange's declaration.
    pub(crate) fn spec(&self, tenant: &str, name: &str) -> Option<ExchangeSpec> {
        if let Some(exchange) = self.get(tenant, name) {
            return Some(exchange.spec.clone());
        }
        let builtin = self.builtin.iter().find(|spec| spec.name.as_str() == name)?;
        Some(ExchangeSpec { tenant: Name::new(tenant).ok()?, ..builtin.clone() })
    }

    /// An exchange to change; a built-in one is made for the tenant when first asked for.
    pub(crate) fn get_mut(&mut self, tenant: &str, name: &str) -> Option<&mut Exchange> {
        if self.get(tenant, name).is_none() {
            let spec = self.spec(tenant, name)?;
            self.insert(spec);
        }
        self.tenants.get_mut(tenant)?.get_mut(name)
    }

    /// Adds an exchange without bindings.
    pub(crate) fn insert(&mut self, spec: ExchangeSpec) {
        let tenant = self.tenants.entry(spec.tenant.clone()).or_default();
        tenant.insert(spec.name.clone(), Exchange::new(spec));
    }

    /// Removes an exchange.
    pub(crate) fn remove(&mut self, tenant: &str, name: &str) -> Option<Exchange> {
        self.tenants.get_mut(tenant)?.remove(name)
    }

    /// Removes all bindings of a queue; answers the exchanges whose last binding that was and that go with it.
    pub(crate) fn unbind_queue(&mut self, tenant: &str, queue: u64) -> Vec<Name> {
        let Some(exchanges) = self.tenants.get_mut(tenant) else { return Vec::new() };
        let touched = exchanges.values_mut().filter_map(|exchange| exchange.unbind_queue(queue).then_some(exchange));
        let unused = touched.filter(|one| one.spec.auto_delete && one.is_unused());
        let mut names = unused.map(|one| one.spec.name.clone()).collect::<Vec<_>>();
        names.sort_unstable(); // the same order on every run
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(kind: ExchangeKind) -> Exchange {
        Exchange::new(ExchangeSpec {
            tenant: Name::fixed("/"),
            name: Name::fixed("x"),
            kind,
            durable: true,
            auto_delete: false,
            internal: false,
            arguments: BTreeMap::new(),
        })
    }

    fn arguments(value: i64) -> Arguments {
        [("n".to_owned(), serde_json::json!(value))].into()
    }

    #[test]
    fn a_queue_gets_one_copy_however_often_it_is_bound() {
        for (kind, other_key) in [(ExchangeKind::Direct, &[] as &[u64]), (ExchangeKind::Fanout, &[1, 2])] {
            let mut exchange = exchange(kind);
            let key = Name::fixed("k");
            assert!(exchange.bind(1, &key, &arguments(1)));
            assert!(!exchange.bind(1, &key, &arguments(1)), "doing it twice changes nothing");
            assert!(exchange.bind(1, &key, &arguments(2)));
            assert!(exchange.bind(2, &key, &Arguments::new()));
            assert_eq!(exchange.route("k"), [1, 2]);
            assert_eq!(exchange.route("other"), other_key);
            assert!(exchange.unbind(1, &key, &arguments(1)));
            assert_eq!(exchange.route("k"), [1, 2], "the other binding still holds");
            assert!(exchange.unbind(1, &key, &arguments(2)));
            assert!(!exchange.unbind(1, &key, &arguments(2)));
            assert_eq!(exchange.route("k"), [2]);
            assert!(exchange.unbind_queue(2));
            assert!(exchange.route("k").is_empty() && exchange.is_unused());
        }
    }

    #[test]
    fn a_fanout_reaches_a_queue_until_its_last_key_is_unbound() {
        let mut exchange = exchange(ExchangeKind::Fanout);
        let keys = [Name::fixed(""), Name::fixed("a"), Name::fixed("b")];
        for key in &keys {
            exchange.bind(7, key, &Arguments::new());
        }
        for key in &keys {
            assert_eq!(exchange.route("anything"), [7]);
            exchange.unbind(7, key, &Arguments::new());
        }
        assert!(exchange.route("anything").is_empty());
    }
}
