//! `/metrics` in Prometheus' text format, under our own names. Only what is measured is shown.

mod objects;

use std::fmt::Write as _;

use broker::Broker;

use crate::counters::Counters;

/// Topics, groups and queues that are shown one by one, of each kind.
const OBJECTS_MAX: usize = 1_000;
/// The same at `/metrics/per-object`.
const MORE_OBJECTS_MAX: usize = 10_000;

/// What is shown of each object at `/metrics/per-object`, in the making: a kind at a time.
pub struct Objects {
    page: Page,
    left_out: Vec<(&'static str, u64)>,
}

impl Objects {
    /// Nothing is shown yet.
    pub fn begin() -> Objects {
        Objects { page: Page::default(), left_out: Vec::new() }
    }

    /// Shows the next kind; false when there was none.
    pub fn go_on(&mut self, broker: &Broker) -> bool {
        let Some((kind, show)) = objects::KINDS.get(self.left_out.len()) else { return false };
        let left_out = show(&mut self.page, broker, MORE_OBJECTS_MAX);
        self.left_out.push((*kind, left_out));
        true
    }

    /// All of it, as text.
    pub fn text(mut self) -> String {
        objects::left_out(&mut self.page, &self.left_out);
        self.page.text
    }
}

/// Everything, as text.
pub fn text(broker: &Broker, counters: &Counters) -> String {
    let mut page = Page::default();
    doors(&mut page, counters);
    certificate(&mut page, counters);
    memory(&mut page, counters);
    journal(&mut page, broker);
    losses(&mut page, broker);
    space(&mut page, broker);
    storage(&mut page, broker);
    let each = objects::KINDS.iter().map(|(kind, show)| (*kind, show(&mut page, broker, OBJECTS_MAX)));
    let left_out = each.collect::<Vec<_>>();
    objects::left_out(&mut page, &left_out);
    page.text
}

#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn metric(&mut self, name: &str, kind: &str, help: &str) {
        let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n"); // writing to a String cannot fail
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: u64) {
        self.text.push_str(name);
        for (at, (label, value)) in labels.iter().enumerate() {
            self.text.push(if at == 0 { '{' } else { ',' });
            let _ = write!(self.text, "{label}=\"{}\"", escape(value));
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.text, "{end} {value}");
    }
}

fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn memory(page: &mut Page, counters: &Counters) {
    let [used, budget, let_go] = counters.read_memory();
    page.metric("fourfold_memory_used_bytes", "gauge", "Memory held by what is on its way to or from clients.");
    page.sample("fourfold_memory_used_bytes", &[], used);
    page.metric("fourfold_memory_budget_bytes", "gauge", "The budget of that; beyond half of it clients are slowed.");
    page.sample("fourfold_memory_budget_bytes", &[], budget);
    let name = "fourfold_connections_let_go_total";
    page.metric(name, "counter", "Connections closed because memory was short and they stood still.");
    page.sample(name, &[], let_go);
}

fn certificate(page: &mut Page, counters: &Counters) {
    let [ends, taken, refused] = counters.read_certificate();
    if ends == 0 {
        return; // no door speaks TLS
    }
    let name = "fourfold_tls_certificate_end_seconds";
    page.metric(name, "gauge", "When the certificate of the TLS doors ends, in seconds since 1970.");
    page.sample(name, &[], ends);
    let name = "fourfold_tls_reloads_total";
    page.metric(name, "counter", "Times the files of TLS were read again, by whether they could be used.");
    page.sample(name, &[("result", "taken")], taken);
    page.sample(name, &[("result", "refused")], refused);
}

fn doors(page: &mut Page, counters: &Counters) {
    type Pick = fn(&crate::counters::DoorCounts) -> u64;
    let metrics: [(&str, &str, &str, Pick); 5] = [
        ("fourfold_connections", "gauge", "Connections open now, by door.", |door| door.open),
        ("fourfold_connections_accepted_total", "counter", "Connections accepted, by door.", |door| door.accepted),
        ("fourfold_received_bytes_total", "counter", "Bytes received, by door.", |door| door.received_bytes),
        ("fourfold_sent_bytes_total", "counter", "Bytes sent, by door.", |door| door.sent_bytes),
        ("fourfold_tls_handshakes_failed_total", "counter", "TLS handshakes that came to nothing, by door.", |door| {
            door.handshakes_failed
        }),
    ];
    for (name, kind, help, pick) in metrics {
        page.metric(name, kind, help);
        for door in counters.read() {
            page.sample(name, &[("door", door.name)], pick(&door));
        }
    }
}

fn storage(page: &mut Page, broker: &Broker) {
    let stats = broker.storage_stats();
    let metrics = [
        ("fourfold_journal_bytes_total", "counter", "Bytes written to the journal.", stats.journal_bytes),
        ("fourfold_stored_bytes_total", "counter", "Bytes of messages handed to storage.", stats.unit_bytes),
        ("fourfold_settled_bytes_total", "counter", "Bytes written to packs and segments.", stats.settled_bytes),
        ("fourfold_merged_bytes_total", "counter", "Bytes of packs and segments written again.", stats.merged_bytes),
        ("fourfold_checkpoint_bytes_total", "counter", "Bytes written to checkpoints.", stats.checkpoint_bytes),
        ("fourfold_journal_syncs_total", "counter", "Syncs of the journal.", stats.syncs),
        ("fourfold_journal_dirty_bytes", "gauge", "Bytes written and not synced yet.", stats.dirty_bytes),
        ("fourfold_journal_window_bytes", "gauge", "Bytes the journal takes on disk.", stats.window_bytes),
        ("fourfold_extents", "gauge", "Runs of messages of the journal, in memory.", stats.extents as u64),
        ("fourfold_segments", "gauge", "Packs and segments that hold something alive.", stats.segments as u64),
        ("fourfold_store_bytes", "gauge", "Bytes that packs and segments take.", stats.segment_bytes),
        ("fourfold_store_live_bytes", "gauge", "Bytes alive in packs and segments.", stats.segment_live_bytes),
        (
            "fourfold_settling_lag_permille",
            "gauge",
            "0: keeps up; 1000: appends are refused.",
            broker.lag_permille().into(),
        ),
        (
            "fourfold_damaged_ranges",
            "gauge",
            "Damaged places known of; see /api/v1/damage.",
            broker.damage().len() as u64,
        ),
        ("fourfold_scrubbed_bytes_total", "counter", "Bytes checked by scrubbing.", stats.scrubbed_bytes),
        ("fourfold_scrubs_total", "counter", "Times that scrubbing has gone through everything.", stats.scrubs),
        ("fourfold_logs", "gauge", "Logs: partitions and queues.", stats.logs as u64),
    ];
    for (name, kind, help, value) in metrics {
        page.metric(name, kind, help);
        page.sample(name, &[], value);
    }
}

fn journal(page: &mut Page, broker: &Broker) {
    let progress = broker.progress();
    page.metric("fourfold_journal_written_turn", "gauge", "The last turn written to the journal.");
    page.sample("fourfold_journal_written_turn", &[], progress.written.0);
    page.metric("fourfold_journal_synced_turn", "gauge", "The last turn synced to disk.");
    page.sample("fourfold_journal_synced_turn", &[], progress.synced.0);
    page.metric("fourfold_journal_failed", "gauge", "1 when a write or sync has failed: no more is stored.");
    page.sample("fourfold_journal_failed", &[], u64::from(broker.failure().is_some()));
}

fn losses(page: &mut Page, broker: &Broker) {
    let name = "fourfold_queue_passed_over_total";
    page.metric(name, "counter", "Messages of topics deleted before a queue over them had given them out.");
    page.sample(name, &[], broker.passed_over());
    let name = "fourfold_compacted_messages_total";
    page.metric(name, "counter", "Messages removed by compaction.");
    page.sample(name, &[], broker.compacted());
}

fn space(page: &mut Page, broker: &Broker) {
    page.metric("fourfold_disk_full", "gauge", "1 while messages are refused for lack of space.");
    page.sample("fourfold_disk_full", &[], u64::from(broker.full().is_some()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_from_users_cannot_break_the_page() {
        let mut page = Page::default();
        page.sample("m", &[("a", "x\"} 1\n"), ("b", "\\")], 7);
        assert_eq!(page.text, "m{a=\"x\\\"} 1\\n\",b=\"\\\\\"} 7\n");
    }
}
