//! A recording as a backend: what it has is read as if it happened now.
//!
//! In: what is wanted. Out: the next sample with as much of it as a reader would have given.
//! Waits for nothing: how fast a recording is played is up to who asks.

use super::recording::Recording;
use monitor_backend::{Backend, Error};
use monitor_backends::device;
use monitor_model::field::ProcessField;
use monitor_model::id::Identity;
use monitor_model::probe::Probe;
use monitor_model::sample::{Node, Note, Process, Sample, Source, Text};
use monitor_model::want::{Devices, Want};
use std::collections::HashMap;

/// Plays a recording.
pub struct Replay {
    recording: Recording,
    source: Source,
    texts: HashMap<Identity, Text>,
}

impl Replay {
    /// From where the recording stands.
    pub fn new(recording: Recording) -> Self {
        let source = Source::named(&recording.header().backend);
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

    /// As much of a sample as a reader would have given, for who has read it himself.
    pub fn wanted(&mut self, mut sample: Sample, want: &Want) -> Sample {
        let all = std::mem::take(&mut sample.processes);
        sample.processes = self.processes(all, want);
        sample.node_stats = sample.node_stats.and_then(|all| node(all, want, &mut sample.notes));
        sample
    }

    fn processes(&mut self, all: Vec<Process>, want: &Want) -> Vec<Process> {
        self.texts.clear();
        if !want.processes {
            return Vec::new();
        }
        let asked = |it: &Process| want.pids.as_ref().is_none_or(|pids| pids.contains(&it.id.pid));
        let mut processes: Vec<_> = all.into_iter().filter(asked).collect();
        for it in &mut processes {
            let _once = self.texts.insert(it.id, std::mem::take(&mut it.text));
            if !want.threads {
                it.threads.clear();
            }
            if !want.wants(ProcessField::Pss) || !want.pss_of.means(it) {
                it.row.clear(ProcessField::Pss);
            }
        }
        processes
    }
}

impl Backend for Replay {
    fn source(&self) -> Source {
        self.source
    }

    fn probes(&mut self) -> Vec<Probe> {
        Vec::new()
    }

    fn read(&mut self, want: &Want) -> Result<Sample, Error> {
        let next = self.recording.next();
        let what = || self.recording.path().display().to_string();
        let sample = next
            .map_err(|error| {
                let want = format!("a recording that can be read: {error}");
                Error::Malformed { what: what(), want }
            })?
            .ok_or_else(|| Error::Over { what: what(), missing: self.recording.at_end() })?;
        Ok(self.wanted(sample, want))
    }

    fn describe(&mut self, processes: &mut [Process], want: &Want) {
        for process in processes {
            let Some(text) = self.texts.get(&process.id) else { continue };
            let asked =
                |field: ProcessField, text: &Option<_>| text.clone().filter(|_| want.wants(field));
            process.text = Text {
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

/// As much of the node as is wanted.
fn node(all: Node, want: &Want, notes: &mut Vec<Note>) -> Option<Node> {
    if !want.node && want.disks == Devices::None && want.nets == Devices::None {
        return None;
    }
    let mut node = Node::default();
    if want.node {
        (node.row, node.cpus) = (all.row, all.cpus);
    }
    if want.disks != Devices::None {
        node.disks = device::chosen(all.disks, &want.disks, "disk", |_| true, notes);
    }
    if want.nets != Devices::None {
        node.nets = device::chosen(all.nets, &want.nets, "interface", |_| true, notes);
    }
    Some(node)
}
