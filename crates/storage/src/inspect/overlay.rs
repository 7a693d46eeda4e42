//! A disk over another one that keeps every change in memory: what opening does to a folder can be seen without doing
//! it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{Disk, DiskFile};

const PAGE: u64 = 4096;

/// What was written and where, page by page.
type Pages = BTreeMap<u64, Vec<u8>>;

struct OverlayFile {
    /// The file below; `None` when it is new.
    base: Option<Arc<dyn DiskFile>>,
    state: Mutex<(u64, Pages)>,
}

/// The disk. Files are read from the one below and written here.
pub(super) struct Overlay {
    base: Arc<dyn Disk>,
    /// Files that were opened or made, by the name they have now.
    files: Mutex<BTreeMap<String, Arc<OverlayFile>>>,
    /// Names of files below that are not there any more.
    gone: Mutex<BTreeSet<String>>,
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Overlay {
    pub(super) fn new(base: Arc<dyn Disk>) -> Overlay {
        Overlay { base, files: Mutex::default(), gone: Mutex::default() }
    }
}

impl Disk for Overlay {
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn DiskFile>> {
        let mut files = held(&self.files);
        if let Some(file) = files.get(name) {
            return Ok(Arc::clone(file) as Arc<dyn DiskFile>);
        }
        let base = if held(&self.gone).contains(name) {
            Err(io::ErrorKind::NotFound.into())
        } else {
            self.base.open(name, false)
        };
        let base = match base {
            Ok(base) => Some(base),
            Err(error) if error.kind() == io::ErrorKind::NotFound && create => None,
            Err(error) => return Err(error),
        };
        let bytes = base.as_ref().map_or(Ok(0), |base| base.len())?;
        let file = Arc::new(OverlayFile { base, state: Mutex::new((bytes, Pages::new())) });
        files.insert(name.to_owned(), Arc::clone(&file));
        Ok(file)
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let gone = held(&self.gone);
        let mut names: BTreeSet<String> = self.base.list(folder)?.into_iter().collect();
        names.retain(|name| !gone.contains(&format!("{prefix}{name}")));
        let files = held(&self.files);
        let inside = files.keys().filter_map(|name| name.strip_prefix(&prefix));
        names.extend(inside.filter(|name| !name.contains('/')).map(str::to_owned));
        Ok(names.into_iter().collect())
    }

    fn list_folders(&self, folder: &str) -> io::Result<Vec<String>> {
        self.base.list_folders(folder)
    }

    fn remove_folder(&self, _folder: &str) -> io::Result<()> {
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.open(from, false)?;
        let mut files = held(&self.files);
        let Some(file) = files.remove(from) else { return Err(io::ErrorKind::NotFound.into()) };
        files.insert(to.to_owned(), file);
        held(&self.gone).insert(from.to_owned());
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let known = held(&self.files).remove(name);
        if known.is_none_or(|file| file.base.is_some()) {
            held(&self.gone).insert(name.to_owned());
        }
        Ok(())
    }

    fn sync_folder(&self, _folder: &str) -> io::Result<()> {
        Ok(())
    }

    fn free_bytes(&self) -> io::Result<u64> {
        Ok(u64::MAX)
    }

    fn lock(&self) -> io::Result<()> {
        self.base.lock()
    }
}

impl OverlayFile {
    fn page(&self, pages: &Pages, page: u64) -> io::Result<Vec<u8>> {
        if let Some(bytes) = pages.get(&page) {
            return Ok(bytes.clone());
        }
        let mut bytes = vec![0; PAGE as usize];
        if let Some(base) = &self.base {
            base.read_at(page, &mut bytes)?;
        }
        Ok(bytes)
    }
}

impl DiskFile for OverlayFile {
    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = held(&self.state);
        let mut done = 0;
        while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
            let place = at + done as u64;
            let (page, inside) = (place / PAGE * PAGE, (place % PAGE) as usize);
            let count = rest.len().min(PAGE as usize - inside);
            let mut whole = self.page(&state.1, page)?;
            if let (Some(to), Some(new)) = (whole.get_mut(inside..inside + count), rest.get(..count)) {
                to.copy_from_slice(new);
            }
            state.1.insert(page, whole);
            done += count;
        }
        state.0 = state.0.max(at + bytes.len() as u64);
        Ok(())
    }

    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let state = held(&self.state);
        let count = usize::try_from(state.0.saturating_sub(at)).unwrap_or(usize::MAX).min(buffer.len());
        let Some(buffer) = buffer.get_mut(..count) else { return Ok(0) };
        let got = self.base.as_ref().map_or(Ok(0), |base| base.read_at(at, buffer))?;
        buffer.iter_mut().skip(got).for_each(|byte| *byte = 0);
        let end = at + count as u64;
        for (page, bytes) in state.1.range(at / PAGE * PAGE..end) {
            let from = (*page).max(at);
            let to = (page + PAGE).min(end);
            let source = bytes.get((from - page) as usize..(to - page) as usize);
            if let (Some(target), Some(source)) = (buffer.get_mut((from - at) as usize..(to - at) as usize), source) {
                target.copy_from_slice(source);
            }
        }
        Ok(count)
    }

    fn read_now(&self, at: u64, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        self.read_at(at, buffer).map(Some)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(held(&self.state).0)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        let mut state = held(&self.state);
        // What lies beyond a cut reads as zeros should the file grow again; nobody who opens does both.
        state.0 = bytes;
        state.1.retain(|page, _| *page < bytes);
        Ok(())
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        let mut state = held(&self.state);
        state.0 = state.0.max(bytes);
        Ok(())
    }
}
