//! DescribeConfigs: settings of topics and of this broker, with where each value comes from.

use broker::Cx;
use broker::topic::{ConfigEntry, ConfigKind};
use model::ReadError;

use super::asker::{error_text, is_topic_name, once};
use super::{Asker, Row, Using, row_of};
use crate::call::Call;
use crate::config::{BrokerConfig, ValueKind};
use crate::errors::ErrorCode;
use crate::pending::Answer;
use crate::wire::{Text, messages};

pub(crate) static ROW: Row = row_of((32, "DescribeConfigs"), 1..=4, 4, handle);

messages! {
    DescribeConfigsRequest<'a> {
        resources: Vec<ConfigResource<'a>>, 0+;
        include_synonyms: bool, 1+;
        include_documentation: bool, 3+;
    }
    ConfigResource<'a> {
        resource_type: i8, 0+;
        resource_name: Text<'a>, 0+;
        configuration_keys: Option<Vec<Text<'a>>>, 0+ null 0;
    }
    DescribeConfigsResponse<'a> {
        throttle_time_ms: i32, 0+;
        results: Vec<DescribedResource<'a>>, 0+;
    }
    DescribedResource<'a> {
        error_code: i16, 0+;
        error_message: Option<Text<'a>>, 0+ null 0;
        resource_type: i8, 0+;
        resource_name: Text<'a>, 0+;
        configs: Vec<DescribedConfig<'a>>, 0+;
    }
    DescribedConfig<'a> {
        name: Text<'a>, 0+;
        value: Option<Text<'a>>, 0+ null 0;
        read_only: bool, 0+;
        config_source: i8, 1+ or -1;
        is_sensitive: bool, 0+;
        synonyms: Vec<ConfigSynonym<'a>>, 1+;
        config_type: i8, 3+;
        documentation: Option<Text<'a>>, 3+ null 0;
    }
    ConfigSynonym<'a> {
        name: Text<'a>, 1+;
        value: Option<Text<'a>>, 1+ null 0;
        source: i8, 1+;
    }
}

/// Resources that have settings, by the protocol's numbers.
pub(crate) const TOPIC: i8 = 2;
pub(crate) const BROKER: i8 = 4;

/// Where a value comes from.
const SET_ON_TOPIC: i8 = 1;
const SET_AT_START: i8 = 4;
const BUILT_IN: i8 = 5;

/// Where a topic's value comes from.
pub(crate) fn source_of(is_default: bool) -> i8 {
    if is_default { BUILT_IN } else { SET_ON_TOPIC }
}

/// What of each setting is wanted.
#[derive(Clone, Copy)]
struct Wanted {
    synonyms: bool,
    documentation: bool,
}

fn handle(asker: &mut Asker, cx: &mut Cx<'_>, call: &Call<'_>) -> Result<Answer, ReadError> {
    let request: DescribeConfigsRequest<'_> = call.read_body()?;
    let wanted = Wanted { synonyms: request.include_synonyms, documentation: request.include_documentation };
    let resources = once(&request.resources, |resource| (resource.resource_type, &*resource.resource_name));
    let results = resources.map(|resource| {
        let (code, message, configs) = match describe(asker, cx, resource, wanted) {
            Ok(configs) => (ErrorCode::NONE, None, configs),
            Err((code, message)) => (code, error_text(&message), Vec::new()),
        };
        DescribedResource {
            error_code: code.0,
            error_message: message,
            resource_type: resource.resource_type,
            resource_name: resource.resource_name.clone(),
            configs,
        }
    });
    let response = DescribeConfigsResponse { results: results.collect(), ..DescribeConfigsResponse::default() };
    Ok(asker.reply(call.to, &response))
}

fn describe(
    asker: &Asker,
    cx: &Cx<'_>,
    resource: &ConfigResource<'_>,
    wanted: Wanted,
) -> Result<Vec<DescribedConfig<'static>>, (ErrorCode, String)> {
    let name: &str = &resource.resource_name;
    // Names that we do not know are left out, not refused.
    let is_asked = |config: &str| match &resource.configuration_keys {
        Some(keys) if !keys.is_empty() => keys.iter().any(|key| key == config),
        _ => true,
    };
    match resource.resource_type {
        TOPIC if !is_topic_name(name) => {
            Err((ErrorCode::INVALID_TOPIC_EXCEPTION, format!("'{name}' is no topic name")))
        }
        TOPIC => {
            let seen = asker.may_use(cx.broker, name, Using::Seeing);
            seen.map_err(|code| (code, format!("no permission to see topic '{name}'")))?;
            let entries = cx.broker.topic_config(&asker.settings.tenant, name);
            let entries = entries.map_err(|error| (ErrorCode::from(&error), error.to_string()))?;
            let asked = entries.into_iter().filter(|entry| is_asked(entry.name));
            Ok(asked.map(|entry| topic_config(entry, wanted)).collect())
        }
        // The settings common to all brokers: none is set that way.
        BROKER if name.is_empty() => Ok(Vec::new()),
        BROKER if name == asker.settings.node_id.to_string() => {
            let asked = asker.settings.describe().into_iter().filter(|config| is_asked(config.name));
            Ok(asked.map(|config| broker_config(config, wanted)).collect())
        }
        BROKER => {
            let text = format!("this is broker {}, not '{name}'", asker.settings.node_id);
            Err((ErrorCode::INVALID_REQUEST, text))
        }
        other => Err((ErrorCode::INVALID_REQUEST, format!("resources of type {other} have no settings here"))),
    }
}

fn topic_config(entry: ConfigEntry, wanted: Wanted) -> DescribedConfig<'static> {
    let mut synonyms = Vec::new();
    if wanted.synonyms {
        if !entry.is_default {
            synonyms.push(synonym(entry.name, &entry.value, SET_ON_TOPIC));
        }
        if let Some(name) = broker_name(entry.name) {
            synonyms.push(synonym(name, entry.default, BUILT_IN));
        }
    }
    let kind = match entry.kind {
        ConfigKind::Bool => 1,
        ConfigKind::Text => 2,
        ConfigKind::Int => 3,
        ConfigKind::Long => 5,
        ConfigKind::Double => 6,
        ConfigKind::List => 7,
    };
    DescribedConfig {
        name: Text::Borrowed(entry.name),
        value: Some(Text::Owned(entry.value)),
        config_source: source_of(entry.is_default),
        synonyms,
        config_type: kind,
        documentation: wanted.documentation.then_some(Text::Borrowed(entry.doc)),
        ..DescribedConfig::default()
    }
}

fn broker_config(config: BrokerConfig, wanted: Wanted) -> DescribedConfig<'static> {
    let source = if config.is_set { SET_AT_START } else { BUILT_IN };
    let synonyms = match wanted.synonyms {
        true => vec![synonym(config.name, &config.value, source)],
        false => Vec::new(),
    };
    let kind: ValueKind = config.kind;
    DescribedConfig {
        name: Text::Borrowed(config.name),
        value: Some(Text::Owned(config.value)),
        read_only: true,
        config_source: source,
        synonyms,
        config_type: kind as i8,
        documentation: wanted.documentation.then_some(Text::Borrowed(config.doc)),
        ..DescribedConfig::default()
    }
}

fn synonym(name: &'static str, value: &str, source: i8) -> ConfigSynonym<'static> {
    ConfigSynonym { name: Text::Borrowed(name), value: Some(Text::Owned(value.to_owned())), source }
}

/// The broker's own setting from which topics take theirs.
fn broker_name(topic_config: &str) -> Option<&'static str> {
    Some(match topic_config {
        "cleanup.policy" => "log.cleanup.policy",
        "compression.type" => "compression.type",
        "delete.retention.ms" => "log.cleaner.delete.retention.ms",
        "file.delete.delay.ms" => "log.segment.delete.delay.ms",
        "flush.messages" => "log.flush.interval.messages",
        "flush.ms" => "log.flush.interval.ms",
        "index.interval.bytes" => "log.index.interval.bytes",
        "max.compaction.lag.ms" => "log.cleaner.max.compaction.lag.ms",
        "max.message.bytes" => "message.max.bytes",
        "message.timestamp.after.max.ms" => "log.message.timestamp.after.max.ms",
        "message.timestamp.before.max.ms" => "log.message.timestamp.before.max.ms",
        "message.timestamp.type" => "log.message.timestamp.type",
        "min.cleanable.dirty.ratio" => "log.cleaner.min.cleanable.ratio",
        "min.compaction.lag.ms" => "log.cleaner.min.compaction.lag.ms",
        "min.insync.replicas" => "min.insync.replicas",
        "preallocate" => "log.preallocate",
        "retention.bytes" => "log.retention.bytes",
        "retention.ms" => "log.retention.ms",
        "segment.bytes" => "log.segment.bytes",
        "segment.index.bytes" => "log.index.size.max.bytes",
        "segment.jitter.ms" => "log.roll.jitter.ms",
        "segment.ms" => "log.roll.ms",
        "unclean.leader.election.enable" => "unclean.leader.election.enable",
        _ => return None,
    })
}
