//! Nothing acknowledged is lost, reordered or invented, whatever ends the server's life.

use sim::ledger::End;
use sim::scenario::crash::{self, Tongues};

fn run(end: End, seeds: std::ops::Range<u64>) {
    let (kafka, amqp) = (kafka::Kafka::default(), amqp::Amqp::default());
    let mut acknowledged = 0;
    for seed in seeds {
        let report = crash::run(seed, end, Tongues { kafka: &kafka, amqp: &amqp });
        acknowledged += report.unwrap_or_else(|why| panic!("seed {seed}: {why}")).acknowledged;
    }
    assert!(acknowledged > 0, "nothing was acknowledged: the scenario tests nothing");
}

#[test]
fn acknowledged_messages_survive_power_cuts() {
    run(End::Power, 0..100);
}

#[test]
fn acknowledged_messages_survive_kills() {
    run(End::Kill, 0..100);
}
