//! CreateTopics: makes topics, or only checks whether they could be made.

use std::collections::{HashMap, HashSet};

use broker::topic::{ConfigEntry, NewTopic, PARTITIONS_MAX, TopicInfo};
use broker::{Cx, Lsn, SyncPolicy};
use model::{Name, ReadError};

use super::asker::{error_text, is_topic_name, twice};
use super::{Asker, CONFIGURE, Row, row_of};
use crate::call::{Call, ReplyTo};
use crate::errors::ErrorCode;
use crate::pending::{Answer, Gate};
use crate::wire::{Sink, Text, Uuid, messages};

pub(crate) static ROW: Row = row_of((19, "CreateTopics"), 2..=7, 5, handle);

messages! {
    CreateTopicsRequest<'a> {
        topics: Vec<CreatableTopic<'a>>, 0+;
        timeout_ms: i32, 0+ or 60_000;
        validate_only: bool, 1+;
    }
    CreatableTopic<'a> {
        name: Text<'a>, 0+;
        num_partitions: i32, 0+;
        replication_factor: i16, 0+;
        assignments: Vec<Assignment>, 0+;
        configs: Vec<CreatableConfig<'a>>, 0+;
    }
    Assignment {
        partition_index: i32, 0+;
        broker_ids: Vec<i32>, 0+;
    }
    CreatableConfig<'a> {
        name: Text<'a>, 0+;
        value: Option<Text<'a>>, 0+ null 0;
    }
    CreateTopicsResponse<'a> {
        throttle_time_ms: i32, 2+;
        topics: Vec<CreatedTopic<'a>>, 0+;
    }
    CreatedTopic<'a> {
        name: Text<'a>, 0+;
        topic_id: Uuid, 7+;
        error_code: i16, 0+;
        error_message: Option<Text<'a>>, 1+ null 0;
        topic_config_error_code: i16, 5+ tag 0;
        num_partitions: i32, 5+ or -1;
        replication_factor: i16, 5+ or -1;
        configs: Option<Vec<CreatedConfig<'a>>>, 5+ null 5;
    }
    CreatedConfig<'a> {
        name: Text<'a>, 5+;
        value: Option<Text<'a>>, 5+ null 5;
        read_only: bool, 5+;
        config_source: i8, 5+ or -1;
        is_sensitive: bool, 5+;
    }
}

/// What stands for "the default" in numbers.
const DEFAULT: i32 = -1;

/// Why a topic is not made.
type Refusal = (ErrorCode, Option<Text<'static>>);

fn refusal(code: ErrorCode, text: impl std::fmt::Display) -> Refusal {
    (code, error_text(&text))
}

fn handle(asker: &mut Asker, cx: &mut Cx<'_>, call: &Call<'_>) -> Result<Answer, ReadError> {
    let request: CreateTopicsRequest<'_> = call.read_body()?;
    let twice = twice(request.topics.iter().map(|topic| &*topic.name));
    let mut alike = Alike::default();
    let partitions: i64 = request.topics.iter().map(|topic| partitions_of(asker, topic).max(0)).sum();
    let too_many = partitions > i64::from(PARTITIONS_MAX);
    let mut gate = None;
    let mut topics = Vec::with_capacity(request.topics.len());
    let mut refused_twice = HashSet::new();
    for topic in &request.topics {
        let name: &str = &topic.name;
        let created = if twice.contains(name) {
            // Told once: the answer names each topic once.
            if !refused_twice.insert(name) {
                continue;
            }
            Err(refusal(ErrorCode::INVALID_REQUEST, "the request names the topic more than once"))
        } else if too_many {
            let text =
                format!("the request asks for {partitions} partitions; at most {PARTITIONS_MAX} are made at once");
            Err(refusal(ErrorCode::POLICY_VIOLATION, text))
        } else {
            create(asker, cx, topic, (request.validate_only, &mut alike))
        };
        topics.push(match created {
            Ok((info, lsn)) => {
                if !request.validate_only {
                    gate = gate.max(Some(lsn));
                }
                describe(asker, cx, &info, request.validate_only.then(|| partitions_of(asker, topic)))
            }
            Err((code, error_message)) => CreatedTopic {
                name: topic.name.clone(),
                error_code: code.0,
                error_message,
                configs: Some(Vec::new()),
                ..CreatedTopic::default()
            },
        });
    }
    let response = CreateTopicsResponse { topics, ..CreateTopicsResponse::default() };
    Ok(asker.reply_gated(call.to, &response, gate.map(|lsn| Gate::of(SyncPolicy::Sync, lsn)), fail))
}

fn partitions_of(asker: &Asker, topic: &CreatableTopic<'_>) -> i64 {
    match topic.num_partitions {
        _ if !topic.assignments.is_empty() => topic.assignments.len() as i64,
        DEFAULT => i64::from(asker.settings.partitions_default),
        asked => i64::from(asked),
    }
}

fn create(
    asker: &Asker,
    cx: &mut Cx<'_>,
    topic: &CreatableTopic<'_>,
    (validate_only, alike): (bool, &mut Alike),
) -> Result<(TopicInfo, Lsn), Refusal> {
    check_name(asker, cx, &topic.name, alike)?;
    let found = asker.topic(cx.broker, &topic.name, CONFIGURE).map(drop);
    if found == Err(ErrorCode::TOPIC_AUTHORIZATION_FAILED) {
        return Err(refusal(ErrorCode::TOPIC_AUTHORIZATION_FAILED, "no permission to make this topic"));
    }
    if found.is_ok() {
        let text = format!("topic '{}' already exists", topic.name);
        return Err(refusal(ErrorCode::TOPIC_ALREADY_EXISTS, text));
    }
    check_replicas(asker, topic)?;
    let mut config = Vec::with_capacity(topic.configs.len());
    for entry in &topic.configs {
        let Some(value) = &entry.value else {
            let text = format!("a null value is not allowed for '{}'", entry.name);
            return Err(refusal(ErrorCode::INVALID_CONFIG, text));
        };
        config.push((entry.name.to_string(), value.to_string()));
    }
    let new = NewTopic {
        tenant: asker.settings.tenant.clone(),
        name: Name::new(&topic.name).map_err(|error| refusal(ErrorCode::INVALID_TOPIC_EXCEPTION, error))?,
        partitions: partitions_of(asker, topic),
        config,
        validate_only,
    };
    let created = cx.broker.create_topic(&new, cx.now).map_err(|error| refusal(ErrorCode::from(&error), &error))?;
    if !validate_only {
        alike.add(&topic.name);
    }
    Ok(created)
}

/// Existing topics by the names that their metrics have, which hold '_' for '.': two topics that differ only there
/// would share theirs. Put together once a request, when it names a topic with either.
#[derive(Default)]
struct Alike(Option<HashMap<String, String>>);

impl Alike {
    fn plain(name: &str) -> Option<String> {
        name.contains(['.', '_']).then(|| name.replace('.', "_"))
    }

    /// A topic of another name that would share its metrics.
    fn other(&mut self, asker: &Asker, cx: &Cx<'_>, name: &str) -> Option<&str> {
        let plain = Alike::plain(name)?;
        let by_plain = self.0.get_or_insert_with(|| {
            let topics = cx.broker.topics(&asker.settings.tenant).into_iter();
            topics.filter_map(|info| Some((Alike::plain(&info.name)?, info.name.to_string()))).collect()
        });
        by_plain.get(&plain).map(String::as_str).filter(|other| *other != name)
    }

    /// A topic has been made.
    fn add(&mut self, name: &str) {
        if let (Some(by_plain), Some(plain)) = (&mut self.0, Alike::plain(name)) {
            by_plain.insert(plain, name.to_owned());
        }
    }
}

fn check_name(asker: &Asker, cx: &Cx<'_>, name: &str, alike: &mut Alike) -> Result<(), Refusal> {
    if !is_topic_name(name) {
        let text =
            format!("'{name}' is no topic name: 1 to 249 ASCII letters, digits, '.', '_' and '-', not '.' or '..'");
        return Err(refusal(ErrorCode::INVALID_TOPIC_EXCEPTION, text));
    }
    if let Some(other) = alike.other(asker, cx, name) {
        let text = format!("topic '{name}' collides with the existing topic '{other}'");
        return Err(refusal(ErrorCode::INVALID_TOPIC_EXCEPTION, text));
    }
    Ok(())
}

/// One node holds one copy of everything.
fn check_replicas(asker: &Asker, topic: &CreatableTopic<'_>) -> Result<(), Refusal> {
    if topic.assignments.is_empty() {
        return match topic.replication_factor {
            1 => Ok(()),
            factor if i32::from(factor) == DEFAULT => Ok(()),
            factor => {
                let text = format!("replication factor {factor} cannot be had: there is 1 broker");
                Err(refusal(ErrorCode::INVALID_REPLICATION_FACTOR, text))
            }
        };
    }
    if topic.num_partitions != DEFAULT || i32::from(topic.replication_factor) != DEFAULT {
        let text = "with an assignment, the number of partitions and the replication factor must be -1";
        return Err(refusal(ErrorCode::INVALID_REQUEST, text));
    }
    let mut indexes: Vec<i32> = topic.assignments.iter().map(|assignment| assignment.partition_index).collect();
    indexes.sort_unstable();
    let are_dense = indexes.iter().enumerate().all(|(at, index)| usize::try_from(*index) == Ok(at));
    let are_ours = topic.assignments.iter().all(|assignment| assignment.broker_ids == [asker.settings.node_id]);
    if are_dense && are_ours {
        return Ok(());
    }
    let text =
        format!("partitions must be assigned from 0 on without a gap, each to broker {}", asker.settings.node_id);
    Err(refusal(ErrorCode::INVALID_REPLICA_ASSIGNMENT, text))
}

/// `checked`: the partitions asked for, when the topic was only checked.
fn describe(asker: &Asker, cx: &Cx<'_>, info: &TopicInfo, checked: Option<i64>) -> CreatedTopic<'static> {
    // Of a topic that was only checked there is nothing to ask for yet.
    let entries = match checked {
        Some(_) => Vec::new(),
        None => cx.broker.topic_config(&asker.settings.tenant, &info.name).unwrap_or_default(),
    };
    CreatedTopic {
        name: Text::Owned(info.name.to_string()),
        topic_id: if checked.is_some() { [0; 16] } else { info.id.0 },
        num_partitions: checked.map_or(info.partitions.len() as i32, |asked| asked as i32),
        replication_factor: 1,
        configs: Some(entries.into_iter().map(created_config).collect()),
        ..CreatedTopic::default()
    }
}

fn created_config(entry: ConfigEntry) -> CreatedConfig<'static> {
    CreatedConfig {
        name: Text::Borrowed(entry.name),
        value: Some(Text::Owned(entry.value)),
        config_source: super::describe_configs::source_of(entry.is_default),
        ..CreatedConfig::default()
    }
}

fn fail(to: ReplyTo, frame: &[u8]) -> Option<Sink> {
    let mut response: CreateTopicsResponse<'_> = to.decode(frame)?;
    for topic in response.topics.iter_mut().filter(|topic| topic.error_code == ErrorCode::NONE.0) {
        topic.error_code = ErrorCode::KAFKA_STORAGE_ERROR.0;
        topic.configs = Some(Vec::new());
    }
    Some(to.encode(&response, Vec::new()))
}
