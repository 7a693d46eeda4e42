//! Letting go what is due: routed and stored in its queues, and taken out of its bucket, in one batch.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use model::{LogId, Marks, Offset, Stamp};
use storage::{Append, Batch, Read, ReadRequest, StateChange, StorageError, SyncPolicy, Target};

use super::Place;
use super::envelope::{Envelope, Envelopes};
use crate::core::Core;
use crate::queue::window::Window;
use crate::queue::{Queues, ranges::RangeSet};
use crate::routing::{Ends, PublishRequest};
use crate::{BrokerError, state};

/// Messages fired in one step.
const FIRE_MAX: usize = 512;
/// Their bytes: one larger message goes alone.
const FIRE_BYTES_MAX: usize = 256 << 10;
/// Places in queues that they get: one message that goes to more goes alone.
const FIRE_TARGETS_MAX: usize = 16 << 10;
/// How long to wait before what could not be stored is tried again.
const RETRY: Duration = Duration::from_millis(500);

/// One message to fire.
struct Shot {
    place: Place,
    /// The envelope.
    bytes: Bytes,
    /// Its targets among all.
    targets: std::ops::Range<usize>,
    marks: Marks,
}

impl Queues {
    /// Does what is due of delays; nothing else happens while nothing is.
    pub(crate) fn fire(&mut self, core: &mut Core) {
        let now = core.now;
        if self.delays.waits.is_some() || !self.delays.is_due(now.wall) {
            return;
        }
        if self.delays.retry_at.is_some_and(|at| at > now.mono) {
            return;
        }
        self.delays.retry_at = None;
        let done = self.come_near(core).and_then(|_| self.fire_due(core));
        if let Err(error) = done {
            if !matches!(error, BrokerError::Storage(StorageError::Closed(_))) {
                tracing::warn!(%error, "delayed messages cannot go on now");
            }
            self.delays.retry_at = Some(now.mono.plus(RETRY));
        }
    }

    fn fire_due(&mut self, core: &mut Core) -> Result<(), BrokerError> {
        let now = core.now.wall;
        let due = self.delays.near.keys().take_while(|place| place.0 <= now).take(FIRE_MAX).copied();
        let due = due.collect::<Vec<_>>();
        let (mut shots, mut targets, mut bytes) = (Vec::new(), Vec::new(), 0);
        let mut ends = Ends::default();
        let mut window = (None, Window::default());
        let mut gone = Vec::new();
        for place in due {
            match self.envelope_at(core, place, &mut window)? {
                Found::Here(_) if targets.len() > FIRE_TARGETS_MAX => break,
                Found::Here(unit) if !shots.is_empty() && bytes + unit.len() > FIRE_BYTES_MAX => break,
                Found::Here(unit) => {
                    bytes += unit.len();
                    match self.aim(core, (place, unit), (&mut targets, &mut ends)) {
                        Some(shot) => shots.push(shot),
                        None => gone.push(place),
                    }
                }
                Found::Pending => break,
                Found::Gone => gone.push(place),
            }
        }
        self.store_shots(core, &shots, &targets, &gone)
    }

    /// Finds where a message goes.
    fn aim(
        &mut self,
        core: &mut Core,
        (place, bytes): (Place, Bytes),
        (targets, ends): (&mut Vec<Target>, &mut Ends),
    ) -> Option<Shot> {
        let formats = std::sync::Arc::clone(&core.formats);
        let envelope = Envelope::read(&bytes).ok()?;
        // It was for an exchange that is gone, whatever has its name now.
        if envelope.number != self.exchanges.number(envelope.tenant, envelope.exchange) {
            return None;
        }
        let format = formats.get(envelope.format).ok()?;
        let unit = bytes.slice_ref(envelope.unit);
        let marks = Marks { published: core.now.wall, ..format.marks(&unit).ok()? };
        let headers = || {
            let address = format.dead_letters().and_then(|keeper| keeper.address(&unit).ok());
            address.map(|address| address.headers).unwrap_or_default()
        };
        let request = PublishRequest {
            tenant: envelope.tenant,
            exchange: envelope.exchange,
            key: envelope.key,
            more_keys: &envelope.more_keys,
            headers: &headers,
            format,
            unit: &unit,
            time: envelope.time,
            persistent: envelope.persistent,
            marks,
            policy: SyncPolicy::None,
        };
        let from = targets.len();
        // An exchange that is gone by now takes nothing.
        if self.route(core, &request, targets).is_err() {
            targets.truncate(from);
        }
        ends.place(targets.get_mut(from..).unwrap_or_default());
        let to = targets.len();
        self.expect(core, targets.get(from..).unwrap_or_default(), &marks);
        Some(Shot { place, bytes, targets: from..to, marks })
    }

    fn store_shots(
        &mut self,
        core: &mut Core,
        shots: &[Shot],
        targets: &[Target],
        gone: &[Place],
    ) -> Result<(), BrokerError> {
        let mut done: BTreeMap<LogId, RangeSet> = BTreeMap::new();
        for (_, log, offset) in shots.iter().map(|shot| shot.place).chain(gone.iter().copied()) {
            done.entry(log).or_default().insert(offset, offset + 1);
        }
        if done.is_empty() {
            return Ok(());
        }
        let formats = std::sync::Arc::clone(&core.formats);
        let mut appends = Vec::new();
        for shot in shots.iter().filter(|shot| !shot.targets.is_empty()) {
            let Ok(envelope) = Envelope::read(&shot.bytes) else { continue };
            let targets = targets.get(shot.targets.clone()).unwrap_or_default();
            appends.push(Append {
                targets,
                format: formats.get(envelope.format)?,
                units: envelope.unit,
                last_delta: 0,
                count: 1,
                time_max: envelope.time,
                stamp: Stamp {
                    base: targets.first().map_or(Offset::ZERO, |target| target.first),
                    epoch: 0,
                    at: core.now.wall,
                },
            });
        }
        let mut records = Vec::new();
        for (log, done) in &done {
            let mut record = Vec::new();
            if let Some(bucket) = self.delays.buckets.get(log) {
                bucket.put_done(done, &mut record);
                records.push((state::delays_of(*log), record));
            }
        }
        let state = records.iter().map(|(owner, record)| (*owner, StateChange::Delta(record))).collect::<Vec<_>>();
        core.commit(&Batch { appends: &appends, state: &state, ..Batch::default() }, SyncPolicy::None)?;
        for (log, done) in &done {
            let Some(bucket) = self.delays.buckets.get_mut(log) else { continue };
            done.iter().for_each(|(from, to)| bucket.cursor.skip(from, to));
            bucket.cursor.recorded();
        }
        for shot in shots {
            self.note(targets.get(shot.targets.clone()).unwrap_or_default(), &shot.marks);
        }
        let places = shots.iter().map(|shot| shot.place).chain(gone.iter().copied());
        for place in places {
            self.delays.near.remove(&place);
        }
        Ok(())
    }

    fn envelope_at(
        &mut self,
        core: &mut Core,
        (_, log, offset): Place,
        (of, window): &mut (Option<LogId>, Window),
    ) -> Result<Found, BrokerError> {
        if of.replace(log) != Some(log) {
            window.clear();
        }
        for _ in 0..2 {
            if let Some(unit) = window.raw(offset, &Envelopes) {
                return Ok(Found::Here(unit));
            }
            let request = ReadRequest { log, from: Offset(offset), until: Offset(offset + 1), bytes_max: 1 };
            match core.storage.read(&request) {
                Ok(Read::Ready(chunks)) => window.load(offset, chunks),
                Ok(Read::Pending(read)) => {
                    self.delays.waits = Some(read);
                    return Ok(Found::Pending);
                }
                Err(StorageError::Damaged { file, at }) => {
                    tracing::error!(%log, offset, file, at, "a damaged delayed message is passed over");
                    return Ok(Found::Gone);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Found::Gone)
    }
}

/// What lies at a place.
enum Found {
    Here(Bytes),
    Pending,
    Gone,
}
