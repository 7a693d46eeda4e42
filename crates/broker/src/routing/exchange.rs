//! One exchange: its declaration, its bindings, and these compiled to a look-up.
//!
//! It knows queues and exchanges by their ids only; it stores nothing and appends nothing.

use std::collections::BTreeMap;

use model::Name;

use super::ExchangeSpec;
use super::table::{Dest, Opened, Table};

/// Arguments of a binding: two bindings that differ only here are two.
pub(crate) type Arguments = BTreeMap<String, serde_json::Value>;

/// One exchange.
pub(crate) struct Exchange {
    /// As it was declared.
    pub(crate) spec: ExchangeSpec,
    /// Where what no binding takes goes: declared, or else a policy's word.
    pub(crate) alternate: Option<Name>,
    /// All bindings by destination and key.
    bindings: BTreeMap<(Dest, Name), Vec<Arguments>>,
    table: Table,
}

impl Exchange {
    pub(super) fn new(spec: ExchangeSpec) -> Exchange {
        let table = Table::new(spec.kind);
        let alternate = spec.alternate.clone();
        Exchange { spec, alternate, bindings: BTreeMap::new(), table }
    }

    /// Calls `visit` with each destination of a message with `key`, once.
    pub(super) fn find(&mut self, key: &str, headers: &mut Opened<'_>, visit: impl FnMut(Dest)) {
        self.table.find(key, headers, visit);
    }

    /// Whether nothing is bound.
    pub(crate) fn is_unused(&self) -> bool {
        self.bindings.is_empty()
    }

    /// All bindings.
    pub(super) fn bindings(&self) -> impl Iterator<Item = (Dest, &Name, &Arguments)> {
        self.bindings.iter().flat_map(|((dest, key), all)| all.iter().map(move |arguments| (*dest, key, arguments)))
    }

    /// Adds a binding; false when it was there.
    pub(crate) fn bind(&mut self, dest: Dest, key: &Name, arguments: &Arguments) -> bool {
        let same_key = self.bindings.entry((dest, key.clone())).or_default();
        if same_key.contains(arguments) {
            return false;
        }
        same_key.push(arguments.clone());
        self.table.add(dest, key, arguments, same_key.len() == 1);
        true
    }

    /// Whether that binding is there.
    pub(crate) fn has(&self, dest: Dest, key: &Name, arguments: &Arguments) -> bool {
        self.bindings.get(&(dest, key.clone())).is_some_and(|same_key| same_key.contains(arguments))
    }

    /// Removes a binding; false when it was not there.
    pub(crate) fn unbind(&mut self, dest: Dest, key: &Name, arguments: &Arguments) -> bool {
        let at = (dest, key.clone());
        let Some(same_key) = self.bindings.get_mut(&at) else { return false };
        let before = same_key.len();
        same_key.retain(|known| known != arguments);
        if same_key.len() == before {
            return false;
        }
        let last = same_key.is_empty();
        if last {
            self.bindings.remove(&at);
        }
        self.table.remove(dest, key, arguments, last);
        true
    }

    /// Removes all bindings to a destination; false when there was none.
    pub(crate) fn unbind_all(&mut self, dest: Dest) -> bool {
        let from = (dest, Name::fixed(""));
        let keys = self.bindings.range(from..).map(|(at, _)| at).take_while(|at| at.0 == dest).cloned();
        let keys = keys.collect::<Vec<_>>();
        for at in &keys {
            let same_key = self.bindings.remove(at).unwrap_or_default();
            for (left, arguments) in same_key.iter().enumerate().rev() {
                self.table.remove(dest, &at.1, arguments, left == 0);
            }
        }
        !keys.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::{ExchangeKind, no_headers};

    fn exchange(kind: ExchangeKind) -> Exchange {
        Exchange::new(ExchangeSpec {
            tenant: Name::fixed("/"),
            name: Name::fixed("x"),
            kind,
            durable: true,
            auto_delete: false,
            internal: false,
            alternate: None,
            delayed: false,
            number: 0,
            arguments: BTreeMap::new(),
        })
    }

    fn arguments(value: i64) -> Arguments {
        [("n".to_owned(), serde_json::json!(value))].into()
    }

    fn route(exchange: &mut Exchange, key: &str) -> Vec<u64> {
        let mut found = Vec::new();
        let headers = || vec![model::Header { name: "n".into(), value: model::HeaderValue::Int(2) }];
        let headers: &dyn Fn() -> Vec<model::Header> = if key == "k" { &headers } else { &no_headers };
        exchange.find(key, &mut Opened::new(headers), |dest| match dest {
            Dest::Queue(id) => found.push(id),
            Dest::Exchange(id) => found.push(1000 + id),
        });
        found
    }

    #[test]
    fn a_queue_gets_one_copy_however_often_it_is_bound() {
        use ExchangeKind::{Direct, Fanout, Headers, Topic};
        for (kind, other_key) in [(Direct, &[] as &[u64]), (Fanout, &[1, 2]), (Topic, &[]), (Headers, &[2])] {
            let mut exchange = exchange(kind);
            let key = Name::fixed("k");
            assert!(exchange.bind(Dest::Queue(1), &key, &arguments(1)));
            assert!(!exchange.bind(Dest::Queue(1), &key, &arguments(1)), "doing it twice changes nothing");
            assert!(exchange.bind(Dest::Queue(1), &key, &arguments(2)));
            assert!(exchange.bind(Dest::Queue(2), &key, &Arguments::new()));
            assert_eq!(route(&mut exchange, "k"), [1, 2]);
            assert_eq!(route(&mut exchange, "other"), other_key);
            assert!(exchange.unbind(Dest::Queue(1), &key, &arguments(1)));
            assert_eq!(route(&mut exchange, "k"), [1, 2], "the other binding still holds");
            assert!(exchange.unbind(Dest::Queue(1), &key, &arguments(2)));
            assert!(!exchange.unbind(Dest::Queue(1), &key, &arguments(2)));
            assert_eq!(route(&mut exchange, "k"), [2]);
            assert!(exchange.unbind_all(Dest::Queue(2)));
            assert!(route(&mut exchange, "k").is_empty() && exchange.is_unused());
        }
    }

    #[test]
    fn a_fanout_reaches_a_queue_until_its_last_key_is_unbound() {
        let mut exchange = exchange(ExchangeKind::Fanout);
        let keys = [Name::fixed(""), Name::fixed("a"), Name::fixed("b")];
        for key in &keys {
            exchange.bind(Dest::Queue(7), key, &Arguments::new());
        }
        for key in &keys {
            assert_eq!(route(&mut exchange, "anything"), [7]);
            exchange.unbind(Dest::Queue(7), key, &Arguments::new());
        }
        assert!(route(&mut exchange, "anything").is_empty());
    }

    #[test]
    fn a_queue_under_many_patterns_is_found_once_and_new_bindings_count_at_once() {
        let mut exchange = exchange(ExchangeKind::Topic);
        for key in ["a.*", "a.#", "#", "*.b"] {
            exchange.bind(Dest::Queue(7), &Name::fixed(key), &Arguments::new());
        }
        assert_eq!(route(&mut exchange, "a.b"), [7]);
        exchange.bind(Dest::Exchange(3), &Name::fixed("a.b"), &Arguments::new());
        assert_eq!(route(&mut exchange, "a.b"), [7, 1003]);
        exchange.unbind_all(Dest::Queue(7));
        assert_eq!(route(&mut exchange, "a.b"), [1003]);
    }
}
