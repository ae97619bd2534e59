//! The conformance suite: sentences of OMIS 1.0, each with requests and the replies it demands.
//!
//! ```text
//! tests/request/conformance/*.txt -> case: sentences, what they need, lines
//!                                      |
//!                     step: the lines that any implementation can run
//!                                      |
//!        client::tool -> run: a session for each case -> verdict of each sentence
//! ```
//!
//! In: cases, a socket, and processes that the caller starts. Out: verdicts as data. Prints
//! nothing, starts no process, and knows no service: an implementation is what it replies.

#![warn(clippy::missing_errors_doc)]

pub mod case;
pub mod run;
pub mod step;
mod suite;
pub mod verdict;

pub use suite::suite;
