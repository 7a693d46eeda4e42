//! The table of options.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use super::values::{boolean, bytes, bytes_text, count, duration, duration_text};
use super::{Kind, Opt, Settings};
use crate::{tls, tongues};

/// All options, in the order in which people meet them.
#[must_use]
pub fn table() -> &'static [Opt] {
    static TABLE: OnceLock<Vec<Opt>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut all = server();
        all.extend(doors());
        all.extend(tls::options());
        all.extend(journal());
        all.extend(caches());
        all.extend(topics());
        all.extend(groups());
        all.extend(tongues::options());
        all
    })
}

/// An option under its key. The flag and the variable follow from the key; those of doors and of the server itself
/// have no table in front.
pub(crate) fn option(
    key: &str,
    kind: Kind,
    default: String,
    doc: &str,
    set: impl Fn(&mut Settings, &str) -> Result<(), String> + Send + Sync + 'static,
) -> Opt {
    let flag = key.strip_prefix("doors.").unwrap_or(key).replace(['.', '_'], "-");
    Opt { key: key.to_owned(), flag, kind, default, doc: doc.to_owned(), set: Box::new(set) }
}

fn server() -> Vec<Opt> {
    let d = Settings::default();
    vec![
        option(
            "data",
            Kind::Path,
            d.data.display().to_string(),
            "The folder in which everything is kept. One server at a time uses it.",
            |s, v| {
                s.data = PathBuf::from(v);
                Ok(())
            },
        ),
        option(
            "ready_file",
            Kind::Path,
            String::new(),
            "Write a JSON object {pid, doors} to this file once all doors answer.",
            |s, v| {
                s.ready_file = (!v.is_empty()).then(|| PathBuf::from(v));
                Ok(())
            },
        ),
        option(
            "insecure",
            Kind::Bool,
            d.insecure.to_string(),
            "Listen beyond this machine although no user but the default one exists.",
            |s, v| {
                s.insecure = boolean(v)?;
                Ok(())
            },
        ),
        option(
            "memory",
            Kind::Bytes,
            bytes_text(d.memory),
            "Memory for what is on its way: received, put together, read, waiting to be sent. Beyond half of it \
             clients that hold much are slowed. 0: a quarter of what this process may use (of the machine or its \
             control group).",
            |s, v| {
                s.memory = bytes(v, 0, 1 << 50)?;
                match s.memory {
                    0 => Ok(()),
                    less if less < 16 << 20 => Err("at least 16MiB, or 0".to_owned()),
                    _ => Ok(()),
                }
            },
        ),
        option("log", Kind::Text, d.log, "How much to log: error, warn, info, debug or trace.", |s, v| {
            v.parse::<tracing_subscriber::EnvFilter>().map_err(|why| why.to_string())?;
            s.log = v.to_owned();
            Ok(())
        }),
    ]
}

fn doors() -> Vec<Opt> {
    let all = tongues::all(&Settings::default(), &std::sync::Arc::default());
    let doors = all.iter().flat_map(|tongue| tongue.doors());
    doors
        .map(|door| {
            let doc = format!(
                "Where the {} door listens: HOST:PORT, PORT on localhost, or 'off'. Port 0 picks a free one.",
                door.name
            );
            let usual = format!("localhost:{}", door.port);
            let (doc, default) = match door.tls {
                true => (format!("{doc} It speaks TLS and needs tls.cert; usual: {}.", door.port), "off".to_owned()),
                false => (doc, usual),
            };
            option(&format!("doors.{}", door.name), Kind::Address, default, &doc, move |s, v| {
                s.doors.insert(door.name, v.parse()?);
                Ok(())
            })
        })
        .collect()
}

fn journal() -> Vec<Opt> {
    let d = storage::Options::default();
    vec![
        option(
            "storage.journal_file_bytes",
            Kind::Bytes,
            bytes_text(d.journal_file_bytes),
            "Size of one journal file. Smaller: less disk, more settling. One batch takes at most half of it.",
            |s, v| {
                s.storage.journal_file_bytes = bytes(v, 1 << 20, 1 << 30)?;
                Ok(())
            },
        ),
        option(
            "storage.journal_files_max",
            Kind::Count,
            d.journal_files_max.to_string(),
            "Journal files before the oldest is settled into segments. More: more messages are consumed before they \
             are written a second time, and a longer recovery.",
            |s, v| {
                s.storage.journal_files_max = count(v, 2, 1024)? as usize;
                Ok(())
            },
        ),
        option(
            "storage.extents_max",
            Kind::Count,
            d.extents_max.to_string(),
            "Runs of messages indexed in memory before the oldest journal file is settled early.",
            |s, v| {
                s.storage.extents_max = count(v, 1000, 100_000_000)? as usize;
                Ok(())
            },
        ),
    ]
}

fn caches() -> Vec<Opt> {
    let d = storage::Options::default();
    vec![
        option(
            "storage.tail_cache_bytes",
            Kind::Bytes,
            bytes_text(d.tail_cache_bytes as u64),
            "Memory for what was just written, from which readers at the tail are served.",
            |s, v| {
                s.storage.tail_cache_bytes = bytes(v, 1 << 20, 1 << 36)? as usize;
                Ok(())
            },
        ),
        option(
            "storage.dirty_bytes_max",
            Kind::Bytes,
            bytes_text(d.dirty_bytes_max),
            "Bytes written but not synced before a sync is started though nobody waits for one.",
            |s, v| {
                s.storage.dirty_bytes_max = bytes(v, 1 << 20, 1 << 36)?;
                Ok(())
            },
        ),
        option(
            "storage.reserve_bytes",
            Kind::Bytes,
            bytes_text(d.reserve_bytes),
            "Free space kept on the volume: beyond, writes are refused while reads, acks and deletes go on.",
            |s, v| {
                s.storage.reserve_bytes = bytes(v, 0, 1 << 50)?;
                Ok(())
            },
        ),
        option(
            "storage.scrub_bytes",
            Kind::Bytes,
            bytes_text(d.scrub_bytes),
            "Bytes a second of what is settled that are read and checked in the background; 0: none.",
            |s, v| {
                s.storage.scrub_bytes = bytes(v, 0, 1 << 36)?;
                Ok(())
            },
        ),
        option(
            "storage.scrub_every",
            Kind::Duration,
            duration_text(d.scrub_every),
            "Pause between two such readings of everything.",
            |s, v| {
                s.storage.scrub_every = duration(v, Duration::from_secs(1), Duration::from_secs(366 * 86_400))?;
                Ok(())
            },
        ),
    ]
}

fn topics() -> Vec<Opt> {
    let d = broker::partition::UpkeepOptions::default();
    let day = Duration::from_secs(86_400);
    vec![
        option(
            "topics.compaction_check",
            Kind::Duration,
            duration_text(d.compaction_check),
            "How often it is looked for topics to compact (log.cleaner.backoff.ms).",
            move |s, v| {
                s.upkeep.compaction_check = duration(v, Duration::from_millis(1), day)?;
                Ok(())
            },
        ),
        option(
            "topics.retention_check",
            Kind::Duration,
            duration_text(d.retention_check),
            "How often it is looked for messages that topics keep no longer (log.retention.check.interval.ms).",
            move |s, v| {
                s.upkeep.retention_check = duration(v, Duration::from_millis(1), day)?;
                Ok(())
            },
        ),
    ]
}

fn groups() -> Vec<Opt> {
    let d = broker::group::GroupOptions::default();
    let second = Duration::from_secs(1);
    let day = second * 86_400;
    vec![
        option(
            "groups.initial_rebalance_delay",
            Kind::Duration,
            duration_text(d.initial_rebalance_delay),
            "How long an empty group waits for more members after its first (group.initial.rebalance.delay.ms).",
            move |s, v| {
                s.groups.initial_rebalance_delay = duration(v, Duration::ZERO, second * 600)?;
                Ok(())
            },
        ),
        option(
            "groups.session_timeout_min",
            Kind::Duration,
            duration_text(d.session_timeout_min),
            "The shortest session time-out a member may ask for (group.min.session.timeout.ms).",
            move |s, v| {
                s.groups.session_timeout_min = duration(v, Duration::from_millis(1), day)?;
                Ok(())
            },
        ),
        option(
            "groups.session_timeout_max",
            Kind::Duration,
            duration_text(d.session_timeout_max),
            "The longest session time-out a member may ask for (group.max.session.timeout.ms).",
            move |s, v| {
                s.groups.session_timeout_max = duration(v, Duration::from_millis(1), day)?;
                Ok(())
            },
        ),
        option(
            "groups.members_max",
            Kind::Count,
            d.members_max.to_string(),
            "The most members a group may have (group.max.size).",
            |s, v| {
                s.groups.members_max = count(v, 1, 1_000_000)? as usize;
                Ok(())
            },
        ),
        option(
            "groups.offsets_retention",
            Kind::Duration,
            duration_text(d.offsets_retention),
            "How long offsets are kept in a group without members (offsets.retention.minutes).",
            move |s, v| {
                s.groups.offsets_retention = duration(v, second, day * 36_500)?;
                Ok(())
            },
        ),
    ]
}

/// The whole table as a configuration file in which every line is a comment.
#[must_use]
pub fn defaults_text() -> String {
    let mut text = String::from(
        "# Fourfold's options with their defaults. Every one is also a flag and an environment variable: a flag beats\n\
         # the variable, the variable beats this file.\n",
    );
    let mut section = String::new();
    for option in table() {
        let (head, name) = option.key.rsplit_once('.').unwrap_or(("", &option.key));
        if head != section {
            head.clone_into(&mut section);
            text.push_str(&format!("\n[{head}]\n"));
        }
        let value = match option.kind {
            Kind::Bool | Kind::Count => option.default.clone(),
            _ => toml::Value::String(option.default.clone()).to_string(),
        };
        text.push_str(&format!("\n# {} (--{}, {})\n", option.doc, option.flag, option.variable()));
        text.push_str(&format!("# {name} = {value}\n"));
    }
    text
}
