//! What this process uses of the machine: for whoever looks at the server over HTTP. Read from /proc, which is memory;
//! nothing here waits for a disk.

use std::fs;
use std::path::PathBuf;

use console::machine::Machine;

use crate::machine::memory_limit;

/// Looks at the process and at the volume that holds `folder`.
#[must_use]
pub fn look(folder: &PathBuf, disk_free_limit: u64) -> Machine {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let number = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.split_whitespace().next()).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0)
    };
    let volume = rustix::fs::statvfs(folder).ok();
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let threads_max = rustix::process::getrlimit(rustix::process::Resource::Nproc).current;
    Machine {
        memory_used: number("VmRSS:") * 1024,
        memory_limit: memory_limit(),
        disk_free: volume.map_or(0, |volume| volume.f_bavail.saturating_mul(volume.f_frsize)),
        disk_free_limit,
        files_open: fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count() as u64),
        files_max: files.unwrap_or(u64::MAX >> 11),
        threads: number("Threads:"),
        threads_max: threads_max.unwrap_or(u64::MAX >> 11),
        processors: std::thread::available_parallelism().map_or(1, |count| count.get() as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_sees_itself() {
        let machine = look(&PathBuf::from("/"), 5);
        assert!(machine.memory_used > 0 && machine.memory_limit >= machine.memory_used);
        assert!(machine.files_open > 0 && machine.files_max >= machine.files_open && machine.threads > 0);
        assert_eq!(machine.disk_free_limit, 5);
    }
}
