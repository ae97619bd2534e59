//! The numbers by which a session knows processes: `tid` in OMIS 1.0, the serial of a token.
//!
//! The number of a process is its pid, so that people and tools find it; a pid that another
//! process had before in this session is not given again, and one above all pids is. The tool that
//! has kept an old number therefore never hits somebody else.

use monitor_event::outcome::Told;
use monitor_model::id::Identity;
use monitor_omis::Value;
use std::collections::{HashMap, VecDeque};

/// The first number that no pid can be (`PID_MAX_LIMIT` of include/linux/threads.h).
const ABOVE_PIDS: u64 = 1 << 22;
/// Most processes that are remembered; beyond, the one that was named first is forgotten.
const MOST: usize = 1 << 20;

/// The numbers that were given.
#[derive(Debug)]
pub struct Numbers {
    by_process: HashMap<Identity, u64>,
    by_number: HashMap<u64, Identity>,
    given: VecDeque<Identity>,
    next: u64,
}

impl Default for Numbers {
    fn default() -> Self {
        Self {
            by_process: HashMap::new(),
            by_number: HashMap::new(),
            given: VecDeque::new(),
            next: ABOVE_PIDS,
        }
    }
}

impl Numbers {
    /// The number of a process, which it keeps.
    pub fn give(&mut self, id: Identity) -> u64 {
        if let Some(number) = self.by_process.get(&id) {
            return *number;
        }
        let pid = u64::from(id.pid.0);
        let number = if self.by_number.contains_key(&pid) { self.fresh() } else { pid };
        self.by_process.insert(id, number);
        self.by_number.insert(number, id);
        self.given.push_back(id);
        if self.given.len() > MOST {
            self.forget();
        }
        number
    }

    /// From now on the number of a process means the same one as it is now.
    pub fn follow(&mut self, id: Identity, now: Identity) {
        let number = self.give(id);
        self.by_process.insert(now, number);
        self.by_number.insert(number, now);
        self.given.push_back(now);
    }

    /// Who has this number.
    pub fn find(&self, number: u64) -> Option<Identity> {
        self.by_number.get(&number).copied()
    }

    /// The parameters of an event, processes as their numbers.
    pub fn values(&mut self, told: &[Told]) -> Vec<Value> {
        let value = |told: &Told| match told {
            Told::Process(id) => Value::from(self.give(*id)),
            Told::Value(value) => value.clone(),
        };
        told.iter().map(value).collect()
    }

    fn fresh(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    fn forget(&mut self) {
        let Some(id) = self.given.pop_front() else { return };
        // Another may have it by now, who was this one.
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
    fn a_pid_that_another_had_is_not_given_again() {
        let mut numbers = Numbers::default();
        assert_eq!(numbers.give(process(7, 1)), 7);
        assert_eq!(numbers.give(process(7, 2)), 4_194_304);
        assert_eq!(numbers.give(process(7, 3)), 4_194_305);
        assert_eq!(numbers.give(process(7, 1)), 7);
        assert_eq!(numbers.find(7), Some(process(7, 1)));
        assert_eq!(numbers.find(8), None);
        numbers.follow(process(7, 1), process(7, 4));
        assert_eq!(numbers.find(7), Some(process(7, 4)));
        assert_eq!(numbers.give(process(7, 4)), 7);
    }
}
