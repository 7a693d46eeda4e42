//! A raw Kafka client: CreateTopics v2, Produce v7, Fetch v11, one request at a time or several in flight.

use model::checksum::crc32c;
use model::{ByteReader, ByteWriter, ReadError};

use super::{put_text, take_frame};

/// One record as read back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Its offset.
    pub offset: u64,
    /// Its value as text.
    pub value: String,
}

/// The answer to a produce to one partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ack {
    /// Which request.
    pub correlation: i32,
    /// The error code; 0 for none.
    pub error: i16,
    /// Offset of the first record.
    pub base: i64,
}

fn request(key: i16, version: i16, correlation: i32, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(body.len() + 32);
    let mut writer = ByteWriter::new(&mut out);
    writer.u32(0);
    writer.i16(key);
    writer.i16(version);
    writer.i32(correlation);
    writer.i16(-1);
    writer.bytes(body);
    let length = (out.len() - 4) as u32;
    ByteWriter::new(&mut out).patch_u32(0, length);
    out
}

/// Makes a topic.
#[must_use]
pub fn create_topic(correlation: i32, topic: &str, partitions: i32) -> Vec<u8> {
    let mut body = Vec::new();
    body.extend_from_slice(&1i32.to_be_bytes());
    put_text(&mut body, topic);
    body.extend_from_slice(&partitions.to_be_bytes());
    body.extend_from_slice(&1i16.to_be_bytes());
    body.extend_from_slice(&[0; 8]);
    body.extend_from_slice(&10_000i32.to_be_bytes());
    body.push(0);
    request(19, 2, correlation, &body)
}

/// Deletes a topic (version 1).
#[must_use]
pub fn delete_topic(correlation: i32, topic: &str) -> Vec<u8> {
    let mut body = Vec::new();
    body.extend_from_slice(&1i32.to_be_bytes());
    put_text(&mut body, topic);
    body.extend_from_slice(&10_000i32.to_be_bytes());
    request(20, 1, correlation, &body)
}

/// Produces `values` as one batch, without a producer id.
#[must_use]
pub fn produce(correlation: i32, acks: i16, topic: &str, partition: i32, values: &[String]) -> Vec<u8> {
    let batch = record_batch(values);
    let mut body = Vec::new();
    let mut writer = ByteWriter::new(&mut body);
    writer.i16(-1);
    writer.i16(acks);
    writer.i32(10_000);
    writer.i32(1);
    put_text(&mut body, topic);
    let mut writer = ByteWriter::new(&mut body);
    writer.i32(1);
    writer.i32(partition);
    writer.i32(batch.len() as i32);
    writer.bytes(&batch);
    request(0, 7, correlation, &body)
}

/// Asks for records of one partition, without waiting.
#[must_use]
pub fn fetch(correlation: i32, topic: &str, partition: i32, from: u64) -> Vec<u8> {
    let mut body = Vec::new();
    let mut writer = ByteWriter::new(&mut body);
    writer.i32(-1);
    writer.i32(0);
    writer.i32(0);
    writer.i32(1 << 20);
    writer.i8(0);
    writer.i32(0);
    writer.i32(-1);
    writer.i32(1);
    put_text(&mut body, topic);
    let mut writer = ByteWriter::new(&mut body);
    writer.i32(1);
    writer.i32(partition);
    writer.i32(-1);
    writer.i64(from as i64);
    writer.i64(-1);
    writer.i32(1 << 20);
    writer.i32(0);
    writer.i16(0);
    request(1, 11, correlation, &body)
}

/// The next whole answer in `received`: its correlation id and body.
pub fn answer(received: &mut Vec<u8>) -> Option<(i32, Vec<u8>)> {
    let frame = take_frame(received)?;
    let mut reader = ByteReader::new(&frame);
    let correlation = reader.i32().ok()?;
    Some((correlation, reader.rest().to_vec()))
}

/// Reads the answer to [`create_topic`]: its error code.
///
/// # Errors
/// When the answer is not one.
pub fn read_created(body: &[u8]) -> Result<i16, ReadError> {
    let mut reader = ByteReader::new(body);
    reader.i32()?;
    reader.i32()?;
    let name = reader.u16()?;
    reader.take(usize::from(name))?;
    reader.i16()
}

/// Reads the answer to [`produce`].
///
/// # Errors
/// When the answer is not one.
pub fn read_ack(correlation: i32, body: &[u8]) -> Result<Ack, ReadError> {
    let mut reader = ByteReader::new(body);
    reader.i32()?;
    let name = reader.u16()?;
    reader.take(usize::from(name))?;
    reader.i32()?;
    reader.i32()?;
    Ok(Ack { correlation, error: reader.i16()?, base: reader.i64()? })
}

/// Reads the answer to [`fetch`]: the error code and the records.
///
/// # Errors
/// When the answer is not one, or a batch in it is damaged.
pub fn read_records(body: &[u8]) -> Result<(i16, Vec<Record>), ReadError> {
    let mut reader = ByteReader::new(body);
    reader.take(4 + 2 + 4 + 4)?;
    let name = reader.u16()?;
    reader.take(usize::from(name))?;
    reader.take(4 + 4)?;
    let error = reader.i16()?;
    reader.take(8 + 8 + 8)?;
    let aborted = reader.i32()?;
    reader.take(16 * usize::try_from(aborted).unwrap_or(0))?;
    reader.i32()?;
    let length = usize::try_from(reader.i32()?).unwrap_or(0);
    let mut batches = ByteReader::new(reader.take(length)?);
    let mut records = Vec::new();
    while batches.left() > 0 {
        read_batch(&mut batches, &mut records)?;
    }
    Ok((error, records))
}

fn read_batch(batches: &mut ByteReader<'_>, records: &mut Vec<Record>) -> Result<(), ReadError> {
    let base = batches.u64()?;
    let length = batches.u32()? as usize;
    let mut batch = ByteReader::new(batches.take(length)?);
    batch.take(4 + 1)?;
    let crc = batch.u32()?;
    if crc != crc32c(batch.rest()) {
        return Err(ReadError::Length(i64::from(crc)));
    }
    batch.take(2 + 4 + 8 + 8 + 8 + 2 + 4)?;
    for _ in 0..batch.i32()? {
        batch.varint()?;
        batch.i8()?;
        batch.varlong()?;
        let delta = batch.varint()?;
        let key = usize::try_from(batch.varint()?).unwrap_or(0);
        batch.take(key)?;
        let value = usize::try_from(batch.varint()?).unwrap_or(0);
        let value = String::from_utf8_lossy(batch.take(value)?).into_owned();
        for _ in 0..batch.varint()? {
            let name = usize::try_from(batch.varint()?).unwrap_or(0);
            batch.take(name)?;
            let value = usize::try_from(batch.varint()?).unwrap_or(0);
            batch.take(value)?;
        }
        records.push(Record { offset: base + u64::from(delta.unsigned_abs()), value });
    }
    Ok(())
}

fn record_batch(values: &[String]) -> Vec<u8> {
    let mut tail = Vec::new();
    let mut writer = ByteWriter::new(&mut tail);
    writer.i16(0);
    writer.i32(values.len() as i32 - 1);
    writer.i64(1_700_000_000_000);
    writer.i64(1_700_000_000_000);
    writer.i64(-1);
    writer.i16(-1);
    writer.i32(-1);
    writer.i32(values.len() as i32);
    for (at, value) in values.iter().enumerate() {
        let mut record = Vec::new();
        let mut fields = ByteWriter::new(&mut record);
        fields.i8(0);
        fields.varlong(0);
        fields.varint(at as i32);
        fields.varint(-1);
        fields.varint(value.len() as i32);
        fields.bytes(value.as_bytes());
        fields.varint(0);
        let mut writer = ByteWriter::new(&mut tail);
        writer.varint(record.len() as i32);
        writer.bytes(&record);
    }
    let mut batch = Vec::new();
    let mut writer = ByteWriter::new(&mut batch);
    writer.i64(0);
    writer.i32((tail.len() + 9) as i32);
    writer.i32(-1);
    writer.i8(2);
    writer.u32(crc32c(&tail));
    writer.bytes(&tail);
    batch
}
