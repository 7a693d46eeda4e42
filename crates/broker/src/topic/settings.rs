//! What a topic's settings mean for each of its logs, as numbers. Made once for a topic whenever its settings change
//! and shared by its logs. Knows nothing of what is done by them.

use std::sync::{Arc, LazyLock};

use cluster::meta::{QueueKind, Topic, TopicConfig};

use super::config;

/// The usual step of an index; storage's own.
const INDEX_STEP: u32 = 64 << 10;

/// The settings of a log.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct LogSettings {
    /// The largest batch it takes, in bytes.
    pub(crate) batch_bytes_max: usize,
    /// When the newest segment ends.
    pub(crate) rolling: Rolling,
    /// What is deleted; `None`: nothing is, but by trims.
    pub(crate) retention: Option<Retention>,
    /// How it is compacted; `None`: it is not.
    pub(crate) compaction: Option<Compaction>,
    /// Bytes from one entry of its index on disk to the next.
    pub(crate) index_step: u32,
    /// Messages are seen once they are written, also those whose writers wait for a sync.
    pub(crate) seen_when_written: bool,
}

/// When the newest segment of a log ends and another begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rolling {
    /// Before it would hold more bytes than this.
    pub(crate) bytes: u64,
    /// When a message is so much later than the first one in it.
    pub(crate) ms: i64,
    /// The age above is shortened by up to this, by log, so that logs of one age do not roll together.
    pub(crate) jitter_ms: i64,
}

/// What is deleted of a log: whole segments, the oldest first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Retention {
    /// Older ones than this; negative: of any age is kept.
    pub(crate) ms: i64,
    /// Beyond so many bytes; negative: any number is kept.
    pub(crate) bytes: i64,
    /// Those that everybody who is known to read it has consumed.
    pub(crate) consumed: bool,
}

/// How a log is compacted.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Compaction {
    /// How long a tombstone stays after it was first met.
    pub(crate) tombstones_ms: i64,
    /// Younger messages than this stay uncompacted.
    pub(crate) lag_min_ms: i64,
    /// Older messages than this are compacted, however little there is to win.
    pub(crate) lag_max_ms: i64,
    /// The part of the bytes that must be uncompacted.
    pub(crate) dirty_ratio: f64,
}

impl LogSettings {
    /// Those of a topic. The broker's own are never deleted from, also those made before they said so.
    pub(crate) fn of_topic(topic: &Topic) -> LogSettings {
        let settings = LogSettings::of_config(&topic.config);
        if topic.internal { LogSettings { retention: None, ..settings } } else { settings }
    }

    /// Those of a user's topic that has `config` set. What was checked when it was set is not doubted.
    pub(crate) fn of_config(config: &TopicConfig) -> LogSettings {
        let number = |name| config::value(config, name).parse::<i64>().unwrap_or(i64::MAX);
        let policy = config::value(config, "cleanup.policy");
        let has = |word| policy.split(',').any(|policy| policy == word);
        let bytes = |name| u64::try_from(number(name)).unwrap_or(u64::MAX);
        LogSettings {
            batch_bytes_max: usize::try_from(number("max.message.bytes")).unwrap_or(usize::MAX),
            rolling: Rolling {
                bytes: bytes("segment.bytes"),
                // What must be compacted by then must not be in the newest segment.
                ms: if has("compact") {
                    number("segment.ms").min(number("max.compaction.lag.ms"))
                } else {
                    number("segment.ms")
                },
                jitter_ms: number("segment.jitter.ms"),
            },
            retention: has("delete").then(|| Retention {
                ms: number("retention.ms"),
                bytes: number("retention.bytes"),
                consumed: config::value(config, "retention.consumed") == "true",
            }),
            compaction: has("compact").then(|| Compaction {
                tombstones_ms: number("delete.retention.ms"),
                lag_min_ms: number("min.compaction.lag.ms"),
                lag_max_ms: number("max.compaction.lag.ms"),
                dirty_ratio: config::value(config, "min.cleanable.dirty.ratio").parse().unwrap_or(0.5),
            }),
            index_step: u32::try_from(number("index.interval.bytes")).unwrap_or(INDEX_STEP),
            seen_when_written: false,
        }
    }

    /// Those of a queue's own log: it is trimmed by what is settled and by nothing else. Its consumers need not wait
    /// for the sync that a publisher waits for, unless the queue promises that every message lasts.
    pub(crate) fn of_queue(kind: QueueKind) -> Arc<LogSettings> {
        static SHARED: LazyLock<[Arc<LogSettings>; 2]> = LazyLock::new(|| {
            let rolling = Rolling { bytes: u64::MAX, ms: i64::MAX, jitter_ms: 0 };
            [false, true].map(|seen_when_written| {
                Arc::new(LogSettings {
                    batch_bytes_max: usize::MAX,
                    rolling,
                    retention: None,
                    compaction: None,
                    index_step: INDEX_STEP,
                    seen_when_written,
                })
            })
        });
        let [safe, plain] = &*SHARED;
        Arc::clone(if kind == QueueKind::Plain { plain } else { safe })
    }

    /// Those of a log of the broker's own, which nobody reads but itself.
    pub(crate) fn of_broker() -> Arc<LogSettings> {
        LogSettings::of_queue(QueueKind::Safe)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_numbers_and_defaults_are_those_shown() {
        let plain = LogSettings::of_config(&TopicConfig::new());
        assert_eq!(plain.batch_bytes_max, 1_048_588);
        assert_eq!(plain.rolling, Rolling { bytes: 1 << 30, ms: 604_800_000, jitter_ms: 0 });
        assert_eq!((plain.compaction, plain.index_step), (None, INDEX_STEP));
        let set = [("cleanup.policy", "compact"), ("max.message.bytes", "500"), ("min.cleanable.dirty.ratio", "0.1")];
        let set = set.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let set = LogSettings::of_config(&set);
        assert_eq!((set.batch_bytes_max, set.retention), (500, None));
        let compaction = set.compaction.unwrap();
        assert_eq!((compaction.tombstones_ms, compaction.lag_max_ms), (86_400_000, i64::MAX));
        assert!((compaction.dirty_ratio - 0.1).abs() < f64::EPSILON);
    }
}
