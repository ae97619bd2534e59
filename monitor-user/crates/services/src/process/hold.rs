//! Stopping processes and letting them go; signals and nice values.

use super::CONTROLLED;
use crate::ctx::Ctx;
use crate::kernel::Bound;
use crate::outcome::Outcome;
use crate::row;
use crate::row::{Row, integer};
use monitor_event::action::Step;
use monitor_event::outcome::{Done, Refusal};
use monitor_event::right::Reach;
use monitor_omis::Value;
use monitor_omis::kind::{Kind, Param};
use monitor_platform::Act;

const LIST: Param = Param { name: "tid_list", kind: Kind::Many(&Kind::Process) };

/// The services.
pub const ROWS: &[Row] = &[
    Row {
        name: "stop",
        takes: &[LIST],
        help: "Stops the processes in all their threads, and answers when they stand. What this \
               tool has stopped stays stopped; only `continue` lets it go, whatever signals it \
               gets. docs/CONTROL.md tells which system calls notice it.",
        examples: &["process 7\nattach 7\n> 10 [0] stop([7])\n< 10 [0] stop(0)\n\
                     > 11 [0] process_info([7],4)\n< 11 [0] process_info(0,1,[7,5])"],
        act: row::Act::Manipulation(|ctx, args| {
            ctx.act(&args[0], &Act::Stop, |ctx, report| ctx.acknowledge(report))
        }),
        ..CONTROLLED
    },
    Row {
        name: "continue",
        takes: &[LIST],
        help: "Lets go of processes that this tool has stopped. They run when no other tool \
               holds them, and were not stopped before the first did.",
        examples: &["process 7\nattach 7\n> 10 [0] stop([7]); 11 [0] continue([7])\n\
                     < 10 [0] stop(0); 11 [0] continue(0)"],
        act: row::Act::Manipulation(|ctx, args| {
            ctx.act(&args[0], &Act::Continue, |ctx, report| ctx.acknowledge(report))
        }),
        ..CONTROLLED
    },
    Row {
        name: "kill",
        takes: &[LIST, Param { name: "sig", kind: Kind::Integer }],
        help: "Sends a signal, by its number on this node. A stopped process takes it when it \
               runs again, SIGKILL at once.",
        examples: &["process 7\nattach 7\n> 10 [0] kill([7],9)\n< 10 [0] kill(0)"],
        act: row::Act::Manipulation(|ctx, args| numbered(ctx, args, Act::Kill)),
        kernel: Some(kill_in_kernel),
        ..CONTROLLED
    },
    Row {
        name: "nice",
        takes: &[LIST, Param { name: "val", kind: Kind::Integer }],
        help: "Sets the nice value of all threads to `val`, from -20 to 19. To lower it needs a \
               privilege. Real-time and deadline scheduling do not care for it.",
        examples: &["process 7\nattach 7\n> 10 [0] nice([7],5); 11 [0] process_info([7],16)\n\
                     < 10 [0] nice(0); 11 [0] process_info(0,1,[7,5])"],
        act: row::Act::Manipulation(|ctx, args| numbered(ctx, args, Act::Nice)),
        ..CONTROLLED
    },
];

fn numbered(ctx: &mut Ctx<'_>, args: &[Value], act: fn(i32) -> Act) -> Outcome {
    let number = integer::<i32>(&args[1], "such number");
    match number {
        Ok(number) => ctx.act(&args[0], &act(number), |ctx, report| ctx.acknowledge(report)),
        Err(why) => refused(why),
    }
}

/// A signal to whoever meets the event, by a tool that may send it to anybody: of the others it is
/// asked when it happens.
fn kill_in_kernel(it: &Bound<'_>) -> Option<Vec<Step>> {
    let number = it.value(1)?.integer::<u32>().filter(|number| (1..=64).contains(number))?;
    let may = it.session.tool.uid == 0 && it.session.tool.acts == Reach::All;
    (may && it.is_who_meets_it(0)).then(|| vec![Step::Signal(number)])
}

fn refused(why: Refusal) -> Outcome {
    Done::from(why).into()
}
