//! The test backend: a world that a text describes, and no clock but its own.
//!
//! In: a script (see `script`), or the fixed values of `fixed.txt`. Out: samples that are the same
//! on every machine. Each reading is one interval after the one before it, on both clocks, and
//! shows a process that ended in between once, as the eBPF backend does.

mod script;
mod split_words;
mod value;
mod world;

pub use self::script::ScriptError;
pub use self::world::BEGINNING;

use self::{script::Script, world::World};
use super::device;
use monitor_backend::{Backend, Error};
use monitor_model::{
    BackendKind, Capability, Health, Identity, Instant, Ns, Probe, Process, ProcessField,
    ProcessTexts, ReadSpec, Sample,
};
use std::{collections::BTreeMap, sync::Arc};

/// The backend.
#[derive(Clone, Debug)]
pub struct Canned {
    script: Script,
    world: World,
    /// Lines of the script that have happened.
    done: usize,
    readings: u64,
    /// How much time has passed besides that between readings.
    passed: Ns,
    texts: BTreeMap<Identity, ProcessTexts>,
}

impl Canned {
    /// The world of `fixed.txt`: one process, two disks, three interfaces, nothing moves.
    pub fn fixed() -> Self {
        Self::scripted(include_str!("fixed.txt")).expect("a test parses fixed.txt")
    }

    /// The world of a script.
    pub fn scripted(text: &str) -> Result<Self, ScriptError> {
        let script = Script::from_text(text)?;
        let world = World::default();
        let (readings, passed) = (0, Ns(0));
        Ok(Self { script, world, done: 0, readings, passed, texts: BTreeMap::new() })
    }

    /// Lets what the lines of a script say happen now.
    pub fn apply(&mut self, text: &str) -> Result<(), ScriptError> {
        for line in Script::from_text(text)?.lines {
            self.world.apply(&line.act);
        }
        Ok(())
    }

    /// Lets it be so long after the beginning; readings take no time from then on.
    pub fn advance_to(&mut self, to: Ns) {
        (self.script.every, self.passed) = (Ns(0), to.max(self.passed));
        self.advance(self.passed);
    }

    /// Lets everything happen that is due, in the order of time.
    fn advance(&mut self, to: Ns) {
        while let Some(line) = self.script.lines.get(self.done).filter(|line| line.at <= to) {
            self.world.grow(line.at);
            self.world.apply(&line.act);
            self.done += 1;
        }
        self.world.grow(to);
    }

    fn processes(&mut self, want: &ReadSpec) -> Vec<Process> {
        let mut processes = self.world.processes();
        self.texts.clear();
        for it in &mut processes {
            self.texts.insert(it.id, std::mem::take(&mut it.text));
            if !want.threads {
                it.threads.clear();
            }
            if !want.wants(ProcessField::Pss) || !want.pss_of.matches(it) {
                it.row.clear(ProcessField::Pss);
            }
        }
        let asked = |it: &Process| want.pids.as_ref().is_none_or(|pids| pids.contains(&it.id.pid));
        processes.retain(asked);
        processes.sort_unstable_by_key(|it| it.id);
        processes
    }
}

impl Backend for Canned {
    fn kind(&self) -> BackendKind {
        BackendKind::Test
    }

    fn probes(&mut self) -> Vec<Probe> {
        let health = Health::Active;
        let probe = |&it| Probe { health: health.clone(), ..Probe::off(it) };
        Capability::ALL.iter().map(probe).collect()
    }

    fn read(&mut self, want: &ReadSpec) -> Result<Sample, Error> {
        let passed = self.script.every.0.saturating_mul(self.readings).max(self.passed.0);
        self.readings += 1;
        self.advance(Ns(passed));
        let mut sample = Sample {
            at: Instant {
                boot: Ns(BEGINNING.boot.0.saturating_add(passed)),
                unix: Ns(BEGINNING.unix.0.saturating_add(passed)),
            },
            backend: BackendKind::Test,
            node: Arc::clone(&self.script.host),
            all_visible: want.all_processes(),
            ..Sample::default()
        };
        let processes = self.processes(want);
        self.world.ended.clear();
        sample.events = std::mem::take(&mut self.world.events);
        if want.processes {
            sample.processes = processes;
        }
        sample.node_stats = device::select_node(self.world.node(), want, &mut sample.notes);
        Ok(sample)
    }

    fn describe(&mut self, processes: &mut [Process], want: &ReadSpec) {
        for process in processes {
            let Some(text) = self.texts.get(&process.id) else { continue };
            let asked = |field, text: &Option<Arc<str>>| text.clone().filter(|_| want.wants(field));
            process.text = ProcessTexts {
                cmdline: asked(ProcessField::Cmdline, &text.cmdline),
                path: asked(ProcessField::Path, &text.path),
                cgroup: asked(ProcessField::Cgroup, &text.cgroup),
                user: asked(ProcessField::User, &text.user),
                origin: text.origin.clone().filter(|_| want.wants(ProcessField::Job)),
                job: process.text.job.take(),
                rank: process.text.rank.take(),
            };
        }
    }
}

#[cfg(test)]
mod tests;
