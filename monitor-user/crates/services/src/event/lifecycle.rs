//! `new_process`, `process_exec` and `process_terminated`.

use super::process_filter;
use crate::{CallContext, Handler, ResultSpec, ServiceSpec, spec::param};
use monitor_event::{EventFilter, EventKind, ProcessSelector, Refusal, Right};
use monitor_omis::Value;
use monitor_omis::param_type::{Param, ParamType};

const TID: ResultSpec = ResultSpec::new("tid", "integer");
const TIDS: Param = param("tid_list", ParamType::Many(&ParamType::Process));

/// The services.
pub const SERVICES: &[ServiceSpec] = &[
    ServiceSpec {
        name: "new_process",
        results: &[TID],
        right: Right::ObserveInFull,
        help: "Occurs when a process joins the attached ones: a child of one of them, or one \
               that matches an attachment by cgroup or command name.",
        examples: &["process 7\nattach 7\n> 10 [0] new_process(): 11 [0] print([$1])\n\
                     < 10 [0] new_process(0)\n> 12 [0] enable(10)\n< 12 [0] enable(0)\n\
                     at 1ms process 8 ppid=7\n< 11 [0] print(0,[8])"],
        handler: Handler::Event(new_process),
        ..ServiceSpec::BASE
    },
    ServiceSpec {
        name: "process_exec",
        params: &[TIDS],
        results: &[TID],
        right: Right::ObserveInFull,
        help: "Occurs when one of the processes has executed another program with execve(2), and \
               does not hold it: `after_exec` does. Needs eBPF. An extension.",
        examples: &["process 7\nprocess 8\nreports exec\nattach 7\n\
                     > 10 [0] process_exec([]): 11 [0] print([$1])\n\
                     < 10 [0] process_exec(0)\n> 12 [0] enable(10)\n< 12 [0] enable(0)\n\
                     at 1ms exec 8\nat 2ms exec 7\n< 11 [0] print(0,[7])"],
        handler: Handler::Event(|ctx, args| {
            process_filter(ctx, &args[0], EventKind::Executed, None)
        }),
        ..ServiceSpec::BASE
    },
    ServiceSpec {
        name: "process_terminated",
        params: &[TIDS],
        results: &[TID, ResultSpec::new("code", "integer"), ResultSpec::new("signal", "integer")],
        right: Right::ObserveInFull,
        help: "Occurs when one of the processes has ended. `$2` is its exit code, or 128 and the \
               number of the signal that ended it, or -1 if unknown; `$3` is that signal, 0 if \
               the process has exited by itself, or -1 if unknown. Both are extensions.",
        examples: &[
            "process 7\nattach 7\n> 10 [0] process_terminated([7]): 11 [0] print([$1,$2])\n\
                     < 10 [0] process_terminated(0)\n> 12 [0] enable(10)\n< 12 [0] enable(0)\n\
                     at 1ms end 7 exit_code=3\n< 11 [0] print(0,[7,3])",
        ],
        handler: Handler::Event(|ctx, args| process_filter(ctx, &args[0], EventKind::Ended, None)),
        ..ServiceSpec::BASE
    },
];

fn new_process(_: &mut CallContext<'_>, _: &[Value]) -> Result<EventFilter, Refusal> {
    Ok(EventFilter {
        kind: EventKind::Created,
        processes: ProcessSelector::Attached,
        predicate: None,
    })
}
