//! `insert_message` and `remove_message`: changes to the message queue of a process.

use super::queue::queue_answer;
use crate::spec::{error, param, params};
use crate::{CallContext, ExecutionLevel, Handler, Outcome, ServiceSpec, spec};
use monitor_event::{CallResult, Refusal, Right};
use monitor_model::Identity;
use monitor_omis::{Status, Value, param_type::ParamType};
use monitor_platform as platform;
use monitor_platform::{QueueAnswer, QueueQuery};

/// The services.
pub const SERVICES: &[ServiceSpec] = &[
    ServiceSpec {
        name: "insert_message",
        params: &[
            param("tid", ParamType::Process),
            param("msg", ParamType::Bytes),
            param("pos", ParamType::Integer),
        ],
        right: Right::Control,
        level: ExecutionLevel::HoldProcess,
        help: "Inserts a message into the queue of a process at position `pos`, from 0, or at \
               the end, which is -1. In PVM 3.4 it is a message of raw bytes with tag 0 from \
               task 0, in the context of the process; the process is made to call the library, \
               so no thread of it may be inside the library, as one that waits in `pvm_recv` is: \
               then it is refused with WRONG_STATE. Queues of the system take it at their end \
               only, those of System V with type 1, those of POSIX with priority 0: taking \
               messages out and putting them back would lose them if the monitor were killed. It \
               is refused for Open MPI, whose messages are numbered by their senders, and for \
               MPICH, which does not expose its queues.",
        examples: &["process 7\nattach 7\nmessage 7 sender=1 tag=5 content=a\n\
                     > 10 [0] insert_message(7,[98,99],0); 11 [0] insert_message(7,#1:63,-1)\n\
                     < 10 [0] insert_message(0); 11 [0] insert_message(0)\n\
                     > 12 [0] queue_info(7,6)\n< 12 [0] queue_info(0,3,[0,2,5,1,0,1])"],
        errors: &[
            error(
                Status::RANGE,
                "a position below -1",
                "process 7\nattach 7\n> 10 [0] insert_message(7,[1],-2)",
            ),
            error(
                Status::NO_SUCH_OBJECT,
                "a position beyond the end of the queue",
                "process 7\nattach 7\n> 10 [0] insert_message(7,[1],1)",
            ),
            error(Status::UNSUPPORTED, "the library or the kernel takes no message there", ""),
            error(Status::WRONG_STATE, "a thread is inside the library", ""),
        ],
        handler: Handler::Manipulation(insert),
        ..ServiceSpec::BASE
    },
    ServiceSpec {
        name: "remove_message",
        params: &[param("tid", ParamType::Process), param("pos", ParamType::Integer)],
        right: Right::Control,
        level: ExecutionLevel::HoldProcess,
        help: "Removes the message at a position, from 0, from the queue of a process, and drops \
               it. In PVM 3.4 no thread may be inside the library, see `insert_message`. In \
               queues of System V it must be the first of its type, in those of POSIX the first: \
               the kernel gives out no other. It is refused for MPI.",
        examples: &["process 7\nattach 7\nmessage 7 sender=1 tag=5 content=a\n\
                     > 10 [0] remove_message(7,0)\n< 10 [0] remove_message(0)\n\
                     > 11 [0] queue_info(7,0)\n< 11 [0] queue_info(0,0,[])"],
        errors: &[
            error(
                Status::RANGE,
                "a negative position",
                "process 7\nattach 7\n> 10 [0] remove_message(7,-1)",
            ),
            error(
                Status::NO_SUCH_OBJECT,
                "no message has the position",
                "process 7\nattach 7\n> 10 [0] remove_message(7,0)",
            ),
            error(Status::UNSUPPORTED, "the library or the kernel gives out no such message", ""),
            error(Status::WRONG_STATE, "a thread is inside the library", ""),
        ],
        handler: Handler::Manipulation(remove),
        ..ServiceSpec::BASE
    },
];

/// Names the parameter in the message about an invalid one.
const POSITION: &str = "position; positions count from 0";

fn insert(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let [named, content, position] = params(args);
    let process = ctx.process(named)?;
    let position = match spec::integer::<i64>(position, POSITION)? {
        -1 => None,
        _ => Some(spec::integer(position, POSITION)?),
    };
    let content = content.bytes().unwrap_or_default();
    change_outcome(ctx, (named, process.id), &QueueQuery::Insert(position, content.into_owned()))
}

fn remove(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let [named, position] = params(args);
    let process = ctx.process(named)?;
    let position: usize = spec::integer(position, POSITION)?;
    change_outcome(ctx, (named, process.id), &QueueQuery::Remove(position))
}

/// The outcome of a change: done by the system, or to be executed by the process.
pub(super) fn change_outcome(
    ctx: &mut CallContext<'_>,
    (named, id): (&Value, Identity),
    change: &QueueQuery,
) -> Result<Outcome, Refusal> {
    match queue_answer(ctx, id, change)? {
        Some(QueueAnswer::InProcess(work)) => {
            let list = Value::List(vec![named.clone()]);
            ctx.act_on(&list, &platform::ProcessAction::Work(work), |ctx, report| {
                Ok(ctx.acknowledge(report))
            })
        }
        _ => Ok(CallResult::ok().into()),
    }
}
