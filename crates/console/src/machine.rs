//! What the server tells the console of its surroundings: where it listens, what it may use and uses of the machine.

use std::net::SocketAddr;
use std::sync::OnceLock;

/// A place where a door listens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Listening {
    /// The door.
    pub door: &'static str,
    /// The address.
    pub address: SocketAddr,
}

/// What the process uses of the machine, and may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Machine {
    /// Bytes of memory in use.
    pub memory_used: u64,
    /// … that may be.
    pub memory_limit: u64,
    /// Bytes free where the data are.
    pub disk_free: u64,
    /// With less, messages are refused.
    pub disk_free_limit: u64,
    /// Descriptors open.
    pub files_open: u64,
    /// … that may be.
    pub files_max: u64,
    /// Threads.
    pub threads: u64,
    /// … that there may be.
    pub threads_max: u64,
    /// Processors.
    pub processors: u64,
}

/// Looks at the machine. It must not wait for a disk.
pub type Look = Box<dyn Fn() -> Machine + Send + Sync>;

/// Told once, when the server has opened its doors.
#[derive(Default)]
pub struct Surroundings {
    listening: OnceLock<Vec<Listening>>,
    look: OnceLock<Look>,
    data_folder: OnceLock<String>,
}

impl std::fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Surroundings").field("listening", &self.listening).finish_non_exhaustive()
    }
}

impl Surroundings {
    /// Where the server listens, where its data are, and how to look at the machine. A second telling has no effect.
    pub fn tell(&self, listening: Vec<Listening>, data_folder: String, look: Look) {
        let _ = self.listening.set(listening);
        let _ = self.data_folder.set(data_folder);
        let _ = self.look.set(look);
    }

    /// Where the server listens.
    pub fn listening(&self) -> &[Listening] {
        self.listening.get().map_or(&[], Vec::as_slice)
    }

    /// Where its data are.
    pub fn data_folder(&self) -> &str {
        self.data_folder.get().map_or("", String::as_str)
    }

    /// What is used of the machine now.
    pub fn machine(&self) -> Machine {
        self.look.get().map_or_else(Machine::default, |look| look())
    }
}
