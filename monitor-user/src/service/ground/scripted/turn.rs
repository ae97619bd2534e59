//! Turns of a script: who begins to wait, who is woken, who gets a processor.
//!
//! `block PID`, `unblock PID`, `switch OLD NEW CPU`: a process that nobody follows is no one, -1.

use super::Scripted;
use crate::event::occurrence::{Occurrence, Sort, Topic};
use crate::event::outcome::Told;
use crate::model::id::{Identity, Ns, Pid};
use crate::omis::Value;
use crate::service::ground::Happening;

impl Scripted {
    /// Takes a line, if it is about turns.
    pub(super) fn turn(&mut self, line: &str) -> Option<Happening> {
        let words: Vec<&str> = line.split(' ').collect();
        let (topic, who, told) = match words[..] {
            ["block", pid] => (Topic::Blocked, self.there(pid)?, Vec::new()),
            ["unblock", pid] => (Topic::Unblocked, self.there(pid)?, Vec::new()),
            ["switch", old, new, cpu] => {
                let both = [old, new].map(|pid| self.there(pid).filter(|id| self.is_ours(*id)));
                let cpu = Told::Value(Value::from(cpu.parse::<i64>().ok()?));
                let told = both.map(|id| id.map_or(Told::Value((-1).into()), Told::Process));
                let who = both.into_iter().flatten().next()?;
                return Some(occurred(Topic::Scheduled, who, told.into_iter().chain([cpu])));
            }
            _ => return None,
        };
        Some(occurred(topic, who, [Told::Process(who)].into_iter().chain(told)))
    }

    fn there(&mut self, pid: &str) -> Option<Identity> {
        let pid = Pid(pid.parse().ok()?);
        Some(self.reading.look(&[pid]).ok()?.first()?.id)
    }

    fn is_ours(&self, id: Identity) -> bool {
        self.followed.of.get(&Sort::Turns).is_some_and(|these| these.contains(&id))
    }
}

fn occurred(topic: Topic, who: Identity, told: impl Iterator<Item = Told>) -> Happening {
    let it = Occurrence::new(topic, Ns(0), told.collect());
    Happening::Occurred(Occurrence { process: Some(who), ..it })
}
