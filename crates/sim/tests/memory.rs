//! Numbers that a sender announces take no memory: what a session allocates stays within what arrived and 64 KiB.

use broker::Tongue;
use peak_alloc::PeakAlloc;
use sim::client::{amqp, kafka};
use sim::world::World;
use storage::sim_disk::SimDisk;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// What a hostile frame may cost beyond its own length.
const SLACK_BYTES: usize = 64 << 10;

/// Sends `input` on a new connection and says how much memory was in use at most beyond before.
fn cost(world: &mut World, tongue: &dyn Tongue, input: &[u8]) -> usize {
    let id = world.connect(tongue);
    world.send(id, input);
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    world.turn();
    world.turn();
    MEMORY.peak_usage().saturating_sub(before)
}

#[test]
fn announced_counts_and_lengths_take_no_memory() {
    let (kafka_tongue, amqp_tongue) = (::kafka::KafkaTongue::default(), ::amqp::Amqp::default());
    let mut world = World::open(SimDisk::new(), &[&kafka_tongue, &amqp_tongue], 1).expect("an empty disk");
    // A first request of each kind, so that what is made once is not counted.
    cost(&mut world, &kafka_tongue, &kafka::create_topic(1, "topic", 1));
    cost(&mut world, &amqp_tongue, &amqp::handshake());
    // The disk is memory too: the files that storage makes ahead of use are not the senders' doing.
    for _ in 0..100 {
        world.turn();
    }
    for (api, version) in (0..61i16).flat_map(|api| (0..19i16).map(move |version| (api, version))) {
        for count in [i32::MAX, -1, i32::MIN, 1 << 24] {
            let mut frame = [api.to_be_bytes(), version.to_be_bytes()].concat();
            frame.extend_from_slice(&[0, 0, 0, 1, 0xff, 0xff]);
            frame.extend(count.to_be_bytes().repeat(40));
            let mut input = (frame.len() as u32).to_be_bytes().to_vec();
            input.extend(frame);
            let cost = cost(&mut world, &kafka_tongue, &input);
            assert!(cost <= input.len() + SLACK_BYTES, "api {api} version {version} count {count}: {cost} bytes");
        }
    }
    for length in [u32::MAX, i32::MAX as u32, 1 << 24] {
        let cost_kafka = cost(&mut world, &kafka_tongue, &[&length.to_be_bytes()[..], &[0; 100]].concat());
        assert!(cost_kafka <= 104 + SLACK_BYTES, "a Kafka frame of {length} bytes: {cost_kafka}");
        let mut input = b"AMQP\x00\x00\x09\x01\x01\x00\x00".to_vec();
        input.extend(length.to_be_bytes());
        input.extend([0; 100]);
        let cost_amqp = cost(&mut world, &amqp_tongue, &input);
        assert!(cost_amqp <= input.len() + SLACK_BYTES, "an AMQP frame of {length} bytes: {cost_amqp}");
    }
}
