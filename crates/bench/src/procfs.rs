//! CPU time and memory of a process, and how busy the machine was, read from /proc.

use std::fs;

use crate::Outcome;

/// Clock ticks a second in /proc: 100 on every Linux we know.
const TICKS_PER_SECOND: f64 = 100.0;

/// A process's use of the machine so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// User and system CPU seconds.
    pub cpu_s: f64,
    /// Resident memory now, in MiB.
    pub rss_mib: f64,
    /// The most it was, in MiB.
    pub peak_mib: f64,
}

/// Reads what process `pid` has used.
///
/// # Errors
/// When there is no such process.
pub fn usage(pid: u32) -> Outcome<Usage> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).map_err(|why| format!("process {pid}: {why}"))?;
    // The command's name may hold spaces; the fields begin behind its closing parenthesis, with the state as the third.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    let status = fs::read_to_string(format!("/proc/{pid}/status")).map_err(|why| format!("process {pid}: {why}"))?;
    let mib = |key: &str| {
        let line = status.lines().find(|line| line.starts_with(key));
        line.and_then(|line| line.split_whitespace().nth(1)).and_then(|kib| kib.parse::<f64>().ok()).unwrap_or(0.0)
            / 1024.0
    };
    Ok(Usage { cpu_s: (ticks(11) + ticks(12)) / TICKS_PER_SECOND, rss_mib: mib("VmRSS:"), peak_mib: mib("VmHWM:") })
}

/// CPU seconds that all of the machine was busy so far.
#[must_use]
pub fn machine_busy_s() -> f64 {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let fields: Vec<f64> =
        stat.lines().next().unwrap_or_default().split_whitespace().skip(1).filter_map(|f| f.parse().ok()).collect();
    let idle: f64 = fields.iter().skip(3).take(2).sum();
    (fields.iter().take(8).sum::<f64>() - idle) / TICKS_PER_SECOND
}

/// CPU seconds of this process and its ended children.
#[must_use]
pub fn own_cpu_s() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(4).filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() / TICKS_PER_SECOND
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_process_has_memory() {
        assert!(usage(std::process::id()).expect("our own process").rss_mib > 0.0);
        assert!(machine_busy_s() > 0.0);
    }
}
