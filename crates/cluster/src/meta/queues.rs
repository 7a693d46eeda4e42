//! All queues of the catalog. There may be very many, and nearly all are alike: what is usual takes no memory of its
//! own.
//!
//! What a queue is stands in `queue.rs`; here is only how they are kept.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::{Key, Queue, QueueOptions, QueueSource};

/// Queues by tenant and name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Queues {
    by_tenant: BTreeMap<String, BTreeMap<Box<str>, Kept>>,
}

/// What is kept of a queue beside its names.
#[derive(Clone, Debug, PartialEq)]
struct Kept {
    id: u64,
    /// Its own log, or the lowest of them.
    log: u64,
    more: u8,
    durable: bool,
    auto_delete: bool,
    exclusive: bool,
    /// Only queues that have something of it.
    unusual: Option<Box<Unusual>>,
}

#[derive(Clone, Debug, PartialEq)]
struct Unusual {
    /// Where its messages come from, if not from logs of its own.
    source: Option<QueueSource>,
    arguments: BTreeMap<String, Value>,
    argument_types: BTreeMap<String, String>,
    options: Option<Box<QueueOptions>>,
}

impl Queues {
    /// Whether there is one of that name.
    #[must_use]
    pub fn contains_key(&self, key: &Key) -> bool {
        self.by_tenant.get(&key.0).is_some_and(|queues| queues.contains_key(key.1.as_str()))
    }

    /// The one of that name.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<Queue> {
        let kept = self.by_tenant.get(&key.0)?.get(key.1.as_str())?;
        Some(kept.shown(&key.0, &key.1))
    }

    /// All of them, by tenant and name.
    pub fn values(&self) -> impl Iterator<Item = Queue> + '_ {
        self.after(None)
    }

    /// Those behind `key`, by tenant and name: for who cannot hold all of them at once.
    pub fn after<'a>(&'a self, key: Option<&'a Key>) -> impl Iterator<Item = Queue> + 'a {
        let tenant = key.map_or("", |key| key.0.as_str());
        let tenants = self.by_tenant.range::<str, _>((Bound::Included(tenant), Bound::Unbounded));
        tenants.flat_map(move |(tenant, queues)| {
            let from = key.filter(|key| key.0 == *tenant).map_or(Bound::Unbounded, |key| Bound::Excluded(&*key.1));
            let behind = queues.range::<str, _>((from, Bound::Unbounded));
            behind.map(move |(name, kept)| kept.shown(tenant, name))
        })
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_tenant.values().map(BTreeMap::len).sum()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_tenant.is_empty()
    }

    /// Adds one.
    pub(super) fn insert(&mut self, queue: &Queue) {
        let (source, log, more) = match &queue.source {
            QueueSource::Own { log, more } => (None, *log, *more),
            source @ QueueSource::Topic { .. } => (Some(source.clone()), 0, 0),
        };
        let is_unusual = source.is_some() || !queue.arguments.is_empty() || queue.options.is_some();
        let unusual = || {
            let (arguments, options) = (queue.arguments.clone(), queue.options.clone());
            Box::new(Unusual { source, arguments, argument_types: queue.argument_types.clone(), options })
        };
        let kept = Kept {
            id: queue.id,
            log,
            more,
            durable: queue.durable,
            auto_delete: queue.auto_delete,
            exclusive: queue.exclusive,
            unusual: is_unusual.then(unusual),
        };
        if let Some(queues) = self.by_tenant.get_mut(&queue.tenant) {
            queues.insert(queue.name.as_str().into(), kept);
            return;
        }
        self.by_tenant.insert(queue.tenant.clone(), [(queue.name.as_str().into(), kept)].into());
    }

    /// Removes one.
    pub(super) fn remove(&mut self, key: &Key) {
        let Some(queues) = self.by_tenant.get_mut(&key.0) else { return };
        queues.remove(key.1.as_str());
        if queues.is_empty() {
            self.by_tenant.remove(&key.0);
        }
    }

    /// Removes all of a tenant.
    pub(super) fn remove_tenant(&mut self, tenant: &str) {
        self.by_tenant.remove(tenant);
    }
}

impl Kept {
    fn shown(&self, tenant: &str, name: &str) -> Queue {
        let unusual = self.unusual.as_deref();
        let source = unusual.and_then(|unusual| unusual.source.clone());
        Queue {
            tenant: tenant.to_owned(),
            name: name.to_owned(),
            id: self.id,
            source: source.unwrap_or(QueueSource::Own { log: self.log, more: self.more }),
            durable: self.durable,
            auto_delete: self.auto_delete,
            exclusive: self.exclusive,
            arguments: unusual.map(|unusual| unusual.arguments.clone()).unwrap_or_default(),
            argument_types: unusual.map(|unusual| unusual.argument_types.clone()).unwrap_or_default(),
            options: unusual.and_then(|unusual| unusual.options.clone()),
        }
    }
}

impl Serialize for Queues {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.values())
    }
}

impl<'de> Deserialize<'de> for Queues {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Queues, D::Error> {
        /// Written alone, or by an earlier version with its key before it.
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Alone(Queue),
            Keyed((serde::de::IgnoredAny, Queue)),
        }
        // One by one: as they are kept they take a tenth of what they take as they are read.
        struct Reading;
        impl<'de> Visitor<'de> for Reading {
            type Value = Queues;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of queues")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Queues, A::Error> {
                let mut all = Queues::default();
                while let Some(written) = list.next_element()? {
                    let (Written::Alone(queue) | Written::Keyed((_, queue))) = written;
                    all.insert(&queue);
                }
                Ok(all)
            }
        }
        from.deserialize_seq(Reading)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(name: &str) -> Queue {
        let written = format!(r#"{{"name":"{name}","id":7,"source":{{"own":{{"log":8}}}}}}"#);
        serde_json::from_str(&written).expect("a queue")
    }

    #[test]
    fn a_usual_queue_is_small_in_memory_and_as_json() {
        assert!(size_of::<Kept>() <= 32);
        let mut all = Queues::default();
        all.insert(&queue("q"));
        let written = serde_json::to_string(&all).expect("JSON");
        assert_eq!(written, r#"[{"name":"q","id":7,"source":{"own":{"log":8}}}]"#);
        assert_eq!(serde_json::from_str::<Queues>(&written).expect("the same"), all);
    }

    #[test]
    fn nothing_unusual_is_lost_and_the_earlier_form_is_read() {
        let mut odd = Queue { tenant: "t".into(), auto_delete: true, durable: false, ..queue("odd") };
        odd.arguments.insert("x".into(), Value::Bool(true));
        let shared = Queue { source: QueueSource::Topic { topic: "topic".into(), owned: true }, ..queue("shared") };
        let options = QueueOptions { length_max: Some(5), ..QueueOptions::default() }.stored();
        let limited = Queue { source: QueueSource::Own { log: 9, more: 3 }, options, ..queue("limited") };
        let each = [limited, shared, odd];
        let mut all = Queues::default();
        each.iter().for_each(|queue| all.insert(queue));
        assert_eq!(all.values().collect::<Vec<_>>(), each);
        for (at, queue) in each.iter().enumerate() {
            let key = (queue.tenant.clone(), queue.name.clone());
            assert_eq!(all.after(Some(&key)).collect::<Vec<_>>(), each[at + 1..]);
        }
        let before: Vec<_> = each.iter().map(|queue| ((queue.tenant.clone(), queue.name.clone()), queue)).collect();
        let before = serde_json::to_string(&before).expect("JSON");
        assert_eq!(serde_json::from_str::<Queues>(&before).expect("the earlier form"), all);
        all.remove_tenant("/");
        all.remove(&("t".into(), "odd".into()));
        assert!(all.is_empty());
    }
}
