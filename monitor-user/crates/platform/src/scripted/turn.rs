//! Turns of a script: who begins to wait, who is woken, who gets a processor.
//!
//! `block PID`, `unblock PID`, `switch OLD NEW CPU`: a process that nobody follows is no one, -1.

use super::Scripted;
use crate::Happening;
use monitor_event::node_event::{EventKind, FollowedActivity, NodeEvent};
use monitor_event::outcome::EventParam;
use monitor_model::id::{Identity, Ns, Pid};
use monitor_omis::Value;

impl Scripted {
    /// Takes a line, if it is about turns.
    pub(super) fn turn(&mut self, line: &str) -> Option<Happening> {
        let words: Vec<&str> = line.split(' ').collect();
        let (topic, who, told) = match words[..] {
            ["block", pid] => (EventKind::Blocked, self.there(pid)?, Vec::new()),
            ["unblock", pid] => (EventKind::Unblocked, self.there(pid)?, Vec::new()),
            ["switch", old, new, cpu] => {
                let both = [old, new].map(|pid| self.there(pid).filter(|id| self.is_ours(*id)));
                let cpu = EventParam::Value(Value::from(cpu.parse::<i64>().ok()?));
                let told =
                    both.map(|id| id.map_or(EventParam::Value((-1).into()), EventParam::Process));
                let who = both.into_iter().flatten().next()?;
                return Some(occurred(EventKind::Scheduled, who, told.into_iter().chain([cpu])));
            }
            _ => return None,
        };
        Some(occurred(topic, who, [EventParam::Process(who)].into_iter().chain(told)))
    }

    fn there(&mut self, pid: &str) -> Option<Identity> {
        let pid = Pid(pid.parse().ok()?);
        Some(self.reading.look(&[pid]).ok()?.first()?.id)
    }

    fn is_ours(&self, id: Identity) -> bool {
        self.followed.of.get(&FollowedActivity::Scheduling).is_some_and(|these| these.contains(&id))
    }
}

fn occurred(topic: EventKind, who: Identity, told: impl Iterator<Item = EventParam>) -> Happening {
    let it = NodeEvent::new(topic, Ns(0), told.collect());
    Happening::Occurred(NodeEvent { process: Some(who), ..it })
}
