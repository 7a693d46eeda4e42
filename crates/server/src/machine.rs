//! How much memory this process may use: the machine's, or less if a control group says so. Asked once, at the start.

use std::fs;

/// Where nothing can be learnt, this is assumed.
const ASSUMED_BYTES: u64 = 4 << 30;

/// Part of it that is meant for what is on its way.
const BUDGET_PART: u64 = 4;

/// The budget where none is set.
#[must_use]
pub fn default_budget() -> u64 {
    memory_limit() / BUDGET_PART
}

/// How much memory this process may use.
#[must_use]
pub fn memory_limit() -> u64 {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| total(&text));
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limits = groups.lines().flat_map(limit_files).filter_map(|file| fs::read_to_string(file).ok());
    let limit = limits.filter_map(|text| text.trim().parse::<u64>().ok()).min();
    machine.into_iter().chain(limit).min().unwrap_or(ASSUMED_BYTES)
}

fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The files with the limits of a group and those above it, by a line of /proc/self/cgroup (cgroups(7)).
fn limit_files(line: &str) -> Vec<String> {
    let mut fields = line.splitn(3, ':');
    let (controllers, path) = (fields.nth(1).unwrap_or_default(), fields.next().unwrap_or_default());
    let (root, name) = match controllers {
        "" => ("/sys/fs/cgroup", "memory.max"),
        _ if controllers.split(',').any(|one| one == "memory") => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
        _ => return Vec::new(),
    };
    let mut files = vec![format!("{root}/{name}")]; // inside a container the group is the root
    let mut folder = root.to_owned();
    for part in path.split('/').filter(|part| !part.is_empty()) {
        folder = format!("{folder}/{part}");
        files.push(format!("{folder}/{name}"));
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_read() {
        assert_eq!(total("MemTotal:       24683552 kB\nMemFree: 1 kB\n"), Some(24_683_552 * 1024));
        assert_eq!(total("MemFree: 1 kB\n"), None);
    }

    #[test]
    fn both_kinds_of_control_groups_are_found() {
        assert_eq!(limit_files("0::/a").last().map(String::as_str), Some("/sys/fs/cgroup/a/memory.max"));
        let first = limit_files("4:memory:/a/b");
        assert_eq!(first.len(), 3);
        assert_eq!(first[2], "/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes");
        assert!(limit_files("5:cpu,cpuacct:/a").is_empty());
    }
}
