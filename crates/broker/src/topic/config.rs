//! A topic's settings: one table says what each is called, what it means, what it may be and whether it is honoured.
//!
//! What is not honoured yet may only have its default, which says truthfully what happens; any other value is refused
//! rather than taken and ignored. Names and kinds are those that users' tools know.

use cluster::meta::TopicConfig;

use super::{ConfigEntry, ConfigKind};
use crate::BrokerError;

/// What a value may be beyond its kind.
#[derive(Clone, Copy)]
enum Rule {
    /// Only the default: other values are not honoured yet.
    DefaultOnly,
    /// A whole number from .. to.
    Range(i64, i64),
}

/// One row.
struct Setting {
    name: &'static str,
    kind: ConfigKind,
    default: &'static str,
    rule: Rule,
    doc: &'static str,
}

const fn later(name: &'static str, kind: ConfigKind, default: &'static str, doc: &'static str) -> Setting {
    Setting { name, kind, default, rule: Rule::DefaultOnly, doc }
}

/// The largest batch a topic takes unless set otherwise.
const MAX_MESSAGE_BYTES: &str = "1048588";

/// "Never" for a number of milliseconds or messages.
const NEVER: &str = "9223372036854775807";

use ConfigKind::{Bool, Double, Int, List, Long, Text};

/// All settings, by name.
static SETTINGS: &[Setting] = &[
    later("cleanup.policy", List, "delete", "What becomes of old messages: delete (by retention) or compact (by key)."),
    later("compression.type", Text, "producer", "How batches are stored: as the producer sent them."),
    later("delete.retention.ms", Long, "86400000", "How long tombstones stay in a compacted topic."),
    later("file.delete.delay.ms", Long, "0", "How long files of a deleted topic are kept."),
    later("flush.messages", Long, NEVER, "Sync after so many messages; each producer chooses by its acks instead."),
    later("flush.ms", Long, NEVER, "Sync after so long; each producer chooses by its acks instead."),
    later("index.interval.bytes", Int, "4096", "How dense the offset index is."),
    later("max.compaction.lag.ms", Long, NEVER, "How long a message may stay uncompacted."),
    Setting {
        name: "max.message.bytes",
        kind: Int,
        default: MAX_MESSAGE_BYTES,
        rule: Rule::Range(0, i32::MAX as i64),
        doc: "The largest batch the topic takes, in bytes, as sent.",
    },
    later("message.timestamp.after.max.ms", Long, NEVER, "How far a message's time may lie ahead of the clock."),
    later("message.timestamp.before.max.ms", Long, NEVER, "How far a message's time may lie behind the clock."),
    later("message.timestamp.type", Text, "CreateTime", "Whose time messages carry: the producer's."),
    later("min.cleanable.dirty.ratio", Double, "0.5", "How much of a log must be uncompacted before it is compacted."),
    later("min.compaction.lag.ms", Long, "0", "How long a message stays uncompacted at least."),
    Setting {
        name: "min.insync.replicas",
        kind: Int,
        default: "1",
        rule: Rule::Range(1, 1),
        doc: "How many replicas must have a message before it is acknowledged; there is one.",
    },
    later("preallocate", Bool, "false", "Whether a segment's space is reserved ahead."),
    later("remote.storage.enable", Bool, "false", "Whether old messages move to remote storage."),
    later("retention.bytes", Long, "-1", "How many bytes a partition keeps; -1: all. Nothing is deleted by size yet."),
    later("retention.ms", Long, "-1", "How long messages are kept; -1: for ever. Nothing is deleted by age yet."),
    later("segment.bytes", Int, "1073741824", "How large a segment gets."),
    later("segment.index.bytes", Int, "10485760", "How large a segment's index gets."),
    later("segment.jitter.ms", Long, "0", "How much the rolling of segments is spread in time."),
    later("segment.ms", Long, "604800000", "How long a segment stays the newest."),
    later("unclean.leader.election.enable", Bool, "false", "Whether a replica that lacks messages may lead."),
];

/// Checks settings as given; answers those to store.
///
/// # Errors
/// [`BrokerError::InvalidConfig`] for unknown names, bad values and what is not honoured yet.
pub(crate) fn check(given: &[(String, String)]) -> Result<TopicConfig, BrokerError> {
    let mut config = TopicConfig::new();
    for (name, value) in given {
        let known = SETTINGS.iter().find(|setting| setting.name == name);
        let setting = known.ok_or_else(|| BrokerError::InvalidConfig(format!("unknown topic config name: {name}")))?;
        let value = setting.check(value.trim()).map_err(BrokerError::InvalidConfig)?;
        if config.insert(name.clone(), value).is_some() {
            return Err(BrokerError::InvalidConfig(format!("{name} is given twice")));
        }
    }
    Ok(config)
}

/// All settings of a topic that has `config` set.
pub(crate) fn describe(config: &TopicConfig) -> Vec<ConfigEntry> {
    let entry = |setting: &Setting| {
        let set = config.get(setting.name);
        ConfigEntry {
            name: setting.name,
            value: set.map_or(setting.default, String::as_str).to_owned(),
            is_default: set.is_none(),
            kind: setting.kind,
            doc: setting.doc,
        }
    };
    SETTINGS.iter().map(entry).collect()
}

/// A setting's value, set or default.
pub(super) fn value<'a>(config: &'a TopicConfig, name: &str) -> &'a str {
    let default = || SETTINGS.iter().find(|setting| setting.name == name).map_or("", |setting| setting.default);
    config.get(name).map_or_else(default, String::as_str)
}

impl Setting {
    /// The value in its usual spelling, or why it is refused.
    fn check(&self, value: &str) -> Result<String, String> {
        let (name, kind) = (self.name, self.kind);
        let bad = |what: &str| format!("invalid value {value} for {name}: {what}");
        let value = match kind {
            Bool => value.to_ascii_lowercase(),
            List => value.split(',').map(str::trim).collect::<Vec<_>>().join(","),
            _ => value.to_owned(),
        };
        match kind {
            Bool if value != "true" && value != "false" => return Err(bad("true or false is wanted")),
            Int if value.parse::<i32>().is_err() => return Err(bad("a whole number of 32 bits is wanted")),
            Long if value.parse::<i64>().is_err() => return Err(bad("a whole number of 64 bits is wanted")),
            Double if value.parse::<f64>().is_err() => return Err(bad("a number is wanted")),
            _ => {}
        }
        match self.rule {
            Rule::DefaultOnly if self.is_default(&value) => Ok(value),
            Rule::DefaultOnly => Err(bad(&format!("not supported yet; only {} is", self.default))),
            Rule::Range(from, to) => match value.parse::<i64>() {
                Ok(number) if (from..=to).contains(&number) => Ok(value),
                _ => Err(bad(&format!("it must lie in {from}..{to}"))),
            },
        }
    }

    fn is_default(&self, value: &str) -> bool {
        match self.kind {
            Int | Long => value.parse::<i64>().ok() == self.default.parse().ok(),
            Double => value.parse::<f64>().ok() == self.default.parse().ok(),
            Bool | Text | List => value == self.default,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(name: &str, value: &str) -> Result<String, String> {
        match check(&[(name.to_owned(), value.to_owned())]) {
            Ok(config) => Ok(config[name].clone()),
            Err(why) => Err(why.to_string()),
        }
    }

    #[test]
    fn every_default_is_accepted_and_shown() {
        for entry in describe(&TopicConfig::new()) {
            assert_eq!(set(entry.name, &entry.value), Ok(entry.value.clone()), "{}", entry.name);
            assert!(entry.is_default);
        }
        assert!(SETTINGS.is_sorted_by_key(|setting| setting.name));
    }

    #[test]
    fn what_is_not_honoured_is_refused_and_says_so() {
        let cases = [
            ("retention.ms", "1000"),
            ("retention.bytes", "1"),
            ("cleanup.policy", "compact"),
            ("cleanup.policy", "delete, compact"),
            ("message.timestamp.type", "LogAppendTime"),
            ("compression.type", "lz4"),
            ("remote.storage.enable", "TRUE"),
        ];
        for (name, value) in cases {
            let why = set(name, value).unwrap_err();
            assert!(why.contains("not supported yet") && why.contains(name), "{why}");
        }
    }

    #[test]
    fn bad_values_and_unknown_names_are_refused() {
        assert!(set("retention.ms", "abc").unwrap_err().contains("a whole number of 64 bits"));
        assert!(set("preallocate", "maybe").unwrap_err().contains("true or false"));
        assert!(set("max.message.bytes", "-1").unwrap_err().contains("0.."));
        assert!(set("min.insync.replicas", "2").is_err());
        assert_eq!(set("no.such", "1").unwrap_err(), "unknown topic config name: no.such");
        assert_eq!(set("max.message.bytes", " 500 "), Ok("500".to_owned()));
        let twice = [("preallocate".to_owned(), "false".to_owned()), ("preallocate".to_owned(), "false".to_owned())];
        assert!(check(&twice).is_err());
    }
}
