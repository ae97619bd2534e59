//! Services about processes (OMIS 1.0, section 8.1.1), a file for each kind of action.

pub mod info;
pub mod memory;
pub mod migrate;
pub mod register;
pub mod start;
pub mod stop;
pub mod thread;

use super::{CallContext, ExecutionLevel, Outcome, ServiceSpec, spec::param};
use monitor_event::{ActionReport, CallResult, Refusal, Right};
use monitor_omis::param_type::{Param, ParamType};
use monitor_omis::{Status, Value};
use monitor_platform::ProcessAction;

/// The base of services that act on processes.
const CONTROLLED: ServiceSpec =
    ServiceSpec { right: Right::Control, level: ExecutionLevel::HoldProcess, ..ServiceSpec::BASE };
/// A process.
const TID: Param = param("tid", ParamType::Process);

/// A thread.
const THREAD: Param = param("thread", ParamType::Thread);

/// Does an action to one thread, and returns its result.
fn act_on_thread(
    ctx: &mut CallContext<'_>,
    thread: &Value,
    act: &ProcessAction,
) -> Result<Outcome, Refusal> {
    ctx.act_on_thread(thread, act, single_result)
}

/// Does an action to one process, and returns its result.
fn act_on_one(
    ctx: &mut CallContext<'_>,
    tid: &Value,
    act: &ProcessAction,
) -> Result<Outcome, Refusal> {
    ctx.act_on(&Value::List(vec![tid.clone()]), act, single_result)
}

/// The result of an action on one process.
fn single_result(_: &mut CallContext<'_>, report: ActionReport) -> Result<CallResult, Refusal> {
    let failed = report.failed.into_iter().map(|(_, why)| Err(why));
    let first = report.by_process.into_iter().map(|(_, result)| result).chain(failed).next();
    let none = || Refusal::new(Status::NO_SUCH_OBJECT, "no process is named");
    first.ok_or_else(none)?.map(CallResult::with)
}
