//! Writing dead letters: for each queue one batch of the letters and the end of the messages they are of.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use model::{DeadLetters, Death, Format, FormatTag, Formats, LogId, Marks, Offset, Stamp};
use storage::{Append, Batch, Read, ReadId, ReadRequest, StateChange, StorageError, SyncPolicy, Target};

use super::Dead;
use super::cycle::Cycle;
use crate::core::Core;
use crate::delay::Holding;
use crate::queue::window::{Found, Window};
use crate::queue::{Body, DeadLetterTo, Queues};
use crate::routing::{Ends, PublishRequest};
use crate::state;

/// Letters of one queue written at once.
const LETTERS_MAX: usize = 512;
/// Their bytes: one larger letter goes alone.
const LETTERS_BYTES_MAX: usize = 256 << 10;
/// How long to wait before letters are tried again that could not be written.
const RETRY: Duration = Duration::from_millis(500);

/// What is written at once.
#[derive(Default)]
struct Letters {
    /// Units, back to back.
    bytes: Vec<u8>,
    /// Each letter's unit, targets and marks.
    list: Vec<(Range<usize>, Range<usize>, Marks)>,
    targets: Vec<Target>,
    ends: Ends,
    /// Letters that wait in delayed exchanges.
    holding: Holding,
    /// The dead whose end goes with them.
    done: Vec<Dead>,
    /// Those that wait.
    kept: Vec<Dead>,
    /// One of them waits for the disk or for room, and with it all behind it.
    holds_up: bool,
    /// They are kept though nothing is read for them: no queue takes them.
    unrouted: bool,
}

/// The unit of a dead message.
enum Unit {
    Here(FormatTag, Bytes),
    Pending(ReadId),
    Gone,
}

/// Whose dead are buried.
struct House<'a> {
    tenant: &'a str,
    queue: &'a str,
    to: &'a DeadLetterTo,
    format: &'a dyn Format,
    keeper: &'a dyn DeadLetters,
}

impl Queues {
    /// Writes the dead letters of all queues with something to do.
    pub(crate) fn bury(&mut self, core: &mut Core) {
        for at in 0..self.marked.len() {
            let Some(queue) = self.marked.get(at).and_then(|id| self.by_id.get_mut(id)) else { continue };
            let id = queue.id;
            let now = core.now.mono;
            let Some(rules) = queue.rules.as_deref_mut() else { continue };
            if rules.dying.is_empty() || rules.retry_at.is_some_and(|at| at > now) {
                continue;
            }
            rules.retry_at = None;
            let (dying, to) = (std::mem::take(&mut rules.dying), rules.options.dead_letters.clone());
            let (tenant, name) = (queue.tenant.clone(), queue.info.name.clone());
            let formats = Arc::clone(&core.formats);
            let (Some(to), Some((format, keeper))) = (to, formats.for_dead_letters()) else { continue };
            let house = House { tenant: &tenant, queue: &name, to: &to, format, keeper };
            let letters = self.letters_of(core, &house, id, dying);
            self.buried |= self.write_letters(core, id, &house, letters);
        }
    }

    fn letters_of(&mut self, core: &mut Core, house: &House<'_>, id: u64, dying: Vec<Dead>) -> Letters {
        let mut letters = Letters::default();
        let mut window = (None, Window::default());
        for mut dead in dying {
            let is_full = letters.list.len() >= LETTERS_MAX || letters.bytes.len() >= LETTERS_BYTES_MAX;
            // Letters keep the order of the deaths: behind one that waits all wait.
            if dead.waits.is_some() || is_full || letters.holds_up {
                letters.holds_up = true;
                letters.kept.push(dead);
                continue;
            }
            match unit_of(&mut dead, &mut window, house.format.tag(), core) {
                Unit::Here(tag, unit)
                    if !letters.list.is_empty() && letters.bytes.len() + unit.len() > LETTERS_BYTES_MAX =>
                {
                    dead.unit = dead.unit.or(dead.place.is_none().then_some((tag, unit)));
                    letters.holds_up = true;
                    letters.kept.push(dead);
                }
                Unit::Here(tag, unit) => {
                    dead.unit = Some((tag, unit.clone()));
                    self.add_letter(core, house, dead, &unit, &mut letters);
                }
                Unit::Pending(read) => {
                    self.ahead.reads.wait(read, id);
                    dead.waits = Some(read);
                    letters.holds_up = true;
                    letters.kept.push(dead);
                }
                Unit::Gone => letters.done.push(dead),
            }
        }
        letters
    }

    /// Stamps and routes one letter. What nobody takes is done with, and what would go round in a cycle.
    fn add_letter(&mut self, core: &mut Core, house: &House<'_>, dead: Dead, unit: &Bytes, letters: &mut Letters) {
        let key = house.to.key.as_deref();
        let (exchange, queue) = (house.to.exchange.as_str(), house.queue);
        let death = Death { queue, reason: dead.reason, at: core.now.wall, exchange, key };
        let from = letters.bytes.len();
        let buried = house.keeper.bury(unit, &death, &mut letters.bytes);
        let letter = Bytes::copy_from_slice(letters.bytes.get(from..).unwrap_or_default());
        let (Ok(()), Ok(address), Ok(marks)) = (buried, house.keeper.address(&letter), house.format.marks(&letter))
        else {
            tracing::error!(queue, "a dead message cannot be read: it has no letter");
            letters.bytes.truncate(from);
            letters.done.push(dead);
            return;
        };
        let more_keys = address.more_keys.iter().map(String::as_str).collect::<Vec<_>>();
        let request = PublishRequest {
            tenant: house.tenant,
            exchange,
            key: address.key,
            more_keys: &more_keys,
            headers: &|| address.headers.clone(),
            format: house.format,
            unit: &letter,
            time: core.now.wall,
            persistent: marks.persistent,
            marks,
            policy: SyncPolicy::None,
        };
        let first = letters.targets.len();
        // An exchange that does not exist takes nothing.
        let waits = match self.route(core, &request, &mut letters.targets) {
            Ok(routed) if routed.waits > 0 => match self.hold(core, &request, &mut letters.holding) {
                Ok(()) => true,
                Err(error) => {
                    tracing::warn!(queue, %error, "a dead letter cannot wait now");
                    letters.targets.truncate(first);
                    letters.bytes.truncate(from);
                    letters.unrouted = true; // tried again
                    letters.kept.push(dead);
                    return;
                }
            },
            Ok(_) => false,
            Err(_) => {
                letters.targets.truncate(first);
                false
            }
        };
        let mut at = first;
        while let Some(target) = letters.targets.get(at) {
            if self.closes_cycle(house.keeper, &letter, target) {
                letters.targets.remove(at);
            } else {
                at += 1;
            }
        }
        if letters.targets.len() == first {
            letters.bytes.truncate(from);
            if house.to.at_least_once && !waits {
                letters.unrouted = true;
                letters.kept.push(dead);
            } else {
                letters.done.push(dead);
            }
            return;
        }
        letters.ends.place(letters.targets.get_mut(first..).unwrap_or_default());
        letters.list.push((from..letters.bytes.len(), first..letters.targets.len(), marks));
        letters.done.push(dead);
    }

    fn closes_cycle(&self, keeper: &dyn DeadLetters, letter: &[u8], target: &Target) -> bool {
        let queue = self
            .by_log
            .of(target.log)
            .iter()
            .find_map(|id| self.by_id.get(id))
            .filter(|queue| queue.own_log().is_some());
        let Some(queue) = queue else { return false };
        let mut cycle = Cycle::to(&queue.info.name);
        keeper.deaths(letter, &mut |queue, reason| cycle.saw(queue, reason)).is_ok() && cycle.is_cycle()
    }

    fn write_letters(&mut self, core: &mut Core, id: u64, house: &House<'_>, mut letters: Letters) -> bool {
        for (_, targets, marks) in &letters.list {
            self.expect(core, letters.targets.get(targets.clone()).unwrap_or_default(), marks);
        }
        let done = std::mem::take(&mut letters.done);
        let stored = if done.is_empty() { Ok(()) } else { self.commit_letters(core, id, house, &letters, &done) };
        let Some(queue) = self.by_id.get_mut(&id) else { return false };
        let now = core.now.mono;
        let mut kept = letters.kept;
        match &stored {
            Ok(()) => queue.buried(&done),
            Err(StorageError::TooLarge { .. }) => {
                tracing::error!(queue = %queue.info.name, "dead letters are too large to be stored");
                queue.buried(&done);
            }
            Err(error) => {
                tracing::warn!(queue = %queue.info.name, %error, "dead letters cannot be stored now");
                let unread = done.into_iter().map(|dead| match dead.place {
                    Some((log, offset)) => Dead::at(log, offset, dead.reason),
                    None => dead,
                });
                kept = unread.chain(kept).collect();
            }
        }
        if let Some(rules) = queue.rules.as_deref_mut() {
            kept.append(&mut rules.dying);
            rules.dying = kept;
            if stored.is_err() || letters.unrouted {
                rules.retry_at = Some(now.plus(RETRY));
            }
        }
        if stored.is_ok() {
            self.held(core, &letters.holding);
            for (_, targets, marks) in &letters.list {
                self.note(letters.targets.get(targets.clone()).unwrap_or_default(), marks);
            }
        }
        stored.is_ok()
    }

    fn commit_letters(
        &mut self,
        core: &mut Core,
        id: u64,
        house: &House<'_>,
        letters: &Letters,
        done: &[Dead],
    ) -> Result<(), StorageError> {
        let appends = letters.list.iter().map(|(unit, targets, _)| {
            let targets = letters.targets.get(targets.clone()).unwrap_or_default();
            Append {
                targets,
                format: house.format,
                units: letters.bytes.get(unit.clone()).unwrap_or_default(),
                last_delta: 0,
                count: 1,
                time_max: core.now.wall,
                stamp: Stamp {
                    base: targets.first().map_or(Offset::ZERO, |target| target.first),
                    epoch: 0,
                    at: core.now.wall,
                },
            }
        });
        let appends = appends.chain(letters.holding.appends(core.now.wall)).collect::<Vec<_>>();
        let mut record = Vec::new();
        if let Some(queue) = self.by_id.get(&id).filter(|queue| queue.is_stored()) {
            queue.put_settled(done.iter().filter_map(|dead| dead.place), &mut record);
        }
        let change = [(state::cursor_of(id), StateChange::Delta(&record))];
        let state = if record.is_empty() { &[] } else { &change[..] };
        core.commit(&Batch { appends: &appends, state, ..Batch::default() }, SyncPolicy::None).map(drop)
    }
}

fn unit_of(dead: &mut Dead, at: &mut (Option<LogId>, Window), wanted: FormatTag, core: &mut Core) -> Unit {
    if let Some((tag, unit)) = dead.unit.take() {
        return Unit::Here(tag, unit);
    }
    let Some((log, offset)) = dead.place else { return Unit::Gone };
    let (of, window) = at;
    if of.replace(log) != Some(log) {
        window.clear();
    }
    for _ in 0..2 {
        match window.find(offset, wanted, &core.formats) {
            Ok(Found::Body(tag, Body::Unit(unit))) => return Unit::Here(tag, unit),
            Ok(Found::Body(_, Body::Neutral(message))) => return rebuilt(offset, *message, &core.formats),
            Ok(Found::Gap(_)) | Err(_) => return Unit::Gone,
            Ok(Found::Absent) => {}
        }
        let request = ReadRequest { log, from: Offset(offset), until: Offset(offset + 1), bytes_max: 1 };
        match core.storage.read(&request) {
            Ok(Read::Ready(chunks)) => window.load(offset, chunks),
            Ok(Read::Pending(read)) => return Unit::Pending(read),
            Err(_) => return Unit::Gone,
        }
    }
    Unit::Gone
}

/// A message of a format that keeps no deaths, built in one that does.
fn rebuilt(offset: u64, message: model::Message, formats: &Formats) -> Unit {
    let Some((format, _)) = formats.for_dead_letters() else { return Unit::Gone };
    let mut unit = Vec::new();
    match format.build(&[(Offset(offset), message)], &mut unit) {
        Ok(()) => Unit::Here(format.tag(), unit.into()),
        Err(_) => Unit::Gone,
    }
}
