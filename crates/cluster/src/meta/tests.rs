//! Commands against the catalog: what each changes, what each refuses, and that records survive as JSON.

#![allow(clippy::unwrap_used)]

use super::*;

fn key(name: &str) -> Key {
    ("/".into(), name.into())
}

fn topic(name: &str, logs: &[u64]) -> Command {
    Command::CreateTopic(Topic {
        tenant: "/".into(),
        name: name.into(),
        id: [7; 16],
        partitions: logs.iter().map(|log| Partition { log: *log }).collect(),
        config: [("retention.ms".to_owned(), "-1".to_owned())].into(),
        internal: false,
    })
}

fn change(name: &str, set: &[(&str, &str)], unset: &[&str]) -> Command {
    Command::AlterTopic(TopicChange {
        tenant: "/".into(),
        name: name.into(),
        set: set.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        unset: unset.iter().map(|key| (*key).to_owned()).collect(),
    })
}

fn growth(name: &str, logs: &[u64]) -> Command {
    let partitions = logs.iter().map(|log| Partition { log: *log }).collect();
    Command::GrowTopic(TopicGrowth { tenant: "/".into(), name: name.into(), partitions })
}

fn queue(name: &str, id: u64, source: QueueSource) -> Command {
    Command::CreateQueue(Queue {
        tenant: "/".into(),
        name: name.into(),
        id,
        source,
        durable: true,
        auto_delete: false,
        exclusive: false,
        arguments: [("x-max".to_owned(), serde_json::json!({"int": 5}))].into(),
        argument_types: BTreeMap::new(),
        options: Default::default(),
    })
}

fn exchange(name: &str) -> Command {
    Command::CreateExchange(Exchange {
        tenant: "/".into(),
        name: name.into(),
        kind: ExchangeKind::Fanout,
        durable: true,
        auto_delete: false,
        internal: false,
        alternate: None,
        delayed: false,
        number: 0,
        arguments: BTreeMap::new(),
    })
}

fn binding(exchange: &str, queue: &str) -> Binding {
    Binding {
        tenant: "/".into(),
        exchange: exchange.into(),
        destination: Destination::Queue(queue.into()),
        key: "k".into(),
        arguments: BTreeMap::new(),
        since: Vec::new(),
    }
}

fn user(name: &str) -> Command {
    Command::PutUser(User {
        name: name.into(),
        credentials: vec![Credential::SaltedSha256("00".into())],
        tags: vec!["administrator".into()],
        ..User::default()
    })
}

fn policy(name: &str, is_operator: bool) -> Command {
    Command::PutPolicy(Policy {
        tenant: "/".into(),
        name: name.into(),
        is_operator,
        pattern: "^q".into(),
        applies_to: AppliesTo::QueuesOf(QueueKind::Safe),
        priority: -3,
        definition: [("max-length".to_owned(), 5.into())].into(),
        options: PolicyOptions { length_max: Some(5), ..PolicyOptions::default() },
        unfit: vec![QueueKind::Stream],
    })
}

/// An operator's policy and another may have one name.
#[test]
fn policies_and_those_of_operators_have_a_name_space_each() {
    let mut catalog = catalog(&[policy("p", false), policy("p", true), policy("p", false)]);
    assert_eq!((catalog.policies(false).len(), catalog.policies(true).len()), (1, 1));
    let named = PolicyKey { tenant: "/".into(), name: "p".into(), is_operator: true };
    catalog.apply(&Command::DeletePolicy(named)).unwrap();
    let Command::PutPolicy(elsewhere) = policy("p", false) else { unreachable!() };
    let elsewhere = Policy { tenant: "t".into(), ..elsewhere };
    refused(&catalog, &Command::PutPolicy(elsewhere), "no tenant 't'");
    assert_eq!((catalog.policies(false).len(), catalog.policies(true).len()), (1, 0));
}

/// Applies all; each must fit.
fn catalog(commands: &[Command]) -> Catalog {
    let mut catalog = Catalog::default();
    for command in commands {
        catalog.apply(command).unwrap();
    }
    catalog
}

/// A command that does not fit is refused so, by `check` as by `apply`, and changes nothing.
fn refused(catalog: &Catalog, command: &Command, why: &str) {
    let mut tried = catalog.clone();
    assert_eq!(catalog.check(command).unwrap_err().to_string(), why);
    assert_eq!(tried.apply(command).unwrap_err().to_string(), why);
    assert_eq!(&tried, catalog);
}

#[test]
fn topics_and_queues_share_one_name_space_per_tenant() {
    let catalog = catalog(&[topic("t", &[1, 2]), queue("q", 3, QueueSource::Own { log: 4, more: 0 })]);
    refused(&catalog, &topic("t", &[9]), "topic 't' exists");
    refused(&catalog, &topic("q", &[9]), "queue 'q' exists");
    refused(&catalog, &queue("t", 9, QueueSource::Own { log: 10, more: 0 }), "topic 't' exists");
    let mut other = catalog.clone();
    let Command::CreateTopic(mut topic) = topic("q", &[9]) else { unreachable!() };
    topic.tenant = "other".into();
    other.apply(&Command::CreateTopic(topic)).unwrap();
}

#[test]
fn a_log_id_is_never_given_twice_even_after_its_topic_is_gone() {
    let mut catalog = catalog(&[topic("t", &[5, 6]), Command::DeleteTopic(key("t"))]);
    assert_eq!(catalog.last_log, 6);
    refused(&catalog, &topic("u", &[6]), "log 6 was given before");
    refused(&catalog, &topic("u", &[8, 8]), "log 8 was given before");
    refused(&catalog, &queue("q", 7, QueueSource::Own { log: 6, more: 0 }), "log 6 was given before");
    refused(&catalog, &queue("q", 7, QueueSource::Own { log: 7, more: 0 }), "log 7 was given before");
    catalog.apply(&queue("q", 9, QueueSource::Own { log: 8, more: 0 })).unwrap();
    assert_eq!(catalog.last_log, 9);
}

#[test]
fn a_topics_settings_are_set_and_taken_back_one_by_one() {
    let mut catalog = catalog(&[topic("t", &[1])]);
    let config = |catalog: &Catalog| catalog.topics[&key("t")].config.clone();
    catalog.apply(&change("t", &[("a", "1"), ("b", "2")], &[])).unwrap();
    catalog.apply(&change("t", &[("b", "3")], &["a", "retention.ms", "never set"])).unwrap();
    assert_eq!(config(&catalog), [("b".to_owned(), "3".to_owned())].into());
    refused(&catalog, &change("u", &[("a", "1")], &[]), "no topic 'u'");
}

#[test]
fn a_topic_grows_by_logs_that_are_new() {
    let mut catalog = catalog(&[topic("t", &[1, 2])]);
    refused(&catalog, &growth("u", &[3]), "no topic 'u'");
    refused(&catalog, &growth("t", &[2]), "log 2 was given before");
    refused(&catalog, &growth("t", &[4, 4]), "log 4 was given before");
    catalog.apply(&growth("t", &[3, 5])).unwrap();
    let logs: Vec<u64> = catalog.topics[&key("t")].partitions.iter().map(|partition| partition.log).collect();
    assert_eq!((logs, catalog.last_log), (vec![1, 2, 3, 5], 5));
}

#[test]
fn a_queue_over_a_topic_needs_that_topic() {
    let catalog = catalog(&[topic("t", &[1])]);
    refused(&catalog, &queue("q", 2, QueueSource::Topic { topic: "u".into(), owned: false }), "no topic 'u'");
    let mut ok = catalog.clone();
    ok.apply(&queue("q", 2, QueueSource::Topic { topic: "t".into(), owned: false })).unwrap();
}

fn stream(name: &str, id: u64, log: u64) -> Command {
    let Command::CreateTopic(topic) = topic(name, &[log]) else { unreachable!() };
    let Command::CreateQueue(mut queue) = queue(name, id, QueueSource::Topic { topic: name.into(), owned: true })
    else {
        unreachable!()
    };
    queue.options = QueueOptions { kind: QueueKind::Stream, ..QueueOptions::default() }.stored();
    Command::CreateStream { topic, queue }
}

#[test]
fn a_stream_and_its_topic_share_a_name_and_are_made_at_once() {
    let mut catalog = catalog(&[stream("st", 1, 2)]);
    assert_eq!((catalog.topics.len(), catalog.queues.len(), catalog.last_log), (1, 1, 2));
    refused(&catalog, &stream("st", 3, 4), "topic 'st' exists");
    refused(&catalog, &topic("st", &[3]), "topic 'st' exists");
    refused(&catalog, &stream("other", 2, 3), "log 2 was given before");
    catalog.apply(&Command::DeleteQueue(key("st"))).unwrap();
    let Command::CreateStream { mut queue, .. } = stream("st", 3, 4) else { unreachable!() };
    catalog.apply(&Command::CreateQueue(queue.clone())).unwrap();
    queue.id = 5;
    refused(&catalog, &Command::CreateQueue(queue.clone()), "queue 'st' exists");
    (queue.options, queue.name) = (None, "plain".into());
    catalog.apply(&topic("plain", &[4])).unwrap();
    queue.source = QueueSource::Topic { topic: "plain".into(), owned: false };
    refused(&catalog, &Command::CreateQueue(queue), "topic 'plain' exists");
}

#[test]
fn bindings_go_with_their_queue_and_their_exchange() {
    let all = [
        queue("q", 1, QueueSource::Own { log: 2, more: 0 }),
        queue("r", 3, QueueSource::Own { log: 4, more: 0 }),
        exchange("e"),
        Command::Bind(binding("e", "q")),
        Command::Bind(binding("e", "q")),
        Command::Bind(binding("e", "r")),
        Command::Bind(binding("amq.direct", "r")),
    ];
    let mut catalog = catalog(&all);
    assert_eq!(catalog.bindings.len(), 3, "binding twice changes nothing");
    refused(&catalog, &Command::Bind(binding("e", "none")), "no queue 'none'");
    refused(&catalog, &exchange("e"), "exchange 'e' exists");
    catalog.apply(&Command::DeleteQueue(key("q"))).unwrap();
    assert_eq!(catalog.bindings.len(), 2);
    catalog.apply(&Command::DeleteExchange(key("e"))).unwrap();
    assert!(catalog.bindings.iter().eq([binding("amq.direct", "r")].iter()));
    catalog.apply(&Command::Unbind(binding("amq.direct", "r"))).unwrap();
    catalog.apply(&Command::Unbind(binding("amq.direct", "r"))).unwrap();
    assert!(catalog.bindings.is_empty());
}

#[test]
fn bindings_that_differ_only_in_arguments_are_several_and_keep_their_order() {
    let mut catalog = catalog(&[queue("q", 1, QueueSource::Own { log: 2, more: 0 })]);
    let with = |value: i64| Binding { arguments: [("x".to_owned(), value.into())].into(), ..binding("e", "q") };
    for value in [3, 1, 2, 1] {
        catalog.apply(&Command::Bind(with(value))).unwrap();
    }
    catalog.apply(&Command::Bind(binding("a", "q"))).unwrap();
    assert!(catalog.bindings.iter().eq([with(3), with(1), with(2), binding("a", "q")].iter()));
    let text = serde_json::to_string(&catalog).unwrap();
    assert_eq!(serde_json::from_str::<Catalog>(&text).unwrap(), catalog);
    catalog.apply(&Command::Unbind(with(1))).unwrap();
    assert!(catalog.bindings.iter().eq([with(3), with(2), binding("a", "q")].iter()));
    catalog.apply(&Command::DeleteExchange(key("e"))).unwrap_err();
    catalog.apply(&Command::DeleteQueue(key("q"))).unwrap();
    assert!(catalog.bindings.is_empty());
}

#[test]
fn bindings_between_exchanges_go_with_either_end() {
    for gone in ["from", "to"] {
        let mut catalog = catalog(&[exchange("from"), exchange("to")]);
        let to = Destination::ToExchange("to".into());
        catalog.apply(&Command::Bind(Binding { destination: to, ..binding("from", "") })).unwrap();
        assert_eq!(catalog.bindings.len(), 1);
        catalog.apply(&Command::DeleteExchange(key(gone))).unwrap();
        assert!(catalog.bindings.is_empty());
    }
}

#[test]
fn a_fed_binding_is_the_topics_and_not_that_of_an_exchange_of_its_name() {
    let mut catalog = catalog(&[topic("t", &[1]), queue("q", 2, QueueSource::Own { log: 3, more: 0 }), exchange("t")]);
    let fed = Binding { since: vec![(1, 0)], ..binding("t", "q") };
    catalog.apply(&Command::Bind(fed.clone())).unwrap();
    catalog.apply(&Command::Bind(Binding { since: vec![(1, 7)], ..fed.clone() })).unwrap();
    catalog.apply(&Command::Bind(binding("t", "q"))).unwrap();
    assert!(catalog.bindings.iter().eq([fed.clone(), binding("t", "q")].iter()));
    let text = serde_json::to_string(&catalog).unwrap();
    assert_eq!(serde_json::from_str::<Catalog>(&text).unwrap(), catalog);
    catalog.apply(&Command::DeleteExchange(key("t"))).unwrap();
    assert!(catalog.bindings.iter().eq([fed].iter()));
    catalog.apply(&Command::DeleteTopic(key("t"))).unwrap();
    assert!(catalog.bindings.is_empty());
    refused(&catalog, &Command::Bind(Binding { since: vec![(1, 0)], ..binding("t", "q") }), "no topic 't'");
}

#[test]
fn what_is_missing_cannot_be_removed_and_a_cluster_is_founded_once() {
    let catalog = catalog(&[Command::Found { cluster_id: "abc".into() }, user("u")]);
    refused(&catalog, &Command::Found { cluster_id: "def".into() }, "cluster 'abc' exists");
    refused(&catalog, &Command::DeleteTopic(key("x")), "no topic 'x'");
    refused(&catalog, &Command::DeleteQueue(key("x")), "no queue 'x'");
    refused(&catalog, &Command::DeleteExchange(key("x")), "no exchange 'x'");
    refused(&catalog, &Command::DeleteUser("x".into()), "no user 'x'");
    let policy = PolicyKey { tenant: "/".into(), name: "x".into(), is_operator: false };
    refused(&catalog, &Command::DeletePolicy(policy), "no policy 'x'");
    let mut gone = catalog.clone();
    gone.apply(&Command::DeleteUser("u".into())).unwrap();
    assert!(gone.users.is_empty());
}

#[test]
fn catalog_and_commands_survive_as_json() {
    let commands = [
        Command::Found { cluster_id: "abc".into() },
        topic("t", &[1, 2]),
        topic("gone", &[3]),
        change("t", &[("max.message.bytes", "7")], &["retention.ms"]),
        queue("q", 4, QueueSource::Own { log: 5, more: 0 }),
        queue("s", 6, QueueSource::Topic { topic: "t".into(), owned: false }),
        growth("t", &[7, 8]),
        stream("st", 9, 10),
        exchange("e"),
        exchange("f"),
        Command::Bind(binding("e", "q")),
        Command::Bind(binding("e", "s")),
        Command::Unbind(binding("e", "s")),
        Command::DeleteExchange(key("f")),
        Command::DeleteTopic(key("gone")),
        Command::DeleteQueue(key("s")),
        user("u"),
        user("v"),
        Command::DeleteUser("v".into()),
        policy("p", false),
        policy("p", true),
        policy("gone", false),
        Command::DeletePolicy(PolicyKey { tenant: "/".into(), name: "gone".into(), is_operator: false }),
    ];
    let told = catalog(&commands);
    let mut read = Catalog::default();
    for command in &commands {
        let text = serde_json::to_string(command).unwrap();
        let back: Command = serde_json::from_str(&text).unwrap();
        assert_eq!(&back, command);
        read.apply(&back).unwrap();
    }
    assert_eq!(read, told);
    let text = serde_json::to_string(&told).unwrap();
    assert_eq!(serde_json::from_str::<Catalog>(&text).unwrap(), told);
}
