//! Signals that processes take.

use super::on;
use crate::ctx::Ctx;
use crate::row::{Act, Given, Row};
use monitor_event::occurrence::{Predicate, EventKind, EventFilter};
use monitor_event::outcome::Refusal;
use monitor_event::right::Right;
use monitor_omis::Value;
use monitor_omis::kind::{Kind, Param};

/// The services.
pub const ROWS: &[Row] = &[Row {
    name: "process_signal",
    takes: &[
        Param { name: "tid_list", kind: Kind::Many(&Kind::Process) },
        Param { name: "sig_list", kind: Kind::Many(&Kind::Integer) },
    ],
    gives: &[Given { name: "tid", kind: "integer" }, Given { name: "sig", kind: "integer" }],
    right: Right::Observe,
    help: "Occurs when one of the processes takes one of the signals; an empty list of signals \
           stands for all. One that is ignored or blocked is not taken.",
    examples: &["process 7\nattach 7\n> 10 [0] process_signal([7],[10]): 11 [0] print([$1,$2])\n\
                 < 10 [0] process_signal(0)\n> 12 [0] enable(10)\n< 12 [0] enable(0)\n\
                 at 1ms signal 7 12\nat 2ms signal 7 10\n< 11 [0] print(0,[7,10])"],
    act: Act::Event(process_signal),
    ..Row::BLANK
}];

fn process_signal(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<EventFilter, Refusal> {
    let [list, signals] = args else { unreachable!("the row takes two parameters") };
    let wanted = signals.list().unwrap_or_default().to_vec();
    let check = (!wanted.is_empty()).then_some(Predicate::OneOf(1, wanted));
    on(ctx, list, EventKind::Signalled, check)
}
