//! Fuzzes requests of any API and version: no panic, no hang, no allocation by a number the sender chose.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| kafka::fuzz_request(data));
