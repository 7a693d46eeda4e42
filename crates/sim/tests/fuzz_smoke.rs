//! A short, repeatable run of every fuzz target, for CI: well-formed frames mutated by seed. `fuzz/` runs the same
//! functions under libFuzzer for as long as you like; with `FUZZ_SEEDS=folder` the frames are written there for it.
#![allow(clippy::unwrap_used)] // a test

use sim::client::{amqp, kafka};
use sim::random::Random;

/// Inputs of each target. Some seconds in a debug build.
const INPUTS: usize = 20_000;

/// Cuts, repeats, flips and overwrites bytes of `frame`; lengths get values that senders of bad will choose.
fn mutate(frame: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = frame.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len().max(1));
        match random.below(5) {
            0 => bytes.truncate(at),
            1 => bytes.extend_from_within(at.min(bytes.len())..),
            2 => {
                const NASTY: [u32; 6] = [u32::MAX, i32::MAX as u32, 0x8000_0000, 0, 1, 0xff00_ff00];
                let nasty = NASTY[random.below(NASTY.len())].to_be_bytes();
                bytes.iter_mut().skip(at).zip(nasty).for_each(|(byte, nasty)| *byte = nasty);
            }
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = random.draw() as u8;
                }
            }
        }
    }
    bytes
}

fn run(name: &str, seeds: &[Vec<u8>], target: fn(&[u8])) {
    if let Some(folder) = std::env::var_os("FUZZ_SEEDS") {
        let folder = std::path::Path::new(&folder).join(name);
        std::fs::create_dir_all(&folder).unwrap();
        for (number, seed) in seeds.iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{number}")), seed).unwrap();
        }
    }
    let mut random = Random::new(1);
    for _ in 0..INPUTS {
        target(&mutate(&seeds[random.below(seeds.len())], &mut random));
    }
}

fn values() -> Vec<String> {
    ["one", "two", "three"].map(str::to_owned).to_vec()
}

#[test]
fn kafka_requests_of_any_bytes_are_read_without_harm() {
    let mut seeds = vec![
        kafka::create_topic(1, "topic", 3),
        kafka::produce(2, -1, "topic", 0, &values()),
        kafka::fetch(3, "topic", 0, 7),
    ];
    seeds.iter_mut().for_each(|frame| drop(frame.drain(..4)));
    // Every API in every version, with a body of small numbers, so that arrays and texts are entered.
    let others = (0..61i16).flat_map(|api| (0..19i16).map(move |version| (api, version)));
    seeds.extend(others.map(|(api, version)| {
        let mut head = [api.to_be_bytes(), version.to_be_bytes()].concat();
        head.extend_from_slice(&[0, 0, 0, 1, 0, 1, b'c', 0]);
        head.extend_from_slice(&[0, 0, 0, 1, 0, 1, b'x', 2, 1, 0].repeat(12));
        head
    }));
    run("kafka_request", &seeds, ::kafka::fuzz_request);
}

#[test]
fn kafka_batches_of_any_bytes_are_opened_without_harm() {
    let produce = kafka::produce(2, -1, "topic", 0, &values());
    let batch = produce[produce.len() - (produce.len() - 4 - 10 - 2 - 2 - 4 - 4 - 7 - 4 - 4 - 4)..].to_vec();
    run("kafka_batch", &[batch], ::kafka::fuzz_batch);
}

#[test]
fn amqp_frames_tables_and_units_of_any_bytes_are_read_without_harm() {
    let mut publish = amqp::publish("body");
    publish.extend(amqp::consume());
    run("amqp_connection", &[amqp::handshake()[8..].to_vec(), publish.clone()], ::amqp::fuzz_connection);
    let table = b"\x01aS\0\0\0\x01x\x01bF\0\0\0\x04\x01ct\x01\x01dA\0\0\0\x02V\x01eT\0\0\0\0\0\0\0\x01".to_vec();
    run("amqp_table", &[table, publish.clone()], ::amqp::fuzz_table);
    run("amqp_unit", &[publish, vec![0; 64]], ::amqp::fuzz_unit);
}
