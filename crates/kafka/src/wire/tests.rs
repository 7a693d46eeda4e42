//! The primitive types at their edges. Whole messages are compared with another implementation in `api/tests.rs`.

use model::{ByteReader, ReadError};

use super::{Form, Sink, Text, Wire};

messages! {
    Sampler<'a> {
        old: i16, 0-1;
        text: Option<Text<'a>>, 0+ null 1;
        list: Vec<i32>, 0+;
        tagged: i32, 2+ tag 1 or 7;
    }
}

fn encode(message: &Sampler<'_>, version: i16, flexible: bool) -> Vec<u8> {
    let mut sink = Sink::default();
    message.write(&mut sink, Form::new(version, flexible));
    sink.flatten()
}

fn decode(bytes: &[u8], version: i16, flexible: bool) -> Result<Sampler<'_>, ReadError> {
    Sampler::read(&mut ByteReader::new(bytes), Form::new(version, flexible))
}

#[test]
fn fields_stand_only_in_their_versions_and_null_only_where_it_may() {
    let message = Sampler { old: 5, text: None, list: vec![1], tagged: 9 };
    assert_eq!(encode(&message, 0, false), b"\0\x05\0\0\0\0\0\x01\0\0\0\x01");
    assert_eq!(encode(&message, 1, false), b"\0\x05\xff\xff\0\0\0\x01\0\0\0\x01");
    assert_eq!(encode(&message, 2, true), b"\0\x02\0\0\0\x01\x01\x01\x04\0\0\0\x09");
    assert!(decode(b"\0\x05\xff\xff\0\0\0\0", 0, false).is_err(), "null is not allowed before version 1");
    assert_eq!(decode(b"\0\x05\xff\xff\0\0\0\0", 1, false).unwrap().text, None);
}

#[test]
fn a_tagged_field_that_is_absent_has_its_default_and_is_not_written() {
    let message = Sampler { tagged: 7, ..Sampler::default() };
    assert_eq!(encode(&message, 2, true), b"\0\x01\0");
    assert_eq!(decode(b"\0\x01\0", 2, true).unwrap().tagged, 7);
}

#[test]
fn unknown_tags_are_passed_over_within_their_bounds() {
    assert_eq!(decode(b"\0\x01\x02\x01\x04\0\0\0\x09\x63\x02ab", 2, true).unwrap().tagged, 9);
    assert!(decode(b"\0\x01\x01\x63\x05ab", 2, true).is_err(), "longer than what is there");
    assert!(decode(b"\0\x01\xff\xff\xff\xff\x0f", 2, true).is_err(), "more tags than bytes");
    assert!(decode(b"\0\x01\x01\x01\x02\0\0", 2, true).is_err(), "a known tag too short for its type");
}

#[test]
fn counts_and_lengths_that_lie_are_refused_before_anything_is_reserved() {
    for bytes in
        [&b"\0\x05\0\0\x7f\xff\xff\xff"[..], b"\0\x05\0\0\xff\xff\xff\xfe", b"\0\x05\x7f\xffab", b"\0\x05\xff\xfe"]
    {
        assert!(decode(bytes, 1, false).is_err(), "{bytes:?}");
    }
    for bytes in [&b"\0\xff\xff\xff\xff\x0f"[..], b"\xff\xff\xff\xff\x0fab", b"\xff\xff\xff\xff\xff\xff"] {
        assert!(decode(bytes, 2, true).is_err(), "{bytes:?}");
    }
}

#[test]
fn a_text_too_long_for_its_classic_length_is_cut_between_characters() {
    let text = format!("a{}", "é".repeat(20_000));
    let message = Sampler { text: Some(Text::Borrowed(&text)), ..Sampler::default() };
    let bytes = encode(&message, 1, false);
    assert_eq!(decode(&bytes, 1, false).unwrap().text.unwrap().len(), i16::MAX as usize);
    let bytes = encode(&message, 2, true);
    assert_eq!(decode(&bytes, 2, true).unwrap().text.unwrap(), text, "compact lengths have room for it");
}
