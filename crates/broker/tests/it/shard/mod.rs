//! A broker on a simulated disk, driven by hand, with a format whose units hold several messages with keys and times:
//! what the tests of topics, partitions and users share.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::api::group::{Committed, GroupSnapshot, LedgerCodec, LedgerEntry};
use super::api::partition::{AppendRequest, Appended, ProducerBatch};
use super::api::topic::{NewTopic, TopicInfo};
use super::api::{Broker, BrokerError, CallId, Event, Lsn, Options, SessionId, SyncPolicy};
use bytes::Bytes;
use model::{ByteReader, ByteWriter, Format, FormatError, FormatTag, Formats, LogId, Message, Mono, Name, Now};
use model::{Offset, UnitAt, Wall};
use storage::SimDisk;

/// Tag of [`Lines`].
pub const LINES: FormatTag = FormatTag(1);

/// A unit is its length, a count, and messages of a time, a key and a text.
pub struct Lines;

impl Lines {
    /// One unit of messages (time, text).
    pub fn unit(messages: &[(i64, &str)]) -> Vec<u8> {
        let full: Vec<_> = messages.iter().map(|(time, text)| (*time, &b""[..], text.as_bytes())).collect();
        Lines::keyed(&full)
    }

    pub fn keyed(messages: &[(i64, &[u8], &[u8])]) -> Vec<u8> {
        let mut unit = Vec::new();
        let mut writer = ByteWriter::new(&mut unit);
        writer.u32(0);
        writer.u32(messages.len() as u32);
        for (time, key, text) in messages {
            writer.i64(*time);
            for part in [key, text] {
                writer.u32(part.len() as u32);
                writer.bytes(part);
            }
        }
        let length = writer.position() as u32;
        writer.patch_u32(0, length);
        unit
    }
}

impl Format for Lines {
    fn tag(&self) -> FormatTag {
        LINES
    }

    fn split(&self, units: &[u8], base: Offset, visit: &mut model::format::VisitUnit<'_>) -> Result<(), FormatError> {
        let bad = |_| FormatError::Malformed("cut short");
        let (mut at, mut first) = (0, base);
        while at < units.len() {
            let mut reader = ByteReader::new(&units[at..]);
            let (bytes, count) = (reader.u32().map_err(bad)? as usize, reader.u32().map_err(bad)?);
            if visit(UnitAt { first, count, at, bytes }).is_break() {
                break;
            }
            at += bytes;
            first = first.plus(u64::from(count));
        }
        Ok(())
    }

    fn open(&self, units: &Bytes, base: Offset, visit: &mut model::format::Visit<'_>) -> Result<(), FormatError> {
        let bad = |_| FormatError::Malformed("cut short");
        let mut borders = Vec::new();
        self.split(units, base, &mut |unit| {
            borders.push(unit);
            ControlFlow::Continue(())
        })?;
        for unit in borders {
            let mut reader = ByteReader::new(&units[unit.at + 8..unit.at + unit.bytes]);
            for delta in 0..u64::from(unit.count) {
                let created = Some(Wall(reader.i64().map_err(bad)?));
                let mut part = || {
                    let length = reader.u32()? as usize;
                    Ok(Some(Bytes::copy_from_slice(reader.take(length)?)))
                };
                let (key, value) = (part().map_err(bad)?, part().map_err(bad)?);
                if visit(unit.first.plus(delta), Message { created, key, value, ..Message::default() }).is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn build(&self, messages: &[(Offset, Message)], out: &mut Vec<u8>) -> Result<(), FormatError> {
        let none = Bytes::new();
        let part = |bytes: &Option<Bytes>| bytes.clone().unwrap_or_else(|| none.clone());
        let owned: Vec<_> = messages.iter().map(|(_, message)| (part(&message.key), part(&message.value))).collect();
        let full: Vec<_> = owned.iter().map(|(key, value)| (1, &key[..], &value[..])).collect();
        out.extend_from_slice(&Lines::keyed(&full));
        Ok(())
    }
}

/// Writes offsets as `group/topic/partition` = `offset`, groups as `group` = the number of a note.
pub struct TextLedger;

thread_local! {
    /// Groups as they were written by this test.
    static NOTES: RefCell<Vec<GroupSnapshot>> = const { RefCell::new(Vec::new()) };
}

fn note(snapshot: &GroupSnapshot) -> String {
    NOTES.with_borrow_mut(|notes| {
        notes.push(snapshot.clone());
        (notes.len() - 1).to_string()
    })
}

impl LedgerCodec for TextLedger {
    fn encode(&self, entry: &LedgerEntry) -> Message {
        let (key, value) = match entry {
            LedgerEntry::Offset { group, topic, partition, committed } => {
                let value = committed.as_ref().map(|committed| committed.offset.to_string());
                (format!("{group}/{topic}/{partition}"), value.unwrap_or_default())
            }
            LedgerEntry::Group { group, snapshot } => {
                (group.to_string(), snapshot.as_ref().map(note).unwrap_or_default())
            }
        };
        Message { key: Some(key.into()), value: Some(value.into()), ..Message::default() }
    }

    fn decode(&self, message: &Message) -> Option<LedgerEntry> {
        let key = String::from_utf8(message.key.as_ref()?.to_vec()).ok()?;
        let value = String::from_utf8(message.value.as_ref()?.to_vec()).ok()?;
        let mut parts = key.split('/');
        let group = parts.next()?;
        let Some(topic) = parts.next() else {
            let snapshot = value.parse().ok().map(|note: usize| NOTES.with_borrow(|notes| notes[note].clone()));
            return Some(LedgerEntry::Group { group: name(group), snapshot });
        };
        let partition = parts.next()?;
        let committed = value.parse().ok().map(|offset| Committed {
            offset: Offset(offset),
            leader_epoch: -1,
            metadata: String::new(),
            at: Wall(0),
        });
        Some(LedgerEntry::Offset {
            group: name(group),
            topic: name(topic),
            partition: partition.parse().ok()?,
            committed,
        })
    }

    fn format(&self) -> FormatTag {
        LINES
    }
}

pub fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// A driver without sockets.
pub struct Shard {
    pub disk: SimDisk,
    pub broker: Broker,
    pub now: Now,
    pub options: Options,
}

impl Shard {
    pub fn new() -> Shard {
        Shard::on(SimDisk::new())
    }

    pub fn on(disk: SimDisk) -> Shard {
        let storage =
            storage::Options { journal_file_bytes: 1 << 20, reserve_bytes: 1 << 20, ..storage::Options::default() };
        Shard::with(disk, Options { storage, ..Options::default() }).unwrap()
    }

    pub fn with(disk: SimDisk, options: Options) -> Result<Shard, BrokerError> {
        let mut formats = Formats::default();
        formats.add(Box::new(Lines));
        let now = Now { mono: Mono(0), wall: Wall(1_000_000) };
        let disk_of_broker = Arc::new(disk.clone());
        let broker = Broker::open(disk_of_broker, options.clone(), formats, Box::new(TextLedger), now)?;
        let mut shard = Shard { disk, broker, now, options };
        shard.settle_down();
        Ok(shard)
    }

    /// The process dies and starts again on what it had written.
    pub fn killed(&self) -> Shard {
        Shard::with(self.disk.kill(), self.options.clone()).unwrap()
    }

    /// The power fails and comes back.
    pub fn power_cut(&self, seed: u64) -> Shard {
        Shard::with(self.disk.crash(seed), self.options.clone()).unwrap()
    }

    /// Ends the turn, runs no job: written, not synced.
    pub fn turn(&mut self) {
        self.broker.end_turn(self.now);
    }

    /// Ends the turn and runs all jobs: synced.
    pub fn settle_down(&mut self) {
        self.broker.end_turn(self.now);
        while let Some(job) = self.broker.next_job() {
            self.broker.complete(job.run(), self.now);
            self.broker.end_turn(self.now);
        }
    }

    /// Makes a topic and answers its logs.
    pub fn topic(&mut self, text: &str, partitions: i64) -> Vec<LogId> {
        let (info, lsn) = self.create(text, partitions, &[]).unwrap();
        self.settle_down();
        assert!(self.broker.progress().synced >= lsn);
        info.partitions
    }

    pub fn create(
        &mut self,
        text: &str,
        partitions: i64,
        config: &[(&str, &str)],
    ) -> Result<(TopicInfo, Lsn), BrokerError> {
        self.broker.create_topic(&new_topic(text, partitions, config), self.now)
    }

    pub fn append(
        &mut self,
        log: LogId,
        messages: &[(i64, &str)],
        policy: SyncPolicy,
    ) -> Result<Appended, BrokerError> {
        self.append_as(log, messages, policy, None)
    }

    pub fn append_as(
        &mut self,
        log: LogId,
        messages: &[(i64, &str)],
        policy: SyncPolicy,
        producer: Option<ProducerBatch>,
    ) -> Result<Appended, BrokerError> {
        let units = Lines::unit(messages);
        let time_max = Wall(messages.iter().map(|(time, _)| *time).max().unwrap_or(0));
        let count = messages.len() as u32;
        let request = AppendRequest { log, format: &Lines, units: &units, count, time_max, producer, policy };
        self.broker.append(&request, self.now)
    }

    /// Everything visible from an offset on, as (offset, text). Waits for the disk.
    pub fn read(&mut self, log: LogId, from: u64) -> Vec<(u64, String)> {
        let (mut from, mut all) = (Offset(from), Vec::new());
        loop {
            let fetched = self.broker.fetch(SessionId(9), CallId(99), log, from, 1000).unwrap();
            if fetched.pending {
                self.settle_down();
                let told = self.events();
                assert!(told.contains(&(9, 99)), "a fetch that waits is told when it need not");
                continue;
            }
            for chunk in &fetched.chunks {
                Lines
                    .open(&chunk.units, chunk.first, &mut |offset, message| {
                        all.push((offset.0, String::from_utf8(message.value.unwrap().to_vec()).unwrap()));
                        ControlFlow::Continue(())
                    })
                    .unwrap();
            }
            match fetched.chunks.last() {
                Some(chunk) => from = chunk.last.plus(1),
                None => return all,
            }
        }
    }

    pub fn end(&self, log: LogId) -> u64 {
        self.broker.bounds(log).unwrap().end.0
    }

    /// Who is told to read, since the last look.
    pub fn events(&mut self) -> Vec<(u64, u64)> {
        let mut told = Vec::new();
        while let Some((session, event)) = self.broker.next_event() {
            if let Event::Readable(call) = event {
                told.push((session.0, call.0));
            }
        }
        told
    }
}

pub fn new_topic(text: &str, partitions: i64, config: &[(&str, &str)]) -> NewTopic {
    NewTopic {
        tenant: name("/"),
        name: name(text),
        partitions,
        config: config.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        validate_only: false,
    }
}

/// Sequences of a batch.
pub fn batch(id: i64, epoch: i16, first: i32, last: i32) -> Option<ProducerBatch> {
    Some(ProducerBatch { id, epoch, first_sequence: first, last_sequence: last })
}
