//! What the tests of storage share: a format whose units say their offset, and short ways to write and read.

pub mod book;
pub mod life;
pub mod oracle;
#[cfg(target_os = "linux")]
pub mod watched;

use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use model::format::{Visit, VisitUnit};
use model::{Format, FormatError, FormatTag, LogId, Message, Offset, Stamp, UnitAt, Wall};
use storage::{
    Append, Batch, Chunk, Lsn, Options, Read, ReadRequest, Recovered, SimDisk, Storage, StorageError, SyncPolicy,
    Target, sim_disk,
};

/// Units of 8 bytes offset (stamped), 4 bytes length, content. One message each.
pub struct Toy;

impl Format for Toy {
    fn tag(&self) -> FormatTag {
        FormatTag(9)
    }
    fn stamp(&self, units: &mut [u8], stamp: Stamp) {
        let mut at = 0;
        let mut offset = stamp.base.0;
        while at + 12 <= units.len() {
            units[at..at + 8].copy_from_slice(&offset.to_be_bytes());
            at += 12 + u32::from_be_bytes(units[at + 8..at + 12].try_into().unwrap()) as usize;
            offset += 1;
        }
    }
    fn split(&self, units: &[u8], base: Offset, visit: &mut VisitUnit<'_>) -> Result<(), FormatError> {
        let mut at = 0;
        let mut first = base;
        while at + 12 <= units.len() {
            let bytes = 12 + u32::from_be_bytes(units[at + 8..at + 12].try_into().unwrap()) as usize;
            if let ControlFlow::Break(()) = visit(UnitAt { first, count: 1, at, bytes }) {
                break;
            }
            at += bytes;
            first = first.plus(1);
        }
        Ok(())
    }
    fn open(&self, _: &Bytes, _: Offset, _: &mut Visit<'_>) -> Result<(), FormatError> {
        Err(FormatError::Malformed("not needed here"))
    }
    fn build(&self, _: &[(Offset, Message)], _: &mut Vec<u8>) -> Result<(), FormatError> {
        Err(FormatError::Malformed("not needed here"))
    }
}

pub fn unit(content: &[u8]) -> Vec<u8> {
    let mut unit = vec![0xee; 8];
    unit.extend_from_slice(&(content.len() as u32).to_be_bytes());
    unit.extend_from_slice(content);
    unit
}

pub fn tiny() -> Options {
    Options {
        journal_file_bytes: 64 << 10,
        journal_files_max: 2,
        extents_max: 10_000,
        tail_cache_bytes: 16 << 10,
        dirty_bytes_max: 1 << 20,
        reserve_bytes: 1 << 20,
        ..Options::default()
    }
}

pub fn open(disk: &SimDisk) -> (Storage, Recovered) {
    Storage::open(Arc::new(disk.clone()), tiny()).unwrap()
}

/// Appends messages to the end of each of `logs`, as one batch.
pub fn put(storage: &mut Storage, logs: &[u64], contents: &[&[u8]], policy: SyncPolicy) -> Result<Lsn, StorageError> {
    let units: Vec<u8> = contents.iter().flat_map(|content| unit(content)).collect();
    let targets: Vec<Target> = logs
        .iter()
        .map(|log| Target { log: LogId(*log), first: storage.range(LogId(*log)).map_or(Offset(0), |range| range.end) })
        .collect();
    let append = Append {
        targets: &targets,
        format: &Toy,
        units: &units,
        last_delta: contents.len() as u32 - 1,
        count: contents.len() as u32,
        time_max: Wall(targets[0].first.0 as i64 + contents.len() as i64 - 1),
        stamp: Stamp { base: Offset(0), epoch: 0, at: Wall(0) },
    };
    storage.commit(&Batch { appends: &[append], ..Batch::default() }, policy)
}

/// Cuts a chunk into (offset, content).
pub fn messages(chunk: &Chunk) -> Vec<(u64, Vec<u8>)> {
    let mut out = Vec::new();
    let units = chunk.units.clone();
    Toy.split(&units, chunk.first, &mut |unit| {
        out.push((unit.first.0, units[unit.at + 12..unit.at + unit.bytes].to_vec()));
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(out.len(), chunk.count as usize);
    assert_eq!(out.last().unwrap().0, chunk.last.0);
    out
}

/// Reads from `from` to the end, waiting as often as need be; stops at an error.
pub fn read_from(storage: &mut Storage, log: u64, from: u64) -> (Vec<(u64, Vec<u8>)>, Option<StorageError>) {
    let mut out = Vec::new();
    let mut from = Offset(from);
    let until = storage.range(LogId(log)).map_or(Offset(0), |range| range.end);
    for _ in 0..100_000 {
        let request = ReadRequest { log: LogId(log), from, until, bytes_max: 4096 };
        match storage.read(&request) {
            Ok(Read::Ready(chunks)) if chunks.is_empty() => return (out, None),
            Ok(Read::Ready(chunks)) => {
                for chunk in &chunks {
                    out.extend(messages(chunk).into_iter().filter(|(offset, _)| *offset >= from.0));
                    from = chunk.last.plus(1);
                }
            }
            Ok(Read::Pending(_)) => {
                sim_disk::run_jobs(storage).unwrap();
            }
            Err(error) => return (out, Some(error)),
        }
    }
    panic!("the read of log {log} does not end");
}

pub fn read_all(storage: &mut Storage, log: u64) -> Vec<(u64, Vec<u8>)> {
    let start = storage.range(LogId(log)).map_or(0, |range| range.start.0);
    let (messages, error) = read_from(storage, log, start);
    assert_eq!(error, None);
    messages
}
