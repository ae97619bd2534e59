//! Services about processes (section 8.1.1), a file for each kind of thing that is done to them.

pub mod hold;
pub mod info;
pub mod inside;
pub mod migrate;
pub mod register;
pub mod start;

use super::ctx::Ctx;
use super::outcome::Outcome;
use super::row::{Level, Row};
use monitor_event::outcome::{Done, Refusal, Report};
use monitor_event::right::Right;
use monitor_omis::kind::{Kind, Param};
use monitor_omis::{Status, Value};
use monitor_platform::Act;

/// What the rows of those who act have in common.
const CONTROLLED: Row = Row { right: Right::Control, level: Level::HoldProcess, ..Row::BLANK };
/// A process.
const TID: Param = Param { name: "tid", kind: Kind::Process };

/// Does something to one process, and tells what came of it.
fn to_one(ctx: &mut Ctx<'_>, tid: &Value, act: Result<Act, Refusal>) -> Outcome {
    match act {
        Ok(act) => ctx.act(&Value::List(vec![tid.clone()]), &act, tell),
        Err(why) => Done::from(why).into(),
    }
}

/// What one process answered.
fn tell(_: &mut Ctx<'_>, report: Report) -> Done {
    let failed = report.failed.into_iter().map(|(_, why)| Err(why));
    let told = report.each.into_iter().map(|(_, result)| result).chain(failed).next();
    match told {
        Some(Ok(values)) => Done::with(values),
        Some(Err(why)) => why.into(),
        None => Refusal::new(Status::NO_SUCH_OBJECT, "no process is named").into(),
    }
}
