//! Dumps and restores of processes in the script's world, at once or deferred.
//!
//! In: actions, and the lines of the script that finish deferred ones. Out: results and events.

use super::FakePlatform;
use crate::{PlatformEvent, ProcessAction, Processes as _, events::arrival};
use monitor_backends::canned::BEGINNING;
use monitor_event::outcome::{ProcessResults, Refusal};
use monitor_event::thread::Ticket;
use monitor_model::{Identity, Pid};
use monitor_omis::{Status, Value};

const SECOND: u64 = 1_000_000_000;

impl FakePlatform {
    /// Whether it was a line about what was begun.
    pub(super) fn finish_started(&mut self, line: &str) -> bool {
        let refused = |status, text: &str| Some(Err(Refusal::new(status, text)));
        let answer = match line {
            "criu goes on" => None,
            "criu fails" => refused(Status::UNSUPPORTED, "the script fails it"),
            "criu is lost" => refused(Status::INTERRUPTED, "the user worker has ended"),
            _ => return false,
        };
        for (ticket, action, on) in
            self.checkpoints.started.as_mut().map(std::mem::take).unwrap_or_default()
        {
            // The arrival is reported after the result.
            let next = self.pending.len();
            let done = || self.checkpoint(&action, &on).unwrap_or_default();
            let each = answer.clone().map_or_else(done, |it| vec![(Identity::default(), it)]);
            self.pending.insert(next, PlatformEvent::ActionDone(ticket, each));
        }
        true
    }

    /// Whether it is begun, and done later.
    pub(super) fn defer(
        &mut self,
        ticket: Ticket,
        action: &ProcessAction,
        on: &[Identity],
    ) -> bool {
        let is_long = matches!(
            action,
            ProcessAction::Dump(_) | ProcessAction::Restore(_) | ProcessAction::Return(_)
        );
        let Some(begun) = self.checkpoints.started.as_mut().filter(|_| is_long) else {
            return false;
        };
        begun.push((ticket, action.clone(), on.to_vec()));
        true
    }

    /// The results of a dump, a restore or a check of one; nothing for other actions.
    pub(super) fn checkpoint(
        &mut self,
        action: &ProcessAction,
        on: &[Identity],
    ) -> Option<ProcessResults> {
        let no_process = Identity::default();
        Some(match action {
            ProcessAction::Checkpoint => vec![(no_process, self.checkpoints.check(no_process))],
            ProcessAction::Lossless | ProcessAction::Movable => {
                on.iter().map(|id| (*id, self.checkpoints.check(*id))).collect()
            }
            ProcessAction::Dump(_) => on.iter().map(|id| (*id, self.dump(*id))).collect(),
            ProcessAction::Restore(name) | ProcessAction::Return(name) => {
                let restored = self.restore(name);
                if let (ProcessAction::Restore(_), Ok(id)) = (action, &restored) {
                    self.pending.push(arrival(*id));
                }
                let id = *restored.as_ref().unwrap_or(&no_process);
                vec![(id, restored.map(|_| Vec::new()))]
            }
            _ => return None,
        })
    }

    fn dump(&mut self, id: Identity) -> Result<Vec<Value>, Refusal> {
        self.apply_action(&format!("end {}", id.pid.0)).map(|()| Vec::new())
    }

    fn restore(&mut self, name: &str) -> Result<Identity, Refusal> {
        let _version = self.checkpoints.check(Identity::default())?;
        let unknown = || {
            let text = format!("no dump has the name {name:?}");
            Refusal::new(Status::RANGE, text)
        };
        let pid: u32 = name.split_once('-').and_then(|it| it.0.parse().ok()).ok_or_else(unknown)?;
        // Its start time differs, although the script's clock does not advance.
        self.checkpoints.n_restored += 1;
        let start = BEGINNING.boot.0 + SECOND * self.checkpoints.n_restored;
        self.apply(&format!("process {pid} start_time_ns={start}")).map_err(|_| unknown())?;
        self.read_processes(&[Pid(pid)])?.first().map(|it| it.id).ok_or_else(unknown)
    }
}
