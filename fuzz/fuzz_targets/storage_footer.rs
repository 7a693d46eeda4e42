//! Fuzzes a reader of stored bytes behind its checksum: no panic, no hang, no allocation by a claimed number.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| storage::fuzz::footer(data));
