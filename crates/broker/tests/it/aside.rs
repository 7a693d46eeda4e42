//! Work done aside: in order, one at a time, for those who are still there; a mistake in it harms nobody else.

use broker::{CallId, Event, SessionId};
use model::Mono;

use crate::shard::Shard;

#[test]
fn work_is_done_one_piece_at_a_time_and_of_who_is_gone_not_at_all() {
    let mut shard = Shard::new();
    shard.settle_down();
    for session in 1..=3 {
        shard.broker.work_aside(SessionId(session), CallId(10 + session), move || session * 2);
    }
    let first = shard.broker.next_job().unwrap();
    assert!(shard.broker.next_job().is_none());
    shard.broker.session_closed(SessionId(2), shard.now);
    let done = first.run();
    shard.broker.complete(done, shard.now);
    let done = shard.broker.next_job().unwrap().run();
    shard.broker.complete(done, shard.now);
    assert!(shard.broker.next_job().is_none());
    for session in [1, 3] {
        let Some((whose, Event::Aside(call, Some(found)))) = shard.broker.next_event() else { panic!("{session}") };
        assert_eq!((whose, call), (SessionId(session), CallId(10 + session)));
        assert_eq!(found.downcast_ref::<u64>(), Some(&(session * 2)));
    }
}

#[test]
fn a_panic_in_work_done_aside_is_told_to_its_session_alone() {
    let mut shard = Shard::new();
    shard.settle_down();
    shard.broker.work_aside(SessionId(1), CallId(1), || -> u8 { panic!("on purpose") });
    let done = shard.broker.next_job().unwrap().run();
    shard.broker.complete(done, shard.now);
    assert!(matches!(shard.broker.next_event(), Some((SessionId(1), Event::Aside(CallId(1), None)))));
    shard.broker.work_aside(SessionId(1), CallId(2), || 7u8);
    assert!(shard.broker.next_job().is_some(), "the next piece has its turn");
}

#[test]
fn what_all_sessions_go_through_themselves_is_bounded_by_the_turn() {
    let mut shard = Shard::new();
    shard.settle_down();
    let most = shard.broker.may_go_through(shard.now);
    shard.broker.gone_through(most - 10);
    assert_eq!(shard.broker.may_go_through(shard.now), 10);
    shard.broker.gone_through(11);
    assert_eq!(shard.broker.may_go_through(shard.now), 0);
    shard.now.mono = Mono(shard.now.mono.0 + 1);
    assert_eq!(shard.broker.may_go_through(shard.now), most);
}
