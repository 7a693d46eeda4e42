//! What idle connections cost. Alone in its process: it measures the process's memory.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::rig::Running;
use server::clock::wait_until;

const LONG: Duration = Duration::from_secs(20);

#[test]
fn two_thousand_idle_connections_hold_less_than_8_kib_each() {
    let mut limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current = limit.maximum;
    rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
    let server = Running::start();
    let mut first = server.connect();
    assert_eq!(first.ask("echo warm"), "warm");
    let before = resident_bytes();
    let mut all: Vec<_> = (0..2000).map(|_| server.connect()).collect();
    for (at, client) in all.iter_mut().enumerate() {
        assert_eq!(client.ask(&format!("echo {at}")), at.to_string());
        client.send("an unfinished fra");
    }
    assert_eq!(server.counters.read().next().unwrap().open, 2001);
    let each = resident_bytes().saturating_sub(before) / 2000;
    assert!(each < 8 << 10, "{each} bytes each (our side and the client's together)");
    drop(all);
    assert!(wait_until(LONG, || server.counters.read().next().unwrap().open == 1));
    assert_eq!(server.closed.load(Ordering::Relaxed), 2000);
    assert_eq!(first.ask("echo well"), "well");
}

fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
}
