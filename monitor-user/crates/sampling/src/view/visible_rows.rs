//! The part of a reading that one monitor may see: its targets, exits, and public fields.
//!
//! In: a reading. Out: its own sample, in the order of identities. Does not aggregate, filter by
//! usage or sort; encoding does.

use super::{Reading, View, note_scope};
use crate::{plan::Plan, target::Absence, visibility};
use monitor_backends::procfs::missing_capabilities;
use monitor_model::{
    BackendKind, Capability, Identity, Note, Ns, Process, Refusal, Sample, SampleEvent,
};
use std::collections::HashSet;

/// How long after an exit its record may arrive: the kernel frees a process some milliseconds
/// after its parent waited for it.
const EXIT_RECORD_TIMEOUT: Ns = Ns(1_000_000_000);

/// The notes that concern what a plan requests.
fn own_notes(plan: &Plan, notes: &[Note]) -> Vec<Note> {
    notes.iter().filter(|note| note_scope::concerns(plan, note)).cloned().collect()
}

impl View {
    /// The sample for this view.
    pub(super) fn sample(&mut self, reading: &Reading<'_>) -> Result<Sample, Refusal> {
        let first = self.cursor.is_none();
        // Others may have read processes that this view does not show.
        let reads_processes = self.plan.read_spec.processes;
        let mut sample = Sample {
            at: reading.sample.at,
            time_error: if reads_processes { reading.sample.time_error } else { Ns(0) },
            backend: reading.sample.backend,
            node: reading.sample.node.clone(),
            node_number: reading.sample.node_number,
            all_visible: reads_processes
                && reading.sample.all_visible
                && self.plan.targets.is_none(),
            notes: own_notes(&self.plan, &reading.sample.notes),
            // Of the whole node, and `/proc` shows no user what others do that often.
            lost: match self.visibility.credentials() {
                None => reading.sample.lost.clone(),
                Some(_) => Vec::new(),
            },
            ..Sample::default()
        };
        if let Some((node, notes)) = reading.node {
            sample.node_stats = node.as_deref().cloned();
            let mut notes = own_notes(&self.plan, notes);
            // What the backend lacks is noted with each part that it reads.
            notes.retain(|note| !sample.notes.contains(note));
            sample.notes.extend(notes);
        }
        let shed = reading.shed.iter().filter(|(it, _)| self.plan.capabilities.contains(it));
        sample.notes.extend(shed.map(|(_, text)| Note::missing(text.as_str())));
        sample.notes.extend(self.remarks.drain(..).map(Note::remark));
        if sample.backend == BackendKind::Procfs {
            sample.notes.extend(missing_capabilities(&self.plan.capabilities));
        }
        if self.plan.read_spec.processes {
            self.add_processes(reading, &mut sample);
        }
        if self.plan.layout.histograms {
            self.add_latencies(reading, &mut sample);
        }
        let wanted =
            if self.plan.read_spec.processes { self.targets.pids() } else { Some(Vec::new()) };
        reading.exit_log.seen(&mut self.cursor, wanted);
        if first {
            let hidden =
                self.visibility.hidden_processes().into_iter().chain(reading.sample.hidden.clone());
            let hidden: Vec<_> = hidden.collect();
            self.targets.check_present(&mut sample.notes, (self.plan.follow, &hidden))?;
        }
        Ok(sample)
    }

    /// Adds the histograms of its processes since its start.
    fn add_latencies(&mut self, reading: &Reading<'_>, sample: &mut Sample) {
        let (living, dying) = (&reading.sample.processes, &reading.sample.dying);
        self.latency_deltas.learn(&sample.processes);
        self.latency_deltas.retain(|id| {
            living.binary_search_by_key(id, |it| it.id).is_ok()
                || dying.iter().any(|it| it.id == *id)
        });
        self.latency_deltas.deltas().for_each(|(_, grown)| self.latencies.merge(grown));
        sample.latencies.clone_from(&self.latencies);
        // What is given up does not grow, which would look like no requests.
        let latencies = &mut sample.latencies;
        for (capability, _) in reading.shed {
            match capability {
                Capability::Block => (latencies.block_read, latencies.block_write) = (None, None),
                Capability::RunQueue => latencies.run_queue = None,
                _ => {}
            }
        }
    }

    /// Adds its processes: living ones, and those that ended since its last reading.
    fn add_processes(&mut self, reading: &Reading<'_>, sample: &mut Sample) {
        self.select_processes(reading, sample);
        if self.plan.layout.signals {
            self.add_events(reading, sample);
        }
        // Exit records come from hooks only.
        let has_records = reading.sample.backend == BackendKind::Ebpf;
        let absence = Absence {
            at: reading.sample.at.boot,
            dying: &reading.sample.dying,
            record_timeout: if has_records { EXIT_RECORD_TIMEOUT } else { Ns(0) },
        };
        self.ended = self.targets.update(&mut sample.processes, absence);
        self.frames.set_last_read(self.targets.last_read());
        if self.plan.grouping.is_some() {
            sample.dying.clone_from(&reading.sample.dying);
        }
        self.redact(sample);
        sample.processes.sort_by_key(|it| it.id);
    }

    /// Adds the processes that are targets and visible.
    fn select_processes(&mut self, reading: &Reading<'_>, sample: &mut Sample) {
        let living = &reading.sample.processes;
        let (ended, missed) = reading.exit_log.ended(self.cursor.as_ref());
        self.targets.resolve(living, reading.namespaces, &self.visibility);
        let is_own = |it: &&Process| self.targets.admits(it) && self.visibility.shows(it);
        match self.targets.identities() {
            // Few of many: look up each instead of checking all processes.
            Some(wanted) => sample.processes.extend(wanted.filter_map(|id| {
                let at = living.binary_search_by_key(id, |it| it.id).ok()?;
                Some(living[at].clone()).filter(|it| is_own(&it))
            })),
            None => sample.processes.extend(living.iter().filter(is_own).cloned()),
        }
        // `/proc` does not show others how a process ended, nor that there was one in between.
        let in_full = |it: &&Process| self.visibility.shows_all_of(it);
        sample.processes.extend(ended.filter(is_own).filter(in_full).cloned());
        if missed > 0 {
            let text = format!(
                "{missed} exit records dropped: more than the exit log holds between two samples"
            );
            sample.notes.push(Note::missing(text));
        }
    }

    /// Removes the fields that the user may not see or did not request.
    fn redact(&self, sample: &mut Sample) {
        let mut redacted = 0;
        for process in &mut sample.processes {
            redacted += usize::from(self.visibility.redact(process));
            self.trim(process);
        }
        if redacted > 0 && !self.hidden.is_empty() {
            let text = visibility::refusal_text(&self.hidden, redacted);
            // With named targets the hidden fields were requested explicitly.
            let partial = self.plan.targets.is_some();
            sample.notes.push(Note { partial, ..Note::remark(text) });
        }
        if redacted > 0 && !self.hidden_compared.is_empty() {
            let text = visibility::unmatched_text(&self.hidden_compared, redacted);
            sample.notes.push(Note::missing(text));
        }
    }

    /// Adds the events of its processes that the user may inspect: `/proc` hides the signals of
    /// other users' processes.
    fn add_events(&self, reading: &Reading<'_>, sample: &mut Sample) {
        let (events, missed) = reading.exit_log.events(self.cursor.as_ref());
        let own =
            sample.processes.iter().filter(|it| self.visibility.shows_all_of(it)).map(|it| it.id);
        let own: HashSet<Identity> = own.collect();
        let of_own = |event: &&SampleEvent| {
            own.contains(&event.target) || event.sender().is_some_and(|it| own.contains(&it))
        };
        sample.events = events.filter(of_own).cloned().collect();
        if missed > 0 {
            let text = format!(
                "{missed} events dropped: more than the exit log holds between two samples"
            );
            sample.notes.push(Note::missing(text));
        }
    }

    /// Removes what only other consumers requested.
    fn trim(&self, process: &mut Process) {
        if !self.plan.read_spec.threads {
            process.threads.clear();
        }
        if !self.plan.capabilities.contains(&Capability::Block) {
            process.disks.clear();
        }
    }
}
