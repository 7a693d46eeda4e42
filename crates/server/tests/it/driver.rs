//! The driver over real sockets, with a toy tongue.

use std::io::Read as _;
use std::net::Shutdown;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::rig::Running;
use broker::OUTPUT_BYTES_MAX;
use server::clock::wait_until;

const LONG: Duration = Duration::from_secs(20);

#[test]
fn a_frame_in_single_bytes_is_put_together() {
    let server = Running::start();
    let mut client = server.connect();
    for byte in "echo hello\n".chars() {
        client.send(&byte.to_string());
    }
    assert_eq!(client.line(), "hello");
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let server = Running::start();
    let mut client = server.connect();
    let mut writer = client.stream.try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        let all: String = (0..50_000).map(|number| format!("echo {number}\n")).collect();
        std::io::Write::write_all(&mut writer, all.as_bytes()).unwrap();
    });
    for number in 0..50_000 {
        assert_eq!(client.line(), number.to_string());
    }
    sender.join().unwrap();
}

#[test]
fn a_frame_larger_than_any_buffer_arrives_whole() {
    let server = Running::start();
    let mut client = server.connect();
    let long = "x".repeat(5 << 20);
    for _ in 0..2 {
        let mut writer = client.stream.try_clone().unwrap();
        let line = format!("echo {long}\n");
        let sender = std::thread::spawn(move || std::io::Write::write_all(&mut writer, line.as_bytes()).unwrap());
        assert!(client.line() == long);
        sender.join().unwrap();
    }
    assert_eq!(client.ask("echo still here"), "still here");
}

#[test]
fn a_reply_held_back_for_the_disk_leaves_when_it_is_synced() {
    let server = Running::start();
    let mut client = server.connect();
    client.send("create a\ncreate b\n");
    assert_eq!((client.line(), client.line()), ("created a".to_owned(), "created b".to_owned()));
}

#[test]
fn a_peer_that_has_closed_its_side_still_gets_its_answers() {
    let server = Running::start();
    let mut client = server.connect();
    client.send("create a\necho b\n");
    client.stream.shutdown(Shutdown::Write).unwrap();
    let mut rest = String::new();
    client.reader.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "b\ncreated a\n");
    assert!(wait_until(LONG, || server.closed.load(Ordering::Relaxed) == 1));
}

#[test]
fn a_peer_that_never_reads_costs_a_bounded_buffer_and_hurts_nobody() {
    let server = Running::start();
    let mut deaf = server.connect();
    deaf.send("flood\n");
    let mut pushy = server.connect();
    pushy.stream.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    let asks = format!("echo {}\n", "y".repeat(1000)).repeat(1000);
    let mut asked = 0;
    while std::io::Write::write_all(&mut pushy.stream, asks.as_bytes()).is_ok() {
        asked += asks.len();
        assert!(asked < 1 << 30, "the driver reads on although nobody takes the answers");
    }
    let mut other = server.connect();
    for number in 0..100 {
        assert_eq!(other.ask(&format!("echo {number}")), number.to_string());
    }
    assert!(server.queued_max.load(Ordering::Relaxed) <= OUTPUT_BYTES_MAX + 2000);
    // Who starts reading again gets everything on.
    let mut some = vec![0; 8 << 20];
    deaf.reader.read_exact(&mut some).unwrap();
    assert!(some.iter().all(|byte| *byte == b'.'));
}

#[test]
fn when_memory_is_short_the_large_wait_the_small_are_served_and_who_stands_still_goes() {
    const BUDGET: usize = 16 << 20;
    let server = Running::with_memory(BUDGET);
    // Frames that never end: each may hold a share of what is left, and no more is read of it.
    let part = "x".repeat(4 << 20);
    let mut stuck: Vec<_> = (0..16).map(|_| server.connect()).collect();
    for client in &mut stuck {
        client.stream.set_nonblocking(true).unwrap();
        let _ = std::io::Write::write_all(&mut client.stream, part.as_bytes()); // as much as is taken
        client.stream.set_nonblocking(false).unwrap();
        client.stream.set_write_timeout(Some(Duration::from_millis(50))).unwrap();
        while std::io::Write::write(&mut client.stream, part.as_bytes()).is_ok_and(|count| count == part.len()) {}
    }
    let [used, budget, _] = server.counters.read_memory();
    assert_eq!(budget, BUDGET as u64);
    assert!(used > BUDGET as u64 / 2 && used <= BUDGET as u64, "{used}");
    let mut other = server.connect();
    for number in 0..100 {
        assert_eq!(other.ask(&format!("echo {number}")), number.to_string());
    }
    assert!(wait_until(LONG * 3, || server.counters.read_memory()[2] > 0), "somebody is let go");
    assert!(wait_until(LONG * 3, || server.counters.read_memory()[0] <= BUDGET as u64 / 2), "until there is enough");
    assert_eq!(other.ask("echo still here"), "still here");
}

#[test]
fn what_was_held_goes_on_while_memory_is_short() {
    const BUDGET: usize = 16 << 20;
    let server = Running::with_memory(BUDGET);
    let (mut other, line) = (server.connect(), format!("aside {}\n", "x".repeat(700 << 10)));
    let (mut clients, mut senders) = (Vec::new(), Vec::new());
    let mut used = || {
        other.ask("echo and a turn");
        server.counters.read_memory()[0] as usize
    };
    // One after the other, so that all but perhaps the last have come whole and wait.
    while used() <= BUDGET / 2 {
        let (client, line) = (server.connect(), line.clone());
        let mut stream = client.stream.try_clone().unwrap();
        senders.push(std::thread::spawn(move || std::io::Write::write_all(&mut stream, line.as_bytes())));
        clients.push(client);
        assert!(wait_until(LONG, || used() > (BUDGET / 2).min(clients.len() * (700 << 10))));
    }
    server.gate.store(true, Ordering::Relaxed);
    for client in &mut clients {
        assert_eq!(client.line(), "done");
    }
    senders.into_iter().for_each(|sender| sender.join().unwrap().unwrap());
    assert_eq!(server.counters.read_memory()[2], 0, "nobody is let go");
}

#[test]
fn a_session_that_panics_takes_only_its_own_connection_down() {
    let server = Running::start();
    let (mut bad, mut good) = (server.connect(), server.connect());
    assert_eq!(good.ask("echo before"), "before");
    assert_eq!(bad.ask("panic"), "");
    assert_eq!(good.ask("echo after"), "after");
}

#[test]
fn the_last_words_arrive_even_when_the_peer_is_still_sending() {
    let server = Running::start();
    let mut client = server.connect();
    client.send("bye\n");
    client.send(&"echo never\n".repeat(10_000));
    assert_eq!((client.line(), client.line()), ("bye".to_owned(), String::new()));
}

#[test]
fn a_deadline_fires_and_idleness_costs_no_turns() {
    let server = Running::start();
    let mut client = server.connect();
    assert_eq!(client.ask("tick"), "tock");
    let turns = || server.clock.reads.load(Ordering::Relaxed);
    let before = turns();
    std::thread::sleep(Duration::from_millis(300)); // nothing is waited for: that nothing happens is the test
    assert!(turns() - before <= 6, "{} turns while idle", turns() - before);
}

#[test]
fn stopping_lets_sessions_say_goodbye() {
    let mut server = Running::start();
    let mut client = server.connect();
    client.send("create a\n");
    assert_eq!(client.line(), "created a");
    server.end();
    assert_eq!((client.line(), client.line()), ("stopping".to_owned(), String::new()));
}
