//! Recordings: samples in a file, and back.
//!
//! In: samples. Out: a file that survives a crash, and exactly the same samples from it.
//! docs/RECORDING.md defines the file format. Reads no clock, selects no process and computes no
//! rate.
//!
//! ```text
//!  Sample -> tables -> delta -> streams -> block -> frame -> writer    -> file
//!  Sample <- tables <- delta <- streams <- block <- frame <- recording <- file
//! ```

mod block;
mod budget;
mod codec;
mod delta;
mod error;
mod flight;
mod frame;
mod header;
mod index;
mod recording;
mod replay;
mod rotate;
mod scan;
mod schema;
mod stream;
mod strings;
mod table;
mod tables;
mod varint;
mod writer;

pub use block::BlockLimits;
pub use error::Error;
pub use flight::{FlightBuffer, FlightCursor};
pub use header::{Header, VERSION};
pub use recording::{Recording, Span};
pub use replay::Replay;
pub use rotate::{RotateOptions, RotatingWriter, WriteOutcome};
pub use writer::{Existing, Writer, create, remove};

#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod tests;
