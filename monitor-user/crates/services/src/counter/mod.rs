//! The extension `cnt_`: what tools count, sum and time with; instruments, as objects of a session.
//!
//! ```text
//!  make   create, delete, reset, list      feed   add, set, record, start, stop
//!  read   what they show                   shelf  whose they are, and what they are called
//!  instrument  what each kind does         summary, area, stopwatch, trace  what each keeps
//! ```
//!
//! In: numbers and times. Out: counts, sums, extremes, percentiles, records. An instrument knows
//! no event: the actions of a request feed it, and so may anybody who knows its name.

mod area;
pub mod feed;
pub mod instrument;
mod kernel;
pub mod make;
pub mod read;
pub mod shelf;
mod stopwatch;
mod summary;

use super::ctx::Ctx;
use super::row::{Level, Row};
use instrument::Instrument;
use monitor_event::outcome::Refusal;
use monitor_omis::Value;
use monitor_omis::kind::{Kind, Param};
pub use shelf::Shelf;

/// What all of its services are.
const BLANK: Row = Row { prefix: "cnt_", level: Level::Kernel, ..Row::BLANK };
/// Its name: a string or an integer.
const NAME: Param = Param { name: "name", kind: Kind::Any };
/// Several names.
const NAMES: Param = Param { name: "names", kind: Kind::Many(&Kind::Any) };

/// The instrument that a parameter names.
fn named<'c>(ctx: &'c mut Ctx<'_>, name: &Value) -> Result<&'c mut Instrument, Refusal> {
    let session = ctx.session.tool.session;
    ctx.desk.shelf_mut().find_mut(session, name)
}
