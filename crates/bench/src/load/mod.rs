//! Load without a client's share: raw generators that send prepared bytes and look only at what they must.

pub(crate) mod amqp;
pub(crate) mod fetch;
pub(crate) mod produce;

/// The most partitions of one topic that brokers make at once: more are spread over several topics.
pub(crate) const TOPIC_PARTITIONS: u32 = 5_000;

/// Partition `at` of `partitions` in all: its topic and its index there.
pub(crate) fn place(topic: &str, partitions: u32, at: u32) -> (String, u32) {
    match partitions <= TOPIC_PARTITIONS {
        true => (topic.to_owned(), at),
        false => (format!("{topic}-{}", at / TOPIC_PARTITIONS), at % TOPIC_PARTITIONS),
    }
}

/// The topics of so many partitions, with the partitions of each.
pub(crate) fn topics(topic: &str, partitions: u32) -> Vec<(String, u32)> {
    let firsts = (0..partitions).step_by(TOPIC_PARTITIONS as usize);
    firsts.map(|first| (place(topic, partitions, first).0, TOPIC_PARTITIONS.min(partitions - first))).collect()
}
