//! Processes that services stop and let go.

use super::on;
use crate::row::{Act, Given, Row};
use monitor_event::occurrence::EventKind;
use monitor_event::right::Right;
use monitor_omis::kind::{Kind, Param};

const LIST: Param = Param { name: "tid_list", kind: Kind::Many(&Kind::Process) };
const TID: Given = Given { name: "tid", kind: "integer" };

/// The services.
pub const ROWS: &[Row] = &[
    Row {
        name: "process_stopped",
        takes: &[LIST],
        gives: &[TID],
        right: Right::Observe,
        help: "Occurs when one of the processes has been stopped by `stop`, of any tool, and \
               stands. A process that stands already is not stopped again.",
        examples: &["process 7\nattach 7\n> 10 [0] process_stopped([7]): 11 [0] print([$1])\n\
                     < 10 [0] process_stopped(0)\n> 12 [0] enable(10); 13 [0] stop([7])\n\
                     < 12 [0] enable(0); 13 [0] stop(0)\n\
                     at 1ms process 7 nice=1\n< 11 [0] print(0,[7])"],
        act: Act::Event(|ctx, args| on(ctx, &args[0], EventKind::Stopped, None)),
        ..Row::BLANK
    },
    Row {
        name: "process_continued",
        takes: &[LIST],
        gives: &[TID],
        right: Right::Observe,
        help: "Occurs when the last tool that had stopped one of the processes lets it go.",
        examples: &["process 7\nattach 7\n> 10 [0] process_continued([7]): 11 [0] print([$1])\n\
                     < 10 [0] process_continued(0)\n\
                     > 12 [0] enable(10); 13 [0] stop([7]); 14 [0] continue([7])\n\
                     < 12 [0] enable(0); 13 [0] stop(0); 14 [0] continue(0)\n\
                     at 1ms process 7 nice=1\n< 11 [0] print(0,[7])"],
        act: Act::Event(|ctx, args| on(ctx, &args[0], EventKind::Continued, None)),
        ..Row::BLANK
    },
];
