//! Messages that are marked on their way: `tag_message`, `tagged_message_recv`. Both are refused.

use crate::omis::Status;
use crate::omis::kind::{Kind, Param};
use crate::service::outcome::{Done, Refusal};
use crate::service::row::{Act, Given, Level, Right, Row};

/// The services.
pub const ROWS: &[Row] = &[
    Row {
        name: "tag_message",
        takes: &[
            Param { name: "tid", kind: Kind::Process },
            Param { name: "msg_ptr", kind: Kind::Integer },
            Param { name: "tag", kind: Kind::Integer },
        ],
        right: Right::Control,
        level: Level::Kernel,
        help: "Would mark a message so that its receipt can be told. It is refused: a mark in the \
               message itself would change what the receiver reads, and no table of messages on \
               their way is kept. Its receipt can be told by tag: see `end_lib_call`.",
        examples: &["process 7\nattach 7\n> 10 [0] tag_message(7,0,5)\n\
                     < 10 [0] tag_message(402,0,\"messages are not marked: \
                     wait for their own tag with end_lib_call\")"],
        act: Act::Manipulation(|_, _| Done::from(refusal()).into()),
        ..Row::BLANK
    },
    Row {
        name: "tagged_message_recv",
        takes: &[
            Param { name: "tid_list", kind: Kind::Many(&Kind::Process) },
            Param { name: "monitor_tag", kind: Kind::Integer },
        ],
        gives: &[
            Given { name: "tid", kind: "integer" },
            Given { name: "sender", kind: "integer" },
            Given { name: "msgtag", kind: "integer" },
        ],
        right: Right::Control,
        level: Level::Kernel,
        help: "Would occur when a marked message is received. It is refused, as `tag_message` is.",
        examples: &[
            "process 7\nattach 7\n> 10 [0] tagged_message_recv([7],5): 11 [0] print([$1])\n\
                     < 10 [0] tagged_message_recv(402,0,\"messages are not marked: \
                     wait for their own tag with end_lib_call\")",
        ],
        act: Act::Event(|_, _| Err(refusal())),
        ..Row::BLANK
    },
];

/// Why messages are not marked.
pub fn refusal() -> Refusal {
    let text = "messages are not marked: wait for their own tag with end_lib_call";
    Refusal::new(Status::UNSUPPORTED, text)
}
