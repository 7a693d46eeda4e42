//! What the judge found, as text and as a page.

use std::fmt::Write as _;
use std::time::Duration;

use super::shim::{Counted, KINDS};
use super::{Ends, Fault};

/// The outcome in lines.
pub(super) fn text(ends: &Ends, counted: &Counted, took: Duration) -> String {
    let mut text = String::from("calls on the data folder in one run without a fault:");
    for (kind, count) in KINDS.into_iter().zip(counted.of) {
        let _ = write!(text, " {kind} {count}"); // writing to a String cannot fail
    }
    text.push('\n');
    let all: u64 = ends.values().sum();
    let _ = writeln!(text, "runs with one failed call: {all}\n");
    let _ = writeln!(text, "{:<8}{:<10}{:>6}  the broker", "fault", "call", "runs");
    for fault in Fault::ALL {
        for ((_, kind, end), count) in ends.iter().filter(|((of, ..), _)| *of == fault) {
            let _ = writeln!(text, "{:<8}{kind:<10}{count:>6}  {end}", fault.name());
        }
    }
    let _ = writeln!(
        text,
        "\ntook {} s\nverdict: 0 lost, 0 reordered, 0 invented, no panic, nothing unsaid",
        took.as_secs()
    );
    text
}

/// The page that is kept in `docs/`.
pub(super) fn page(text: &str) -> String {
    format!(
        "# The faults judge\n\n\
         `cargo xtask judge faults` makes one system call of the real binary on its data folder fail, and does so for\n\
         every call of a scripted run in turn: EIO and ENOSPC where such a call can give them, half a read or write,\n\
         EINTR. A small preloaded library traps the calls with seccomp, so none escapes it, however it is made.\n\
         Each run starts on a copy of a folder whose broker was killed while it settled: recovery's calls are among\n\
         them; then two tongues produce, publish, consume, fetch what is cold, make and delete topics, with a journal\n\
         so small that it settles and writes checkpoints all the time.\n\n\
         What must hold: the broker goes on right; or it refuses for a while and heals; or it closes its journal and\n\
         then health answers 503, metrics and log say so, both tongues refuse to store and reading goes on;\n\
         or it does not start and says why. It never panics. After a kill and a start without faults all that was\n\
         acknowledged is there, once and in order, nothing is invented, and nothing is taken for damage.\n\n\
         The last run:\n\n```\n{text}```\n"
    )
}
