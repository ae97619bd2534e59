//! The extension `cnt_`: instruments (counters, integrators, histograms, timers, traces) of tools.
//!
//! ```text
//!  manage  create, delete, reset, list      update    add, set, record, start, stop
//!  read    values and records               registry  names and owners of instruments
//!  instrument  the kinds                    summary, gauge_integral, stopwatch  their state
//!  in_kernel   their share in the kernel
//! ```
//!
//! In: numbers and times. Out: counts, sums, minima, maxima, percentiles, records. Instruments do
//! not know events: actions of requests update them, and any tool that may use their names.

mod gauge_integral;
mod in_kernel;
pub mod instrument;
pub mod manage;
pub mod read;
pub mod registry;
mod stopwatch;
mod summary;
pub mod update;

use super::{CallContext, ExecutionLevel, ServiceSpec, spec::param};
use instrument::Instrument;
use monitor_event::Refusal;
use monitor_omis::Value;
use monitor_omis::param_type::{Param, ParamType};
pub use registry::InstrumentRegistry;

/// The base of its services.
const BLANK: ServiceSpec =
    ServiceSpec { prefix: "cnt_", level: ExecutionLevel::Kernel, ..ServiceSpec::BASE };
/// The name of an instrument: a string or an integer.
const NAME: Param = param("name", ParamType::Any);
/// Several names.
const NAMES: Param = param("names", ParamType::Many(&ParamType::Any));

/// The instrument that a parameter names.
fn named<'c>(ctx: &'c mut CallContext<'_>, name: &Value) -> Result<&'c mut Instrument, Refusal> {
    let session = ctx.session.tool.session;
    ctx.engine.instruments_mut().find_mut(session, name)
}
