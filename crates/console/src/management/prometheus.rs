//! The names of RabbitMQ's Prometheus plugin, for dashboards made for it: sums at `/metrics`, each object's at
//! `/metrics/per-object`, and those of chosen families at `/metrics/detailed`.
//!
//! How many objects are shown is bounded: a scrape must not grow without end.

use std::fmt::Write as _;

use broker::Broker;
use broker::connection::{ChannelFigures, Connection};
use broker::queue::QueueFacts;
use model::{Mono, Name};

use super::call::node;
use super::overview::VERSION;
use crate::counters::Counters;

/// Queues, connections and channels shown one by one.
const OBJECTS_MAX: usize = 10_000;

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

struct Page {
    text: String,
    prefix: &'static str,
}

impl Page {
    fn metric(&mut self, name: &str, kind: &str) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "# TYPE {}{name} {kind}", self.prefix);
    }

    fn sample(&mut self, name: &str, labels: &str, value: impl std::fmt::Display) {
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

/// The page, as text.
pub fn text(broker: &Broker, counters: &Counters, now: Mono, detail: &Detail) -> String {
    let mut page = Page { text: String::new(), prefix: "rabbitmq_" };
    identity(&mut page, broker);
    if let Detail::Families(families, vhosts) = detail {
        page.prefix = "rabbitmq_detailed_";
        let wanted = |names: &[&str]| families.iter().any(|family| names.contains(&family.as_str()));
        if wanted(&["queue_coarse_metrics", "queue_metrics", "queue_consumer_count"]) {
            queues(&mut page, broker, true, vhosts);
        }
        if wanted(&["connection_coarse_metrics", "connection_metrics"]) {
            connections(&mut page, broker, true, vhosts);
        }
        if wanted(&["channel_metrics", "channel_exchange_metrics", "channel_queue_metrics"]) {
            channels(&mut page, broker, true, vhosts);
        }
        return page.text;
    }
    let each = *detail == Detail::Objects;
    totals(&mut page, broker);
    global(&mut page, broker);
    machine(&mut page, (broker, counters), now);
    queues(&mut page, broker, each, &[]);
    connections(&mut page, broker, each, &[]);
    channels(&mut page, broker, each, &[]);
    page.text
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

/// Writes each figure of objects, or its sum over them.
fn write<T>(page: &mut Page, figures: &[Figure<T>], each: bool, objects: &[(impl AsRef<str>, &T)]) {
    for (name, kind, read) in figures {
        page.metric(name, kind);
        if each {
            for (labels, object) in objects {
                page.sample(name, labels.as_ref(), read(object));
            }
        } else {
            page.sample(name, "", objects.iter().map(|(_, object)| read(object)).sum::<u64>());
        }
    }
}

fn queues(page: &mut Page, broker: &Broker, each: bool, vhosts: &[String]) {
    let mut all: Vec<(String, QueueFacts)> = Vec::new();
    let tenants = broker.tenants().into_iter().map(|tenant| tenant.name);
    for tenant in tenants.filter(|name| vhosts.is_empty() || vhosts.contains(name)) {
        for name in broker.queue_names(&tenant) {
            if each && all.len() >= OBJECTS_MAX {
                break;
            }
            let labels = if each { labels_of(&tenant, &name) } else { String::new() };
            all.extend(broker.queue_facts(&tenant, &name).map(|facts| (labels, facts)));
        }
    }
    let objects: Vec<_> = all.iter().map(|(labels, facts)| (labels.as_str(), facts)).collect();
    write(page, &QUEUE_FIGURES, each, &objects);
}

fn labels_of(tenant: &str, name: &Name) -> String {
    format!("vhost={},queue={}", quoted(tenant), quoted(name))
}

/// How many objects are looked at: for a sum all of them.
fn most(each: bool) -> usize {
    if each { OBJECTS_MAX } else { usize::MAX }
}

fn seen<'b>(broker: &'b Broker, each: bool, vhosts: &'b [String]) -> impl Iterator<Item = &'b Connection> {
    let all = broker.connections().filter(|one| vhosts.is_empty() || vhosts.iter().any(|v| *v == *one.info.tenant));
    all.take(most(each))
}

fn connections(page: &mut Page, broker: &Broker, each: bool, vhosts: &[String]) {
    let labels = |one: &Connection| match each {
        true => format!("connection={}", quoted(&one.info.name())),
        false => String::new(),
    };
    let objects: Vec<_> = seen(broker, each, vhosts).map(|one| (labels(one), one)).collect();
    write(page, &CONNECTION_FIGURES, each, &objects);
}

fn channels(page: &mut Page, broker: &Broker, each: bool, vhosts: &[String]) {
    let of = |one: &Connection, number: u16| match each {
        true => format!("channel={}", quoted(&format!("{} ({number})", one.info.name()))),
        false => String::new(),
    };
    let channels =
        seen(broker, each, vhosts).flat_map(|one| one.channels.iter().map(move |(at, figures)| (one, *at, figures)));
    let objects: Vec<_> =
        channels.take(most(each)).map(|(one, number, figures)| (of(one, number), &**figures)).collect();
    write(page, &CHANNEL_FIGURES, each, &objects);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_have_no_labels_and_objects_have_theirs() {
        let figures = [ChannelFigures::default(), ChannelFigures::default()];
        figures.iter().for_each(|one| one.published.add(2));
        let objects: Vec<_> = figures.iter().map(|one| ("channel=\"a\\\"b\"".to_owned(), one)).collect();
        let mut page = Page { text: String::new(), prefix: "rabbitmq_" };
        let figure: [Figure<ChannelFigures>; 1] = [("x_total", "counter", |one| one.published.get())];
        write(&mut page, &figure, false, &objects);
        assert_eq!(page.text, "# TYPE rabbitmq_x_total counter\nrabbitmq_x_total 4\n");
        page.text.clear();
        write(&mut page, &figure, true, &objects[..1]);
        assert_eq!(page.text, "# TYPE rabbitmq_x_total counter\nrabbitmq_x_total{channel=\"a\\\"b\"} 2\n");
    }
}
