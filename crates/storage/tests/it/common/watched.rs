//! A real folder whose files a test watches: what is read on the data thread must not wait for the disk, and the test
//! says what is in memory.

use std::cell::Cell;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use storage::{Disk, DiskFile, RealDisk};

thread_local! {
    static ON_DATA_THREAD: Cell<bool> = const { Cell::new(false) };
}

/// Does what the data thread does.
pub fn on_data_thread<T>(work: impl FnOnce() -> T) -> T {
    ON_DATA_THREAD.set(true);
    let done = work();
    ON_DATA_THREAD.set(false);
    done
}

/// What is watched, shared with the test.
#[derive(Default)]
pub struct Watch {
    /// Nothing is in memory.
    pub cold: AtomicBool,
    /// Calls on the data thread that may wait for the disk to read.
    pub waits: AtomicUsize,
    /// Calls of `read_past_cache`, anywhere.
    pub past_cache: AtomicUsize,
    /// Calls of `read_at`, anywhere.
    pub reads: AtomicUsize,
}

impl Watch {
    fn note(&self) {
        if ON_DATA_THREAD.get() {
            self.waits.fetch_add(1, Ordering::Relaxed);
        }
    }
}

pub struct WatchedDisk {
    disk: RealDisk,
    watch: Arc<Watch>,
    folder: std::path::PathBuf,
}

impl WatchedDisk {
    pub fn new(name: &str) -> (Arc<WatchedDisk>, Arc<Watch>) {
        let folder = std::env::temp_dir().join(format!("fourfold-{}-{name}", std::process::id()));
        let watch = Arc::new(Watch::default());
        let disk = RealDisk::new(&folder).unwrap();
        (Arc::new(WatchedDisk { disk, watch: Arc::clone(&watch), folder }), watch)
    }

    /// The same folder as the next process finds it.
    pub fn again(self: Arc<Self>) -> Arc<WatchedDisk> {
        let (watch, folder) = (Arc::clone(&self.watch), self.folder.clone());
        drop(self); // and with it the lock
        Arc::new(WatchedDisk { disk: RealDisk::new(&folder).unwrap(), watch, folder })
    }

    pub fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.join(name)
    }

    pub fn remove_all(&self) {
        std::fs::remove_dir_all(&self.folder).unwrap();
    }
}

impl Disk for WatchedDisk {
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn DiskFile>> {
        if !create {
            self.watch.note();
        }
        Ok(Arc::new(WatchedFile { file: self.disk.open(name, create)?, watch: Arc::clone(&self.watch) }))
    }
    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        self.watch.note();
        self.disk.list(folder)
    }
    fn list_folders(&self, folder: &str) -> io::Result<Vec<String>> {
        self.watch.note();
        self.disk.list_folders(folder)
    }
    fn remove_folder(&self, folder: &str) -> io::Result<()> {
        self.disk.remove_folder(folder)
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }
    fn sync_folder(&self, folder: &str) -> io::Result<()> {
        self.disk.sync_folder(folder)
    }
    fn free_bytes(&self) -> io::Result<u64> {
        self.disk.free_bytes()
    }
    fn lock(&self) -> io::Result<()> {
        self.disk.lock()
    }
}

struct WatchedFile {
    file: Arc<dyn DiskFile>,
    watch: Arc<Watch>,
}

impl DiskFile for WatchedFile {
    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_at(at, bytes)
    }
    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.watch.note();
        self.watch.reads.fetch_add(1, Ordering::Relaxed);
        self.file.read_at(at, buffer)
    }
    fn read_past_cache(&self, at: u64, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        self.watch.note();
        self.watch.past_cache.fetch_add(1, Ordering::Relaxed);
        self.file.read_past_cache(at, buffer)
    }
    fn read_now(&self, at: u64, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        if self.watch.cold.load(Ordering::Relaxed) { Ok(None) } else { self.file.read_now(at, buffer) }
    }
    fn sync(&self) -> io::Result<()> {
        self.watch.note();
        self.file.sync()
    }
    fn len(&self) -> io::Result<u64> {
        self.watch.note();
        self.file.len()
    }
    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }
    fn allocate(&self, bytes: u64) -> io::Result<()> {
        self.file.allocate(bytes)
    }
    fn resident_bytes(&self, at: u64, bytes: usize) -> usize {
        if self.watch.cold.load(Ordering::Relaxed) { 0 } else { self.file.resident_bytes(at, bytes) }
    }
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.file.descriptor()
    }
}
