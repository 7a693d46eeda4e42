//! Entry points for fuzzing: any bytes, no panic. Also run over random bytes by the tests here.

use std::ops::ControlFlow;

use bytes::Bytes;
use model::{ByteReader, Format, Offset};

use crate::config::{Config, FRAME_BYTES_MAX_BEFORE_LOGIN};
use crate::format::FORMAT;
use crate::wire::frame::{self, Kind};
use crate::wire::{props, table};
use crate::{handshake, unit::Unit};

/// What a client may send, as far as it is understood without a broker: frames, the methods of the handshake,
/// content headers. Whole sessions over a broker are run by the tests in `tests/`.
pub fn fuzz_connection(input: &[u8]) {
    let config = Config::default();
    let mut rest = input;
    while let Ok(Some(frame)) = frame::cut(rest, FRAME_BYTES_MAX_BEFORE_LOGIN as usize) {
        if frame.kind == Kind::Header {
            let _ = frame.payload.get(12..).map(props::read);
        }
        if let Some(fields) = frame.payload.get(4..) {
            let _ = handshake::start_ok(fields, true);
            let _ = handshake::tune_ok(fields, &config);
            let _ = handshake::open(fields);
        }
        rest = rest.get(frame.bytes..).unwrap_or_default();
    }
}

/// A field table: both walks agree on what is well-formed (names that are not text apart), and what was read can be
/// written and read again.
///
/// # Panics
/// When they do not: that is the fault looked for.
pub fn fuzz_table(input: &[u8]) {
    let checked = table::check(input, |_, _| ());
    if let Ok(headers) = table::read(input) {
        assert!(checked.is_ok(), "a table that can be read is well-formed");
        let mut out = Vec::new();
        table::put(&mut out, &headers);
        let again = table::body(&mut ByteReader::new(&out)).and_then(table::read);
        assert!(again.is_ok(), "what was written can be read");
    }
    let _ = props::read(input);
}

/// Stored units: opened, and what they say built again.
///
/// # Panics
/// When a unit that can be opened is not split alike, or cannot be built again: that is the fault looked for.
pub fn fuzz_unit(input: &[u8]) {
    let mut messages = Vec::new();
    let mut visit = |offset, message| {
        messages.push((offset, message));
        ControlFlow::Continue(())
    };
    if FORMAT.open(&Bytes::copy_from_slice(input), Offset::ZERO, &mut visit).is_ok() {
        let mut count = 0;
        let split = FORMAT.split(input, Offset::ZERO, &mut |_| {
            count += 1;
            ControlFlow::Continue(())
        });
        assert!(split.is_ok() && count == messages.len(), "a unit is split as it is opened");
        let mut out = Vec::new();
        assert!(FORMAT.build(&messages, &mut out).is_ok());
        let mut rest = out.as_slice();
        while !rest.is_empty() {
            match Unit::first(rest) {
                Ok((_, bytes)) => rest = rest.get(bytes..).unwrap_or_default(),
                Err(error) => panic!("a built unit cannot be read: {error}"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
            fuzz_connection(&bytes);
            fuzz_table(&bytes);
            fuzz_unit(&bytes);
        }

        #[test]
        fn random_tables_never_panic(
            fields in proptest::collection::vec(
                (
                    "[a-z]{0,3}",
                    prop::sample::select(b"SIiDTFAlLsubBtdfxVz".to_vec()),
                    prop::collection::vec(0u8..9, 0..12),
                ),
                0..6,
            )
        ) {
            let mut table = Vec::new();
            for (name, letter, value) in fields {
                crate::wire::text::put_short(&mut table, &name);
                table.push(letter);
                table.extend_from_slice(&value);
            }
            fuzz_table(&table);
        }

        #[test]
        fn units_of_any_content_are_read_back(
            exchange in "[a-zé]{0,20}",
            key in "[a-z.#]{0,40}",
            body in proptest::collection::vec(any::<u8>(), 0..64),
            at in any::<i64>(),
        ) {
            let mut builder = crate::unit::UnitBuilder::default();
            builder.begin(&exchange, &key);
            builder.props(&[0, 0]);
            builder.body(&body);
            builder.finish(true, model::Wall(at));
            let (unit, _) = Unit::first(builder.bytes()).unwrap();
            prop_assert_eq!((unit.exchange, unit.key, unit.body), (&*exchange, &*key, &*body));
            fuzz_unit(builder.bytes());
        }
    }
}
