//! Records within a batch: read one by one out of borrowed bytes, written when we build batches for foreign messages.

use bytes::Bytes;
use model::{ByteReader, ByteWriter, FormatError, ReadError};

/// Bounds what one record may claim, beyond what its bytes can hold anyway.
const HEADERS_MAX: usize = 100_000;

/// One record as it stands.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Record {
    pub time_delta: i64,
    pub offset_delta: i32,
    pub key: Option<Bytes>,
    pub value: Option<Bytes>,
    pub headers: Vec<(String, Option<Bytes>)>,
}

/// Reads the record at the front; its bytes are slices of `whole`, from which `reader` reads.
pub(crate) fn read_record(reader: &mut ByteReader<'_>, whole: &Bytes) -> Result<Record, FormatError> {
    let length = reader.varint().map_err(malformed)?;
    let length = reader.count(i64::from(length), 1).map_err(malformed)?;
    let mut body = ByteReader::new(reader.take(length).map_err(malformed)?);
    let record = read_body(&mut body, whole).map_err(malformed)?;
    if body.left() == 0 { Ok(record) } else { Err(FormatError::Malformed("a record has bytes left over")) }
}

fn malformed(_: ReadError) -> FormatError {
    FormatError::Malformed("a record does not fit its bytes")
}

fn read_body(body: &mut ByteReader<'_>, whole: &Bytes) -> Result<Record, ReadError> {
    let _attributes = body.i8()?;
    let time_delta = body.varlong()?;
    let offset_delta = body.varint()?;
    let key = read_bytes(body, whole)?;
    let value = read_bytes(body, whole)?;
    let claimed = i64::from(body.varint()?);
    let count = body.count(claimed, 2)?;
    if count > HEADERS_MAX {
        return Err(ReadError::Length(claimed));
    }
    let mut headers = Vec::with_capacity(count.min(64));
    for _ in 0..count {
        let length = i64::from(body.varint()?);
        let length = body.count(length, 1)?;
        // Names are text by the protocol, but brokers do not check: what is not text stays readable.
        let name = String::from_utf8_lossy(body.take(length)?).into_owned();
        headers.push((name, read_bytes(body, whole)?));
    }
    Ok(Record { time_delta, offset_delta, key, value, headers })
}

fn read_bytes(body: &mut ByteReader<'_>, whole: &Bytes) -> Result<Option<Bytes>, ReadError> {
    let length = i64::from(body.varint()?);
    if length == -1 {
        return Ok(None);
    }
    let length = body.count(length, 1)?;
    Ok(Some(whole.slice_ref(body.take(length)?)))
}

/// What is needed to write a record.
pub(crate) struct NewRecord<'a> {
    pub time_delta: i64,
    pub offset_delta: i32,
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    pub headers: &'a [(String, Option<Bytes>)],
}

/// Appends a record to `out`; `scratch` is emptied and used for its body, since its length stands before it.
pub(crate) fn write_record(record: &NewRecord<'_>, scratch: &mut Vec<u8>, out: &mut Vec<u8>) {
    scratch.clear();
    let mut body = ByteWriter::new(scratch);
    body.i8(0);
    body.varlong(record.time_delta);
    body.varint(record.offset_delta);
    write_bytes(&mut body, record.key);
    write_bytes(&mut body, record.value);
    body.varint(record.headers.len() as i32);
    for (name, value) in record.headers {
        write_bytes(&mut body, Some(name.as_bytes()));
        write_bytes(&mut body, value.as_deref());
    }
    let mut out = ByteWriter::new(out);
    out.varint(scratch.len() as i32);
    out.bytes(scratch);
}

fn write_bytes(writer: &mut ByteWriter<'_>, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => {
            writer.varint(bytes.len() as i32);
            writer.bytes(bytes);
        }
        None => writer.varint(-1),
    }
}
