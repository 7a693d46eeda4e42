//! Which pages of a file are in memory: asked before a range of it is sent to a socket by the thread that must not wait
//! (mincore(2), page by page), and before anything long is read or sent by others (cachestat(2), a tenth of the cost).
//! Only Linux is asked; elsewhere the answer is always "not known", and ranges are read by the pool.
//!
//! It reads no byte of the file. Used by the real disk only.

#[cfg(target_os = "linux")]
pub(crate) use linux::Pages;
#[cfg(not(target_os = "linux"))]
pub(crate) use other::Pages;

#[cfg(target_os = "linux")]
mod linux {
    use std::fs::File;
    use std::os::fd::AsRawFd;
    use std::ptr::NonNull;
    use std::sync::OnceLock;

    use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

    /// No page of the systems we run on is smaller.
    const PAGE_BYTES_MIN: usize = 4096;
    /// Pages asked about in one call.
    const PAGES_MAX: usize = 512;

    /// cachestat(2), of Linux 6.5 and later. The number is the same wherever we run.
    const SYS_CACHESTAT: libc::c_long = 451;

    /// What cachestat(2) is asked about, as linux/mman.h has it.
    #[repr(C)]
    struct CachestatRange {
        at: u64,
        bytes: u64,
    }

    /// What it answers, in pages.
    #[repr(C)]
    #[derive(Default)]
    struct Cachestat {
        cached: u64,
        dirty: u64,
        writeback: u64,
        evicted: u64,
        recently_evicted: u64,
    }

    /// A file's pages, mapped so that the kernel can be asked about them. The mapping is made when it is first asked
    /// for, and is never read through: it costs an address, no memory.
    #[derive(Default)]
    pub(crate) struct Pages {
        mapping: OnceLock<Option<Mapping>>,
    }

    struct Mapping {
        address: NonNull<u8>,
        bytes: usize,
    }

    // SAFETY: the address is only handed to system calls that may be made from any thread, and nobody reads or writes
    // the memory behind it.
    unsafe impl Send for Mapping {}
    // SAFETY: as above.
    unsafe impl Sync for Mapping {}

    impl Pages {
        /// How many bytes from `at` on, of `bytes`, lie in pages that are in memory and up to date.
        pub(crate) fn resident_bytes(&self, file: &File, at: u64, bytes: usize) -> usize {
            let mapping = self.mapping.get_or_init(|| Mapping::of(file));
            let (Some(mapping), Ok(at)) = (mapping, usize::try_from(at)) else { return 0 };
            let end = at.saturating_add(bytes).min(mapping.bytes);
            mapping.resident_until(at / PAGE_BYTES_MIN * PAGE_BYTES_MIN, end).saturating_sub(at)
        }
    }

    impl Pages {
        /// Whether all of these bytes lie in pages that are in memory, or on their way into it.
        pub(crate) fn are_cached(&self, file: &File, at: u64, bytes: usize) -> bool {
            let page = rustix::param::page_size() as u64;
            let end = at.saturating_add(bytes as u64);
            match cached_pages(file, at, bytes as u64) {
                Some(pages) => pages >= end.div_ceil(page) - at / page,
                None => self.resident_bytes(file, at, bytes) == bytes,
            }
        }
    }

    // `None` from a kernel that does not know the call.
    fn cached_pages(file: &File, at: u64, bytes: u64) -> Option<u64> {
        let range = CachestatRange { at, bytes };
        let mut found = Cachestat::default();
        // SAFETY: the kernel reads `range` and writes `found` during the call, both laid out as it has them, and keeps
        // neither address; a number that it does not know is an error.
        let asked = unsafe { libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), &raw const range, &raw mut found, 0) };
        (asked == 0).then_some(found.cached)
    }

    impl Mapping {
        fn of(file: &File) -> Option<Mapping> {
            let bytes = usize::try_from(file.metadata().ok()?.len()).ok().filter(|bytes| *bytes > 0)?;
            // SAFETY: a new mapping, at an address of the kernel's choice; no reference to it is ever made, so it does
            // not matter that the file changes or shrinks under it.
            let address =
                unsafe { mmap(std::ptr::null_mut(), bytes, ProtFlags::READ, MapFlags::SHARED, file, 0) }.ok()?;
            Some(Mapping { address: NonNull::new(address.cast())?, bytes })
        }

        // The end of the pages from `from` on that are in memory, at most `end`.
        fn resident_until(&self, from: usize, end: usize) -> usize {
            let mut answers = [0_u8; PAGES_MAX];
            let mut from = from;
            while from < end {
                let bytes = (end - from).min(PAGES_MAX * PAGE_BYTES_MIN);
                let pages = bytes.div_ceil(PAGE_BYTES_MIN);
                // SAFETY: `from + bytes ≤ end ≤ self.bytes`, so the range lies within our mapping; `answers` has room
                // for a byte a page, since no page is smaller than PAGE_BYTES_MIN.
                let asked = unsafe {
                    libc::mincore(self.address.as_ptr().add(from).cast(), bytes, answers.as_mut_ptr().cast())
                };
                let here = answers.get(..pages).unwrap_or_default();
                // Where pages are larger, fewer answers were written, and what was not says "not in memory".
                let missing = if asked == 0 { here.iter().position(|page| page & 1 == 0) } else { Some(0) };
                if let Some(missing) = missing {
                    return from + missing * PAGE_BYTES_MIN;
                }
                from += bytes;
                answers = [0; PAGES_MAX];
            }
            end
        }
    }

    impl Drop for Mapping {
        fn drop(&mut self) {
            // SAFETY: the mapping is ours, whole, and nobody uses its address any more.
            let _ = unsafe { munmap(self.address.as_ptr().cast(), self.bytes) };
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod other {
    use std::fs::File;

    /// Nobody can say.
    #[derive(Default)]
    pub(crate) struct Pages;

    impl Pages {
        /// Never known here.
        pub(crate) fn are_cached(&self, _file: &File, _at: u64, _bytes: usize) -> bool {
            false
        }

        /// Never known here.
        pub(crate) fn resident_bytes(&self, _file: &File, _at: u64, _bytes: usize) -> usize {
            0
        }
    }
}
