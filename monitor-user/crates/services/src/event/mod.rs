//! Event services (OMIS 1.0, section 8.1.1, "Asynchronous Services"), a file for each source.
//!
//! An event service is called when a request is stored, and returns the filter for its events.

pub mod call;
pub mod catch;
pub mod lifecycle;
pub mod migration;
pub mod run_control;
pub mod scheduling;
pub mod signal;
pub mod stop;

use super::CallContext;
use monitor_event::{EventFilter, EventKind, Predicate, ProcessSelector, Refusal};
use monitor_omis::Value;

/// Refuses a list with a process that cannot be served.
pub(crate) fn check_named(ctx: &mut CallContext<'_>, list: &Value) -> Result<(), Refusal> {
    if list.list().is_some_and(<[Value]>::is_empty) {
        return Ok(());
    }
    ctx.processes(list)?.failed.into_iter().next().map_or(Ok(()), |(_, why)| Err(why))
}

/// The filter for events of the processes of a list; of all attached ones if it is empty.
fn process_filter(
    ctx: &mut CallContext<'_>,
    list: &Value,
    kind: EventKind,
    check: Option<Predicate>,
) -> Result<EventFilter, Refusal> {
    if list.list().is_some_and(<[Value]>::is_empty) {
        return Ok(EventFilter { kind, processes: ProcessSelector::Attached, predicate: check });
    }
    let chosen = ctx.processes(list)?;
    match chosen.failed.into_iter().next() {
        // An event that can never occur is an error, not a partial success.
        Some((_, why)) => Err(why),
        None => {
            let these = chosen.served.iter().map(|it| it.id).collect();
            Ok(EventFilter { kind, processes: ProcessSelector::Listed(these), predicate: check })
        }
    }
}
