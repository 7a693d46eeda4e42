//! A broker on a simulated disk and connections without sockets, driven turn by turn as the server drives them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use broker::{Broker, Cx, Input, Options, Outbox, Peer, Session, SessionId};
use model::{ByteReader, Formats, Mono, Now, Wall};
use storage::SimDisk;

use super::super::{Row, produce};
use crate::session::KafkaSession;
use crate::wire::{Form, RawRecords, Sink, Text, Wire};
use crate::{OffsetsCodec, RecordFormat, Settings};

/// One connection.
pub(crate) struct Client {
    session: KafkaSession,
    id: SessionId,
    out: Outbox,
    /// Sent and not consumed yet.
    unread: Vec<u8>,
    /// Received and not looked at yet.
    received: Vec<u8>,
    correlation: i32,
}

/// Broker and connections.
pub(crate) struct Rig {
    pub disk: SimDisk,
    pub broker: Broker,
    pub now: Now,
    clients: Vec<Client>,
}

/// A reply's body, to be read in its table.
pub(crate) struct Reply {
    body: Vec<u8>,
    form: Form,
}

impl Reply {
    pub fn read<'r, T: Wire<'r>>(&'r self) -> T {
        let mut reader = ByteReader::new(&self.body);
        let message = T::read(&mut reader, self.form).unwrap();
        assert_eq!(reader.left(), 0);
        message
    }
}

impl Rig {
    pub fn new() -> Rig {
        Rig::on(SimDisk::new())
    }

    pub fn on(disk: SimDisk) -> Rig {
        let mut formats = Formats::default();
        formats.add(Box::new(RecordFormat));
        let storage =
            storage::Options { journal_file_bytes: 8 << 20, reserve_bytes: 64 << 10, ..storage::Options::default() };
        let options = Options { storage, ..Options::default() };
        let now = Now { mono: Mono(1_000_000_000), wall: Wall(1_700_000_000_000) };
        let broker = Broker::open(Arc::new(disk.clone()), options, formats, Box::new(OffsetsCodec), now).unwrap();
        let mut rig = Rig { disk, broker, now, clients: Vec::new() };
        rig.pump();
        rig
    }

    /// A connection with the usual settings.
    pub fn connect(&mut self) -> usize {
        self.connect_with(Settings::default())
    }

    pub fn connect_with(&mut self, settings: Settings) -> usize {
        let id = SessionId(self.clients.len() as u64 + 1);
        let remote: SocketAddr = "127.0.0.1:50000".parse().unwrap();
        let local: SocketAddr = "127.0.0.1:9092".parse().unwrap();
        let session = KafkaSession::new(Peer { session: id, remote, local, tls: None }, Arc::new(settings));
        let (out, unread, received) = (Outbox::default(), Vec::new(), Vec::new());
        self.clients.push(Client { session, id, out, unread, received, correlation: 0 });
        self.clients.len() - 1
    }

    /// Puts bytes on the wire, without letting anything happen.
    pub fn push(&mut self, client: usize, bytes: &[u8]) {
        self.clients[client].unread.extend_from_slice(bytes);
    }

    /// A request as its frame.
    pub fn frame<'a>(&mut self, client: usize, row: &Row, version: i16, request: &impl Wire<'a>) -> Vec<u8> {
        self.clients[client].correlation += 1;
        let flexible = version >= row.flexible_since;
        let mut sink = Sink::default();
        let mut writer = sink.writer();
        writer.u32(0);
        writer.i16(row.api);
        writer.i16(version);
        writer.i32(self.clients[client].correlation);
        Text::Borrowed("tester").write(&mut sink, Form::new(0, false));
        if flexible {
            sink.writer().uvarint(0);
        }
        request.write(&mut sink, Form::new(version, flexible));
        sink.seal_frame();
        sink.flatten()
    }

    /// Sends a request and lets everything happen that can.
    pub fn send<'a>(&mut self, client: usize, row: &Row, version: i16, request: &impl Wire<'a>) {
        let frame = self.frame(client, row, version, request);
        self.push(client, &frame);
        self.pump();
    }

    /// The next reply, which must be there.
    pub fn reply(&mut self, client: usize, row: &Row, version: i16) -> Reply {
        self.try_reply(client, row, version).expect("a reply")
    }

    pub fn try_reply(&mut self, client: usize, row: &Row, version: i16) -> Option<Reply> {
        let received = &mut self.clients[client].received;
        let length = u32::from_be_bytes(*received.first_chunk::<4>()?) as usize;
        let flexible = version >= row.flexible_since;
        let head = 8 + usize::from(flexible && row.api != super::super::API_VERSIONS);
        let rest = received.split_off(4 + length);
        let frame = std::mem::replace(received, rest);
        Some(Reply { body: frame[head..].to_vec(), form: Form::new(version, flexible) })
    }

    /// Sends and takes the reply.
    pub fn ask<'a>(&mut self, client: usize, row: &Row, version: i16, request: &impl Wire<'a>) -> Reply {
        self.send(client, row, version, request);
        self.reply(client, row, version)
    }

    pub fn received(&self, client: usize) -> &[u8] {
        &self.clients[client].received
    }

    pub fn is_closed(&self, client: usize) -> bool {
        self.clients[client].out.is_closing()
    }

    pub fn wants_input(&self, client: usize) -> bool {
        self.clients[client].session.wants_input()
    }

    pub fn memory_bytes(&self, client: usize) -> usize {
        self.clients[client].session.memory_bytes()
    }

    /// The client is gone.
    pub fn hang_up(&mut self, client: usize) {
        self.clients[client].unread.clear();
        self.handle(client, Input::Closed);
        let id = self.clients[client].id;
        self.broker.session_closed(id, self.now);
    }

    /// Correlation ids of all whole replies received, in order.
    pub fn correlations(&self, client: usize) -> Vec<i32> {
        let mut reader = ByteReader::new(self.received(client));
        let mut all = Vec::new();
        while let Ok(length) = reader.u32() {
            let frame = reader.take(length as usize).unwrap();
            all.push(ByteReader::new(frame).i32().unwrap());
        }
        all
    }

    fn handle(&mut self, client: usize, input: Input<'_>) -> usize {
        let client = &mut self.clients[client];
        let mut cx = Cx { broker: &mut self.broker, now: self.now, out: &mut client.out };
        let consumed = client.session.handle(input, &mut cx);
        client.received.extend_from_slice(&client.out.take_all());
        consumed
    }

    /// One turn without jobs: nothing is synced in it. Answers whether anything happened.
    pub fn turn(&mut self) -> bool {
        let mut busy = false;
        let before = self.broker.progress();
        let could_read: Vec<bool> = (0..self.clients.len()).map(|client| self.wants_input(client)).collect();
        for client in 0..self.clients.len() {
            if self.clients[client].unread.is_empty() || !self.wants_input(client) {
                continue;
            }
            let unread = std::mem::take(&mut self.clients[client].unread);
            let consumed = self.handle(client, Input::Bytes(&unread));
            self.clients[client].unread = unread[consumed..].to_vec();
            busy |= consumed > 0;
        }
        self.broker.end_turn(self.now);
        while let Some((session, event)) = self.broker.next_event() {
            let client = self.clients.iter().position(|client| client.id == session).unwrap();
            self.handle(client, Input::Event(event));
            busy = true;
        }
        busy |= self.broker.progress() != before;
        for (client, could_read) in could_read.into_iter().enumerate() {
            if self.clients[client].session.awaits_progress() {
                self.handle(client, Input::Progress);
            }
            if self.clients[client].session.deadline().is_some_and(|deadline| deadline <= self.now.mono) {
                self.handle(client, Input::Tick);
                busy = true;
            }
            // Whatever was held back may be read now.
            busy |= !could_read && self.wants_input(client) && !self.clients[client].unread.is_empty();
        }
        busy
    }

    /// Turns and jobs until nothing is left to do.
    pub fn pump(&mut self) {
        loop {
            let mut busy = self.turn();
            while let Some(job) = self.broker.next_job() {
                let done = job.run();
                self.broker.complete(done, self.now);
                busy = true;
            }
            if !busy {
                return;
            }
        }
    }

    /// Time passes.
    pub fn wait(&mut self, ms: u64) {
        self.now.mono = self.now.mono.plus(Duration::from_millis(ms));
        self.now.wall.0 += ms as i64;
        self.broker.tick(self.now);
        self.pump();
    }

    /// Tells all sessions whose deadline has passed.
    pub fn tick_sessions(&mut self) {
        for client in 0..self.clients.len() {
            if self.clients[client].session.deadline().is_some_and(|at| at <= self.now.mono) {
                self.handle(client, Input::Tick);
            }
        }
    }

    pub fn make_topic(&mut self, name: &'static str, partitions: i64) -> [u8; 16] {
        let new = broker::topic::NewTopic {
            tenant: model::Name::fixed("/"),
            name: model::Name::fixed(name),
            partitions,
            config: Vec::new(),
            validate_only: false,
        };
        let (info, _) = self.broker.create_topic(&new, self.now).unwrap();
        self.pump();
        info.id.0
    }

    /// Produces one batch to partition 0 and answers (error, base offset).
    pub fn produce(&mut self, client: usize, topic: &str, batch: &[u8], acks: i16) -> (i16, i64) {
        let request = produce_request(topic, batch, acks);
        let reply = self.ask(client, &produce::ROW, 9, &request);
        let response: produce::ProduceResponse<'_> = reply.read();
        let partition = &response.topics[0].partitions[0];
        (partition.error_code, partition.base_offset)
    }
}

pub(crate) fn produce_request<'a>(topic: &'a str, batch: &'a [u8], acks: i16) -> produce::ProduceRequest<'a> {
    let partitions = vec![produce::ProducePartition { index: 0, records: Some(RawRecords(batch)) }];
    let topics = vec![produce::ProduceTopic { name: Text::Borrowed(topic), partitions, ..Default::default() }];
    produce::ProduceRequest { acks, timeout_ms: 1000, topics, ..Default::default() }
}

/// A batch of one record by an idempotent producer.
pub(crate) fn batch_of(producer: i64, epoch: i16, sequence: i32) -> Vec<u8> {
    let mut batch = crate::format::tests::client_batch(1, kafka_protocol::records::Compression::None);
    batch[43..51].copy_from_slice(&producer.to_be_bytes());
    batch[51..53].copy_from_slice(&epoch.to_be_bytes());
    batch[53..57].copy_from_slice(&sequence.to_be_bytes());
    crate::format::batch::seal(&mut batch);
    batch
}

/// A batch of `count` records that nobody numbers.
pub(crate) fn plain_batch(count: i32) -> Vec<u8> {
    crate::format::tests::client_batch(count, kafka_protocol::records::Compression::None)
}
