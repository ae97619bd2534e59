//! What fails in the simulator: nodes that are killed, paused, cut off, removed or restarted, and a
//! server that is killed or loses entries.

use super::network::{Faults, MS};
use super::run_kind::Failures;
use super::world::{SECOND, SimWorld};
use crate::bus::entry::Targets;
use monitor_model::Ns;
use std::collections::BTreeSet;

/// Number of steps with few faults, and then with many.
const PHASE: u64 = 25;

impl SimWorld {
    /// Kills a node, which starts again later.
    pub fn kill(&mut self, index: usize, now: u64) {
        let reboots = self.failures == Failures::Reboots && self.random(3) == 0;
        let down = 100 * MS + self.random(2 * SECOND);
        let node = &mut self.nodes[index];
        node.running = None;
        node.ends.clear();
        node.down_until = now + down;
        if reboots {
            node.ledger.reboot();
            self.count("reboots");
        }
        self.calls.retain(|_, (caller, _)| *caller != index);
        self.count("kills");
    }

    /// One random thing happens; a fault rarely in the first half of each phase.
    pub fn disturb(&mut self, step: u64) {
        let is_calm = step % (2 * PHASE) < PHASE;
        self.network.lock().faults = if is_calm { Faults::Rare } else { Faults::Frequent };
        let (index, now) = (self.pick(), self.now());
        match self.random(if is_calm { 300 } else { 60 }) {
            0 | 1 => self.kill(index, now),
            2 | 3 => self.pause(index, now),
            4 | 5 => {
                let lasts = self.random(3 * SECOND);
                self.cut(index, now + lasts);
                self.count("partitions");
            }
            6 => {
                self.network.lock().server_down_until = now + self.random(SECOND);
                self.count("restarts of the server");
            }
            7 => {
                let other = self.pick();
                self.remove(index, other);
            }
            8 => self.leave_and_restart(index, now),
            9 => self.remove_in_a_pause(index, now),
            10 => self.lose_entries_of_a_call(index, now),
            11 => {
                self.cut(index, now + 2 * SECOND);
                self.call_often();
                let n_kept = self.random(4);
                self.network.lock().drop_oldest(n_kept);
            }
            12 => self.call_often(),
            _ => {
                let targets = match self.random(3) {
                    0 => Targets::All,
                    _ => Targets::Names(self.names()),
                };
                self.call(index, targets);
            }
        }
    }

    fn pause(&mut self, index: usize, now: u64) {
        let until = now + self.random(3 * SECOND);
        let node = &mut self.nodes[index];
        if node.running.is_some() {
            if node.paused_until <= now {
                node.paused_since = now;
            }
            node.paused_until = until;
            self.count("pauses");
        }
    }

    /// Commands that follow each other closely.
    fn call_often(&mut self) {
        for _ in 0..40 {
            let index = self.pick();
            self.call(index, Targets::All);
            self.run_until(self.now() + 5 * MS);
        }
    }

    /// An orderly restart.
    fn leave_and_restart(&mut self, index: usize, now: u64) {
        let node = &mut self.nodes[index];
        if let Some((commands, port)) = node.running.as_mut().filter(|_| node.paused_until <= now) {
            commands.leave(Ns(now + node.boot), port);
            self.count("departures");
            self.run_until(now + 500 * MS);
            self.kill(index, self.now());
        }
    }

    fn remove(&mut self, index: usize, removed: usize) {
        let (name, now) = (self.nodes[removed].name.clone(), self.now());
        let node = &mut self.nodes[index];
        if now < node.paused_until {
            return;
        }
        if let Some((commands, port)) = &mut node.running {
            commands.remove(Ns(now + node.boot), port, &name);
            self.count("removals");
        }
        // Some while it is not a member.
        for _ in 0..3 {
            self.call(index, Targets::Names([name.clone()].into()));
            self.run_until(self.now() + 3 * MS);
        }
    }

    /// A node has a command before it in the order, and is removed, while it is paused.
    fn remove_in_a_pause(&mut self, index: usize, now: u64) {
        self.pause(index, now);
        let node = &mut self.nodes[index];
        node.paused_until = node.paused_until.max(now + 1_200 * MS);
        let other = (index + 1) % self.nodes.len();
        let name = self.nodes[index].name.clone();
        for _ in 0..3 {
            self.call(other, Targets::Names([name.clone()].into()));
            self.run_until(self.now() + 50 * MS);
        }
        self.remove(other, index);
    }

    /// The server loses its power when a command was executed, but not yet acknowledged.
    fn lose_entries_of_a_call(&mut self, index: usize, now: u64) {
        if self.failures != Failures::LossOfEntries {
            return;
        }
        self.call(index, Targets::All);
        self.run_until(now + 4 * MS);
        self.cut(index, now + 500 * MS);
        let after = self.random(40 * MS);
        self.run_until(now + 10 * MS + after);
        let mut shared = self.network.lock();
        let n = 1 + shared.random.below(3);
        shared.server_down_until = shared.now + 100 * MS;
        shared.lose_entries(usize::try_from(n).unwrap());
    }

    /// Cuts a node off from the server until this time.
    pub fn cut(&mut self, index: usize, until: u64) {
        let node = &mut self.nodes[index];
        node.cut_until = until;
        if let Some((_, port)) = &node.running {
            self.network.lock().cut(port.number, until);
        }
    }

    /// Names of four nodes, of which some may not be there.
    fn names(&self) -> BTreeSet<String> {
        let n_names = self.nodes.len() as u64 + 2;
        (0..4).map(|_| format!("n{}", self.random(n_names))).collect()
    }
}
