//! Topics, groups and queues in `/metrics`: how many there are and what is in all of them, and each of the first by
//! name. How many are shown is bounded, and with it what a scrape costs; how many are left out is said.

use std::collections::BTreeMap;

use broker::Broker;
use broker::queue::QueueFacts;
use model::Name;

use super::Page;

/// Commits that are looked at for the lag of groups, as a multiple of the objects shown.
const COMMITS_PER_OBJECT: usize = 20;

/// Shows objects of one kind, at most so many; answers how many are left out.
type Show = fn(&mut Page, &Broker, usize) -> u64;

/// All kinds.
pub(super) static KINDS: [(&str, Show); 3] = [("topic", topics), ("group", groups), ("queue", queues)];

/// Says how many objects are left out, by kind.
pub(super) fn left_out(page: &mut Page, counts: &[(&'static str, u64)]) {
    let name = "fourfold_objects_left_out";
    page.metric(name, "gauge", "Objects that are not shown one by one, by kind; /metrics/per-object shows more.");
    for (kind, count) in counts {
        page.sample(name, &[("kind", kind)], *count);
    }
}

fn tenants(broker: &Broker) -> Vec<String> {
    broker.tenants().into_iter().map(|tenant| tenant.name).collect()
}

/// Partitions, and messages ever and now, of each topic.
fn topics(page: &mut Page, broker: &Broker, max: usize) -> u64 {
    let tenants = &tenants(broker);
    let mut shown = Vec::new();
    let mut count = 0;
    for tenant in tenants {
        let topics = broker.topics(tenant);
        count += topics.len();
        for topic in topics.into_iter().take(max - shown.len()) {
            let bounds = topic.partitions.iter().filter_map(|log| broker.bounds(*log).ok());
            let sums = bounds.fold((0, 0), |(ends, held), one| (ends + one.end.0, held + one.end.since(one.start)));
            shown.push((tenant.as_str(), topic.name.clone(), topic.partitions.len() as u64, sums));
        }
    }
    page.metric("fourfold_topics", "gauge", "Topics.");
    page.sample("fourfold_topics", &[], count as u64);
    page.metric("fourfold_topic_partitions", "gauge", "Partitions, by topic.");
    for (tenant, topic, partitions, _) in &shown {
        page.sample("fourfold_topic_partitions", &[("tenant", tenant), ("topic", topic)], *partitions);
    }
    let name = "fourfold_topic_end_offset_total";
    page.metric(name, "counter", "Messages ever visible, by topic: the sum of its partitions' ends.");
    for (tenant, topic, _, (ends, _)) in &shown {
        page.sample(name, &[("tenant", tenant), ("topic", topic)], *ends);
    }
    page.metric("fourfold_topic_messages", "gauge", "Messages held, by topic.");
    for (tenant, topic, _, (_, held)) in &shown {
        page.sample("fourfold_topic_messages", &[("tenant", tenant), ("topic", topic)], *held);
    }
    (count - shown.len()) as u64
}

/// Members and lag of each group. A group with very many commits leaves no room for the lag of those behind it.
fn groups(page: &mut Page, broker: &Broker, max: usize) -> u64 {
    let groups = broker.groups();
    page.metric("fourfold_groups", "gauge", "Consumer groups.");
    page.sample("fourfold_groups", &[], groups.len() as u64);
    page.metric("fourfold_group_members", "gauge", "Members, by group.");
    for group in groups.iter().take(max) {
        page.sample("fourfold_group_members", &[("group", &group.group)], group.members.len() as u64);
    }
    page.metric("fourfold_group_lag", "gauge", "Messages not yet committed, by group and topic.");
    let mut room = max * COMMITS_PER_OBJECT;
    for group in groups.iter().take(max) {
        if room == 0 {
            break;
        }
        let mut lags = BTreeMap::new();
        for (topic, partition, committed) in broker.all_committed(&group.group) {
            room = room.saturating_sub(1);
            let tenant = broker::access::DEFAULT_TENANT;
            let log = broker.topic(tenant, &topic).and_then(|info| info.partitions.get(partition as usize).copied());
            let Some(bounds) = log.and_then(|log| broker.bounds(log).ok()) else { continue };
            *lags.entry(topic).or_insert(0) += bounds.end.since(committed.offset);
        }
        for (topic, lag) in lags {
            page.sample("fourfold_group_lag", &[("group", &group.group), ("topic", &topic)], lag);
        }
    }
    groups.len().saturating_sub(max) as u64
}

/// Messages and consumers of each queue, and of all together.
fn queues(page: &mut Page, broker: &Broker, max: usize) -> u64 {
    let tenants = &tenants(broker);
    type Pick = fn(&QueueFacts) -> u64;
    let mut shown: Vec<(&str, Name, QueueFacts)> = Vec::new();
    let mut sums = [0, 0, 0];
    for tenant in tenants {
        let (count, ready, unsettled) = broker.queue_sums(tenant);
        sums = [sums[0] + count as u64, sums[1] + ready, sums[2] + unsettled];
        if shown.len() < max && count > 0 {
            let names = broker.queue_names(tenant).into_iter().take(max - shown.len());
            shown.extend(
                names.filter_map(|name| Some((tenant.as_str(), name.clone(), broker.queue_facts(tenant, &name)?))),
            );
        }
    }
    let totals = [
        ("fourfold_queues", "Queues.", sums[0]),
        ("fourfold_queues_ready", "Messages that wait for a consumer, in all queues.", sums[1]),
        ("fourfold_queues_unsettled", "Messages delivered and not settled, of all queues.", sums[2]),
    ];
    for (name, help, value) in totals {
        page.metric(name, "gauge", help);
        page.sample(name, &[], value);
    }
    let metrics: [(&str, &str, Pick); 3] = [
        ("fourfold_queue_ready", "Messages that wait for a consumer, by queue.", |queue| queue.info.ready),
        ("fourfold_queue_unsettled", "Messages delivered and not settled, by queue.", |queue| queue.info.unsettled),
        ("fourfold_queue_consumers", "Consumers, by queue.", |queue| u64::from(queue.info.consumers)),
    ];
    for (name, help, pick) in metrics {
        page.metric(name, "gauge", help);
        for (tenant, queue, facts) in &shown {
            page.sample(name, &[("tenant", tenant), ("queue", queue)], pick(facts));
        }
    }
    sums[0].saturating_sub(shown.len() as u64)
}
