//! The library that makes calls fail, compiled when it is needed, and what it counted.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Outcome;

const SOURCE: &str = include_str!("shim.c");
/// The kinds of call, in the order of the shim's counters.
pub(super) const KINDS: [&str; 9] =
    ["open", "read", "write", "sync", "rename", "unlink", "truncate", "allocate", "stat"];

/// What a call that is made to fail does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Fault {
    Eio,
    Enospc,
    Short,
    Eintr,
}

impl Fault {
    pub(super) const ALL: [Fault; 4] = [Fault::Eio, Fault::Enospc, Fault::Short, Fault::Eintr];

    pub(super) fn name(self) -> &'static str {
        match self {
            Fault::Eio => "eio",
            Fault::Enospc => "enospc",
            Fault::Short => "short",
            Fault::Eintr => "eintr",
        }
    }
}

/// What the shim has counted.
#[derive(Clone, Copy, Default)]
pub(super) struct Counted {
    /// Calls that the fault can happen to.
    pub(super) fitting: u64,
    /// The kind of call that failed, once it did.
    pub(super) fired: Option<&'static str>,
    pub(super) of: [u64; KINDS.len()],
}

/// Compiles the shim into `folder`.
///
/// # Errors
/// When there is no C compiler, or the machine is not one it is made for.
pub(super) fn compile(folder: &Path) -> Outcome<PathBuf> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Err("this judge catches system calls of Linux on x86-64 only".to_owned());
    }
    let (source, library) = (folder.join("shim.c"), folder.join("shim.so"));
    std::fs::write(&source, SOURCE).map_err(|e| format!("{}: {e}", source.display()))?;
    let mut command = Command::new("cc");
    command.args(["-O1", "-Wall", "-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
    let status = command.status().map_err(|e| format!("cc: {e} (a C compiler is needed)"))?;
    if status.success() { Ok(library) } else { Err(format!("cc could not compile the shim: {status}")) }
}

/// What the shim left in `file`.
pub(super) fn counted(file: &Path) -> Counted {
    let bytes = std::fs::read(file).unwrap_or_default();
    let word = |at: usize| bytes.get(at * 8..at * 8 + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes);
    let fired = (word(2) == 1).then(|| KINDS.get(word(3) as usize).copied().unwrap_or("?"));
    let mut of = [0; KINDS.len()];
    of.iter_mut().enumerate().for_each(|(at, count)| *count = word(4 + at));
    Counted { fitting: word(1), fired, of }
}
