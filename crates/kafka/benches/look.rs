//! What a look into each codec costs: CPU of one thread for the look before a batch is stored, for a look-up by time
//! and for opening a batch for readers of another tongue. Run by `cargo xtask bench look`; the table is in
//! docs/benchmarks.md.
#![allow(clippy::print_stdout)] // the table is what it is for

use std::error::Error;
use std::hint::black_box;
use std::ops::ControlFlow;

use bytes::{Bytes, BytesMut};
use kafka::RecordFormat;
use kafka_protocol::indexmap::IndexMap;
use kafka_protocol::records::{Compression, Record, RecordBatchEncoder, RecordEncodeOptions, TimestampType};
use model::{Format, Offset, Sought, Wall};

/// Unpacked bytes that each measurement goes through at least.
const BYTES: usize = 256 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    println!(
        "CPU per MB unpacked (ms) and per 1,000 records (us) of: the look before storing, a look-up by time, opening"
    );
    println!("codec   records x bytes    packed KiB     look   time   open       look    time    open");
    for (count, bytes) in [(1000, 1000), (10_000, 100), (20, 50_000)] {
        for codec in [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd] {
            row(codec, count, bytes)?;
        }
    }
    Ok(())
}

fn row(codec: Compression, count: i64, bytes: usize) -> Result<(), Box<dyn Error>> {
    let batch = batch(codec, count, bytes)?;
    let unpacked = count as usize * bytes;
    let rounds = BYTES / unpacked;
    let units = Bytes::from(batch.clone());
    let look = measure(rounds, || kafka::look_into(black_box(&batch)))?;
    let latest = Sought { since: Wall(999 + count), timeless: Wall(0), within: Offset(0)..Offset(u64::MAX) };
    let time = measure(rounds, || {
        let found = RecordFormat.find_time(black_box(&units), Offset(0), &latest, usize::MAX);
        matches!(found, Ok(Some(_)))
    })?;
    let open = measure(rounds, || {
        let mut messages = 0;
        let visit = &mut |_, message| {
            black_box(message);
            messages += 1;
            ControlFlow::Continue(())
        };
        RecordFormat.open(black_box(&units), Offset(0), visit).is_ok() && messages == count
    })?;
    let per_mb = [look, time, open].map(|ns| ns as f64 / 1e6 / (unpacked as f64 / 1e6));
    let per_1000 = [look, time, open].map(|ns| ns as f64 / 1e3 / (count as f64 / 1e3));
    println!(
        "{:<7} {count:>7} x {bytes:<6} {:>11}   {:>6.3} {:>6.3} {:>6.3}   {:>8.1} {:>7.1} {:>7.1}",
        format!("{codec:?}").to_lowercase(),
        batch.len() >> 10,
        per_mb[0],
        per_mb[1],
        per_mb[2],
        per_1000[0],
        per_1000[1],
        per_1000[2],
    );
    Ok(())
}

/// CPU of one call, in nanoseconds: the least of five times. Each call must answer true.
fn measure(rounds: usize, mut work: impl FnMut() -> bool) -> Result<u64, Box<dyn Error>> {
    let rounds = rounds / 5 + 1;
    let mut least = u64::MAX;
    for _ in 0..5 {
        let before = cpu_ns()?;
        if !(0..rounds).all(|_| work()) {
            return Err("what is measured does not do its work".into());
        }
        least = least.min((cpu_ns()? - before) / rounds as u64);
    }
    Ok(least)
}

/// What this thread has used so far. Its account is brought up to date when it gives way.
fn cpu_ns() -> Result<u64, Box<dyn Error>> {
    std::thread::yield_now();
    let told = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(told.split(' ').next().unwrap_or_default().parse()?)
}

/// Values of words with numbers between them: they pack about three times.
fn batch(codec: Compression, count: i64, bytes: usize) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut seed = 1u64;
    let mut word = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let words = ["order", "customer", "price", "quantity", "street", "city", "currency", "note"];
        format!("\"{}\":{},", words[(seed >> 61) as usize], (seed >> 33) & 0xf_ffff)
    };
    let record = |at: i64| {
        let mut value = String::with_capacity(bytes + 32);
        while value.len() < bytes {
            value.push_str(&word());
        }
        value.truncate(bytes);
        Record {
            transactional: false,
            control: false,
            delete_horizon: false,
            partition_leader_epoch: -1,
            producer_id: -1,
            producer_epoch: -1,
            timestamp_type: TimestampType::Creation,
            offset: at,
            sequence: at as i32 - 1,
            timestamp: 1000 + at,
            key: None,
            value: Some(Bytes::from(value)),
            headers: IndexMap::new(),
        }
    };
    let records: Vec<Record> = (0..count).map(record).collect();
    let mut out = BytesMut::new();
    let options = RecordEncodeOptions { version: 2, compression: codec };
    RecordBatchEncoder::encode(&mut out, &records, &options)?;
    Ok(out.to_vec())
}
