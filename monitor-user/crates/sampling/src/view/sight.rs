//! What of a reading is for the eyes of one monitor: who is meant, who ended, what is covered.
//!
//! In: a reading. Out: a sample of its own, in the order of identities. Adds nothing up, and
//! chooses nobody by what he uses: that is done when it is shown.

use super::{Reading, View};
use crate::target::Absence;
use crate::veil;
use monitor_backends::procfs::lacking;
use monitor_model::event::Event;
use monitor_model::id::{Identity, Ns};
use monitor_model::sample::{Note, Process, Sample, Source};
use monitor_model::status::Refusal;
use monitor_model::want::Capability;
use std::collections::HashSet;

/// How long after an end its last record may come: the kernel frees a process some milliseconds
/// after it was waited for.
const RECORD_WITHIN: Ns = Ns(1_000_000_000);

impl View {
    /// What of the reading is for these eyes.
    pub(super) fn sample(&mut self, reading: &Reading<'_>) -> Result<Sample, Refusal> {
        let first = self.seat.is_none();
        let mut sample = Sample {
            at: reading.sample.at,
            source: reading.sample.source,
            node: reading.sample.node.clone(),
            node_number: reading.sample.node_number,
            notes: reading.sample.notes.clone(),
            lost: reading.sample.lost.clone(),
            ..Sample::default()
        };
        if let Some((node, notes)) = reading.node {
            sample.node_stats.clone_from(node);
            sample.notes.extend_from_slice(notes);
        }
        sample.notes.extend(reading.shed.iter().map(|(capability, text)| {
            let partial = self.plan.capabilities.contains(capability);
            Note { text: text.clone(), partial }
        }));
        if sample.source == Source::Procfs {
            sample.notes.extend(lacking(&self.plan.capabilities));
        }
        if self.plan.want.processes {
            self.processes(reading, &mut sample);
        }
        if self.plan.layout.histograms {
            self.count(reading, &mut sample);
        }
        let few = if self.plan.want.processes { self.watched.pids() } else { Some(Vec::new()) };
        reading.past.seen(&mut self.seat, few);
        if first {
            let unseen = self.veil.unseen().into_iter().chain(reading.sample.unseen.clone());
            let unseen: Vec<_> = unseen.collect();
            self.watched.check(&mut sample.notes, (self.plan.follow, &unseen))?;
        }
        Ok(sample)
    }

    /// What the histograms of its processes have come to since it began.
    fn count(&mut self, reading: &Reading<'_>, sample: &mut Sample) {
        let (living, dying) = (&reading.sample.processes, &reading.sample.dying);
        self.durations.learn(&sample.processes);
        self.durations.retain(|id| {
            living.binary_search_by_key(id, |it| it.id).is_ok()
                || dying.iter().any(|it| it.id == *id)
        });
        self.durations.growth().for_each(|(_, grown)| self.latencies.merge(grown));
        sample.latencies.clone_from(&self.latencies);
    }

    /// Its processes: those that live, and those that ended since it looked last.
    fn processes(&mut self, reading: &Reading<'_>, sample: &mut Sample) {
        self.admit(reading, sample);
        if self.plan.layout.signals {
            self.events(reading, sample);
        }
        // Only where hooks tell of ends does a last record come.
        let records = reading.sample.source == Source::Ebpf;
        let absence = Absence {
            at: reading.sample.at.boot,
            dying: &reading.sample.dying,
            patience: if records { RECORD_WITHIN } else { Ns(0) },
        };
        self.ended = self.watched.settle(&mut sample.processes, absence);
        if self.groups.is_some() {
            sample.dying.clone_from(&reading.sample.dying);
        }
        self.cover(sample);
        sample.processes.sort_by_key(|it| it.id);
    }

    /// Takes in whoever is meant and may be seen.
    fn admit(&mut self, reading: &Reading<'_>, sample: &mut Sample) {
        let living = &reading.sample.processes;
        let (ended, missed) = reading.past.ended(self.seat.as_ref());
        self.watched.learn(living, reading.namespaces, &self.veil);
        let mine = |it: &&Process| self.watched.admits(it) && self.veil.shows(it);
        match self.watched.identities() {
            // Few of many: looked up one by one, instead of asking each whether it is meant.
            Some(few) => sample.processes.extend(few.filter_map(|id| {
                let at = living.binary_search_by_key(id, |it| it.id).ok()?;
                Some(living[at].clone()).filter(|it| mine(&it))
            })),
            None => sample.processes.extend(living.iter().filter(mine).cloned()),
        }
        sample.processes.extend(ended.filter(mine).cloned());
        if missed > 0 {
            let text = format!("{missed} processes ended unseen: more than are kept for a tick");
            sample.notes.push(Note::missing(text));
        }
    }

    /// Covers what of them is not for these eyes, and leaves out what nobody wants.
    fn cover(&self, sample: &mut Sample) {
        let mut covered = 0;
        for process in &mut sample.processes {
            covered += usize::from(self.veil.cover(process));
            self.trim(process);
        }
        if covered > 0 && !self.hidden.is_empty() {
            let text = veil::refusal(&self.hidden, covered);
            // Whoever named a process asked for just this.
            sample.notes.push(Note { text, partial: self.plan.targets.is_some() });
        }
    }

    /// What its processes took or sent, as far as he may look into them: `/proc` tells nobody of
    /// the signals of another's process.
    fn events(&self, reading: &Reading<'_>, sample: &mut Sample) {
        let (events, missed) = reading.past.events(self.seat.as_ref());
        let own = sample.processes.iter().filter(|it| self.veil.opens(it)).map(|it| it.id);
        let own: HashSet<Identity> = own.collect();
        let of_own = |event: &&Event| {
            own.contains(&event.target) || event.sender().is_some_and(|it| own.contains(&it))
        };
        sample.events = events.filter(of_own).cloned().collect();
        if missed > 0 {
            let text = format!("{missed} events went unseen: more than are kept for a tick");
            sample.notes.push(Note::missing(text));
        }
    }

    /// Takes away what others asked for.
    fn trim(&self, process: &mut Process) {
        if !self.plan.want.threads {
            process.threads.clear();
        }
        if !self.plan.capabilities.contains(&Capability::Block) {
            process.disks.clear();
        }
    }
}
