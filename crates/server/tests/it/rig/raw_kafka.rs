//! As much of a Kafka client as a test of another tongue needs, byte by byte.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use bytes::Bytes;
use model::{Format as _, Message, Offset};

/// One request of partition 0 of `topic`: the head of the body, the partition's fields; answers the response's body.
fn ask(address: SocketAddr, api: (u8, u8), topic: &str, head: &[u8], partition: &[u8]) -> Vec<u8> {
    let mut request = vec![0, api.0, 0, api.1, 0, 0, 0, 7, 0xff, 0xff];
    request.extend_from_slice(head);
    request.extend_from_slice(&[0, 0, 0, 1, 0, topic.len() as u8]);
    request.extend_from_slice(topic.as_bytes());
    request.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 0]);
    request.extend_from_slice(partition);
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(&[(request.len() as u32).to_be_bytes().as_slice(), &request].concat()).unwrap();
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut answer = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut answer).unwrap();
    answer.split_off(4)
}

/// Produce version 3 with acks=all: one record without a key.
pub fn produce(address: SocketAddr, topic: &str, text: &str) {
    let mut batch = Vec::new();
    let message = Message { value: Some(Bytes::copy_from_slice(text.as_bytes())), ..Message::default() };
    kafka::RecordFormat.build(&[(Offset::ZERO, message)], &mut batch).unwrap();
    let head = [0xff, 0xff, 0xff, 0xff, 0, 0, 0x27, 0x10]; // no transaction, acks −1, 10 s
    let records = [(batch.len() as u32).to_be_bytes().as_slice(), &batch].concat();
    let answer = ask(address, (0, 3), topic, &head, &records);
    let error = 4 + 2 + topic.len() + 4 + 4;
    assert_eq!(answer[error..error + 2], [0, 0], "Kafka's error code");
}

/// Fetch version 4 from offset 0: the whole answer, records uncompressed.
pub fn fetch(address: SocketAddr, topic: &str) -> String {
    let mut head = vec![0xff; 4]; // no replica
    head.extend_from_slice(&[0, 0, 0x27, 0x10, 0, 0, 0, 1, 0, 0x10, 0, 0, 0]); // 10 s, 1 byte, 1 MiB, uncommitted
    let answer = ask(address, (1, 4), topic, &head, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0]);
    String::from_utf8_lossy(&answer).into_owned()
}
