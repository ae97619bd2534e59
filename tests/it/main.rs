//! Every outside-in test, in one binary.
#![allow(clippy::unwrap_used, reason = "a test says what it expected by failing there")]

mod root;
