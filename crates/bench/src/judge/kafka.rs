//! A raw Kafka client: CreateTopics v2, Produce v7, Fetch v11, and record batches without compression.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, SystemTime};

use super::wire::{Reader, Writer, broken, crc32c};
use crate::Outcome;

/// Asked for at once; a batch comes whole even if it is longer.
const FETCH_BYTES: i32 = 4 << 20;
const PATIENCE: Duration = Duration::from_secs(30);
const CODEC_BITS: i64 = 7;

/// One connection.
pub(crate) struct Kafka {
    stream: TcpStream,
    asked: i32,
}

impl Kafka {
    pub(crate) fn connect(address: &str) -> Outcome<Kafka> {
        let stream = TcpStream::connect(address).map_err(|e| format!("{address}: {e}"))?;
        stream.set_nodelay(true).and_then(|()| stream.set_read_timeout(Some(PATIENCE))).map_err(|e| e.to_string())?;
        Ok(Kafka { stream, asked: 0 })
    }

    /// A second handle of the same connection, to read while another thread writes.
    pub(crate) fn reader(&self) -> Outcome<Kafka> {
        Ok(Kafka { stream: self.stream.try_clone().map_err(|e| e.to_string())?, asked: self.asked })
    }

    /// The socket, to send prepared frames.
    pub(crate) fn stream(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    pub(crate) fn send(&mut self, key: u16, version: u16, body: &[u8]) -> Outcome<()> {
        self.asked += 1;
        let mut head = Writer::default();
        head.u16(key).u16(version).i32(self.asked).text16("judge");
        let mut frame = Writer::default();
        frame.u32((head.0.len() + body.len()) as u32).bytes(&head.0).bytes(body);
        self.stream.write_all(&frame.0).map_err(broken)
    }

    /// The next answer, without its correlation id.
    pub(crate) fn receive(&mut self) -> Outcome<Vec<u8>> {
        let mut size = [0; 4];
        self.stream.read_exact(&mut size).map_err(broken)?;
        let mut frame = vec![0; u32::from_be_bytes(size) as usize];
        self.stream.read_exact(&mut frame).map_err(broken)?;
        frame.drain(..4.min(frame.len()));
        Ok(frame)
    }

    /// Makes a topic.
    pub(crate) fn create(&mut self, topic: &str, partitions: i32) -> Outcome<()> {
        match self.try_create(topic, partitions)? {
            0 => Ok(()),
            code => Err(format!("creating '{topic}' failed with {code}")),
        }
    }

    /// As [`Kafka::create`]; answers the code.
    pub(crate) fn try_create(&mut self, topic: &str, partitions: i32) -> Outcome<i64> {
        let mut body = Writer::default();
        body.i32(1).text16(topic).i32(partitions).u16(1).i32(0).i32(0).i32(30_000).u8(0);
        self.send(19, 2, &body.0)?;
        self.code_of_one_topic()
    }

    /// Deletes a topic; answers the code.
    pub(crate) fn delete(&mut self, topic: &str) -> Outcome<i64> {
        let mut body = Writer::default();
        body.i32(1).text16(topic).i32(30_000);
        self.send(20, 1, &body.0)?;
        self.code_of_one_topic()
    }

    // An answer of throttle time and one topic: its name, its code.
    fn code_of_one_topic(&mut self) -> Outcome<i64> {
        let answer = self.receive()?;
        let mut fields = Reader(&answer);
        fields.i32()?;
        fields.i32()?;
        let name = fields.length::<2>()?;
        fields.bytes(name)?;
        fields.i16()
    }

    /// One fetch of a partition; answers whether it gave what it should.
    pub(crate) fn fetch_once(&mut self, topic: &str, partition: i32, from: i64) -> Outcome<Vec<(i64, Vec<u8>)>> {
        let (_, batches) = self.fetch(topic, partition, from)?;
        let mut all = Vec::new();
        unpack(&batches, from, &mut all)?;
        Ok(all)
    }

    /// Sends one batch without waiting for its answer.
    pub(crate) fn produce(&mut self, topic: &str, partition: i32, acks: i16, values: &[Vec<u8>]) -> Outcome<()> {
        let mut body = Writer::default();
        body.u16(u16::MAX).u16(acks as u16).i32(30_000).i32(1).text16(topic).i32(1).i32(partition);
        body.bytes32(&batch(values));
        self.send(0, 7, &body.0)
    }

    /// A whole request for one batch, to be sent again and again.
    pub(crate) fn produce_frame(&self, topic: &str, partition: i32, acks: i16, values: &[Vec<u8>]) -> Vec<u8> {
        let mut body = Writer::default();
        body.u16(0).u16(7).i32(0).text16("judge");
        body.u16(u16::MAX).u16(acks as u16).i32(30_000).i32(1).text16(topic).i32(1).i32(partition);
        body.bytes32(&batch(values));
        let mut frame = Writer::default();
        frame.bytes32(&body.0);
        frame.0
    }

    /// Sends a prepared request.
    pub(crate) fn send_frame(&mut self, frame: &[u8]) -> Outcome<()> {
        self.stream.write_all(frame).map_err(broken)
    }

    /// Asks for up to `bytes` of a partition without waiting for the answer.
    pub(crate) fn ask_fetch(&mut self, topic: &str, partition: i32, from: i64, bytes: i32) -> Outcome<()> {
        let mut body = Writer::default();
        body.i32(-1).i32(0).i32(0).i32(bytes).u8(0).i32(0).i32(-1);
        body.i32(1).text16(topic).i32(1).i32(partition).i32(-1).u64(from as u64).u64(u64::MAX).i32(bytes);
        body.i32(0).text16("");
        self.send(1, 11, &body.0)
    }

    /// The base offset in the next answer to a produce.
    pub(crate) fn produced(&mut self) -> Outcome<i64> {
        self.produced_or_refused()?.map_err(|code| format!("a produce failed with {code}"))
    }

    /// As [`Kafka::produced`], or the code of the refusal.
    pub(crate) fn produced_or_refused(&mut self) -> Outcome<Result<i64, i64>> {
        let answer = self.receive()?;
        let mut fields = Reader(&answer);
        fields.i32()?;
        let name = fields.length::<2>()?;
        fields.bytes(name)?;
        fields.i32()?;
        fields.i32()?;
        match fields.i16()? {
            0 => Ok(Ok(fields.i64()?)),
            code => Ok(Err(code)),
        }
    }

    /// All values of a partition with their offsets, from the start to the end.
    pub(crate) fn read_all(&mut self, topic: &str, partition: i32) -> Outcome<Vec<(i64, Vec<u8>)>> {
        let mut all: Vec<(i64, Vec<u8>)> = Vec::new();
        loop {
            let next = all.last().map_or(0, |(offset, _)| offset + 1);
            let (end, batches) = self.fetch(topic, partition, next)?;
            let before = all.len();
            unpack(&batches, next, &mut all)?;
            if all.last().map_or(0, |(offset, _)| offset + 1) >= end {
                return Ok(all);
            }
            if all.len() == before {
                return Err(format!("{topic}-{partition}: nothing at {next} though the end is {end}"));
            }
        }
    }

    /// The end of partition 0 as soon as it lies behind `from`, or after `wait_ms`.
    pub(crate) fn await_end(&mut self, topic: &str, from: u64, wait_ms: i32) -> Outcome<u64> {
        self.fetch_waiting(topic, 0, from as i64, wait_ms).map(|(end, _)| end as u64)
    }

    /// The end of a partition, and whole batches from `from` on.
    pub(crate) fn fetch(&mut self, topic: &str, partition: i32, from: i64) -> Outcome<(i64, Vec<u8>)> {
        self.fetch_waiting(topic, partition, from, 0)
    }

    fn fetch_waiting(&mut self, topic: &str, partition: i32, from: i64, wait_ms: i32) -> Outcome<(i64, Vec<u8>)> {
        let mut body = Writer::default();
        body.i32(-1).i32(wait_ms).i32(i32::from(wait_ms > 0)).i32(FETCH_BYTES).u8(0).i32(0).i32(-1);
        body.i32(1).text16(topic).i32(1).i32(partition).i32(-1).u64(from as u64).u64(u64::MAX).i32(FETCH_BYTES);
        body.i32(0).text16("");
        self.send(1, 11, &body.0)?;
        let answer = self.receive()?;
        let mut fields = Reader(&answer);
        fields.i32()?;
        let error = fields.i16()?;
        fields.i32()?;
        fields.i32()?;
        let name = fields.length::<2>()?;
        fields.bytes(name)?;
        fields.i32()?;
        fields.i32()?;
        let (error, end) = (error.max(fields.i16()?), fields.i64()?);
        fields.i64()?;
        fields.i64()?;
        for _ in 0..fields.i32()?.max(0) {
            fields.bytes(16)?;
        }
        fields.i32()?;
        let size = fields.i32()?.max(0) as usize;
        match error {
            0 => Ok((end, fields.bytes(size)?.to_vec())),
            code => Err(format!("{topic}-{partition}: fetching at {from} failed with {code}")),
        }
    }
}

/// A record batch (format 2) of `values` without keys.
pub(crate) fn batch(values: &[Vec<u8>]) -> Vec<u8> {
    let mut records = Writer::default();
    for (at, value) in values.iter().enumerate() {
        let mut record = Writer::default();
        record.u8(0).varint(0).varint(at as i64).varint(-1).varint(value.len() as i64).bytes(value).varint(0);
        records.varint(record.0.len() as i64).bytes(&record.0);
    }
    let mut tail = Writer::default();
    // A time long ago would be taken for old by retention.
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
    tail.u16(0).u32(values.len() as u32 - 1).u64(time).u64(time).u64(u64::MAX).u16(u16::MAX).i32(-1);
    tail.u32(values.len() as u32).bytes(&records.0);
    let mut whole = Writer::default();
    whole.u64(0).u32(tail.0.len() as u32 + 9).u32(0).u8(2).u32(crc32c(&tail.0)).bytes(&tail.0);
    whole.0
}

/// Takes the records at `from` and after out of whole batches; an incomplete batch at the end is left.
fn unpack(batches: &[u8], from: i64, all: &mut Vec<(i64, Vec<u8>)>) -> Outcome<()> {
    let mut rest = Reader(batches);
    while rest.0.len() >= 12 {
        let mut head = Reader(rest.0);
        let base = head.i64()?;
        let size = head.length::<4>()?;
        if head.0.len() < size {
            break;
        }
        rest.bytes(12)?;
        let mut fields = Reader(rest.bytes(size)?);
        fields.bytes(5)?;
        let crc = fields.i32()? as u32;
        if crc32c(fields.0) != crc {
            return Err(format!("the batch at {base} fails its check"));
        }
        if fields.i16()? & CODEC_BITS != 0 {
            return Err(format!("the batch at {base} is compressed: nobody sent it so"));
        }
        fields.bytes(34)?;
        for _ in 0..fields.i32()? {
            let length = usize::try_from(fields.varint()?).map_err(|_| "a record of negative length")?;
            let mut record = Reader(fields.bytes(length)?);
            record.bytes(1)?;
            record.varint()?;
            let offset = base + record.varint()?;
            record.varint()?;
            let value = usize::try_from(record.varint()?).map_err(|_| "a null value: nobody sent it")?;
            if offset >= from {
                all.push((offset, record.bytes(value)?.to_vec()));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_comes_apart_as_it_was_put_together() {
        let values = vec![b"one".to_vec(), Vec::new(), vec![7; 300]];
        let mut all = Vec::new();
        unpack(&batch(&values), 1, &mut all).unwrap();
        assert_eq!(all, [(1, Vec::new()), (2, vec![7; 300])]);
    }
}
