//! What can occur (section 8.1.1, "Asynchronous Services"), a file for each source.
//!
//! An event service is called when a request is stored, and says what to watch for.

pub mod call;
pub mod errand;
pub mod hold;
pub mod life;
pub mod migration;
pub mod signal;
pub mod wait;

use super::ctx::Ctx;
use monitor_event::occurrence::{Predicate, EventKind, EventFilter, ProcessSelector};
use monitor_event::outcome::Refusal;
use monitor_omis::Value;

/// A watch on the processes of a list; on all that are attached, if it is empty.
fn on(
    ctx: &mut Ctx<'_>,
    list: &Value,
    topic: EventKind,
    check: Option<Predicate>,
) -> Result<EventFilter, Refusal> {
    if list.list().is_some_and(<[Value]>::is_empty) {
        return Ok(EventFilter { topic, whose: ProcessSelector::Attached, check });
    }
    let chosen = ctx.processes(list)?;
    match chosen.failed.into_iter().next() {
        // An event that could never occur is worth an error, not a part of a success.
        Some((_, why)) => Err(why),
        None => {
            let these = chosen.served.iter().map(|it| it.id).collect();
            Ok(EventFilter { topic, whose: ProcessSelector::These(these), check })
        }
    }
}
