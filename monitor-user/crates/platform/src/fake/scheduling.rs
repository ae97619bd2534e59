//! Scheduling events of a script: processes that block, are woken or get a processor.
//!
//! `block PID`, `unblock PID`, `switch OLD NEW CPU`: a process that is not watched is -1.

use super::FakePlatform;
use crate::{PlatformEvent, events::process_event};
use monitor_event::node_event::{EventKind, FollowedActivity, NodeEvent};
use monitor_event::outcome::EventParam;
use monitor_model::{Identity, Ns, Pid};
use monitor_omis::Value;

impl FakePlatform {
    /// The event of a line, if the line is about scheduling.
    pub(super) fn scheduling_event(&mut self, line: &str) -> Option<PlatformEvent> {
        let words: Vec<&str> = line.split(' ').collect();
        let event = match words[..] {
            ["block", pid] => process_event(EventKind::Blocked, Ns(0), self.find(pid)?, None),
            ["unblock", pid] => process_event(EventKind::Unblocked, Ns(0), self.find(pid)?, None),
            ["switch", old, new, cpu] => {
                let both = [old, new].map(|pid| self.find(pid).filter(|id| self.is_watched(*id)));
                let cpu = EventParam::Value(Value::from(cpu.parse::<i64>().ok()?));
                let params =
                    both.map(|id| id.map_or(EventParam::Value((-1).into()), EventParam::Process));
                let params = params.into_iter().chain([cpu]).collect();
                let process = Some(both.into_iter().flatten().next()?);
                NodeEvent { process, ..NodeEvent::new(EventKind::Scheduled, Ns(0), params) }
            }
            _ => return None,
        };
        Some(PlatformEvent::Event(event))
    }

    pub(super) fn find(&mut self, pid: &str) -> Option<Identity> {
        let pid = Pid(pid.parse().ok()?);
        Some(self.poller.read_processes(&[pid]).ok()?.first()?.id)
    }

    fn is_watched(&self, id: Identity) -> bool {
        let watched = self.watched.by_activity.get(&FollowedActivity::Scheduling);
        watched.is_some_and(|these| these.contains(&id))
    }
}
