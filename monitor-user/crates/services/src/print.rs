//! `print`: what an action says to its tool (section 8.2.3).

use super::ctx::Ctx;
use super::outcome::Outcome;
use super::row::{Act, Given, Level, Row};
use monitor_event::outcome::Done;
use monitor_omis::Value;
use monitor_omis::kind::{Kind, Param};

/// The services.
pub const ROWS: &[Row] = &[Row {
    name: "print",
    takes: &[Param { name: "args", kind: Kind::Many(&Kind::Any) }],
    gives: &[Given { name: "args", kind: "any*" }],
    level: Level::Kernel,
    help: "Gives its arguments back. As an action it tells the tool what occurred.",
    examples: &["> 10 [0] print(1,2.5,\"x\")\n< 10 [0] print(0,[1,2.5,\"x\"])"],
    act: Act::Synchronous(print),
    ..Row::BLANK
}];

fn print(_: &mut Ctx<'_>, args: &[Value]) -> Outcome {
    Done::with(args.to_vec()).into()
}
