//! Raw producers: Produce requests made once and sent again and again, several in flight on each connection.

use std::io::Write;
use std::sync::mpsc::sync_channel;
use std::thread;

use crate::Outcome;
use crate::judge::kafka::{Kafka, batch};
use crate::judge::wire::{Reader, Writer, broken};

/// How much of what to send.
#[derive(Clone)]
pub(crate) struct Plan {
    /// Where.
    pub(crate) address: String,
    /// To which topic; several when there are many partitions, see [`super::place`].
    pub(crate) topic: String,
    /// Its partitions; batches are dealt to them in turn.
    pub(crate) partitions: u32,
    /// Batches in all.
    pub(crate) batches: u64,
    /// Records of one batch.
    pub(crate) batch_records: usize,
    /// Bytes of a record's value.
    pub(crate) value_bytes: usize,
    /// Batches in one request, each to another partition.
    pub(crate) request_batches: u32,
    /// -1, 0 or 1.
    pub(crate) acks: i16,
    /// Connections.
    pub(crate) connections: u32,
    /// Requests in flight on each.
    pub(crate) in_flight: usize,
}

/// Sends all of it.
///
/// # Errors
/// When anything is refused or the connection breaks.
pub(crate) fn run(plan: &Plan) -> Outcome<()> {
    let workers: Vec<_> = (0..plan.connections)
        .map(|at| {
            let plan = plan.clone();
            thread::spawn(move || send_all(&plan, at))
        })
        .collect();
    for worker in workers {
        worker.join().map_err(|_| "a producer panicked")??;
    }
    Ok(())
}

/// The share of connection `at`.
fn send_all(plan: &Plan, at: u32) -> Outcome<()> {
    let mut client = Kafka::connect(&plan.address)?;
    let mut reader = client.reader()?;
    let requests = requests(plan);
    let acks = plan.acks;
    let (sent, answers) = sync_channel::<()>(plan.in_flight);
    let awaiting = thread::spawn(move || {
        for () in answers {
            if acks != 0 {
                check(&reader.receive()?)?;
            }
        }
        Ok::<(), String>(())
    });
    let share = plan.batches / u64::from(plan.connections) / u64::from(plan.request_batches);
    let from = requests.len() * at as usize / plan.connections as usize;
    for request in requests.iter().cycle().skip(from).take(share as usize) {
        if sent.send(()).is_err() {
            break; // the reader has stopped and says why
        }
        client.stream().write_all(request).map_err(broken)?;
    }
    drop(sent);
    awaiting.join().map_err(|_| "a reader panicked")?
}

/// One frame for each group of partitions.
pub(crate) fn requests(plan: &Plan) -> Vec<Vec<u8>> {
    let letters: Vec<u8> = (0..plan.value_bytes).map(|at| b'a' + (at * 7 % 26) as u8).collect();
    let batch = batch(&vec![letters; plan.batch_records]);
    let count = plan.request_batches.min(plan.partitions);
    let frame = |first: u32| {
        let mut body = Writer::default();
        let (topic, index) = super::place(&plan.topic, plan.partitions, first);
        body.u16(u16::MAX).u16(plan.acks as u16).i32(30_000).i32(1).text16(&topic).i32(count as i32);
        for partition in index..index + count {
            body.i32(partition as i32).bytes32(&batch);
        }
        let mut head = Writer::default();
        head.u16(0).u16(7).i32(1).text16("bench");
        let mut frame = Writer::default();
        frame.u32((head.0.len() + body.0.len()) as u32).bytes(&head.0).bytes(&body.0);
        frame.0
    };
    (0..plan.partitions).step_by(count as usize).map(frame).collect()
}

/// That every batch of a request was taken.
///
/// # Errors
/// When one was refused.
pub(crate) fn check(answer: &[u8]) -> Outcome<()> {
    let mut fields = Reader(answer);
    fields.i32()?;
    let name = fields.length::<2>()?;
    let topic = String::from_utf8_lossy(fields.bytes(name)?);
    for _ in 0..fields.i32()? {
        let partition = fields.i32()?;
        match fields.i16()? {
            0 => fields.bytes(24).map(drop)?,
            code => return Err(format!("producing to {topic}-{partition} failed with {code}")),
        }
    }
    Ok(())
}
