//! `stop`, `continue`, `kill`, `nice`.

use super::CONTROLLED;
use crate::spec::{integer, param};
use crate::{CallContext, Handler, Outcome, ServiceSpec, lower::StoredCall};
use monitor_event::{ControlGrant, Refusal, action::Step};
use monitor_omis::Value;
use monitor_omis::param_type::{Param, ParamType};
use monitor_platform::ProcessAction;

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
        handler: Handler::Manipulation(|ctx, args| {
            ctx.act_on(&args[0], &ProcessAction::Stop, |ctx, report| Ok(ctx.acknowledge(report)))
        }),
        ..CONTROLLED
    },
    ServiceSpec {
        name: "continue",
        params: &[LIST],
        help: "Continues processes that this tool has stopped. They run unless another tool has \
               stopped them, or they were stopped before the first tool stopped them.",
        examples: &["process 7\nattach 7\n> 10 [0] stop([7]); 11 [0] continue([7])\n\
                     < 10 [0] stop(0); 11 [0] continue(0)"],
        handler: Handler::Manipulation(|ctx, args| {
            ctx.act_on(
                &args[0],
                &ProcessAction::Continue,
                |ctx, report| Ok(ctx.acknowledge(report)),
            )
        }),
        ..CONTROLLED
    },
    ServiceSpec {
        name: "kill",
        params: &[LIST, param("sig", ParamType::Integer)],
        help: "Sends a signal, by its number on this node. A stopped process takes it when it \
               runs again, SIGKILL at once.",
        examples: &["process 7\nattach 7\n> 10 [0] kill([7],9)\n< 10 [0] kill(0)"],
        handler: Handler::Manipulation(|ctx, args| with_number(ctx, args, ProcessAction::Kill)),
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
        handler: Handler::Manipulation(|ctx, args| with_number(ctx, args, ProcessAction::Nice)),
        ..CONTROLLED
    },
];

fn with_number(
    ctx: &mut CallContext<'_>,
    args: &[Value],
    act: fn(i32) -> ProcessAction,
) -> Result<Outcome, Refusal> {
    let number = integer::<i32>(&args[1], "32-bit integer")?;
    ctx.act_on(&args[0], &act(number), |ctx, report| Ok(ctx.acknowledge(report)))
}

/// Lowers a signal to the process that hits the event, for a tool that may signal all processes;
/// for other tools the permission is checked when the event occurs.
fn kill_in_kernel(it: &StoredCall<'_>) -> Option<Vec<Step>> {
    let number = it.value(1)?.integer::<u32>().filter(|number| (1..=64).contains(number))?;
    let may = it.session.tool.uid == 0 && it.session.tool.control == ControlGrant::All;
    (may && it.is_event_process(0)).then(|| vec![Step::Signal(number)])
}
