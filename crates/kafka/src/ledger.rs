//! The records of `__consumer_offsets` in the bytes that Kafka's own tools and exporters know: offset keys of version 1
//! with values of version 3, group keys of version 2 with values of version 3. Older and newer values are read too.
//!
//! Only bytes here: when records are written and what they mean to groups is the broker's business.

use std::time::Duration;

use broker::group::{Committed, GroupSnapshot, LedgerCodec, LedgerEntry, MemberInfo, MemberSnapshot};
use bytes::Bytes;
use model::{ByteReader, FormatTag, Message, Name, Offset, Wall};

use crate::wire::{Blob, Form, Sink, Text, Wire, messages};

/// Offset keys carry 0 or 1, group keys 2.
const OFFSET_KEY: i16 = 1;
const GROUP_KEY: i16 = 2;
/// The version of the values we write; 4 is the first with compact fields.
const VALUE: i16 = 3;
const VALUE_FLEXIBLE: i16 = 4;

messages! {
    OffsetKey<'a> {
        group: Text<'a>, 0+;
        topic: Text<'a>, 0+;
        partition: i32, 0+;
    }
    OffsetValue<'a> {
        offset: i64, 0+;
        leader_epoch: i32, 3+ or -1;
        metadata: Text<'a>, 0+;
        commit_time: i64, 0+;
        expire_time: i64, 1-1 or -1;
    }
    GroupKey<'a> {
        group: Text<'a>, 0+;
    }
    GroupValue<'a> {
        protocol_type: Text<'a>, 0+;
        generation: i32, 0+;
        protocol: Option<Text<'a>>, 0+ null 0;
        leader: Option<Text<'a>>, 0+ null 0;
        state_time: i64, 2+ or -1;
        members: Vec<MemberValue<'a>>, 0+;
    }
    MemberValue<'a> {
        member: Text<'a>, 0+;
        instance: Option<Text<'a>>, 3+ null 3;
        client_id: Text<'a>, 0+;
        client_host: Text<'a>, 0+;
        rebalance_timeout_ms: i32, 1+;
        session_timeout_ms: i32, 0+;
        subscription: Blob<'a>, 0+;
        assignment: Blob<'a>, 0+;
    }
}

/// The codec of `__consumer_offsets`.
#[derive(Clone, Copy, Debug, Default)]
pub struct OffsetsCodec;

impl LedgerCodec for OffsetsCodec {
    fn encode(&self, entry: &LedgerEntry) -> Message {
        let (key, value, at) = match entry {
            LedgerEntry::Offset { group, topic, partition, committed } => {
                let partition = *partition as i32;
                let key = OffsetKey { group: text(group), topic: text(topic), partition };
                (versioned(OFFSET_KEY, &key), committed.as_ref().map(offset_value), committed.as_ref().map(|c| c.at))
            }
            LedgerEntry::Group { group, snapshot } => {
                let key = GroupKey { group: text(group) };
                (versioned(GROUP_KEY, &key), snapshot.as_ref().map(group_value), snapshot.as_ref().map(|s| s.at))
            }
        };
        Message { key: Some(key), value, created: at, ..Message::default() }
    }

    fn decode(&self, message: &Message) -> Option<LedgerEntry> {
        let mut key = ByteReader::new(message.key.as_deref()?);
        match key.i16().ok()? {
            0 | OFFSET_KEY => {
                let key = OffsetKey::read(&mut key, Form::new(0, false)).ok()?;
                Some(LedgerEntry::Offset {
                    group: Name::new(&key.group).ok()?,
                    topic: Name::new(&key.topic).ok()?,
                    partition: u32::try_from(key.partition).ok()?,
                    committed: match message.value.as_deref() {
                        Some(value) => Some(read_offset(value)?),
                        None => None,
                    },
                })
            }
            GROUP_KEY => {
                let key = GroupKey::read(&mut key, Form::new(0, false)).ok()?;
                Some(LedgerEntry::Group {
                    group: Name::new(&key.group).ok()?,
                    snapshot: match message.value.as_deref() {
                        Some(value) => Some(read_group(value)?),
                        None => None,
                    },
                })
            }
            _ => None,
        }
    }

    fn format(&self) -> FormatTag {
        crate::format::TAG
    }
}

fn text(name: &str) -> Text<'_> {
    Text::Borrowed(name)
}

fn versioned<'a>(version: i16, body: &impl Wire<'a>) -> Bytes {
    let mut sink = Sink::default();
    sink.writer().i16(version);
    body.write(&mut sink, Form::new(version, false));
    Bytes::from(sink.flatten())
}

/// A value's table and version, if the version is known.
fn read_versioned<'a, T: Wire<'a>>(bytes: &'a [u8]) -> Option<T> {
    let mut reader = ByteReader::new(bytes);
    let version = reader.i16().ok()?;
    if !(0..=VALUE_FLEXIBLE).contains(&version) {
        return None;
    }
    T::read(&mut reader, Form::new(version, version >= VALUE_FLEXIBLE)).ok()
}

fn offset_value(committed: &Committed) -> Bytes {
    let value = OffsetValue {
        offset: committed.offset.0 as i64,
        leader_epoch: committed.leader_epoch,
        metadata: text(&committed.metadata),
        commit_time: committed.at.0,
        ..OffsetValue::default()
    };
    versioned(VALUE, &value)
}

fn read_offset(bytes: &[u8]) -> Option<Committed> {
    let value: OffsetValue<'_> = read_versioned(bytes)?;
    Some(Committed {
        offset: Offset(u64::try_from(value.offset).ok()?),
        leader_epoch: value.leader_epoch,
        metadata: value.metadata.into_owned(),
        at: Wall(value.commit_time),
    })
}

fn group_value(snapshot: &GroupSnapshot) -> Bytes {
    let members = snapshot.members.iter().map(|member| MemberValue {
        member: text(&member.info.member),
        instance: member.info.instance.as_deref().map(text),
        client_id: text(&member.info.client_id),
        client_host: text(&member.info.client_host),
        rebalance_timeout_ms: millis(member.rebalance_timeout),
        session_timeout_ms: millis(member.session_timeout),
        subscription: Blob::Borrowed(&member.info.metadata),
        assignment: Blob::Borrowed(&member.info.assignment),
    });
    let value = GroupValue {
        protocol_type: text(&snapshot.protocol_type),
        generation: snapshot.generation,
        protocol: snapshot.protocol.as_deref().map(text),
        leader: snapshot.leader.as_deref().map(text),
        state_time: snapshot.at.0,
        members: members.collect(),
    };
    versioned(VALUE, &value)
}

fn read_group(bytes: &[u8]) -> Option<GroupSnapshot> {
    let value: GroupValue<'_> = read_versioned(bytes)?;
    let members = value.members.into_iter().map(|member| MemberSnapshot {
        info: MemberInfo {
            member: member.member.into_owned(),
            instance: member.instance.map(Text::into_owned),
            client_id: member.client_id.into_owned(),
            client_host: member.client_host.into_owned(),
            metadata: Bytes::from(member.subscription.into_owned()),
            assignment: Bytes::from(member.assignment.into_owned()),
        },
        // Before version 1 there was one time-out for both.
        rebalance_timeout: duration(match member.rebalance_timeout_ms {
            0 => member.session_timeout_ms,
            ms => ms,
        }),
        session_timeout: duration(member.session_timeout_ms),
    });
    Some(GroupSnapshot {
        protocol_type: value.protocol_type.into_owned(),
        generation: value.generation,
        protocol: value.protocol.map(Text::into_owned),
        leader: value.leader.map(Text::into_owned),
        at: Wall(value.state_time),
        members: members.collect(),
    })
}

fn millis(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX)
}

fn duration(ms: i32) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offset_entry() -> LedgerEntry {
        LedgerEntry::Offset {
            group: Name::fixed("g"),
            topic: Name::fixed("t"),
            partition: 3,
            committed: Some(Committed { offset: Offset(42), leader_epoch: 0, metadata: "m".into(), at: Wall(1000) }),
        }
    }

    #[test]
    fn an_offset_is_written_in_the_bytes_that_tools_read() {
        let message = OffsetsCodec.encode(&offset_entry());
        assert_eq!(message.key.as_deref().unwrap(), b"\0\x01\0\x01g\0\x01t\0\0\0\x03");
        let value = b"\0\x03\0\0\0\0\0\0\0\x2a\0\0\0\0\0\x01m\0\0\0\0\0\0\x03\xe8";
        assert_eq!(message.value.as_deref().unwrap(), value);
        assert_eq!(OffsetsCodec.decode(&message), Some(offset_entry()));
    }

    #[test]
    fn offset_values_of_version_1_are_read() {
        let mut message = OffsetsCodec.encode(&offset_entry());
        let old = b"\0\x01\0\0\0\0\0\0\0\x2a\0\x01m\0\0\0\0\0\0\x03\xe8\0\0\0\0\0\0\x07\xd0";
        message.value = Some(Bytes::from_static(old));
        let Some(LedgerEntry::Offset { committed: Some(committed), .. }) = OffsetsCodec.decode(&message) else {
            panic!("not read");
        };
        assert_eq!((committed.offset, committed.leader_epoch, committed.at), (Offset(42), -1, Wall(1000)));
    }

    #[test]
    fn groups_and_tombstones_come_back_as_written() {
        let member = MemberSnapshot {
            info: MemberInfo {
                member: "c-1".into(),
                instance: Some("i".into()),
                client_id: "c".into(),
                client_host: "/127.0.0.1".into(),
                metadata: Bytes::from_static(b"sub"),
                assignment: Bytes::from_static(b"asg"),
            },
            rebalance_timeout: Duration::from_secs(60),
            session_timeout: Duration::from_secs(10),
        };
        let snapshot = GroupSnapshot {
            protocol_type: "consumer".into(),
            generation: 5,
            protocol: Some("range".into()),
            leader: Some("c-1".into()),
            at: Wall(7),
            members: vec![member],
        };
        for snapshot in [Some(snapshot), None] {
            let entry = LedgerEntry::Group { group: Name::fixed("g"), snapshot };
            let message = OffsetsCodec.encode(&entry);
            assert_eq!(message.key.as_deref().unwrap(), b"\0\x02\0\x01g");
            assert_eq!(OffsetsCodec.decode(&message), Some(entry));
        }
    }

    #[test]
    fn unknown_kinds_and_garbage_are_passed_over() {
        for key in [&b""[..], b"\0", b"\0\x09\0\x01g", b"\0\x01\0\x7fg"] {
            let message = Message { key: Some(Bytes::copy_from_slice(key)), ..Message::default() };
            assert_eq!(OffsetsCodec.decode(&message), None);
        }
    }
}
