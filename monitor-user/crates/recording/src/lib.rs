//! L3, recordings: samples in a file, and back.
//!
//! In: samples. Out: a file that survives a crash, and the same samples from it, to the digit.
//! The form of the file stands in docs/RECORDING.md. Reads no clock, chooses no process and
//! computes no rate.
//!
//! ```text
//!  Sample -> page -> sheets -> change -> streams -> block -> frame -> writer    -> file
//!  Sample <- page <- sheets <- change <- streams <- block <- frame <- recording <- file
//! ```

mod block;
mod change;
mod codec;
mod error;
mod flight;
mod frame;
mod header;
mod index;
mod page;
mod recording;
mod replay;
mod roll;
mod scan;
mod schema;
mod sheet;
mod stream;
mod strings;
mod varint;
mod writer;

pub use block::Limits;
pub use error::Error;
pub use flight::{Flight, Next};
pub use header::{Header, VERSION};
pub use recording::{Recording, Span};
pub use replay::Replay;
pub use roll::{Options, Roll, Room};
pub use writer::{Existing, Writer, create};

#[cfg(test)]
mod tests;
