//! The list of tongues and their options. A new one is a crate and a line here.

use std::sync::Arc;
use std::time::Duration;

use amqp::{LoginFrom, NameKind};
use broker::{SyncPolicy, Tongue};
use console::counters::Counters;

use crate::config::options::option;
use crate::config::values::{boolean, bytes, bytes_text, count, duration, duration_text};
use crate::config::{Kind, Opt, Settings};

/// All tongues, as the settings want them.
#[must_use]
pub fn all(settings: &Settings, counters: &Arc<Counters>) -> Vec<Box<dyn Tongue>> {
    vec![
        Box::new(kafka::KafkaTongue::new(settings.kafka.clone())),
        Box::new(amqp::Amqp::new(settings.amqp.clone())),
        Box::new(console::Console::new(Arc::clone(counters))),
    ]
}

/// Their options.
#[must_use]
pub fn options() -> Vec<Opt> {
    let mut all = kafka_options();
    all.push(kafka_access());
    all.extend(kafka_limits());
    all.extend(amqp_options());
    all.extend(certificate_login());
    all
}

fn kafka_access() -> Opt {
    let help = "Whose permissions in '/' Kafka clients have, who do not log in. Without it: they may do everything.";
    option("kafka.user", Kind::Text, String::new(), help, |s, v| {
        let name = model::Name::new(v).map_err(|why| why.to_string())?;
        s.kafka.user = (!v.is_empty()).then_some(name);
        Ok(())
    })
}

fn kafka_options() -> Vec<Opt> {
    let d = kafka::Settings::default();
    vec![
        option(
            "kafka.advertised",
            Kind::Address,
            String::new(),
            "HOST:PORT that Kafka clients are told to connect to. Without it: the address they came by.",
            |s, v| {
                s.kafka.advertised = if v.is_empty() { None } else { Some(host_and_port(v)?) };
                Ok(())
            },
        ),
        option(
            "kafka.advertised_ssl",
            Kind::Address,
            String::new(),
            "HOST:PORT that clients of the kafka-ssl door are told. Without it: the address they came by.",
            |s, v| {
                s.kafka.advertised_ssl = if v.is_empty() { None } else { Some(host_and_port(v)?) };
                Ok(())
            },
        ),
        option("kafka.node_id", Kind::Count, d.node_id.to_string(), "This node's id (node.id).", |s, v| {
            s.kafka.node_id = count(v, 0, i32::MAX as u64)? as i32;
            Ok(())
        }),
        option(
            "kafka.auto_create_topics",
            Kind::Bool,
            d.auto_create_topics.to_string(),
            "Make topics that clients ask for and that do not exist (auto.create.topics.enable).",
            |s, v| {
                s.kafka.auto_create_topics = boolean(v)?;
                Ok(())
            },
        ),
        option(
            "kafka.num_partitions",
            Kind::Count,
            d.partitions_default.to_string(),
            "Partitions of topics made without a number (num.partitions).",
            |s, v| {
                s.kafka.partitions_default = count(v, 1, broker::topic::PARTITIONS_MAX.into())? as u32;
                Ok(())
            },
        ),
        option(
            "kafka.acks_all",
            Kind::Text,
            policy_text(d.acks_all).to_owned(),
            "When acks=all is answered: 'sync' (on disk) or 'none' (with the operating system; synced soon).",
            |s, v| {
                s.kafka.acks_all = policy(v)?;
                Ok(())
            },
        ),
        option(
            "kafka.acks_one",
            Kind::Text,
            policy_text(d.acks_one).to_owned(),
            "When acks=1 is answered: 'sync' or 'none'.",
            |s, v| {
                s.kafka.acks_one = policy(v)?;
                Ok(())
            },
        ),
    ]
}

fn kafka_limits() -> Vec<Opt> {
    let d = kafka::Settings::default();
    vec![
        option(
            "kafka.request_bytes_max",
            Kind::Bytes,
            bytes_text(d.request_bytes_max as u64),
            "The largest request (socket.request.max.bytes); a larger one closes the connection.",
            |s, v| {
                s.kafka.request_bytes_max = bytes(v, 64 << 10, 240 << 20)? as usize;
                Ok(())
            },
        ),
        option(
            "kafka.fetch_bytes_max",
            Kind::Bytes,
            bytes_text(d.fetch_bytes_max as u64),
            "The most bytes of one fetch answer, whatever the client allows (fetch.max.bytes).",
            |s, v| {
                s.kafka.fetch_bytes_max = bytes(v, 1 << 20, 1 << 30)? as usize;
                Ok(())
            },
        ),
        option(
            "kafka.idle_max",
            Kind::Duration,
            duration_text(d.idle_max),
            "A Kafka client that says nothing for so long is hung up on (connections.max.idle.ms).",
            |s, v| {
                s.kafka.idle_max = duration(v, Duration::from_secs(1), Duration::from_secs(30 * 86_400))?;
                Ok(())
            },
        ),
        option(
            "kafka.commit_metadata_bytes_max",
            Kind::Bytes,
            bytes_text(d.commit_metadata_bytes_max as u64),
            "The longest note beside a committed offset (offset.metadata.max.bytes).",
            |s, v| {
                s.kafka.commit_metadata_bytes_max = bytes(v, 0, 1 << 20)? as usize;
                Ok(())
            },
        ),
    ]
}

fn host_and_port(text: &str) -> Result<(String, u16), String> {
    let wrong = || format!("'{text}' is not HOST:PORT");
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let port = port.parse().ok().filter(|port| *port > 0 && !host.is_empty()).ok_or_else(wrong)?;
    Ok((host.to_owned(), port))
}

fn policy(text: &str) -> Result<SyncPolicy, String> {
    match text {
        "sync" => Ok(SyncPolicy::Sync),
        "none" => Ok(SyncPolicy::None),
        _ => Err(format!("'{text}' is not 'sync' or 'none'")),
    }
}

fn policy_text(policy: SyncPolicy) -> &'static str {
    match policy {
        SyncPolicy::Sync => "sync",
        SyncPolicy::None => "none",
    }
}

fn certificate_login() -> Vec<Opt> {
    vec![
        option(
            "amqp.ssl_cert_login_from",
            Kind::Text,
            "distinguished_name".to_owned(),
            "Where the mechanism EXTERNAL finds the user's name in a client's certificate: 'distinguished_name' \
             ('CN=alice,O=Example'), 'common_name' or 'subject_alternative_name'.",
            |s, v| {
                s.amqp.certificate_login.from = match v {
                    "distinguished_name" => LoginFrom::DistinguishedName,
                    "common_name" => LoginFrom::CommonName,
                    "subject_alternative_name" | "subject_alt_name" => LoginFrom::AlternativeName,
                    _ => {
                        let all = "'distinguished_name', 'common_name' or 'subject_alternative_name'";
                        return Err(format!("'{v}' is not {all}"));
                    }
                };
                Ok(())
            },
        ),
        option(
            "amqp.ssl_cert_login_san_type",
            Kind::Text,
            "dns".to_owned(),
            "Which subject alternative names are looked at for that: 'dns', 'email', 'uri' or 'ip'.",
            |s, v| {
                s.amqp.certificate_login.kind = match v {
                    "dns" => NameKind::Dns,
                    "email" => NameKind::Email,
                    "uri" => NameKind::Uri,
                    "ip" => NameKind::Ip,
                    _ => return Err(format!("'{v}' is not 'dns', 'email', 'uri' or 'ip'")),
                };
                Ok(())
            },
        ),
        option(
            "amqp.ssl_cert_login_san_index",
            Kind::Count,
            "0".to_owned(),
            "Which of several of that type it is; 0 is the first.",
            |s, v| {
                s.amqp.certificate_login.index = count(v, 0, 1000)? as usize;
                Ok(())
            },
        ),
    ]
}

fn amqp_options() -> Vec<Opt> {
    let d = amqp::Config::default();
    vec![
        option(
            "amqp.frame_bytes_max",
            Kind::Bytes,
            bytes_text(d.frame_bytes_max.into()),
            "The largest frame offered to clients (frame_max); they may lower it.",
            |s, v| {
                s.amqp.frame_bytes_max = bytes(v, 4096, 128 << 20)? as u32;
                Ok(())
            },
        ),
        option(
            "amqp.channel_count_max",
            Kind::Count,
            d.channel_count_max.to_string(),
            "The most channels open at once on one connection (channel_max).",
            |s, v| {
                s.amqp.channel_count_max = count(v, 1, 65_535)? as u16;
                Ok(())
            },
        ),
        option(
            "amqp.heartbeat_seconds",
            Kind::Count,
            d.heartbeat_seconds.to_string(),
            "The heartbeat proposed to clients, in seconds; theirs rules. 0: none.",
            |s, v| {
                s.amqp.heartbeat_seconds = count(v, 0, 65_535)? as u16;
                Ok(())
            },
        ),
        option(
            "amqp.message_bytes_max",
            Kind::Bytes,
            bytes_text(d.message_bytes_max),
            "The largest message body.",
            |s, v| {
                s.amqp.message_bytes_max = bytes(v, 1, 128 << 20)?;
                Ok(())
            },
        ),
    ]
}
