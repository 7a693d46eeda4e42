//! Settings of topics: changed one by one and all at once, refused with the codes that the real broker gives.

use super::super::{alter_configs, describe_configs, incremental_alter_configs as incremental};
use super::rig::Rig;
use crate::wire::Text;

const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

type Ops<'a> = &'a [(&'a str, i8, Option<&'a str>)];

fn change<'a>(kind: i8, name: &'a str, ops: Ops<'a>) -> incremental::ChangedResource<'a> {
    let config = |(name, config_operation, value): &(&'a str, i8, Option<&'a str>)| incremental::ChangedConfig {
        name: Text::Borrowed(name),
        config_operation: *config_operation,
        value: value.map(Text::Borrowed),
    };
    let configs = ops.iter().map(config).collect();
    incremental::ChangedResource { resource_type: kind, resource_name: Text::Borrowed(name), configs }
}

fn alter(rig: &mut Rig, client: usize, resources: Vec<incremental::ChangedResource<'_>>, validate: bool) -> Vec<i16> {
    let request = incremental::IncrementalAlterConfigsRequest { resources, validate_only: validate };
    let reply = rig.ask(client, &incremental::ROW, 1, &request);
    let response: alter_configs::AlterConfigsResponse<'_> = reply.read();
    for outcome in response.responses.iter().filter(|outcome| outcome.error_code != 0) {
        assert!(outcome.error_message.as_deref().is_some_and(|text| !text.is_empty()), "every refusal says why");
    }
    response.responses.iter().map(|outcome| outcome.error_code).collect()
}

/// Value, source, and synonyms of a topic's setting.
fn shown(rig: &mut Rig, client: usize, topic: &str, key: &'static str) -> (String, i8, Vec<(String, String, i8)>) {
    let resource = describe_configs::ConfigResource {
        resource_type: 2,
        resource_name: Text::Borrowed(topic),
        configuration_keys: Some(vec![key.into()]),
    };
    let request = describe_configs::DescribeConfigsRequest {
        resources: vec![resource],
        include_synonyms: true,
        include_documentation: true,
    };
    let reply = rig.ask(client, &describe_configs::ROW, 4, &request);
    let response: describe_configs::DescribeConfigsResponse<'_> = reply.read();
    let config = &response.results[0].configs[0];
    assert!(config.documentation.as_deref().is_some_and(|text| !text.is_empty()) && !config.read_only);
    let text = |text: &Option<Text<'_>>| text.as_deref().unwrap_or_default().to_owned();
    let synonyms = config.synonyms.iter().map(|other| (other.name.to_string(), text(&other.value), other.source));
    (text(&config.value), config.config_source, synonyms.collect())
}

#[test]
fn settings_are_changed_one_by_one_and_shown_with_where_they_come_from() {
    let mut rig = Rig::new();
    rig.make_topic("t", 1);
    let client = rig.connect();
    let own = |value: &str| ("max.message.bytes".to_owned(), value.to_owned(), 1);
    let built_in = ("message.max.bytes".to_owned(), "1048588".to_owned(), 5);
    let at_first = ("1048588".to_owned(), 5, vec![built_in.clone()]);
    assert_eq!(shown(&mut rig, client, "t", "max.message.bytes"), at_first);
    let set = change(2, "t", &[("max.message.bytes", SET, Some("2000"))]);
    assert_eq!(alter(&mut rig, client, vec![set.clone()], true), [0]);
    assert_eq!(shown(&mut rig, client, "t", "max.message.bytes"), at_first, "only validated");
    assert_eq!(alter(&mut rig, client, vec![set], false), [0]);
    let now = ("2000".to_owned(), 1, vec![own("2000"), built_in]);
    assert_eq!(shown(&mut rig, client, "t", "max.message.bytes"), now);
    assert_eq!(alter(&mut rig, client, vec![change(2, "t", &[("max.message.bytes", DELETE, None)])], false), [0]);
    assert_eq!(shown(&mut rig, client, "t", "max.message.bytes"), at_first);
}

#[test]
fn what_cannot_be_changed_is_refused_with_the_real_brokers_codes_and_changes_nothing() {
    let mut rig = Rig::new();
    rig.make_topic("t", 1);
    let client = rig.connect();
    let size = |value| [("max.message.bytes", SET, Some(value))];
    let cases: &[(i8, &str, Ops<'_>, i16)] = &[
        (2, "t", &[("no.such", SET, Some("1"))], 40),
        (2, "t", &[("no.such", DELETE, None)], 0),
        (2, "t", &size("abc"), 40),
        (2, "t", &size("-1"), 40),
        (2, "t", &[("max.message.bytes", SET, None)], 42),
        (2, "t", &[("cleanup.policy", APPEND, None)], 42),
        (2, "t", &[("max.message.bytes", APPEND, Some("5"))], 40),
        (2, "t", &[("cleanup.policy", APPEND, Some("foo"))], 40),
        (2, "t", &[("cleanup.policy", SUBTRACT, Some("foo"))], 0),
        (2, "t", &[("max.message.bytes", 9, Some("5"))], 42),
        (2, "t", &[("max.message.bytes", SET, Some("5")), ("max.message.bytes", SET, Some("6"))], 42),
        (2, "t", &[("max.message.bytes", SET, Some("5")), ("min.insync.replicas", SET, Some("0"))], 40),
        (2, "t", &[], 0),
        (2, "none", &size("5"), 3),
        (2, "a/b", &size("5"), 17),
        (2, "", &size("5"), 42),
        (4, "1", &[("num.partitions", SET, Some("2"))], 42),
        (4, "", &[("num.partitions", SET, Some("2"))], 42),
        (4, "1", &[], 0),
        (4, "2", &[], 42),
        (4, "x", &[], 42),
        (8, "1", &[("root", SET, Some("INFO"))], 42),
        (99, "t", &[], 42),
    ];
    for validate in [true, false] {
        for (kind, name, ops, code) in cases {
            let codes = alter(&mut rig, client, vec![change(*kind, name, ops)], validate);
            assert_eq!(codes, [*code], "{kind} {name} {ops:?}");
        }
        let five = size("5");
        let twice = vec![change(2, "t", &five), change(2, "t", &[])];
        assert_eq!(alter(&mut rig, client, twice, validate), [42, 42]);
    }
    assert_eq!(shown(&mut rig, client, "t", "max.message.bytes").0, "1048588");
    assert_eq!(shown(&mut rig, client, "t", "cleanup.policy").0, "delete");
}

#[test]
fn altering_the_old_way_takes_back_what_is_not_named() {
    let mut rig = Rig::new();
    rig.make_topic("t", 1);
    let client = rig.connect();
    let both = [("max.message.bytes", SET, Some("2000")), ("message.timestamp.type", SET, Some("LogAppendTime"))];
    assert_eq!(alter(&mut rig, client, vec![change(2, "t", &both)], false), [0]);
    let mut replace = |name: &'static str, value: Option<&'static str>, validate_only| {
        let config = alter_configs::AlteredConfig { name: name.into(), value: value.map(Text::Borrowed) };
        let configs = vec![config];
        let resource = alter_configs::AlteredResource { resource_type: 2, resource_name: "t".into(), configs };
        let request = alter_configs::AlterConfigsRequest { resources: vec![resource], validate_only };
        let reply = rig.ask(client, &alter_configs::ROW, 2, &request);
        reply.read::<alter_configs::AlterConfigsResponse<'_>>().responses[0].error_code
    };
    assert_eq!(replace("max.message.bytes", None, false), 42);
    assert_eq!(replace("no.such", Some("1"), false), 40);
    assert_eq!(replace("max.message.bytes", Some("3000"), true), 0);
    assert_eq!(replace("max.message.bytes", Some("3000"), false), 0);
    assert_eq!(shown(&mut rig, client, "t", "max.message.bytes").0, "3000");
    assert_eq!(shown(&mut rig, client, "t", "message.timestamp.type").0, "CreateTime");
}

#[test]
fn a_change_by_one_connection_holds_for_the_next_batch_of_every_other() {
    let mut rig = Rig::new();
    rig.make_topic("t", 1);
    let (writer, other) = (rig.connect(), rig.connect());
    let batch = super::rig::plain_batch(2);
    assert_eq!(rig.produce(writer, "t", &batch, -1).0, 0);
    for (name, value, code) in [("max.message.bytes", "10", 10), ("min.insync.replicas", "2", 19)] {
        let ops = [(name, SET, Some(value))];
        assert_eq!(alter(&mut rig, other, vec![change(2, "t", &ops)], false), [0]);
        assert_eq!(rig.produce(writer, "t", &batch, -1).0, code, "{name}");
        assert_eq!(alter(&mut rig, other, vec![change(2, "t", &[(name, DELETE, None)])], false), [0]);
        assert_eq!(rig.produce(writer, "t", &batch, -1).0, 0);
    }
}
