//! A recording as a backend: each read returns the next sample.
//!
//! In: a read specification. Out: the next sample, reduced to what the specification requests.
//! It does not wait: the caller controls the speed.

use super::Recording;
use monitor_backend::{Backend, Error};
use monitor_backends::device;
use monitor_model::field::ProcessField;
use monitor_model::id::Identity;
use monitor_model::probe::Probe;
use monitor_model::read_spec::ReadSpec;
use monitor_model::sample::{BackendKind, Process, ProcessTexts, Sample};
use std::collections::HashMap;

/// Plays a recording.
pub struct Replay {
    recording: Recording,
    source: BackendKind,
    texts: HashMap<Identity, ProcessTexts>,
}

impl Replay {
    /// Plays from the current position of the recording.
    pub fn new(recording: Recording) -> Self {
        let source = BackendKind::from_name(&recording.header().backend);
        Self { recording, source, texts: HashMap::new() }
    }

    /// The recording.
    pub const fn recording(&self) -> &Recording {
        &self.recording
    }

    /// The recording, to seek in it.
    pub const fn recording_mut(&mut self) -> &mut Recording {
        &mut self.recording
    }

    /// Reduces a sample to what the specification requests.
    pub fn select(&mut self, mut sample: Sample, spec: &ReadSpec) -> Sample {
        let all = std::mem::take(&mut sample.processes);
        sample.processes = self.processes(all, spec);
        sample.all_visible &= spec.all_processes();
        let all = sample.node_stats.take();
        sample.node_stats = all.and_then(|all| device::select_node(all, spec, &mut sample.notes));
        sample
    }

    fn processes(&mut self, all: Vec<Process>, spec: &ReadSpec) -> Vec<Process> {
        self.texts.clear();
        if !spec.processes {
            return Vec::new();
        }
        let asked = |it: &Process| spec.pids.as_ref().is_none_or(|pids| pids.contains(&it.id.pid));
        let mut processes: Vec<_> = all.into_iter().filter(asked).collect();
        for it in &mut processes {
            let _once = self.texts.insert(it.id, std::mem::take(&mut it.text));
            if !spec.threads {
                it.threads.clear();
            }
            if !spec.wants(ProcessField::Pss) || !spec.pss_of.matches(it) {
                it.row.clear(ProcessField::Pss);
            }
        }
        processes
    }
}

impl Backend for Replay {
    fn kind(&self) -> BackendKind {
        self.source
    }

    fn probes(&mut self) -> Vec<Probe> {
        Vec::new()
    }

    fn read(&mut self, spec: &ReadSpec) -> Result<Sample, Error> {
        let next = self.recording.next();
        let what = || self.recording.path().display().to_string();
        let sample = next
            .map_err(|error| {
                let want = format!("a readable recording: {error}");
                Error::Malformed { what: what(), want }
            })?
            .ok_or_else(|| Error::EndOfRecording {
                what: what(),
                missing: self.recording.end_notes(),
            })?;
        Ok(self.select(sample, spec))
    }

    fn describe(&mut self, processes: &mut [Process], spec: &ReadSpec) {
        for process in processes {
            let Some(text) = self.texts.get(&process.id) else { continue };
            let asked =
                |field: ProcessField, text: &Option<_>| text.clone().filter(|_| spec.wants(field));
            process.text = ProcessTexts {
                cmdline: asked(ProcessField::Cmdline, &text.cmdline),
                path: asked(ProcessField::Path, &text.path),
                cgroup: asked(ProcessField::Cgroup, &text.cgroup),
                user: asked(ProcessField::User, &text.user),
                job: asked(ProcessField::Job, &text.job),
                rank: None,
                origin: None,
            };
        }
    }
}
