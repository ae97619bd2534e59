//! Events read back from their JSON, as `format::happened` writes them.
//!
//! In: the objects of a sample. Out: events, and the names of those whom they speak of. What this
//! version does not know is left out.

use monitor_model::event::{Event, Outcome, Signal, What};
use monitor_model::id::{Identity, Ns, Pid};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Names of processes.
pub type Names = BTreeMap<Identity, Arc<str>>;

#[derive(Deserialize)]
struct Told {
    time_unix_ns: u64,
    event: String,
    kind: String,
    number: u32,
    code: i32,
    thread: Option<u32>,
    sender: Option<Who>,
    target: Who,
    outcome: Option<String>,
}

#[derive(Deserialize)]
struct Who {
    pid: u32,
    start_time_ns: u64,
    comm: Option<String>,
}

/// An event whose time is that since 1970; names go to the others.
pub fn event(value: &Value, names: &mut Names) -> Option<Event> {
    let told = Told::deserialize(value).ok().filter(|it| it.event == "signal")?;
    let Told { number, code, thread, .. } = told;
    let signal = Signal { number, code, thread: thread.map(Pid) };
    let mut known = |who: Who| {
        let id = Identity { pid: Pid(who.pid), start: Ns(who.start_time_ns) };
        names.extend(who.comm.map(|comm| (id, comm.into())));
        id
    };
    let what = match told.kind.as_str() {
        "generated" => {
            let outcome = told.outcome.as_deref().and_then(Outcome::named)?;
            What::SignalGenerated { signal, sender: told.sender.map(&mut known), outcome }
        }
        "delivered" => What::SignalDelivered { signal },
        _ => return None,
    };
    Some(Event { at: Ns(told.time_unix_ns), target: known(told.target), what })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_newer_version_tells_is_left_out() {
        let told = serde_json::json!({"time_unix_ns": 1, "event": "call", "kind": "entered"});
        assert_eq!(event(&told, &mut Names::new()), None);
    }
}
