//! `tag_message` marks a message, `tagged_message_recv` occurs when it is received.

use super::change::change_outcome;
use crate::event::call::{call_filter, only_supported_in};
use crate::event::check_named;
use crate::spec::{error, param, params};
use crate::{CallContext, ExecutionLevel, Handler, Outcome, ResultSpec, ServiceSpec, spec};
use monitor_event::{Edge, EventFilter, EventKind, Predicate, Refusal, Right, Tap};
use monitor_omis::{Status, Value, param_type::ParamType};
use monitor_platform::QueueQuery;
use monitor_platform::call::{ARRIVAL, RECEIPT};

/// The services.
pub const SERVICES: &[ServiceSpec] = &[
    ServiceSpec {
        name: "tag_message",
        params: &[
            param("tid", ParamType::Process),
            param("msg_ptr", ParamType::Integer),
            param("tag", ParamType::Integer),
        ],
        right: Right::Control,
        level: ExecutionLevel::HoldProcess,
        help: "Marks the message that a process of PVM 3.4 is packing; call it right before the \
               message is sent, while the process is stopped. `msg_ptr` is the address that \
               `message_buffer` returns, or 0 for the current message; `tag` is not 0. The mark \
               is stored in a header field that only daemons use among themselves; it goes with \
               the message to other nodes, and the receiver reads the same data as without it. \
               Each sending of the same buffer carries it. It is refused for other libraries, \
               whose messages have no such field.",
        examples: &[
            "process 7\nattach 7\n> 10 [0] tag_message(7,0,5); 11 [0] tag_message(7,0,0)\n\
                     < 10 [0] tag_message(0); 11 [0] tag_message(105,0,\"tag 0: expected \
                     -2147483648 to 2147483647, but not 0\")",
        ],
        errors: &[
            error(
                Status::RANGE,
                "a mark that is 0 or does not fit 32 bits",
                "process 7\nattach 7\n> 10 [0] tag_message(7,0,0)",
            ),
            error(Status::UNSUPPORTED, "the process packs no message of PVM", ""),
        ],
        handler: Handler::Manipulation(tag),
        ..ServiceSpec::BASE
    },
    ServiceSpec {
        name: "tagged_message_recv",
        params: &[
            param("tid_list", ParamType::Many(&ParamType::Process)),
            param("monitor_tag", ParamType::Integer),
        ],
        results: &[
            ResultSpec::new("tid", "integer"),
            ResultSpec::new("sender", "integer"),
            ResultSpec::new("msgtag", "integer"),
        ],
        right: Right::Control,
        level: ExecutionLevel::Kernel,
        help: "Occurs when one of the processes receives a message of PVM 3.4 that `tag_message` \
               has marked with this number and that arrived while the request was enabled. It is \
               refused for other libraries, as `tag_message` is.",
        examples: &["process 7\nattach 7\ncallable 7 mesg_input\ncallable 7 pvm_setrbuf\n\
                     > 10 [0] tagged_message_recv([7],5): 11 [0] print([$1,$2,$3])\n\
                     < 10 [0] tagged_message_recv(0)\n> 12 [0] enable(10)\n< 12 [0] enable(0)\n\
                     at 1ms received 7 262147 100 6\nat 2ms received 7 262147 101 5\n\
                     < 11 [0] print(0,[7,262147,101])"],
        errors: &[
            error(
                Status::UNSUPPORTED,
                "none of the processes has PVM 3.4",
                "process 7\nattach 7\n> 10 [0] tagged_message_recv([],5): 11 [0] print(1)",
            ),
            error(
                Status::RANGE,
                "a mark that is 0 or does not fit 32 bits",
                "process 7\nattach 7\n> 10 [0] tagged_message_recv([7],0): 11 [0] print(1)",
            ),
        ],
        handler: Handler::Event(received),
        ..ServiceSpec::BASE
    },
];

fn tag(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let [named, buffer, mark] = params(args);
    let process = ctx.process(named)?;
    let number = mark_number(mark)?;
    let buffer: u64 = spec::integer(buffer, "address")?;
    change_outcome(ctx, (named, process.id), &QueueQuery::Mark(buffer, number))
}

/// A mark: 0 means none.
fn mark_number(mark: &Value) -> Result<i32, Refusal> {
    mark.integer().filter(|mark| *mark != 0).ok_or_else(|| {
        let text = format!("tag {mark}: expected {} to {}, but not 0", i32::MIN, i32::MAX);
        Refusal::new(Status::RANGE, text)
    })
}

fn received(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<EventFilter, Refusal> {
    let [list, mark] = params(args);
    let check = Predicate::OneOf(3, vec![mark_number(mark)?.into()]);
    check_named(ctx, list)?;
    // Both calls are watched: a mark is read when the message arrives.
    let mut filter = |name: &str| {
        let tap = Tap::new(name, Edge::Start);
        call_filter(ctx, list, &tap, EventKind::MessageReceived, Some(check.clone()))
    };
    filter(ARRIVAL)
        .and_then(|_arrival| filter(RECEIPT))
        .map_err(|why| only_supported_in("messages can be marked in PVM 3.4 only", why))
}
