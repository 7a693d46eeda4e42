//! Fuzzes what a client sends over a connection: no panic, no hang, no allocation by a number the sender chose.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| amqp::fuzz_connection(data));
