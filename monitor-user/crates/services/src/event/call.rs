//! `start_lib_call` and `end_lib_call`: calls of library functions; `message_arrived`.
//!
//! The parameters of a call follow the description of its library (docs/DESCRIPTIONS.md).

use super::{check_named, process_filter};
use crate::spec::{error, param, params};
use crate::{CallContext, ExecutionLevel, Handler, ResultSpec, ServiceSpec};
use monitor_event::{Edge, EventFilter, EventKind, Predicate, Refusal, Right, Tap, Tool};
use monitor_model::{Process, ProcessField};
use monitor_omis::param_type::{Param, ParamType};
use monitor_omis::{Status, Value};
use std::task::Poll;

const TID: ResultSpec = ResultSpec::new("tid", "integer");
const TAKES: &[Param] = &[
    param("tid_list", ParamType::Many(&ParamType::Process)),
    param("lib_call_name", ParamType::Text),
];

/// The services.
pub const SERVICES: &[ServiceSpec] = &[
    ServiceSpec {
        name: "start_lib_call",
        params: TAKES,
        results: &[TID, ResultSpec::ANY],
        right: Right::Control,
        level: ExecutionLevel::Kernel,
        help: "Occurs when one of the processes has called a library function, or one of its \
               own, and not yet executed anything of it. The name may be that of the function, \
               or LIBRARY:FUNCTION@VERSION, or FILE:0xOFFSET; `f|g` is any of several. `$2` and \
               so on are the input arguments, in the order of the description of the library \
               (docs/DESCRIPTIONS.md); without a description there is only the process. A value \
               that could not be read is an empty list. The LIBRARY may be one that a process \
               has not loaded yet: calls are reported once it is loaded, or a program with it \
               executed; calls in the first milliseconds may be missed.",
        examples: &["process 7\nattach 7\ncallable 7 pvm_send\n\
                     > 10 [0] start_lib_call([7],\"pvm_send\"): 11 [0] print([$1,$2,$3])\n\
                     < 10 [0] start_lib_call(0)\n> 12 [0] enable(10)\n< 12 [0] enable(0)\n\
                     at 1ms call 7 pvm_send 262147 100\n< 11 [0] print(0,[7,262147,100])"],
        errors: &[
            error(
                Status::NO_SUCH_OBJECT,
                "none of the processes has the function",
                "process 7\nattach 7\n> 10 [0] start_lib_call([],\"f\"): 11 [0] print(1)",
            ),
            error(Status::RANGE, "the name does not name a function", ""),
            error(Status::UNSAFE_SITE, "a probe there would change what the program does", ""),
        ],
        handler: Handler::Event(start),
        ..ServiceSpec::BASE
    },
    ServiceSpec {
        name: "end_lib_call",
        params: &[TAKES[0], TAKES[1], param("options", ParamType::Many(&ParamType::Any))],
        results: &[TID, ResultSpec::ANY],
        right: Right::Control,
        level: ExecutionLevel::Kernel,
        help: "Occurs when a library function, named as in `start_lib_call`, has returned in one \
               of the processes. `$2` and so on are its result, the error number where it has \
               one (0 if it did not fail), and its output arguments, in the order of the \
               description. A call that is left by longjmp or by the end of its thread does not \
               return. With the option `\"trampoline\"` the return is seen by replacing the \
               return address of each call instead of stepping the function's own return \
               instructions. That is cheaper, and dangerous: an exception, a cancellation, a \
               panic or a jump through the function ends the process. Only the owner of all the \
               processes can ask for it, whatever else a user may control; it is never used \
               without being asked for, and if the kernel refuses it, the request is disabled \
               with a notice. The option is an extension.",
        examples: &["process 7\nattach 7\ncallable 7 pvm_send\n\
                     > 10 [0] end_lib_call([7],\"pvm_send\"): 11 [0] print([$1,$2])\n\
                     < 10 [0] end_lib_call(0)\n> 12 [0] enable(10)\n< 12 [0] enable(0)\n\
                     at 1ms return 7 pvm_send -2\n< 11 [0] print(0,[7,-2])"],
        errors: &[
            error(
                Status::NO_SUCH_OBJECT,
                "none of the processes has the function",
                "process 7\nattach 7\n> 10 [0] end_lib_call([7],\"f\"): 11 [0] print(1)",
            ),
            error(
                Status::RANGE,
                "an unknown option",
                "process 7\nattach 7\n> 10 [0] end_lib_call([7],\"f\",[\"x\"]): 11 [0] print(1)",
            ),
        ],
        handler: Handler::Event(end),
        ..ServiceSpec::BASE
    },
    ServiceSpec {
        name: "message_arrived",
        params: &[param("tid_list", ParamType::Many(&ParamType::Process))],
        results: &[
            TID,
            ResultSpec::new("sender", "integer"),
            ResultSpec::new("msgtag", "integer"),
            ResultSpec::new("size", "integer"),
        ],
        right: Right::Control,
        level: ExecutionLevel::Kernel,
        help: "Occurs when the library of PVM 3.4 has put a message into the queue of one of the \
               processes, or a transport of Open MPI 4 has passed one to its matching (pml/ob1). \
               `sender` is a task of PVM, or a rank in the communicator of the message. It is \
               refused for other libraries: use `end_lib_call` on their receive functions. It is \
               refused for queues of the system, which would need a program at every system \
               call.",
        examples: &["process 7\nattach 7\n\
                     callable 7 mesg_input|mca_pml_ob1_recv_frag_callback_match|\
                     mca_pml_ob1_recv_frag_callback_rndv|mca_pml_ob1_recv_frag_callback_rget\n\
                     > 10 [0] message_arrived([7]): 11 [0] print([$1,$2,$3,$4])\n\
                     < 10 [0] message_arrived(0)\n> 12 [0] enable(10)\n< 12 [0] enable(0)\n\
                     at 1ms call 7 mesg_input|mca_pml_ob1_recv_frag_callback_match|\
                     mca_pml_ob1_recv_frag_callback_rndv|mca_pml_ob1_recv_frag_callback_rget \
                     262147 100 4\n< 11 [0] print(0,[7,262147,100,4])"],
        errors: &[error(
            Status::UNSUPPORTED,
            "none of the processes has a supported library",
            "process 7\nattach 7\n> 10 [0] message_arrived([]): 11 [0] print(1)",
        )],
        handler: Handler::Event(arrived),
        ..ServiceSpec::BASE
    },
];

/// The functions that every message passes: PVM's, and Open MPI's by the protocol of the message.
const ARRIVALS: &str = "mesg_input|mca_pml_ob1_recv_frag_callback_match|\
                        mca_pml_ob1_recv_frag_callback_rndv|mca_pml_ob1_recv_frag_callback_rget";
/// The option that lets return addresses be replaced.
const TRAMPOLINE: &str = "trampoline";
/// The sender of messages between the library of PVM and its daemon.
const PVM_DAEMON: i64 = -2_147_483_648;

fn start(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<EventFilter, Refusal> {
    let [list, name] = params(args);
    let tap = Tap::new(function(name), Edge::Start);
    call_filter(ctx, list, &tap, EventKind::Called(tap.clone()), None)
}

fn end(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<EventFilter, Refusal> {
    let [list, name, options] = params(args);
    let by_trampoline = match options.list().unwrap_or_default() {
        [] => false,
        [option] if *option == Value::from(TRAMPOLINE) => true,
        _ => {
            let text = format!("options {options}: expected \"{TRAMPOLINE}\" or none");
            return Err(Refusal::new(Status::RANGE, text));
        }
    };
    if by_trampoline {
        for process in ctx.processes(list)?.served {
            check_owner(&ctx.session.tool, &process)?;
        }
    }
    let tap = Tap { by_trampoline, ..Tap::new(function(name), Edge::End) };
    call_filter(ctx, list, &tap, EventKind::Called(tap.clone()), None)
}

fn function(name: &Value) -> String {
    let Value::Text(name) = name else { unreachable!("the specification has a string") };
    name.to_str_lossy().into_owned()
}

/// Refuses what may end a process, unless its owner asks for it.
fn check_owner(tool: &Tool, process: &Process) -> Result<(), Refusal> {
    match process.row.get(ProcessField::Uid) {
        Some(owner) if owner == u64::from(tool.uid) => Ok(()),
        owner => {
            let owner = owner.map_or_else(|| "another user".to_owned(), |it| format!("user {it}"));
            let text = format!(
                "process {} belongs to {owner}, and a return trampoline can end it: only its \
                 owner can ask for one; leave \"{TRAMPOLINE}\" out",
                process.id.pid.0
            );
            Err(Refusal::new(Status::PERMISSION, text))
        }
    }
}

fn arrived(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<EventFilter, Refusal> {
    check_named(ctx, &args[0])?;
    let tap = Tap::new(ARRIVALS, Edge::Start);
    // Internal messages of libraries come from a daemon, or have a negative tag.
    let check =
        Predicate::All(vec![Predicate::Not(1, Value::from(PVM_DAEMON)), Predicate::AtLeast(2, 0)]);
    let watch = call_filter(ctx, &args[0], &tap, EventKind::Called(tap.clone()), Some(check));
    watch.map_err(|why| {
        only_supported_in("arrival of messages is reported for PVM 3.4 and Open MPI 4 only", why)
    })
}

/// The refusal if a function that only one library has is missing.
pub(crate) fn only_supported_in(what: &str, why: Refusal) -> Refusal {
    match why.status {
        Status::NO_SUCH_OBJECT => {
            Refusal::new(Status::UNSUPPORTED, format!("{what}: {}", why.text))
        }
        _ => why,
    }
}

/// The filter for calls of a function that at least one of the processes has. A process that is
/// attached later, or loads a library later, may get it yet.
pub(crate) fn call_filter(
    ctx: &mut CallContext<'_>,
    list: &Value,
    tap: &Tap,
    kind: EventKind,
    check: Option<Predicate>,
) -> Result<EventFilter, Refusal> {
    let is_all = list.list().is_some_and(<[Value]>::is_empty);
    let mut refused: Option<Refusal> = None;
    let mut n_found = 0;
    for it in &ctx.processes(list)?.served {
        match ctx.platform.check_tap(tap, it.id) {
            Poll::Ready(Ok(())) => n_found += 1,
            // "All attached processes" does not include those that have ended.
            Poll::Ready(Err(why)) if is_all && why.status == Status::GONE => {}
            // Some of the processes may run other programs.
            Poll::Ready(Err(why)) if is_all || why.status == Status::NO_SUCH_OBJECT => {
                refused = refused.or(Some(why));
            }
            Poll::Ready(Err(why)) => return Err(why),
            Poll::Pending => ctx.awaits_files = true,
        }
    }
    match refused {
        Some(why) if n_found == 0 => Err(why),
        _ => process_filter(ctx, list, kind, check),
    }
}
