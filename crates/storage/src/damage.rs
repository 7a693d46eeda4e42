//! The damaged places known of: what opening found, and what reading has run into since. For people; nothing is decided
//! by it.

use model::LogId;

use crate::engine::Storage;
use crate::journal::files::{JournalFile, Unread};
use crate::journal::frame::file_name;
use crate::{Damage, StorageError};

/// Places kept at most: whoever has more has read enough.
const PLACES_MAX: usize = 1000;

impl Storage {
    /// Damaged places, in the order they were found.
    #[must_use]
    pub fn damage(&self) -> &[Damage] {
        &self.damage
    }

    /// Notes a place that was found to be damaged, once.
    pub(crate) fn note_damage(&mut self, found: Damage) {
        let known = self.damage.iter_mut().find(|known| (&known.file, known.at) == (&found.file, found.at));
        if let Some(known) = known {
            let more: Vec<LogId> = found.logs.into_iter().filter(|log| !known.logs.contains(log)).collect();
            known.logs.extend(more);
        } else if self.damage.len() < PLACES_MAX {
            self.damage.push(found);
        }
    }

    /// Notes what the disk did not give of the window's files.
    pub(crate) fn note_unread(&mut self) {
        let of_file = |file: &std::sync::Arc<JournalFile>| {
            let name = file_name(u64::from(file.number));
            let named = move |unread: Unread| {
                let logs = unread.log.into_iter().collect();
                Damage { file: name.clone(), at: unread.at, bytes: unread.bytes, logs }
            };
            file.unread().into_iter().map(named).collect::<Vec<_>>()
        };
        let found: Vec<Damage> = self.writer.files().iter().flat_map(of_file).collect();
        found.into_iter().for_each(|damage| self.note_damage(damage));
    }

    /// Notes what reading `log` has run into, if it is damage.
    pub(crate) fn note_refusal<T>(&mut self, log: LogId, result: Result<T, StorageError>) -> Result<T, StorageError> {
        if let Err(StorageError::Damaged { file, at }) = &result {
            let known =
                self.damage.iter().any(|known| (&known.file, known.at) == (file, *at) && known.logs.contains(&log));
            if !known {
                tracing::error!(%file, at, %log, "damaged bytes: they are not served");
                self.note_damage(Damage { file: file.clone(), at: *at, bytes: 0, logs: vec![log] });
            }
        }
        result
    }
}
