//! Nothing acknowledged is lost, reordered or invented, whatever ends the server's life.

use sim::ledger::End;
use sim::scenario::crash::{self, Tongues};

fn run(end: End, seeds: std::ops::Range<u64>) {
    let (kafka, amqp) = (kafka::KafkaTongue::default(), amqp::Amqp::default());
    let mut acknowledged = 0;
    for seed in seeds {
        let report = crash::run(seed, end, Tongues { kafka: &kafka, amqp: &amqp });
        acknowledged += report.unwrap_or_else(|why| panic!("seed {seed}: {why}")).acknowledged;
    }
    assert!(acknowledged > 0, "nothing was acknowledged: the scenario tests nothing");
}

#[test]
fn acknowledged_messages_survive_power_cuts() {
    run(End::Power, 0..60);
}

/// A start that was cut off while it voided a torn end: the next one must find the same end.
#[test]
fn a_start_cut_off_while_it_cuts_the_torn_end_finds_the_same_end_again() {
    run(End::Power, 8052..8053);
}

#[test]
fn acknowledged_messages_survive_kills() {
    run(End::Kill, 0..60);
}

#[test]
fn the_checker_finds_what_a_broker_loses_that_answers_before_the_sync() {
    let settings = kafka::Settings { acks_all: broker::SyncPolicy::None, ..kafka::Settings::default() };
    let (kafka, amqp) = (kafka::KafkaTongue::new(settings), amqp::Amqp::default());
    let caught = (0..50).any(|seed| crash::run(seed, End::Power, Tongues { kafka: &kafka, amqp: &amqp }).is_err());
    assert!(caught, "50 power cuts and not one loss noticed: the scenario tests nothing");
}
