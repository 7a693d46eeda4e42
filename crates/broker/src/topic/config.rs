//! A topic's settings: one table says what each is called, what it means, what it may be and whether it is honoured.
//!
//! What is not honoured yet may only have its default, which says truthfully what happens; any other value is refused
//! rather than taken and ignored. Names and kinds are those that users' tools know.

use cluster::meta::TopicConfig;

use super::{ConfigChange, ConfigEntry, ConfigKind, Intake};
use crate::BrokerError;

/// What a value may be beyond its kind.
#[derive(Clone, Copy)]
enum Rule {
    /// Only the default: other values are not honoured yet.
    DefaultOnly,
    /// A whole number from .. to.
    Range(i64, i64),
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// At least one of these words, each once.
    AnyOf(&'static [&'static str]),
    /// From 0 to 1.
    Share,
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

/// A number that is not less than `from`.
const fn least(name: &'static str, kind: ConfigKind, default: &'static str, from: i64, doc: &'static str) -> Setting {
    let most = if matches!(kind, Int) { i32::MAX as i64 } else { i64::MAX };
    Setting { name, kind, default, rule: Rule::Range(from, most), doc }
}

/// The largest batch a topic takes unless set otherwise.
const MAX_MESSAGE_BYTES: &str = "1048588";

/// The largest record a topic takes unless set otherwise.
const RECORD_BYTES_MAX: &str = "2147483639";

/// Bytes of a value as given: every value that can be meant is shorter.
const VALUE_BYTES_MAX: usize = 4096;

/// "Never" for a number of milliseconds or messages.
const NEVER: &str = "9223372036854775807";

use ConfigKind::{Bool, Double, Int, List, Long, Text};

/// All settings, by name.
static SETTINGS: &[Setting] = &[
    Setting {
        name: "cleanup.policy",
        kind: List,
        default: "delete",
        rule: Rule::AnyOf(&["compact", "delete"]),
        doc: "What becomes of old messages: delete (by retention), compact (by key), or both.",
    },
    later("compression.gzip.level", Int, "-1", "How hard gzip packs; nothing is packed here."),
    later("compression.lz4.level", Int, "9", "How hard lz4 packs; nothing is packed here."),
    later("compression.type", Text, "producer", "How batches are stored: as the producer sent them."),
    later("compression.zstd.level", Int, "3", "How hard zstd packs; nothing is packed here."),
    least("delete.retention.ms", Long, "86400000", 0, "How long tombstones stay after compaction first met them."),
    later("errors.deadletterqueue.group.enable", Bool, "false", "Whether groups may put what they cannot use here."),
    later(
        "file.delete.delay.ms",
        Long,
        "0",
        "How long files of what was deleted are kept: they are shared by many topics.",
    ),
    later("flush.messages", Long, NEVER, "Sync after so many messages; each producer chooses by its acks instead."),
    later("flush.ms", Long, NEVER, "Sync after so long; each producer chooses by its acks instead."),
    later("follower.replication.throttled.replicas", List, "", "Whose copying is slowed; there is one copy."),
    Setting {
        name: "index.interval.bytes",
        kind: Int,
        default: "65536",
        rule: Rule::Range(4096, 1 << 20),
        doc: "Bytes of settled messages from one entry of their index to the next: what a look-up reads at least.",
    },
    later("leader.replication.throttled.replicas", List, "", "Whose copying is slowed; there is one copy."),
    later("local.retention.bytes", Long, "-2", "How much stays beside remote storage; there is none."),
    later("local.retention.ms", Long, "-2", "How long it stays beside remote storage; there is none."),
    least("max.compaction.lag.ms", Long, NEVER, 1, "How long a message may stay uncompacted."),
    Setting {
        name: "max.decompressed.message.bytes",
        kind: Int,
        default: RECORD_BYTES_MAX,
        rule: Rule::Range(1, 2_147_483_639),
        doc: "The largest record of a packed batch, in bytes, unpacked. A whole batch unpacks to 128 MiB at most.",
    },
    Setting {
        name: "max.message.bytes",
        kind: Int,
        default: MAX_MESSAGE_BYTES,
        rule: Rule::Range(0, i32::MAX as i64),
        doc: "The largest batch the topic takes, in bytes, as sent.",
    },
    Setting {
        name: "message.timestamp.after.max.ms",
        kind: Long,
        default: "3600000",
        rule: Rule::Range(0, i64::MAX),
        doc: "How far a message's time may lie ahead of the clock; a batch with one beyond it is refused.",
    },
    Setting {
        name: "message.timestamp.before.max.ms",
        kind: Long,
        default: NEVER,
        rule: Rule::Range(0, i64::MAX),
        doc: "How far a message's time may lie behind the clock; a batch with one beyond it is refused.",
    },
    Setting {
        name: "message.timestamp.type",
        kind: Text,
        default: "CreateTime",
        rule: Rule::OneOf(&["CreateTime", "LogAppendTime"]),
        doc: "Whose time messages carry: CreateTime, their producer's, or LogAppendTime, that of their append.",
    },
    Setting {
        name: "min.cleanable.dirty.ratio",
        kind: Double,
        default: "0.5",
        rule: Rule::Share,
        doc: "What part of a log must be uncompacted before it is compacted.",
    },
    least("min.compaction.lag.ms", Long, "0", 0, "How long a message stays uncompacted at least."),
    Setting {
        name: "min.insync.replicas",
        kind: Int,
        default: "1",
        rule: Rule::Range(1, i32::MAX as i64),
        doc: "How many replicas a message must have for acks=all. There is one: with more, it is refused.",
    },
    later("preallocate", Bool, "false", "Whether a segment's space is reserved ahead."),
    later("remote.copy.lag.bytes", Long, "-1", "How much may wait to be moved to remote storage; there is none."),
    later("remote.copy.lag.ms", Long, "0", "How long it may wait to be moved to remote storage; there is none."),
    later("remote.log.copy.disable", Bool, "false", "Whether nothing more is moved to remote storage; there is none."),
    later("remote.log.delete.on.disable", Bool, "false", "Whether remote storage is emptied when it is left."),
    later("remote.storage.enable", Bool, "false", "Whether old messages move to remote storage."),
    least("retention.bytes", Long, "-1", -1, "How many bytes a partition keeps, in whole segments; -1: all."),
    Setting {
        name: "retention.consumed",
        kind: Bool,
        default: "false",
        rule: Rule::OneOf(&["false", "true"]),
        doc: "Whether segments go once all groups with an offset here and all queues over it have consumed them.",
    },
    least("retention.ms", Long, "604800000", -1, "How long messages are kept, in whole segments; -1: for ever."),
    least("segment.bytes", Int, "1073741824", 14, "How large a segment gets."),
    later("segment.index.bytes", Int, "10485760", "How large a segment's index gets."),
    least("segment.jitter.ms", Long, "0", 0, "By how much of segment.ms at most segments end earlier, each another."),
    least("segment.ms", Long, "604800000", 1, "How long a segment stays the newest, by the time of its messages."),
    later("unclean.leader.election.enable", Bool, "false", "Whether a replica that lacks messages may lead."),
];

/// Checks settings as given; answers those to store.
///
/// # Errors
/// [`BrokerError::InvalidConfig`] for unknown names, bad values and what is not honoured yet.
pub(crate) fn check(given: &[(String, String)]) -> Result<TopicConfig, BrokerError> {
    let mut config = TopicConfig::new();
    for (name, value) in given {
        let setting = find(name)?;
        if value.len() > VALUE_BYTES_MAX {
            return Err(too_long(name));
        }
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
            default: setting.default,
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

/// What `changes` make of `config`: what is to be set and what is to be unset. Empty when all is as asked already.
///
/// # Errors
/// [`BrokerError::InvalidConfig`] for unknown names, bad values, what is not honoured yet and lists that are none.
pub(crate) fn changed(
    config: &TopicConfig,
    changes: &[(String, ConfigChange)],
) -> Result<(TopicConfig, Vec<String>), BrokerError> {
    let (mut given, mut unset) = (Vec::new(), Vec::new());
    for (name, change) in changes {
        let value = match change {
            ConfigChange::Set(value) => value.clone(),
            // Also a name that is not known any more must be possible to get rid of.
            ConfigChange::Unset => {
                if config.contains_key(name) {
                    unset.push(name.clone());
                }
                continue;
            }
            ConfigChange::Append(words) => listed(config, name, |all| all.extend(words.split(',').map(str::trim)))?,
            ConfigChange::Subtract(words) => listed(config, name, |all| {
                all.retain(|word| !words.split(',').any(|gone| gone.trim() == *word));
            })?,
        };
        given.push((name.clone(), value));
    }
    let mut set = check(&given)?;
    set.retain(|name, value| config.get(name) != Some(value));
    Ok((set, unset))
}

/// The value of a list as it is now, changed by `change`, without doubles.
fn listed<'c>(
    config: &'c TopicConfig,
    name: &str,
    change: impl FnOnce(&mut Vec<&'c str>),
) -> Result<String, BrokerError> {
    let setting = find(name)?;
    if setting.kind != List {
        return Err(BrokerError::InvalidConfig(format!("{name} is not a list: nothing is appended or subtracted")));
    }
    let now = config.get(name).map_or(setting.default, String::as_str);
    let mut words: Vec<&str> = now.split(',').filter(|word| !word.is_empty()).collect();
    change(&mut words);
    if words.iter().map(|word| word.len()).sum::<usize>() + words.len() > VALUE_BYTES_MAX {
        return Err(too_long(name));
    }
    let mut once: Vec<&str> = Vec::with_capacity(words.len());
    words.iter().for_each(|word| {
        if !once.contains(word) {
            once.push(word);
        }
    });
    Ok(once.join(","))
}

/// What may be written to a topic that has `config` set.
pub(crate) fn intake(config: &TopicConfig) -> Intake {
    // Values were checked when they were set.
    Intake {
        batch_bytes_max: number(config, "max.message.bytes").try_into().unwrap_or(usize::MAX),
        needs_keys: value(config, "cleanup.policy").split(',').any(|policy| policy == "compact"),
        has_append_time: value(config, "message.timestamp.type") == "LogAppendTime",
        record_bytes_max: number(config, "max.decompressed.message.bytes").try_into().unwrap_or(usize::MAX),
        insync_min: number(config, "min.insync.replicas").try_into().unwrap_or(1),
        behind_ms_max: number(config, "message.timestamp.before.max.ms"),
        ahead_ms_max: number(config, "message.timestamp.after.max.ms"),
    }
}

fn too_long(name: &str) -> BrokerError {
    BrokerError::InvalidConfig(format!("invalid value for {name}: it is longer than {VALUE_BYTES_MAX} bytes"))
}

fn number(config: &TopicConfig, name: &str) -> i64 {
    value(config, name).parse().unwrap_or(i64::MAX)
}

fn find(name: &str) -> Result<&'static Setting, BrokerError> {
    let known = SETTINGS.iter().find(|setting| setting.name == name);
    known.ok_or_else(|| BrokerError::InvalidConfig(format!("unknown topic config name: {name}")))
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
            Rule::DefaultOnly => Err(bad(&format!("not supported yet; only {} is. {}", self.default, self.doc))),
            Rule::Range(from, to) => match value.parse::<i64>() {
                Ok(number) if (from..=to).contains(&number) => Ok(value),
                _ => Err(bad(&format!("it must lie in {from}..{to}"))),
            },
            Rule::AnyOf(words) => {
                let given: Vec<&str> = value.split(',').collect();
                let once = |word: &&&str| given.iter().filter(|other| other == word).count() == 1;
                match given.iter().all(|word| words.contains(word)) && given.iter().filter(once).count() == given.len()
                {
                    true => Ok(value),
                    false => Err(bad(&format!("each of {} may be given, once", words.join(", ")))),
                }
            }
            Rule::Share => match value.parse::<f64>() {
                Ok(share) if (0.0..=1.0).contains(&share) => Ok(value),
                _ => Err(bad("it must lie in 0..1")),
            },
            Rule::OneOf(words) if words.contains(&value.as_str()) => Ok(value),
            Rule::OneOf(words) => Err(bad(&format!("it must be one of {}", words.join(", ")))),
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
        let cases = [("compression.type", "lz4"), ("remote.storage.enable", "TRUE")];
        for (name, value) in cases {
            let why = set(name, value).unwrap_err();
            assert!(why.contains("not supported yet") && why.contains(name), "{why}");
        }
    }

    #[test]
    fn bad_values_and_unknown_names_are_refused() {
        assert!(set("retention.ms", "abc").unwrap_err().contains("a whole number of 64 bits"));
        assert!(set("retention.ms", "-2").unwrap_err().contains("-1.."));
        assert!(set("segment.bytes", "13").unwrap_err().contains("14..2147483647"));
        assert!(set("cleanup.policy", "compact,compact").unwrap_err().contains("once"));
        assert!(set("min.cleanable.dirty.ratio", "1.1").unwrap_err().contains("0..1"));
        assert!(set("preallocate", "maybe").unwrap_err().contains("true or false"));
        assert!(set("max.message.bytes", "-1").unwrap_err().contains("0.."));
        assert!(set("min.insync.replicas", "0").is_err());
        assert!(set("message.timestamp.type", "Never").unwrap_err().contains("CreateTime, LogAppendTime"));
        assert_eq!(set("no.such", "1").unwrap_err(), "unknown topic config name: no.such");
        assert_eq!(set("max.message.bytes", " 500 "), Ok("500".to_owned()));
        let twice = [("preallocate".to_owned(), "false".to_owned()), ("preallocate".to_owned(), "false".to_owned())];
        assert!(check(&twice).is_err());
    }

    /// Looking for doubles in a list costs the square of its length.
    #[test]
    fn a_value_longer_than_any_that_can_be_meant_is_refused_unread() {
        let long = "compact,".repeat(1 << 20);
        assert_eq!(
            set("cleanup.policy", &long).unwrap_err(),
            "invalid value for cleanup.policy: it is longer than 4096 bytes"
        );
        let words: String = (0..1 << 20).map(|word| format!("{word},")).collect();
        let change = [("cleanup.policy".to_owned(), ConfigChange::Append(words))];
        let refused = changed(&TopicConfig::new(), &change).unwrap_err().to_string();
        assert_eq!(refused, "invalid value for cleanup.policy: it is longer than 4096 bytes");
    }

    #[test]
    fn what_may_be_written_follows_the_settings() {
        let plain = intake(&TopicConfig::new());
        assert_eq!((plain.batch_bytes_max, plain.has_append_time, plain.insync_min), (1_048_588, false, 1));
        assert_eq!((plain.behind_ms_max, plain.ahead_ms_max), (i64::MAX, 3_600_000));
        let set = [("max.message.bytes", "500"), ("message.timestamp.type", "LogAppendTime")];
        let set = intake(&set.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
        assert_eq!((set.batch_bytes_max, set.has_append_time), (500, true));
    }

    #[test]
    fn changes_name_what_is_set_and_unset_and_no_more() {
        let config: TopicConfig = [("max.message.bytes".to_owned(), "500".to_owned())].into();
        let change = |name: &str, change| changed(&config, &[(name.to_owned(), change)]);
        let nothing = (TopicConfig::new(), Vec::new());
        assert_eq!(change("max.message.bytes", ConfigChange::Set("500".into())), Ok(nothing.clone()));
        assert_eq!(change("retention.ms", ConfigChange::Unset), Ok(nothing.clone()), "it is not set");
        assert_eq!(change("no.such", ConfigChange::Unset), Ok(nothing), "as is one that nobody knows");
        let set = change("max.message.bytes", ConfigChange::Set("6".into())).unwrap().0;
        assert_eq!(set["max.message.bytes"], "6");
        assert_eq!(change("max.message.bytes", ConfigChange::Unset).unwrap().1, ["max.message.bytes"]);
        let added = change("cleanup.policy", ConfigChange::Append("delete".into())).unwrap().0;
        assert_eq!(added["cleanup.policy"], "delete", "once, and now set on the topic itself");
        let both = change("cleanup.policy", ConfigChange::Append("compact".into())).unwrap().0;
        assert_eq!(both["cleanup.policy"], "delete,compact");
        for words in [ConfigChange::Append("bad".into()), ConfigChange::Set("x".into())] {
            assert!(matches!(change("cleanup.policy", words), Err(BrokerError::InvalidConfig(_))));
        }
        let why = change("max.message.bytes", ConfigChange::Append("6".into())).unwrap_err().to_string();
        assert!(why.contains("not a list"), "{why}");
        let unknown = change("no.such", ConfigChange::Subtract("6".into())).unwrap_err().to_string();
        assert!(unknown.contains("unknown topic config name"), "{unknown}");
    }
}
