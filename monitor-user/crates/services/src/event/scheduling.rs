//! `process_blocked`, `process_unblocked`, `scheduling`: threads and processors.

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
        name: "process_blocked",
        params: &[TIDS],
        results: &[TID],
        right: Right::ObserveInFull,
        help: "Occurs when a thread of one of the processes gives up its processor to wait: for \
               a message, a lock, a disk, a timer. Preemption, a stop and the end of a thread \
               are no waiting. A library that polls never waits.",
        examples: &["process 7\nattach 7\n> 10 [0] process_blocked([7]): 11 [0] print([$1])\n\
                     < 10 [0] process_blocked(0)\n> 12 [0] enable(10)\n< 12 [0] enable(0)\n\
                     at 1ms block 7\n< 11 [0] print(0,[7])"],
        handler: Handler::Event(|ctx, args| {
            process_filter(ctx, &args[0], EventKind::Blocked, None)
        }),
        ..ServiceSpec::BASE
    },
    ServiceSpec {
        name: "process_unblocked",
        params: &[TIDS],
        results: &[TID],
        right: Right::ObserveInFull,
        help: "Occurs when a thread of one of the processes is woken and can run. It may have to \
               wait again at once.",
        examples: &["process 7\nattach 7\n> 10 [0] process_unblocked([]): 11 [0] print([$1])\n\
                     < 10 [0] process_unblocked(0)\n> 12 [0] enable(10)\n< 12 [0] enable(0)\n\
                     at 1ms unblock 7\n< 11 [0] print(0,[7])"],
        handler: Handler::Event(|ctx, args| {
            process_filter(ctx, &args[0], EventKind::Unblocked, None)
        }),
        ..ServiceSpec::BASE
    },
    ServiceSpec {
        name: "scheduling",
        results: &[
            ResultSpec::new("old_tid", "integer"),
            ResultSpec::new("new_tid", "integer"),
            ResultSpec::new("cpu", "integer"),
        ],
        right: Right::ObserveInFull,
        help: "Occurs when a processor switches from one thread to another, and one of the two \
               belongs to an attached process; -1 represents any other. A switch between two \
               threads of one process has the same number twice. `$3` is the processor, an \
               extension. A user that does not observe all processes in full receives the \
               switches away from its own, with -1 as the other.",
        examples: &["process 7\nprocess 8\nattach 7\n\
                     > 10 [0] scheduling(): 11 [0] print([$1,$2,$3])\n< 10 [0] scheduling(0)\n\
                     > 12 [0] enable(10)\n< 12 [0] enable(0)\nat 1ms switch 7 8 1\n\
                     < 11 [0] print(0,[7,-1,1])"],
        handler: Handler::Event(scheduling),
        ..ServiceSpec::BASE
    },
];

fn scheduling(_: &mut CallContext<'_>, _: &[Value]) -> Result<EventFilter, Refusal> {
    Ok(EventFilter {
        kind: EventKind::Scheduled,
        processes: ProcessSelector::Attached,
        predicate: None,
    })
}
