//! Patience with a disk that fails to read: what fails for a moment only (a cable, a controller that starts anew) must
//! not count as a bad sector, since what was acknowledged there is passed over then. Used by the real disk only; all
//! reads that may wait go through here, none of the data thread.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::journal::files::is_unreadable;

/// Before a read is made again. A second in all.
const PAUSES: [Duration; 3] = [Duration::from_millis(20), Duration::from_millis(180), Duration::from_millis(800)];
/// How often that is gone through for nothing, until a file is believed at once: a place of many bad sectors is read
/// page by page, and must not take minutes.
const TIMES: u32 = 4;

/// What is left of it with one open file.
pub(crate) struct Patience {
    left: AtomicU32,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience { left: AtomicU32::new(TIMES) }
    }
}

impl Patience {
    /// Reads; while the disk says that it cannot, again after each pause.
    ///
    /// # Errors
    /// Those of `read`, the last time.
    pub(crate) fn read<T>(&self, pause: impl Fn(Duration), mut read: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        let mut result = read();
        if self.left.load(Ordering::Relaxed) == 0 {
            return result;
        }
        for wait in PAUSES {
            match &result {
                Err(error) if is_unreadable(error) => pause(wait),
                _ => return result,
            }
            result = read();
        }
        if result.as_ref().is_err_and(is_unreadable) {
            // Two threads may use up one time together: then there is one less, never one below none.
            let _ = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    const EIO: i32 = 5;

    #[test]
    fn what_fails_for_a_moment_is_read_and_a_bad_place_does_not_take_for_ever() {
        let (patience, waited) = (Patience::default(), RefCell::new(Vec::new()));
        let pause = |wait| waited.borrow_mut().push(wait);
        let mut left = 2;
        let fails_twice = || {
            left -= 1;
            if left >= 0 { Err(io::Error::from_raw_os_error(EIO)) } else { Ok(7) }
        };
        assert_eq!(patience.read(pause, fails_twice).ok(), Some(7));
        assert_eq!(waited.take(), PAUSES[..2]);
        let gone = || -> io::Result<()> { Err(io::ErrorKind::NotFound.into()) };
        assert!(patience.read(pause, gone).is_err());
        assert!(waited.take().is_empty(), "another error is told at once");
        let bad = || -> io::Result<()> { Err(io::Error::from_raw_os_error(EIO)) };
        for _ in 0..100 {
            assert!(patience.read(pause, bad).is_err_and(|error| is_unreadable(&error)));
        }
        assert_eq!(waited.take().len(), PAUSES.len() * TIMES as usize);
    }
}
