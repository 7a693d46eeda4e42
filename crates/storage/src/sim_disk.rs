//! A disk in memory that tests can break: unsynced writes are kept apart and a power cut keeps, drops or tears each by
//! seed; any call can be made to fail; the space is bounded. Deterministic: same calls, same seeds, same disk.
//!
//! No thread, no clock. Used by this crate's tests, those of the crates above, and the simulator.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{Disk, DiskFile};

mod inode;
mod jobs;

use inode::{Inode, Pending};
pub use jobs::{complete_all, run_jobs, settle_down};

/// What a call that is made to fail does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// EIO. A failed sync also forgets what it should have made durable, as Linux does.
    Eio,
    /// ENOSPC.
    Enospc,
    /// A write stores its first half, then EIO.
    Short,
    /// From this call on the process is dead: a write stores its first half, and every call fails.
    Death,
}

/// How often each kind of call was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Calls {
    /// All calls that may be made to fail.
    pub all: u64,
    /// Calls of `write_at`.
    pub writes: u64,
    /// Bytes they wrote.
    pub written_bytes: u64,
    /// Calls of `sync`.
    pub syncs: u64,
    /// Calls of `read_at` and `read_now`.
    pub reads: u64,
}

enum NameChange {
    Set(String, usize),
    Rename(String, String),
    Remove(String),
}

struct World {
    inodes: Vec<Inode>,
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    name_changes: Vec<NameChange>,
    calls: Calls,
    fault: Option<(u64, Fault)>,
    dead: bool,
    capacity: u64,
    miss_seed: u64,
}

/// The simulated disk. Clones share it.
#[derive(Clone)]
pub struct SimDisk {
    world: Arc<Mutex<World>>,
    locked: Arc<AtomicBool>,
}

impl Default for SimDisk {
    fn default() -> Self {
        SimDisk::new()
    }
}

impl SimDisk {
    /// An empty disk of 1 TiB.
    #[must_use]
    pub fn new() -> SimDisk {
        SimDisk::of(World {
            inodes: Vec::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            name_changes: Vec::new(),
            calls: Calls::default(),
            fault: None,
            dead: false,
            capacity: 1 << 40,
            miss_seed: 0,
        })
    }

    fn of(world: World) -> SimDisk {
        SimDisk { world: Arc::new(Mutex::new(world)), locked: Arc::new(AtomicBool::new(false)) }
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes the volume holds from now on.
    pub fn set_capacity(&self, bytes: u64) {
        self.world().capacity = bytes;
    }

    /// Makes `read_now` answer `None` for about half of its calls, by `seed`; 0 switches it off.
    pub fn set_cache_misses(&self, seed: u64) {
        self.world().miss_seed = seed;
    }

    /// Makes the call number `at` (counted from 1 over the life of this disk, see [`Calls::all`]) fail.
    pub fn fail_at(&self, at: u64, fault: Fault) {
        self.world().fault = Some((at, fault));
    }

    /// What was called so far.
    #[must_use]
    pub fn calls(&self) -> Calls {
        self.world().calls
    }

    /// The disk after the death of the process: all that was written is there (but no more durable than before).
    #[must_use]
    pub fn kill(&self) -> SimDisk {
        let world = self.world();
        let name_changes = world.name_changes.iter().map(NameChange::copy).collect();
        SimDisk::of(World {
            inodes: world.inodes.clone(),
            names: world.names.clone(),
            durable_names: world.durable_names.clone(),
            name_changes,
            calls: Calls::default(),
            fault: None,
            dead: false,
            capacity: world.capacity,
            miss_seed: world.miss_seed,
        })
    }

    /// The disk after a power cut: what was synced is there; by `seed`, of the rest each write is kept, dropped or torn
    /// at sectors of 512 bytes, and each creation, renaming and removal is kept or dropped.
    #[must_use]
    pub fn crash(&self, seed: u64) -> SimDisk {
        let mut random = Random(seed.wrapping_mul(2).wrapping_add(1));
        let world = self.world();
        let mut names = surviving_names(&world, &mut random);
        let mut inodes: Vec<Inode> = Vec::new();
        for named in names.values_mut() {
            if let Some(inode) = world.inodes.get(*named) {
                inodes.push(inode.after_crash(&mut random));
                *named = inodes.len() - 1;
            }
        }
        SimDisk::of(World {
            inodes,
            durable_names: names.clone(),
            names,
            name_changes: Vec::new(),
            calls: Calls::default(),
            fault: None,
            dead: false,
            capacity: world.capacity,
            miss_seed: world.miss_seed,
        })
    }

    /// The bytes of a file, for surgery in tests.
    #[must_use]
    pub fn bytes_of(&self, name: &str) -> Option<Vec<u8>> {
        let world = self.world();
        world.names.get(name).and_then(|at| world.inodes.get(*at)).map(|inode| inode.now.clone())
    }

    /// Replaces the bytes of a file (or makes it), durably.
    pub fn put_bytes(&self, name: &str, bytes: Vec<u8>) {
        let mut world = self.world();
        let inode = Inode { durable: bytes.clone(), now: bytes, ..Inode::default() };
        world.inodes.push(inode);
        let at = world.inodes.len() - 1;
        world.names.insert(name.to_owned(), at);
        world.durable_names.insert(name.to_owned(), at);
    }

    /// Removes a file, durably.
    pub fn lose(&self, name: &str) {
        let mut world = self.world();
        world.names.remove(name);
        world.durable_names.remove(name);
    }

    /// From now on the disk does not give these bytes of a file: reading any of them is EIO, also after a stop. With no
    /// bytes it gives all again.
    pub fn make_unreadable(&self, name: &str, bytes: std::ops::Range<u64>) {
        self.make_unreadable_after(name, bytes, 0);
    }

    /// As [`SimDisk::make_unreadable`], but `reads` of them succeed before.
    pub fn make_unreadable_after(&self, name: &str, bytes: std::ops::Range<u64>, reads: u64) {
        let mut world = self.world();
        if let Some(at) = world.names.get(name).copied() {
            (world.inodes[at].unreadable, world.inodes[at].spared) = (Some(bytes), reads);
        }
    }

    /// All file names.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.world().names.keys().cloned().collect()
    }
}

impl NameChange {
    fn copy(&self) -> NameChange {
        match self {
            NameChange::Set(name, at) => NameChange::Set(name.clone(), *at),
            NameChange::Rename(from, to) => NameChange::Rename(from.clone(), to.clone()),
            NameChange::Remove(name) => NameChange::Remove(name.clone()),
        }
    }

    fn touches(&self) -> Vec<&str> {
        match self {
            NameChange::Set(name, _) | NameChange::Remove(name) => vec![name],
            NameChange::Rename(from, to) => vec![from, to],
        }
    }

    fn apply(&self, names: &mut BTreeMap<String, usize>) {
        match self {
            NameChange::Set(name, at) => {
                names.insert(name.clone(), *at);
            }
            NameChange::Rename(from, to) => {
                if let Some(at) = names.remove(from) {
                    names.insert(to.clone(), at);
                }
            }
            NameChange::Remove(name) => {
                names.remove(name);
            }
        }
    }
}

// Each change survives by chance; once one was dropped, later ones that touch the same names go with it.
fn surviving_names(world: &World, random: &mut Random) -> BTreeMap<String, usize> {
    let mut names = world.durable_names.clone();
    let mut frozen: Vec<&str> = Vec::new();
    for change in &world.name_changes {
        let touches = change.touches();
        if random.below(3) == 0 || touches.iter().any(|name| frozen.contains(name)) {
            frozen.extend(touches);
        } else {
            change.apply(&mut names);
        }
    }
    names
}

/// A small random sequence (xorshift64*): the same for the same seed on every machine.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        // splitmix64: any seed will do, zero too
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }
}

fn eio() -> io::Error {
    io::Error::from_raw_os_error(5)
}

fn enospc() -> io::Error {
    io::Error::from_raw_os_error(28)
}

impl World {
    // Counts a call; `Some(fault)` when it is the one to fail.
    fn call(&mut self) -> io::Result<Option<Fault>> {
        if self.dead {
            return Err(eio());
        }
        self.calls.all += 1;
        match self.fault {
            Some((at, fault)) if at == self.calls.all => {
                self.dead = fault == Fault::Death;
                Ok(Some(fault))
            }
            _ => Ok(None),
        }
    }

    // For calls that either happen or do not.
    fn plain_call(&mut self) -> io::Result<()> {
        match self.call()? {
            None => Ok(()),
            Some(Fault::Enospc) => Err(enospc()),
            Some(_) => Err(eio()),
        }
    }

    fn used(&self) -> u64 {
        self.names.values().filter_map(|at| self.inodes.get(*at)).map(Inode::space).sum()
    }

    fn miss(&mut self) -> bool {
        if self.miss_seed == 0 {
            return false;
        }
        let mut random = Random(self.miss_seed);
        self.miss_seed = random.next() | 1;
        random.below(2) == 0
    }
}

impl Disk for SimDisk {
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn DiskFile>> {
        let mut world = self.world();
        world.plain_call()?;
        let inode = match world.names.get(name) {
            Some(at) => *at,
            None if create => {
                world.inodes.push(Inode::default());
                let at = world.inodes.len() - 1;
                world.names.insert(name.to_owned(), at);
                world.name_changes.push(NameChange::Set(name.to_owned(), at));
                at
            }
            None => return Err(io::ErrorKind::NotFound.into()),
        };
        Ok(Arc::new(SimFile { world: Arc::clone(&self.world), inode }))
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let mut world = self.world();
        world.plain_call()?;
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let inside = world.names.keys().filter_map(|name| name.strip_prefix(&prefix));
        Ok(inside.filter(|name| !name.contains('/')).map(str::to_owned).collect())
    }

    // Folders are there as long as files are in them.
    fn list_folders(&self, folder: &str) -> io::Result<Vec<String>> {
        let mut world = self.world();
        world.plain_call()?;
        let prefix = format!("{folder}/");
        let inside = world.names.keys().filter_map(|name| name.strip_prefix(&prefix)?.split_once('/'));
        let mut folders: Vec<String> = inside.map(|(folder, _)| folder.to_owned()).collect();
        folders.dedup();
        Ok(folders)
    }

    fn remove_folder(&self, _folder: &str) -> io::Result<()> {
        self.world().plain_call()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut world = self.world();
        world.plain_call()?;
        let Some(at) = world.names.remove(from) else { return Err(io::ErrorKind::NotFound.into()) };
        world.names.insert(to.to_owned(), at);
        world.name_changes.push(NameChange::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut world = self.world();
        world.plain_call()?;
        if world.names.remove(name).is_some() {
            world.name_changes.push(NameChange::Remove(name.to_owned()));
        }
        Ok(())
    }

    fn sync_folder(&self, folder: &str) -> io::Result<()> {
        let mut world = self.world();
        world.plain_call()?;
        let parent = |name: &str| name.rsplit_once('/').map_or(String::new(), |(parent, _)| parent.to_owned());
        let (synced, kept): (Vec<NameChange>, Vec<NameChange>) = std::mem::take(&mut world.name_changes)
            .into_iter()
            .partition(|change| change.touches().iter().any(|name| parent(name) == folder));
        for change in &synced {
            change.apply(&mut world.durable_names);
        }
        world.name_changes = kept;
        Ok(())
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let mut world = self.world();
        world.plain_call()?;
        Ok(world.capacity.saturating_sub(world.used()))
    }

    fn lock(&self) -> io::Result<()> {
        if self.locked.swap(true, Ordering::SeqCst) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(())
    }
}

struct SimFile {
    world: Arc<Mutex<World>>,
    inode: usize,
}

impl SimFile {
    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DiskFile for SimFile {
    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut world = self.world();
        let fault = world.call()?;
        world.calls.writes += 1;
        let stored = match fault {
            None => bytes,
            Some(Fault::Short | Fault::Death) => bytes.get(..bytes.len() / 2).unwrap_or_default(),
            Some(Fault::Enospc) => return Err(enospc()),
            Some(Fault::Eio) => return Err(eio()),
        };
        let growth = world.inodes[self.inode].growth(at + stored.len() as u64);
        if growth > 0 && world.used().saturating_add(growth) > world.capacity {
            return Err(enospc());
        }
        world.calls.written_bytes += stored.len() as u64;
        world.inodes[self.inode].change(Pending::Write(at, stored.to_vec()));
        if fault.is_some() { Err(eio()) } else { Ok(()) }
    }

    fn write_over(&self, at: u64, pieces: &[&[u8]], spare: usize) -> io::Result<()> {
        let Some((last, others)) = pieces.split_last() else { return Ok(()) };
        let mut at = at;
        for piece in others {
            self.write_at(at, piece)?;
            at += piece.len() as u64;
        }
        let mut whole = last.to_vec();
        whole.resize(last.len() + spare, 0);
        self.write_at(at, &whole)
    }

    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut world = self.world();
        world.plain_call()?;
        world.calls.reads += 1;
        if world.inodes[self.inode].cannot_read(at, buffer.len()) {
            return Err(eio());
        }
        Ok(world.inodes[self.inode].read(at, buffer))
    }

    fn read_now(&self, at: u64, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let mut world = self.world();
        world.plain_call()?;
        world.calls.reads += 1;
        if world.miss() {
            return Ok(None);
        }
        if world.inodes[self.inode].cannot_read(at, buffer.len()) {
            return Err(eio());
        }
        Ok(Some(world.inodes[self.inode].read(at, buffer)))
    }

    fn sync(&self) -> io::Result<()> {
        let mut world = self.world();
        let fault = world.call()?;
        world.calls.syncs += 1;
        let inode = &mut world.inodes[self.inode];
        match fault {
            None => {
                inode.sync();
                Ok(())
            }
            Some(fault) => {
                if fault != Fault::Death {
                    inode.pending.clear(); // marked clean, never stored
                }
                Err(if fault == Fault::Enospc { enospc() } else { eio() })
            }
        }
    }

    fn len(&self) -> io::Result<u64> {
        let mut world = self.world();
        world.plain_call()?;
        Ok(world.inodes[self.inode].now.len() as u64)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        let mut world = self.world();
        world.plain_call()?;
        world.inodes[self.inode].change(Pending::Length(bytes));
        Ok(())
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        let mut world = self.world();
        world.plain_call()?;
        let growth = world.inodes[self.inode].growth(bytes);
        if growth > 0 && world.used().saturating_add(growth) > world.capacity {
            return Err(enospc());
        }
        let inode = &mut world.inodes[self.inode];
        inode.allocated = inode.allocated.max(bytes);
        if (inode.now.len() as u64) < bytes {
            inode.change(Pending::Length(bytes));
        }
        Ok(())
    }
}
