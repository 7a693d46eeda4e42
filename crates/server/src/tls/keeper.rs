//! Holds what TLS doors use now, and takes new files without a restart: at a signal, and when they are seen to have
//! changed. Files that cannot be used change nothing: what was there goes on. Connections keep what they began with.

use std::os::unix::fs::MetadataExt as _;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime};
use std::{io, thread};

use console::counters::Counters;

use super::identity::{Identity, TlsError};
use super::options::TlsSettings;

/// How often a certificate that ends soon is spoken of.
const SAY_AGAIN: Duration = Duration::from_secs(86_400);

/// What a file looks like without reading it: its place, its size, when it changed; `None` when it is not there.
type Stamp = Option<(u64, u64, i64, i64)>;

/// Holds the identity of all TLS doors.
pub struct Keeper {
    settings: TlsSettings,
    current: RwLock<Arc<Identity>>,
    seen: Mutex<Vec<Stamp>>,
    counters: Arc<Counters>,
}

impl Keeper {
    /// Reads the files for the first time; what comes of it is also shown by `counters`.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn open(settings: TlsSettings, counters: Arc<Counters>) -> Result<Arc<Keeper>, TlsError> {
        let seen = Mutex::new(stamps(&settings));
        let identity = Identity::load(&settings)?;
        warn_of_readers(&settings);
        counters.certificate(identity.ends());
        let current = RwLock::new(Arc::new(identity));
        Ok(Arc::new(Keeper { settings, current, seen, counters }))
    }

    /// What new connections use.
    #[must_use]
    pub fn current(&self) -> Arc<Identity> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the files again, whether they look changed or not. Says what came of it.
    pub fn reload(&self) {
        // Looked at before they are read: what changes meanwhile is seen the next time.
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = stamps(&self.settings);
        let read = Identity::load(&self.settings);
        self.counters.certificate_read_again(read.is_ok());
        match read {
            Ok(identity) => {
                let (subject, until) = (&identity.certificate.subject, identity.until());
                tracing::info!(%subject, %until, "new connections get the TLS certificate that was just read");
                if let Some(warning) = identity.warning(SystemTime::now()) {
                    tracing::warn!("{warning}");
                }
                self.counters.certificate(identity.ends());
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(identity);
            }
            Err(why) => tracing::error!("the TLS files cannot be used, those of before stay in use: {why}"),
        }
    }

    /// Reads the files again if they look changed.
    pub fn look(&self) {
        let changed = *self.seen.lock().unwrap_or_else(PoisonError::into_inner) != stamps(&self.settings);
        if changed {
            self.reload();
        }
    }

    /// Starts a thread that looks for changes until nobody else holds the keeper.
    ///
    /// # Errors
    /// The operating system's, when it has no more threads to give.
    pub fn watch(self: &Arc<Keeper>) -> io::Result<()> {
        let (keeper, every) = (Arc::downgrade(self), self.settings.reload_check);
        let mut said: Option<Instant> = None;
        thread::Builder::new().name("tls-files".to_owned()).spawn(move || {
            while let Some(keeper) = keeper.upgrade() {
                keeper.look();
                if said.is_none_or(|at| at.elapsed() >= SAY_AGAIN)
                    && let Some(warning) = keeper.current().warning(SystemTime::now())
                {
                    tracing::warn!("{warning}");
                    said = Some(Instant::now());
                }
                drop(keeper);
                thread::sleep(every);
            }
        })?;
        Ok(())
    }
}

fn stamps(settings: &TlsSettings) -> Vec<Stamp> {
    let files = [&settings.cert, &settings.key, &settings.client_ca, &settings.client_crl];
    let seen = files.into_iter().flatten().map(|file| {
        let found = std::fs::metadata(file).ok()?;
        Some((found.ino(), found.len(), found.mtime(), found.mtime_nsec()))
    });
    seen.collect()
}

/// A key that every user of the machine may read is no secret.
fn warn_of_readers(settings: &TlsSettings) {
    let Some(file) = &settings.key else { return };
    if std::fs::metadata(file).is_ok_and(|found| found.mode() & 0o004 != 0) {
        tracing::warn!("everybody on this machine may read tls.key = {}: 'chmod o-r' takes that away", file.display());
    }
}
