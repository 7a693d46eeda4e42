//! Delayed messages: on time, in order, taken back, through restarts and power cuts, in bounded memory.

use crate::rig::*;
use broker::SessionId;

fn rig() -> Rig {
    let mut rig = Rig::new();
    rig.queue("q");
    rig.settle_down();
    rig
}

fn texts(rig: &mut Rig) -> Vec<String> {
    let texts = rig.get_all(9, "q").iter().map(|delivery| look(delivery).0).collect();
    rig.broker.session_closed(SessionId(9), rig.now);
    texts
}

/// Starts again at the moment it was killed.
fn killed(rig: Rig) -> Rig {
    let now = rig.now;
    let mut rig = rig.killed();
    rig.pass((now.wall.0 - rig.now.wall.0) as u64);
    rig
}

#[test]
fn a_message_comes_in_the_millisecond_it_is_due_however_far_away_that_is() {
    for wait in [1, 999, 70_000, 5_000_000, 90_000_000, 40_000_000_000] {
        let mut rig = rig();
        rig.delay("", "q", "later", wait);
        rig.settle_down();
        assert_eq!((rig.depth("q"), rig.broker.delayed()), ((0, 0), 1), "{wait}");
        rig.pass(wait as u64 - 1);
        assert_eq!(rig.depth("q"), (0, 0), "{wait}");
        rig.pass(1);
        assert_eq!((rig.depth("q"), rig.broker.delayed()), ((1, 0), 0), "{wait}");
    }
}

#[test]
fn short_delays_do_not_wait_behind_long_ones_and_equal_ones_keep_their_order() {
    let mut rig = rig();
    for (text, wait) in [("c", 300), ("a", 100), ("d", 300), ("b", 200), ("far", 10_000_000)] {
        rig.delay("", "q", text, wait);
    }
    rig.delay("", "q", "now", 0);
    rig.settle_down();
    rig.pass(300);
    assert_eq!(texts(&mut rig), ["now", "a", "b", "c", "d"]);
    rig.pass(10_000_000);
    assert_eq!(texts(&mut rig), ["now", "a", "b", "c", "d", "far"]);
}

#[test]
fn delays_survive_restarts_and_come_once() {
    let mut rig = rig();
    for number in 0..50 {
        rig.delay("", "q", &number.to_string(), number * 3_000);
    }
    rig.settle_down();
    rig.pass(40_000);
    let mut rig = killed(rig);
    assert_eq!(rig.depth("q").0 + rig.broker.delayed(), 50);
    assert_eq!(rig.depth("q"), (14, 0));
    rig.pass(200_000);
    let expected = (0..50).map(|number| number.to_string()).collect::<Vec<_>>();
    assert_eq!(texts(&mut killed(rig)), expected);
}

#[test]
fn what_was_due_while_the_process_was_dead_comes_at_the_start() {
    let mut rig = rig();
    rig.delay("", "q", "missed", 1_000);
    rig.settle_down();
    let disk = rig.disk.clone();
    drop(rig);
    let mut later = Rig::on(disk.kill(), Rig::options());
    later.pass(1_000_000_000);
    assert_eq!(texts(&mut later), ["missed"]);
}

#[test]
fn a_power_cut_leaves_each_message_waiting_or_in_its_queue_and_never_both() {
    for seed in 1..30 {
        let mut rig = rig();
        for number in 0..8 {
            rig.delay("", "q", &number.to_string(), 1_000);
        }
        rig.settle_down();
        rig.now.wall.0 += 1_000;
        rig.now.mono.0 += 1_000_000_000;
        rig.broker.tick(rig.now);
        rig.turn();
        let mut rig = rig.power_cut(seed);
        rig.pass(5_000);
        let mut all = texts(&mut rig);
        all.sort();
        assert_eq!(all, (0..8).map(|number| number.to_string()).collect::<Vec<_>>(), "seed {seed}");
    }
}

#[test]
fn a_delayed_message_is_taken_back_near_or_far_and_stays_so() {
    for wait in [1_000, 100_000, 20_000_000_000] {
        let mut rig = rig();
        let id = rig.delay("", "q", "gone", wait);
        rig.delay("", "q", "stays", wait);
        rig.settle_down();
        assert!(rig.broker.cancel_delayed(id).unwrap().is_some(), "{wait}");
        assert!(rig.broker.cancel_delayed(id).unwrap().is_none(), "{wait}: a second time");
        rig.settle_down();
        let mut rig = killed(rig);
        rig.pass(wait as u64);
        assert_eq!(texts(&mut rig), ["stays"], "{wait}");
    }
}

#[test]
fn one_that_was_moved_to_a_narrower_span_is_taken_back_by_its_first_name() {
    let mut rig = rig();
    let wait = 20_000_000;
    let id = rig.delay("", "q", "gone", wait);
    rig.settle_down();
    rig.pass(wait as u64 - 30_000);
    assert!(rig.broker.cancel_delayed(id).unwrap().is_some());
    rig.pass(60_000);
    assert_eq!((rig.depth("q"), rig.broker.delayed()), ((0, 0), 0));
}

#[test]
fn thousands_that_are_due_at_once_come_in_their_order_and_leave_nothing_behind() {
    let mut rig = rig();
    for number in 0..5000 {
        rig.delay("", "q", &number.to_string(), 10_000_000);
        if number % 500 == 0 {
            rig.settle_down();
        }
    }
    rig.settle_down();
    rig.pass(10_000_000);
    let expected = (0..5000).map(|number| number.to_string()).collect::<Vec<_>>();
    assert_eq!(texts(&mut rig), expected);
    rig.pass(10_000_000);
    assert_eq!(rig.broker.delayed(), 0);
}

#[test]
fn a_queue_that_is_gone_when_its_message_is_due_takes_nothing() {
    let mut rig = rig();
    rig.delay("", "q", "lost", 1_000);
    rig.delay("nosuch", "k", "lost", 1_000);
    rig.settle_down();
    rig.broker.delete_queue(SessionId(1), "/", "q", false, false).unwrap();
    rig.pass(2_000);
    assert_eq!(rig.broker.delayed(), 0);
}
