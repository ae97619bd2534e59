//! The numbers of processes in a session: `tid` in OMIS 1.0, the serial of a token.
//!
//! The number of a process is its pid. If another process had this pid in the session before, the
//! number is one above all pids, so that an old number never names another process, unless the tool
//! attaches the process that has the pid now.

use monitor_event::EventParam;
use monitor_model::Identity;
use monitor_model::id::{is_same, of_pid};
use monitor_omis::Value;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// The first number above all pids (`PID_MAX_LIMIT` of include/linux/threads.h).
const ABOVE_PIDS: u64 = 1 << 22;
/// Maximum number of processes kept; the oldest is dropped to make room.
const MAX_PROCESSES: usize = 1 << 20;

/// The numbers that were assigned.
#[derive(Debug)]
pub struct ProcessNumbers {
    by_process: BTreeMap<Identity, u64>,
    by_number: HashMap<u64, Identity>,
    assigned: VecDeque<Identity>,
    next: u64,
}

impl Default for ProcessNumbers {
    fn default() -> Self {
        Self {
            by_process: BTreeMap::new(),
            by_number: HashMap::new(),
            assigned: VecDeque::new(),
            next: ABOVE_PIDS,
        }
    }
}

impl ProcessNumbers {
    /// The number of a process; a new one if it has none yet.
    pub fn assign(&mut self, id: Identity) -> u64 {
        if let Some(number) = self.number(id) {
            return number;
        }
        let pid = u64::from(id.pid.0);
        let number = if self.by_number.contains_key(&pid) { self.next_unused() } else { pid };
        self.by_process.insert(id, number);
        self.by_number.insert(number, id);
        self.assigned.push_back(id);
        if self.assigned.len() > MAX_PROCESSES {
            self.drop_oldest();
        }
        number
    }

    /// Makes its pid the number of a process, which a tool has named by it: an earlier process with
    /// this pid has ended, and gets a number above all pids.
    pub fn assign_pid(&mut self, id: Identity) {
        let pid = u64::from(id.pid.0);
        let earlier = self.by_number.get(&pid).copied().filter(|it| !is_same(*it, id));
        if let Some(earlier) = earlier {
            let number = self.next_unused();
            self.by_process.insert(earlier, number);
            self.by_number.insert(number, earlier);
            self.by_number.remove(&pid);
            if let Some(own) = self.by_process.remove(&id) {
                self.by_number.remove(&own);
            }
        }
        let _number = self.assign(id);
    }

    /// Makes the number of a process name its new identity.
    pub fn reassign(&mut self, id: Identity, now: Identity) {
        let number = self.assign(id);
        self.by_process.insert(now, number);
        self.by_number.insert(number, now);
        self.assigned.push_back(now);
    }

    /// The process of this number.
    pub fn find(&self, number: u64) -> Option<Identity> {
        self.by_number.get(&number).copied()
    }

    /// Event parameters as values, with processes as their numbers.
    pub fn values(&mut self, params: &[EventParam]) -> Vec<Value> {
        let value = |params: &EventParam| match params {
            EventParam::Process(id) => Value::from(self.assign(*id)),
            EventParam::Value(value) => value.clone(),
        };
        params.iter().map(value).collect()
    }

    /// The number of a process that has one, also under the identity of another backend.
    fn number(&self, id: Identity) -> Option<u64> {
        let mut same = self.by_process.range(of_pid(id.pid)).filter(|(it, _)| is_same(**it, id));
        self.by_process.get(&id).or_else(|| same.next().map(|(_, number)| number)).copied()
    }

    fn next_unused(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    fn drop_oldest(&mut self) {
        let Some(id) = self.assigned.pop_front() else { return };
        // The number may name a newer identity of the process by now.
        if let Some(number) = self.by_process.remove(&id)
            && self.by_number.get(&number) == Some(&id)
        {
            self.by_number.remove(&number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_model::id::{Ns, Pid};

    fn process(pid: u32, start: u64) -> Identity {
        Identity { pid: Pid(pid), start: Ns(start) }
    }

    #[test]
    fn a_process_that_a_tool_names_by_its_pid_has_it_as_its_number() {
        let mut numbers = ProcessNumbers::default();
        let [earlier, now] = [process(7, 1), process(7, 1_000_000_000)];
        assert_eq!((numbers.assign(earlier), numbers.assign(now)), (7, 4_194_304));
        numbers.assign_pid(now);
        assert_eq!((numbers.find(7), numbers.assign(now)), (Some(now), 7));
        assert_eq!((numbers.assign(earlier), numbers.find(4_194_305)), (4_194_305, Some(earlier)));
        assert_eq!(numbers.find(4_194_304), None);
        numbers.assign_pid(now);
        assert_eq!(numbers.find(7), Some(now));
    }

    #[test]
    fn a_reused_pid_gets_another_number() {
        const SECOND: u64 = 1_000_000_000;
        let mut numbers = ProcessNumbers::default();
        assert_eq!(numbers.assign(process(7, 1)), 7);
        assert_eq!(numbers.assign(process(7, SECOND)), 4_194_304);
        assert_eq!(numbers.assign(process(7, 2 * SECOND)), 4_194_305);
        assert_eq!(numbers.assign(process(7, 1)), 7);
        assert_eq!(numbers.find(7), Some(process(7, 1)));
        assert_eq!(numbers.find(8), None);
        numbers.reassign(process(7, 1), process(7, 3 * SECOND));
        assert_eq!(numbers.find(7), Some(process(7, 3 * SECOND)));
        assert_eq!(numbers.assign(process(7, 3 * SECOND)), 7);
    }

    #[test]
    fn a_process_has_one_number_under_the_identities_of_all_backends() {
        let mut numbers = ProcessNumbers::default();
        let (precise, in_ticks) = (process(7, 1_234_567_890), process(7, 1_230_000_000));
        assert_eq!((numbers.assign(precise), numbers.assign(in_ticks)), (7, 7));
        let mut numbers = ProcessNumbers::default();
        assert_eq!((numbers.assign(in_ticks), numbers.assign(precise)), (7, 7));
    }
}
