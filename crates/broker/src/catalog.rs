//! The catalog on disk: commands as deltas of one owner's state, now and then a snapshot. What a command means is the
//! business of [`cluster::meta`]; who proposes one is the business of topics, queues, exchanges and users.

use bytes::Bytes;
use cluster::{Catalog, Command};
use serde::{Deserialize, Serialize};
use storage::{Batch, Lsn, StateChange, Storage, StorageError, SyncPolicy};

use crate::{BrokerError, state};

/// One state record, as JSON.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Record {
    Snapshot(Catalog),
    Command(Command),
}

/// As [`Record`], borrowed for writing.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
enum RecordRef<'a> {
    Snapshot(&'a Catalog),
    Command(&'a Command),
}

/// The catalog and its records.
#[derive(Debug, Default)]
pub(crate) struct CatalogStore {
    catalog: Catalog,
    last_change: Lsn,
}

impl CatalogStore {
    /// The catalog that `records` tell of. A record that cannot be read is an error: what is not known to exist would
    /// be taken for deleted.
    pub(crate) fn recover(records: &[Bytes]) -> Result<CatalogStore, BrokerError> {
        let unusable = |why: String| StorageError::Unusable(format!("the catalog cannot be read: {why}"));
        let mut catalog = Catalog::default();
        for record in records {
            match serde_json::from_slice::<Record>(record).map_err(|e| unusable(e.to_string()))? {
                Record::Snapshot(snapshot) => catalog = snapshot,
                Record::Command(command) => catalog.apply(&command).map_err(|e| unusable(e.to_string()))?,
            }
        }
        Ok(CatalogStore { catalog, last_change: Lsn::default() })
    }

    /// All that exists.
    pub(crate) fn get(&self) -> &Catalog {
        &self.catalog
    }

    /// When it last changed. Whoever answers that something exists (or does not) already, waits until that is synced:
    /// the change that made it so may not be on disk yet.
    pub(crate) fn last_change(&self) -> Lsn {
        self.last_change
    }

    /// Checks, stores and applies `command`. The answer to it must wait until the [`Lsn`] is synced.
    pub(crate) fn run(&mut self, command: &Command, storage: &mut Storage) -> Result<Lsn, BrokerError> {
        self.catalog.check(command)?;
        let record = to_json(&RecordRef::Command(command))?;
        let batch = Batch { state: &[(state::CATALOG_OWNER, StateChange::Delta(&record))], ..Batch::default() };
        let lsn = storage.commit(&batch, SyncPolicy::Sync)?;
        self.catalog.apply(command)?; // checked above: it cannot fail
        self.last_change = lsn;
        Ok(lsn)
    }

    /// The whole catalog as one record.
    pub(crate) fn snapshot(&self) -> Result<Vec<u8>, BrokerError> {
        to_json(&RecordRef::Snapshot(&self.catalog))
    }
}

fn to_json(record: &RecordRef<'_>) -> Result<Vec<u8>, BrokerError> {
    serde_json::to_vec(record).map_err(|e| BrokerError::Invalid(format!("the command cannot be stored: {e}")))
}
