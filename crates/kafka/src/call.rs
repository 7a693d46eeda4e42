//! One request: its header, its body, and how it is answered. Knows the header's versions, nothing of any API.

use broker::Piece;
use model::{ByteReader, ReadError};

use crate::api::Row;
use crate::wire::{Form, Sink, Wire};

/// What every request begins with: key, version, correlation id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CallHead {
    pub api: i16,
    pub version: i16,
    pub correlation: i32,
}

impl CallHead {
    /// Reads it from the front of a frame.
    pub fn read(reader: &mut ByteReader<'_>) -> Result<CallHead, ReadError> {
        Ok(CallHead { api: reader.i16()?, version: reader.i16()?, correlation: reader.i32()? })
    }
}

/// A request of an API and version that we serve.
pub(crate) struct Call<'a> {
    pub to: ReplyTo,
    pub client_id: &'a str,
    body: ByteReader<'a>,
    flexible: bool,
}

impl<'a> Call<'a> {
    /// Reads the rest of the header behind `head`.
    pub fn read(row: &Row, head: CallHead, mut reader: ByteReader<'a>) -> Result<Call<'a>, ReadError> {
        // The client's name has its classic length in both versions of the header.
        let client_id: Option<crate::wire::Text<'a>> = Wire::read(&mut reader, CLIENT_ID)?;
        let flexible = head.version >= row.flexible_since;
        if flexible {
            crate::wire::read_tags(&mut reader, |_, _| Ok(()))?;
        }
        let to = ReplyTo {
            version: head.version,
            correlation: head.correlation,
            flexible,
            // The one answer whose header never changes: whoever asks does not know yet what we speak.
            flexible_header: flexible && row.api != crate::api::API_VERSIONS,
        };
        let client_id = match client_id {
            Some(std::borrow::Cow::Borrowed(text)) => text,
            _ => "",
        };
        Ok(Call { to, client_id, body: reader, flexible })
    }

    /// The version asked in.
    pub fn version(&self) -> i16 {
        self.to.version
    }

    /// Reads the body.
    pub fn read_body<T: Wire<'a>>(&self) -> Result<T, ReadError> {
        let mut reader = self.body;
        T::read(&mut reader, Form::new(self.to.version, self.flexible))
    }
}

const CLIENT_ID: Form = Form { version: 0, flexible: false, nullable: true };

/// Whom and in which form to answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ReplyTo {
    pub version: i16,
    correlation: i32,
    flexible: bool,
    flexible_header: bool,
}

impl ReplyTo {
    /// An answer in version 0 and without a row: for requests in a version we do not know.
    pub fn in_version_0(head: CallHead) -> ReplyTo {
        ReplyTo { version: 0, correlation: head.correlation, flexible: false, flexible_header: false }
    }

    /// Writes a whole frame into `buffer`, which is emptied first.
    pub fn encode<'r>(&self, response: &impl Wire<'r>, buffer: Vec<u8>) -> Sink {
        let mut sink = Sink::reuse(buffer);
        let mut writer = sink.writer();
        writer.u32(0);
        writer.i32(self.correlation);
        if self.flexible_header {
            writer.uvarint(0);
        }
        response.write(&mut sink, Form::new(self.version, self.flexible));
        sink.seal_frame();
        sink
    }

    /// Reads back the body of a frame that [`ReplyTo::encode`] wrote.
    pub fn decode<'r, T: Wire<'r>>(&self, frame: &'r [u8]) -> Option<T> {
        let mut reader = ByteReader::new(frame.get(8 + usize::from(self.flexible_header)..)?);
        T::read(&mut reader, Form::new(self.version, self.flexible)).ok()
    }
}

/// Pieces of a finished reply, in order, into an outbox.
pub(crate) fn send(sink: Sink, out: &mut broker::Outbox) -> Vec<u8> {
    let (buffer, shared) = sink.into_parts();
    let mut done = 0;
    for (at, piece) in shared {
        out.buffer().extend_from_slice(&buffer[done..at]);
        match piece {
            Piece::Bytes(bytes) => out.push(bytes),
            Piece::File(range) => out.push_file(range),
        }
        done = at;
    }
    out.buffer().extend_from_slice(&buffer[done..]);
    buffer
}
