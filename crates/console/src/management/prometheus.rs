//! The names of RabbitMQ's Prometheus plugin, for dashboards made for it: sums at `/metrics`, each object's at
//! `/metrics/per-object`, and those of chosen families at `/metrics/detailed`.
//!
//! What is shown of which object; `scraping` makes the page of it.

use std::fmt::Write as _;

use broker::access::Tenant;
use broker::connection::{ChannelFigures, Connection};
use broker::queue::QueueFacts;
use broker::{Broker, SessionId};
use model::{Mono, Name};

use super::call::node;
use super::overview::VERSION;
use super::scraping::{Ours, Scrape};
use crate::counters::Counters;

/// What is shown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Detail {
    /// Sums over all objects.
    Sums,
    /// Each object.
    Objects,
    /// Each object of these families, of these virtual hosts (of all, where none is named).
    Families(Vec<String>, Vec<String>),
}

pub(super) struct Page {
    pub(super) text: String,
    prefix: &'static str,
}

impl Page {
    pub(super) fn new(prefix: &'static str) -> Page {
        Page { text: String::new(), prefix }
    }

    pub(super) fn metric(&mut self, name: &str, kind: &str) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "# TYPE {}{name} {kind}", self.prefix);
    }

    pub(super) fn sample(&mut self, name: &str, labels: &str, value: impl std::fmt::Display) {
        let braces = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
        let _ = writeln!(self.text, "{}{name}{braces} {value}", self.prefix);
    }

    fn one(&mut self, name: &str, kind: &str, value: impl std::fmt::Display) {
        self.metric(name, kind);
        self.sample(name, "", value);
    }
}

fn quoted(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

/// Begins a page; `ours` goes before it.
pub fn scrape((broker, counters): (&Broker, &Counters), now: Mono, detail: Detail, ours: Ours) -> Scrape {
    let mut page = Page::new("rabbitmq_");
    identity(&mut page, broker);
    let each = detail != Detail::Sums;
    let (kinds, vhosts) = match detail {
        Detail::Families(families, vhosts) => {
            page.prefix = "rabbitmq_detailed_";
            let wanted = |names: &[&str]| families.iter().any(|family| names.contains(&family.as_str()));
            let kinds = [
                (Kind::Queue, wanted(&["queue_coarse_metrics", "queue_metrics", "queue_consumer_count"])),
                (Kind::Connection, wanted(&["connection_coarse_metrics", "connection_metrics"])),
                (Kind::Channel, wanted(&["channel_metrics", "channel_exchange_metrics", "channel_queue_metrics"])),
            ];
            (kinds.into_iter().filter(|(_, is_wanted)| *is_wanted).map(|(kind, _)| kind).collect(), vhosts)
        }
        Detail::Sums | Detail::Objects => {
            totals(&mut page, broker);
            global(&mut page, broker);
            machine(&mut page, (broker, counters), now);
            (vec![Kind::Queue, Kind::Connection, Kind::Channel], Vec::new())
        }
    };
    Scrape::begin((page, ours), each, kinds, vhosts)
}

fn identity(page: &mut Page, broker: &Broker) {
    let (node, cluster) = (quoted(&node()), broker.cluster_id());
    page.metric("identity_info", "untyped");
    let labels = format!(
        "rabbitmq_node={node},rabbitmq_cluster={},rabbitmq_cluster_permanent_id={}",
        quoted(&format!("fourfold@{cluster}")),
        quoted(cluster)
    );
    page.sample("identity_info", &labels, 1);
    page.metric("build_info", "untyped");
    let ours = env!("CARGO_PKG_VERSION");
    let labels = format!(
        "rabbitmq_version={0},prometheus_plugin_version={0},prometheus_client_version={1},erlang_version=\"none\",\
         product_name=\"Fourfold\",product_version={1}",
        quoted(VERSION),
        quoted(ours)
    );
    page.sample("build_info", &labels, 1);
}

fn totals(page: &mut Page, broker: &Broker) {
    let totals = broker.totals();
    let (mut count, mut channels) = (0, 0);
    for connection in broker.connections() {
        (count, channels) = (count + 1, channels + connection.channels.len());
    }
    let queues: usize = broker.tenants().iter().map(|tenant| broker.queue_sums(&tenant.name).0).sum();
    page.one("connections", "gauge", count);
    page.one("channels", "gauge", channels);
    page.one("consumers", "gauge", broker.consumers_count());
    page.one("queues", "gauge", queues);
    for (name, value) in [
        ("connections_opened_total", totals.connections_opened),
        ("connections_closed_total", totals.connections_closed),
        ("channels_opened_total", totals.channels_opened),
        ("channels_closed_total", totals.channels_closed),
        ("queues_declared_total", totals.queues_declared),
        ("queues_created_total", totals.queues_created),
        ("queues_deleted_total", totals.queues_deleted),
        ("auth_attempts_total", totals.logins + totals.logins_refused),
        ("auth_attempts_succeeded_total", totals.logins),
        ("auth_attempts_failed_total", totals.logins_refused),
    ] {
        page.one(name, "counter", value);
    }
}

/// Counts over everything, labelled as the original labels them.
fn global(page: &mut Page, broker: &Broker) {
    let sums = broker.totals().messages;
    let labels = "protocol=\"amqp091\"";
    let typed = "protocol=\"amqp091\",queue_type=\"all\"";
    let delivered = sums.delivered + sums.delivered_settled + sums.got + sums.got_settled;
    for (name, labels, value) in [
        ("global_messages_received_total", labels, sums.published),
        ("global_messages_received_confirm_total", labels, sums.confirming),
        ("global_messages_routed_total", labels, sums.routed),
        ("global_messages_confirmed_total", labels, sums.confirmed),
        ("global_messages_unroutable_returned_total", labels, sums.returned),
        ("global_messages_unroutable_dropped_total", labels, sums.dropped),
        ("global_messages_delivered_total", typed, delivered),
        ("global_messages_delivered_consume_manual_ack_total", typed, sums.delivered),
        ("global_messages_delivered_consume_auto_ack_total", typed, sums.delivered_settled),
        ("global_messages_delivered_get_manual_ack_total", typed, sums.got),
        ("global_messages_delivered_get_auto_ack_total", typed, sums.got_settled),
        ("global_messages_get_empty_total", typed, sums.got_nothing),
        ("global_messages_redelivered_total", typed, sums.redelivered),
        ("global_messages_acknowledged_total", typed, sums.acked),
    ] {
        page.metric(name, "counter");
        page.sample(name, labels, value);
    }
}

fn machine(page: &mut Page, (broker, counters): (&Broker, &Counters), now: Mono) {
    let machine = counters.machine();
    for (name, value) in [
        ("process_resident_memory_bytes", machine.memory_used),
        ("resident_memory_limit_bytes", machine.memory_limit),
        ("disk_space_available_bytes", machine.disk_free),
        ("disk_space_available_limit_bytes", machine.disk_free_limit),
        ("process_open_fds", machine.files_open),
        ("process_max_fds", machine.files_max),
        ("process_open_tcp_sockets", counters.read().map(|door| door.open).sum()),
        ("process_max_tcp_sockets", machine.files_max),
        ("alarms_memory_used_watermark", broker.is_low_on_memory().into()),
        ("alarms_free_disk_space_watermark", (broker.full().is_some() || broker.failure().is_some()).into()),
        ("alarms_file_descriptor_limit", 0),
        ("erlang_uptime_seconds", counters.uptime_ms(now) / 1000),
    ] {
        page.one(name, "gauge", value);
    }
    let storage = broker.storage_stats();
    let written = storage.journal_bytes + storage.settled_bytes + storage.merged_bytes;
    page.one("io_write_bytes_total", "counter", written);
    page.one("io_sync_ops_total", "counter", storage.syncs);
}

/// A figure of one object: its name, what it is, how it is read.
type Figure<T> = (&'static str, &'static str, fn(&T) -> u64);

static QUEUE_FIGURES: [Figure<QueueFacts>; 11] = [
    ("queue_messages_ready", "gauge", |queue| queue.info.ready),
    ("queue_messages_unacked", "gauge", |queue| queue.info.unsettled),
    ("queue_messages", "gauge", |queue| queue.info.ready + queue.info.unsettled),
    ("queue_consumers", "gauge", |queue| queue.info.consumers.into()),
    ("queue_consumer_capacity", "gauge", |queue| queue.has_credit.into()),
    ("queue_consumer_utilisation", "gauge", |queue| queue.has_credit.into()),
    ("queue_process_memory_bytes", "gauge", |queue| queue.memory_bytes),
    ("queue_messages_published_total", "counter", |queue| queue.tally.published),
    ("queue_messages_ready_bytes", "gauge", |queue| queue.bytes.map_or(0, |(ready, _)| ready)),
    ("queue_messages_unacked_bytes", "gauge", |queue| queue.bytes.map_or(0, |(_, held)| held)),
    ("queue_messages_bytes", "gauge", |queue| queue.bytes.map_or(0, |(ready, held)| ready + held)),
];

static CONNECTION_FIGURES: [Figure<Connection>; 5] = [
    ("connection_incoming_bytes_total", "counter", |one| one.figures.received_bytes.get()),
    ("connection_outgoing_bytes_total", "counter", |one| one.figures.sent_bytes.get()),
    ("connection_incoming_packets_total", "counter", |one| one.figures.received.get()),
    ("connection_outgoing_packets_total", "counter", |one| one.figures.sent.get()),
    ("connection_channels", "gauge", |one| one.channels.len() as u64),
];

static CHANNEL_FIGURES: [Figure<ChannelFigures>; 17] = [
    ("channel_consumers", "gauge", |one| one.consumers.get()),
    ("channel_messages_unacked", "gauge", ChannelFigures::unsettled),
    ("channel_messages_unconfirmed", "gauge", ChannelFigures::unconfirmed),
    ("channel_messages_uncommitted", "gauge", |one| one.uncommitted.get()),
    ("channel_acks_uncommitted", "gauge", |one| one.uncommitted_settles.get()),
    ("consumer_prefetch", "gauge", |one| one.prefetch.get()),
    ("channel_prefetch", "gauge", |one| one.shared_prefetch.get()),
    ("channel_messages_published_total", "counter", |one| one.published.get()),
    ("channel_messages_confirmed_total", "counter", |one| one.confirmed.get()),
    ("channel_messages_unroutable_returned_total", "counter", |one| one.returned.get()),
    ("channel_messages_unroutable_dropped_total", "counter", |one| one.dropped.get()),
    ("channel_messages_delivered_total", "counter", |one| one.delivered_settled.get()),
    ("channel_messages_delivered_ack_total", "counter", |one| one.delivered.get()),
    ("channel_messages_redelivered_total", "counter", |one| one.redelivered.get()),
    ("channel_messages_acked_total", "counter", |one| one.acked.get()),
    ("channel_get_ack_total", "counter", |one| one.got.get()),
    ("channel_get_empty_total", "counter", |one| one.got_nothing.get()),
];

/// Of what one figure after the other is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Queue,
    Connection,
    Channel,
}

impl Kind {
    /// The names of its figures, and what they are.
    pub(super) fn figures(self) -> Vec<(&'static str, &'static str)> {
        fn heads<T>(all: &[Figure<T>]) -> Vec<(&'static str, &'static str)> {
            all.iter().map(|(name, kind, _)| (*name, *kind)).collect()
        }
        match self {
            Kind::Queue => heads(&QUEUE_FIGURES),
            Kind::Connection => heads(&CONNECTION_FIGURES),
            Kind::Channel => heads(&CHANNEL_FIGURES),
        }
    }

    /// What there is of it now, in these tenants (in all, where none is named).
    pub(super) fn keys(self, broker: &Broker, tenants: &[String]) -> Vec<Key> {
        let is_asked = |tenant: &str| tenants.is_empty() || tenants.iter().any(|asked| asked == tenant);
        let connections = broker.connections().filter(|one| is_asked(&one.info.tenant));
        match self {
            Kind::Queue => {
                let tenants = broker.tenants().into_iter().filter(|tenant| is_asked(&tenant.name));
                let of = |tenant: Tenant| {
                    let named = Name::new(&tenant.name).ok();
                    let names = broker.queue_names(&tenant.name).into_iter();
                    names.filter_map(move |name| Some(Key::Queue(named.clone()?, name)))
                };
                tenants.flat_map(of).collect()
            }
            Kind::Connection => connections.map(|one| Key::Connection(one.info.session)).collect(),
            Kind::Channel => {
                let of = |one: &Connection| {
                    let session = one.info.session;
                    one.channels.keys().map(move |number| Key::Channel(session, *number)).collect::<Vec<_>>()
                };
                connections.flat_map(of).collect()
            }
        }
    }
}

/// One object.
pub(super) enum Key {
    Queue(Name, Name),
    Connection(SessionId),
    Channel(SessionId, u16),
}

impl Key {
    /// Reads its figures into `values`, in their order, and answers its labels; `None` if it has gone.
    pub(super) fn read(&self, broker: &Broker, values: &mut Vec<u64>) -> Option<String> {
        match self {
            Key::Queue(tenant, name) => {
                let facts = broker.queue_facts(tenant, name)?;
                values.extend(QUEUE_FIGURES.iter().map(|(_, _, read)| read(&facts)));
                Some(format!("vhost={},queue={}", quoted(tenant), quoted(name)))
            }
            Key::Connection(session) => {
                let one = broker.connection(*session)?;
                values.extend(CONNECTION_FIGURES.iter().map(|(_, _, read)| read(one)));
                Some(format!("connection={}", quoted(&one.info.name())))
            }
            Key::Channel(session, number) => {
                let one = broker.connection(*session)?;
                let figures = one.channels.get(number)?;
                values.extend(CHANNEL_FIGURES.iter().map(|(_, _, read)| read(figures)));
                Some(format!("channel={}", quoted(&format!("{} ({number})", one.info.name()))))
            }
        }
    }
}
