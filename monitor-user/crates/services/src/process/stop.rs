//! `stop`, `continue`, `kill`, `nice`.

use super::CONTROLLED;
use crate::spec::{error, number, param, params};
use crate::{CallContext, Handler, Outcome, ServiceSpec, context::Completion, lower::StoredCall};
use monitor_event::{ControlGrant, Refusal, action::Step};
use monitor_omis::param_type::{Param, ParamType};
use monitor_omis::{Status, Value};
use monitor_platform::ProcessAction;
use std::ops::RangeInclusive;

/// The signals of this system.
pub(crate) const SIGNALS: RangeInclusive<i32> = 1..=64;
/// The nice values of this system; the kernel replaces others by the nearest of them.
const NICE_VALUES: RangeInclusive<i32> = -20..=19;

const LIST: Param = param("tid_list", ParamType::Many(&ParamType::Process));

/// The services.
pub const SERVICES: &[ServiceSpec] = &[
    ServiceSpec {
        name: "stop",
        params: &[LIST],
        help: "Stops all threads of the processes, and replies when they are stopped. A process \
               that this tool has stopped stays stopped until `continue`, whatever signals it \
               gets. docs/CONTROL.md lists the system calls that notice it.",
        examples: &["process 7\nattach 7\n> 10 [0] stop([7])\n< 10 [0] stop(0)\n\
                     > 11 [0] process_info([7],4)\n< 11 [0] process_info(0,1,[7,5])"],
        errors: &[error(Status::TIMEOUT, "its threads did not stop in time", "")],
        handler: Handler::Manipulation(|ctx, args| act(ctx, &args[0], &ProcessAction::Stop)),
        ..CONTROLLED
    },
    ServiceSpec {
        name: "continue",
        params: &[LIST],
        help: "Continues processes that this tool has stopped. They run unless another tool has \
               stopped them, or they were stopped before the first tool stopped them. An empty \
               list means those of the attached processes that this tool has stopped.",
        examples: &["process 7\nattach 7\n> 10 [0] stop([7]); 11 [0] continue([7])\n\
                     < 10 [0] stop(0); 11 [0] continue(0)"],
        errors: &[error(
            Status::WRONG_STATE,
            "a process in the list that this tool has not stopped",
            "process 7\nattach 7\n> 10 [0] continue([7])",
        )],
        handler: Handler::Manipulation(resume),
        ..CONTROLLED
    },
    ServiceSpec {
        name: "kill",
        params: &[LIST, param("sig", ParamType::Integer)],
        help: "Sends a signal, by its number on this node. A stopped process takes it when it \
               runs again, SIGKILL at once.",
        examples: &["process 7\nattach 7\n> 10 [0] kill([7],9)\n< 10 [0] kill(0)"],
        errors: &[error(
            Status::RANGE,
            "a number that is no signal, 1 to 64",
            "process 7\nattach 7\n> 10 [0] kill([7],65)",
        )],
        handler: Handler::Manipulation(|ctx, args| {
            let [list, signal] = params(args);
            act(ctx, list, &ProcessAction::Kill(number(signal, "signal", SIGNALS)?))
        }),
        lower: Some(kill_in_kernel),
        ..CONTROLLED
    },
    ServiceSpec {
        name: "nice",
        params: &[LIST, param("val", ParamType::Integer)],
        help: "Sets the nice value of all threads to `val`, from -20 to 19. Lowering it needs a \
               privilege. Real-time and deadline scheduling ignore it.",
        examples: &["process 7\nattach 7\n> 10 [0] nice([7],5); 11 [0] process_info([7],16)\n\
                     < 10 [0] nice(0); 11 [0] process_info(0,1,[7,5])"],
        errors: &[error(
            Status::RANGE,
            "a value outside -20 to 19",
            "process 7\nattach 7\n> 10 [0] nice([7],20)",
        )],
        handler: Handler::Manipulation(|ctx, args| {
            let [list, value] = params(args);
            act(ctx, list, &ProcessAction::Nice(number(value, "nice value", NICE_VALUES)?))
        }),
        ..CONTROLLED
    },
];

fn act(
    ctx: &mut CallContext<'_>,
    list: &Value,
    action: &ProcessAction,
) -> Result<Outcome, Refusal> {
    ctx.act_on(list, action, |ctx, report| Ok(ctx.acknowledge(report)))
}

/// Continues processes. An empty list names those that are stopped: the others do not fail.
fn resume(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let completion: Completion = match args[0].list() {
        Some([]) => |ctx, mut report| {
            let is_running = |why: &Refusal| why.status == Status::WRONG_STATE;
            report.by_process.retain(|(_, done)| !done.as_ref().is_err_and(is_running));
            Ok(ctx.acknowledge(report))
        },
        _ => |ctx, report| Ok(ctx.acknowledge(report)),
    };
    ctx.act_on(&args[0], &ProcessAction::Continue, completion)
}

/// Lowers a signal to the process that hits the event, for a tool that may signal all processes;
/// for other tools the permission is checked when the event occurs.
fn kill_in_kernel(it: &StoredCall<'_>) -> Option<Vec<Step>> {
    let number = it
        .value(1)?
        .integer::<u32>()
        .filter(|it| i32::try_from(*it).is_ok_and(|it| SIGNALS.contains(&it)))?;
    let may = it.session.tool.uid == 0 && it.session.tool.control == ControlGrant::All;
    (may && it.is_event_process(0)).then(|| vec![Step::Signal(number)])
}
