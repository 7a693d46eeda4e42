//! Random frames, whole and broken, at every state of a connection: no panic, and nobody else is hurt.

use crate::rig::*;
use proptest::prelude::*;

/// One step of a client: mostly sensible frames, so that states behind the first error are reached too.
fn step() -> impl Strategy<Value = Vec<u8>> {
    let channel = 0u16..4;
    let queue = prop::sample::select(vec!["a", "b", "", "amq.x"]);
    let props = prop::sample::select(vec![TRANSIENT, PERSISTENT, &[0x20, 0, 0, 0, 0, 0], &[0xff, 0xff]]);
    let frames = (channel, queue, any::<u8>(), 0u64..8, props, 0usize..20).prop_map(
        |(channel, queue, bits, tag, props, which)| match which {
            0 | 1 => open_channel(channel),
            2 => declare(channel, queue, bits & 0x1f),
            3..=6 => publish(channel, ("", queue), bits & 1, props, &vec![bits; usize::from(bits)]),
            7 => get(channel, queue, bits & 1 == 1),
            8 | 9 => consume(channel, queue, "", bits & 0x0e),
            10 => consume(channel, queue, "tag", bits & 0x0e),
            11 => cancel(channel, "tag"),
            12 => ack(channel, tag, bits & 1 == 1),
            13 => nack(channel, tag, bits & 3),
            14 => qos(channel, u16::from(bits & 3), bits & 4 == 4),
            15 => confirm(channel),
            16 => close_channel(channel),
            17 => close_ok(channel),
            18 => delete(channel, queue, bits & 7),
            _ => bind(channel, queue, "amq.fanout", "k"),
        },
    );
    prop_oneof![
        30 => frames.clone(),
        1 => (frames, any::<prop::sample::Index>(), any::<u8>()).prop_map(|(mut bytes, at, value)| {
            let at = at.index(bytes.len());
            bytes[at] = value;
            bytes
        }),
        1 => prop::collection::vec(any::<u8>(), 0..40),
    ]
}

fn healthy(world: &mut World) {
    let at = world.client();
    world.send(at, &declare(1, "healthy", 0));
    world.send(at, &publish(1, ("", "healthy"), 0, TRANSIENT, b"ok"));
    world.take(at);
    assert_eq!(bodies(&world.ask(at, &get(1, "healthy", true))), ["ok"]);
    world.send(at, &close_connection());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn random_frames_hurt_nobody(
        steps in prop::collection::vec((0usize..2, step(), 0u8..12), 1..60),
    ) {
        let mut world = World::new();
        let mut ends = [world.client(), world.client()];
        for (who, bytes, what) in steps {
            match what {
                0 => world.jobs = false,
                1 => world.jobs = true,
                2 => world.pass(100),
                _ => {}
            }
            world.push(ends[who], &bytes);
            if what > 5 {
                world.run();
            }
            if world.is_closed(ends[who]) {
                world.drop_link(ends[who]);
                world.jobs = true;
                world.run();
                ends[who] = world.client();
            }
        }
        world.jobs = true;
        world.run();
        for at in ends {
            world.take_raw(at);
            world.drop_link(at);
        }
        healthy(&mut world);
    }

    #[test]
    fn random_bytes_from_the_first_one_on_hurt_nobody(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        header in any::<bool>(),
    ) {
        let mut world = World::new();
        let at = world.connect_from("127.0.0.1:1");
        if header {
            world.send(at, b"AMQP\x00\x00\x09\x01");
        }
        world.send(at, &bytes);
        world.pass(20_000);
        world.drop_link(at);
        healthy(&mut world);
    }
}
