//! A tongue of lines, in less than 200: what a new protocol costs. It writes a message that Kafka reads, reads one that
//! Kafka wrote, and settles it through a queue that shares the topic.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;

use broker::partition::AppendRequest;
use broker::queue::{Body, DeliveryKey, Got, QueueSpec, Settle};
use broker::topic::NewTopic;
use broker::{CallId, Cx, Door, Input, Lsn, Peer, Session, SessionId, SyncPolicy, Tongue};
use bytes::Bytes;
use model::format::{Visit, VisitUnit};
use model::{Format, FormatError, FormatTag, Message, Mono, Name, Offset, UnitAt};

/// Units: a line with its end, one message each.
struct Lines;

impl Format for Lines {
    fn tag(&self) -> FormatTag {
        FormatTag(9)
    }

    fn split(&self, units: &[u8], base: Offset, visit: &mut VisitUnit<'_>) -> Result<(), FormatError> {
        let mut at = 0;
        for (delta, line) in units.split_inclusive(|byte| *byte == b'\n').enumerate() {
            let unit = UnitAt { first: base.plus(delta as u64), count: 1, at, bytes: line.len() };
            if visit(unit).is_break() {
                break;
            }
            at += line.len();
        }
        Ok(())
    }

    fn open(&self, units: &Bytes, base: Offset, visit: &mut Visit<'_>) -> Result<(), FormatError> {
        self.split(units, base, &mut |unit| {
            let text = units.slice(unit.at..unit.at + unit.bytes - 1);
            visit(unit.first, Message { value: Some(text), ..Message::default() })
        })
    }

    fn build(&self, messages: &[(Offset, Message)], out: &mut Vec<u8>) -> Result<(), FormatError> {
        for (_, message) in messages {
            out.extend_from_slice(message.value.as_deref().unwrap_or_default());
            out.push(b'\n');
        }
        Ok(())
    }
}

struct Toy;

impl Tongue for Toy {
    fn name(&self) -> &'static str {
        "toy"
    }

    fn doors(&self) -> Vec<Door> {
        vec![Door { name: "toy", port: 0, try_it: "", tls: false }]
    }

    fn format(&self) -> Option<Box<dyn Format>> {
        Some(Box::new(Lines))
    }

    fn session(&self, _: &'static str, peer: Peer) -> Box<dyn Session> {
        Box::new(ToySession { me: peer.session, held: Vec::new(), taken: Vec::new() })
    }
}

/// `topic T`, `share Q T`, `put T TEXT`, `take Q`, `settle`: one line in, one line out.
struct ToySession {
    me: SessionId,
    held: Vec<(Lsn, &'static str)>,
    taken: Vec<DeliveryKey>,
}

impl ToySession {
    fn line(&mut self, line: &str, cx: &mut Cx<'_>) {
        let words: Vec<&str> = line.splitn(3, ' ').collect();
        let (tenant, broker) = (Name::fixed("/"), &mut *cx.broker);
        match words[..] {
            ["topic", topic] => {
                let (name, config) = (Name::new(topic).unwrap(), Vec::new());
                let topic = NewTopic { tenant, name, partitions: 1, config, validate_only: false };
                self.held.push((broker.create_topic(&topic, cx.now).unwrap().1, "made"));
            }
            ["share", queue, topic] => {
                let (name, topic) = (Name::new(queue).unwrap(), Some(Name::new(topic).unwrap()));
                let (durable, exclusive, auto_delete) = (true, false, false);
                let arguments = Default::default();
                let spec = QueueSpec {
                    tenant,
                    name,
                    durable,
                    exclusive,
                    auto_delete,
                    topic,
                    arguments,
                    argument_types: Default::default(),
                    options: Default::default(),
                };
                self.held.push((broker.declare_queue(self.me, &spec, cx.now).unwrap().lsn, "shared"));
            }
            ["put", topic, text] => {
                let log = broker.topic("/", topic).unwrap().partitions[0];
                let (units, policy, time_max) = (format!("{text}\n"), SyncPolicy::Sync, cx.now.wall);
                let (format, units) = (&Lines, units.as_bytes());
                let request = AppendRequest { log, format, units, count: 1, time_max, producer: None, policy };
                self.held.push((broker.append(&request, cx.now).unwrap().lsn, "stored"));
            }
            ["take", queue] => {
                let reply = match broker.get(self.me, CallId(0), "/", queue, false, FormatTag(9)).unwrap() {
                    Got::Message(delivery, _) => {
                        self.taken.push(delivery.key);
                        match delivery.body {
                            Body::Unit(line) => line.to_vec(),
                            Body::Neutral(message) => [message.value.as_deref().unwrap_or(b"-"), b"\n"].concat(),
                        }
                    }
                    Got::Empty | Got::Pending => b"nothing now\n".to_vec(),
                };
                cx.out.buffer().extend_from_slice(&reply);
            }
            ["settle"] => {
                broker.settle(self.me, &std::mem::take(&mut self.taken), Settle::Ack);
                cx.out.buffer().extend_from_slice(b"settled\n");
            }
            _ => cx.out.close(),
        }
    }
}

impl Session for ToySession {
    fn handle(&mut self, input: Input<'_>, cx: &mut Cx<'_>) -> usize {
        match input {
            Input::Bytes(bytes) => {
                let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else { return 0 };
                self.line(std::str::from_utf8(&bytes[..end]).unwrap(), cx);
                return end + 1;
            }
            Input::Progress => {
                let synced = cx.broker.progress().synced;
                for (_, word) in self.held.extract_if(.., |(lsn, _)| *lsn <= synced) {
                    cx.out.buffer().extend_from_slice(format!("{word}\n").as_bytes());
                }
            }
            Input::Stopping => cx.out.close(),
            Input::Event(_) | Input::Room | Input::Tick | Input::Closed => {}
        }
        0
    }

    fn deadline(&self) -> Option<Mono> {
        None
    }

    fn wants_input(&self) -> bool {
        self.held.is_empty()
    }

    fn awaits_progress(&self) -> bool {
        !self.held.is_empty()
    }
}

#[test]
fn a_toy_tongue_writes_reads_what_kafka_wrote_and_settles_it() {
    let addresses = crate::rig::start(vec![Box::new(Toy), Box::new(kafka::KafkaTongue::default())]);
    let mut toy = BufReader::new(TcpStream::connect(addresses[0]).unwrap());
    let mut ask = |line: &str| {
        let (mut answer, mut writer) = (String::new(), toy.get_ref());
        writer.write_all(format!("{line}\n").as_bytes()).unwrap();
        toy.read_line(&mut answer).unwrap();
        answer.trim_end().to_owned()
    };
    assert_eq!(ask("topic t"), "made");
    assert_eq!(ask("share q t"), "shared");
    assert_eq!(ask("put t written by the toy"), "stored");
    let read_by_kafka = crate::rig::raw_kafka::fetch(addresses[1], "t");
    assert!(read_by_kafka.contains("written by the toy"), "{read_by_kafka:?}");
    crate::rig::raw_kafka::produce(addresses[1], "t", "written by Kafka");
    assert_eq!(ask("take q"), "written by the toy");
    assert_eq!(ask("take q"), "written by Kafka");
    assert_eq!(ask("settle"), "settled");
    assert_eq!(ask("take q"), "nothing now");
}
