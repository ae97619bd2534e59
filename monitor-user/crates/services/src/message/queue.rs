//! `queue_info`: messages that wait in a process; `message_buffer`: the message that it packs.

use crate::spec::{error, param, params};
use crate::{
    CallContext, ExecutionLevel, FlagSpec, Handler, Outcome, ResultSpec, ServiceSpec, spec,
};
use monitor_event::{CallResult, Refusal, Right};
use monitor_model::Identity;
use monitor_omis::{Dialect, Status, Value, param_type::ParamType, text::Binary};
use monitor_platform::{QueueAnswer, QueueContent, QueueDetail, QueueQuery, QueuedMessage};
use std::task::Poll;

/// The services.
pub const SERVICES: &[ServiceSpec] = &[
    ServiceSpec {
        name: "queue_info",
        params: &[param("tid", ParamType::Process), param("flags", ParamType::Integer)],
        results: &[
            ResultSpec::new("queue_length", "integer"),
            ResultSpec::new("messages", "{any...}*"),
        ],
        flags: FLAGS,
        right: Right::Control,
        level: ExecutionLevel::HoldProcess,
        help: "Returns the messages that have arrived in a process and were not received yet: \
               the queue of PVM 3.4, the unexpected messages of Open MPI 4 (with its own \
               matching, pml/ob1), or the queue of System V or POSIX that the process reads. For \
               a POSIX queue only the length is available, for MPICH nothing. Messages that are \
               still in a socket, or with a daemon of the library, have not arrived.",
        examples: &[
            "process 7\nattach 7\nmessage 7 sender=262146 tag=100 content=abcd\n\
                     message 7 sender=262146 tag=101 content=x\n> 10 [0] queue_info(7,7)\n\
                     < 10 [0] queue_info(0,2,[262146,100,4,262146,101,1])\n\
                     > 11 [0] queue_info(7,10)\n\
                     < 11 [0] queue_info(0,2,[100,#4:61626364,101,#1:78])",
            "process 7\nattach 7\nmessage 7 tag=100\nmessage 7 tag=101 mark=5\n\
             > 10 [0] queue_info(7,18)\n< 10 [0] queue_info(0,2,[100,0,0,101,1,5])",
        ],
        errors: &[
            error(
                Status::RANGE,
                "a bit of `flags` that it does not have",
                "process 7\nattach 7\n> 10 [0] queue_info(7,32)",
            ),
            error(Status::UNSUPPORTED, "the process has no queue that can be read", ""),
            error(Status::INTERRUPTED, "the queue kept changing while it was read", ""),
        ],
        handler: Handler::Synchronous(queue_info),
        ..ServiceSpec::BASE
    },
    ServiceSpec {
        name: "message_buffer",
        params: &[param("tid", ParamType::Process)],
        results: &[ResultSpec::new("address", "integer"), ResultSpec::new("size", "integer")],
        right: Right::Control,
        level: ExecutionLevel::HoldProcess,
        help: "Returns the address and the length so far of the message that a process of PVM is \
               packing. It may consist of several pieces: the address is that of the first.",
        examples: &["process 7\nattach 7\n> 10 [0] message_buffer(7)\n\
                     < 10 [0] message_buffer(402,0,\"no message to send: the script has none\")"],
        errors: &[error(
            Status::UNSUPPORTED,
            "the process packs no message of PVM",
            "process 7\nattach 7\n> 10 [0] message_buffer(7)",
        )],
        handler: Handler::Synchronous(message_buffer),
        ..ServiceSpec::BASE
    },
];

/// The bit that selects the contents.
const CONTENTS: u8 = 3;
const TAGGED: u8 = 4;

const FLAGS: &[FlagSpec] = &[
    FlagSpec::new(
        0,
        "sender",
        "integer",
        "as the library numbers it: PVM task or rank; -1 if unknown",
    ),
    FlagSpec::new(1, "msgtag", "integer", "the tag; for System V the type"),
    FlagSpec::new(2, "size", "integer", "length in bytes"),
    FlagSpec::new(
        CONTENTS,
        "contents",
        "integer*",
        "the available bytes; at most 1 MiB, and 4 MiB in all messages",
    ),
    FlagSpec::new(TAGGED, "tagged_by_monitor", "integer, integer", TAGGED_HELP),
];

const TAGGED_HELP: &str = "1 and the mark of `tag_message`, or 0 and 0";

fn queue_info(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let [named, flags] = params(args);
    let flags = spec::flags(Some(flags), FLAGS)?;
    let process = ctx.process(named)?;
    let depth =
        if flags >> CONTENTS & 1 == 1 { QueueDetail::Contents } else { QueueDetail::Headers };
    let found = match queue_answer(ctx, process.id, &QueueQuery::Read(depth))? {
        Some(QueueAnswer::Content(found)) => found,
        _ => return Ok(CallResult::ok().into()),
    };
    let messages = match found {
        QueueContent::Messages(messages) => messages,
        QueueContent::Length(length) if flags == 0 => {
            return Ok(CallResult::with(vec![Value::from(length), Value::List(Vec::new())]).into());
        }
        QueueContent::Length(length) => {
            let text = format!(
                "its POSIX queue has {length} messages, and reading one would remove it; use flags \
                0 for the number"
            );
            return Err(Refusal::new(Status::UNSUPPORTED, text));
        }
    };
    let length = u64::try_from(messages.len()).unwrap_or(u64::MAX);
    let dialect = ctx.session.dialect;
    let wanted = FLAGS.iter().filter(|flag| flags >> flag.bit & 1 == 1);
    let values = messages
        .iter()
        .flat_map(|it| wanted.clone().flat_map(|flag| selected(it, flag.bit, dialect)));
    Ok(CallResult::with(vec![Value::from(length), Value::List(values.collect())]).into())
}

fn selected(it: &QueuedMessage, bit: u8, dialect: Dialect) -> Vec<Value> {
    let is_marked = u8::from(it.mark.is_some());
    let value = match bit {
        TAGGED => return vec![is_marked.into(), it.mark.unwrap_or(0).into()],
        0 => Value::from(it.sender.unwrap_or(-1)),
        1 => Value::from(it.tag),
        2 => Value::from(it.bytes),
        _ => match dialect {
            Dialect::Extended => Value::Binary(Binary::from(it.content.clone())),
            Dialect::Strict => {
                Value::List(it.content.iter().map(|byte| Value::from(*byte)).collect())
            }
        },
    };
    vec![value]
}

fn message_buffer(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let process = ctx.process(&args[0])?;
    match queue_answer(ctx, process.id, &QueueQuery::SendBuffer)? {
        Some(QueueAnswer::SendBuffer(address, size)) => {
            Ok(CallResult::with(vec![Value::from(address), Value::from(size)]).into())
        }
        _ => Ok(CallResult::ok().into()),
    }
}

/// What the platform answers about a queue; nothing while it is read, and the call is made again.
pub(super) fn queue_answer(
    ctx: &mut CallContext<'_>,
    id: Identity,
    query: &QueueQuery,
) -> Result<Option<QueueAnswer>, Refusal> {
    match ctx.platform.queue(id, query) {
        Poll::Ready(answer) => answer.map(Some),
        Poll::Pending => {
            ctx.awaits_files = true;
            Ok(None)
        }
    }
}
