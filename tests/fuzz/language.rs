//! The target of cargo-fuzz: any line, read as a request and as a reply.
//!
//! In: bytes of libFuzzer. Out: nothing, or a panic with the line that made it. What is checked
//! is in `line.rs`, which the ordinary tests run too.

#![no_main]

mod line;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| line::check(bytes));
