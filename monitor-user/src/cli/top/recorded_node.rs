//! One node of recordings that are played together.
//!
//! In: the recording of a node, and times on the realtime clock. Out: the record that the node
//! would have published then, made of its last sample at that time and the one before it.

use crate::cli::exit::Failure;
use crate::cli::plan::condition;
use monitor_model::field::{FieldValue, NodeField, ProcessField};
use monitor_model::rates::{self, Rates};
use monitor_model::{Ns, Process, Sample};
use monitor_protocol::rollup::{NodeRollup, NodeTotals, Usage};
use monitor_recording::{Error, Recording, Span};
use monitor_sampling::expression::{Expression, Subject as _};
use monitor_server::cluster::{IS_JOB, JobProcess, RecordBuilder, UserGroup};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A recording that is played.
pub struct RecordedNode {
    path: PathBuf,
    recording: Recording,
    span: Span,
    is_job: Expression,
    /// The last sample that was reached.
    current: Option<Sample>,
    /// The one before it.
    before: Option<Sample>,
    /// The one after it, if it was read.
    next: Option<Sample>,
    /// The record of the current one, once it was made.
    record: Option<NodeRollup>,
}

impl RecordedNode {
    /// Opens a recording.
    ///
    /// # Errors
    /// It cannot be read, or has no samples.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let recording = Recording::open(path)?;
        let span = recording.span();
        let span =
            span.ok_or_else(|| Failure::failed(format!("{} has no samples", path.display())))?;
        let is_job = condition(IS_JOB)?;
        let (path, record) = (path.to_owned(), None);
        let (current, before, next) = (None, None, None);
        Ok(Self { path, recording, span, is_job, current, before, next, record })
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// From when to when it has samples.
    pub const fn span(&self) -> Span {
        self.span
    }

    /// The period that was asked for.
    pub fn every(&self) -> Ns {
        Ns(self.recording.header().every_ns.max(1))
    }

    /// Goes to a time, back or forward.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub fn go_to(&mut self, unix: Ns) -> Result<(), Error> {
        (self.current, self.before, self.next, self.record) = (None, None, None, None);
        self.recording.seek(unix)?;
        // Rates need the sample before the last one.
        if let Some(last) = self.recording.next()? {
            self.recording.seek(Ns(last.at.unix.0.saturating_sub(1)))?;
        }
        self.advance(unix)
    }

    /// Reads on until a time.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub fn advance(&mut self, unix: Ns) -> Result<(), Error> {
        loop {
            let next = match self.next.take() {
                Some(next) => Some(next),
                None => self.recording.next()?,
            };
            match next {
                Some(next) if next.at.unix <= unix => {
                    self.before = self.current.replace(next);
                    self.record = None;
                }
                next => {
                    self.next = next;
                    return Ok(());
                }
            }
        }
    }

    /// The record of the last sample that was reached, and when that was taken; `None` before the
    /// first one.
    pub fn record(&mut self) -> Option<(&NodeRollup, Ns)> {
        let current = self.current.as_ref()?;
        let at = current.at.unix;
        if self.record.is_none() {
            let rates = match &self.before {
                Some(before) => rates::rates(before, current.clone()),
                None => rates::first(current.clone()),
            };
            self.record = Some(record(&rates, &self.is_job));
        }
        Some((self.record.as_ref()?, at))
    }
}

fn record(rates: &Rates, is_job: &Expression) -> NodeRollup {
    let sample = &rates.sample;
    let mut jobs = Vec::new();
    let mut users: BTreeMap<String, Usage> = BTreeMap::new();
    for process in sample.processes.iter().filter(|it| !it.ended()) {
        let usage = usage(process);
        if let Some(user) = process_user(process) {
            users.entry(user).or_default().add(&usage);
        }
        if is_job.admits(process) {
            let Usage { cpu_percent, rss_bytes, read_bytes_per_s, written_bytes_per_s, .. } = usage;
            jobs.push(JobProcess {
                uid: process.row.get(ProcessField::Uid).and_then(|uid| u32::try_from(uid).ok()),
                user: process.text.user.as_deref().map(str::to_owned),
                job: process.text.job.as_deref().unwrap_or_default().to_owned(),
                cpu_percent,
                rss_bytes,
                read_bytes_per_s,
                written_bytes_per_s,
            });
        }
    }
    let mut builder = RecordBuilder::new(0);
    builder.jobs(jobs);
    let users = users.into_iter().map(|(name, usage)| UserGroup { name, usage }).collect();
    builder.rollup(sample.at.unix.0, totals(sample), users)
}

fn usage(process: &Process) -> Usage {
    let number = |field| process.row.value(field).and_then(FieldValue::as_f64);
    Usage {
        processes: 1,
        cpu_percent: number(ProcessField::CpuPercent),
        rss_bytes: process.row.get(ProcessField::Rss).unwrap_or(0),
        read_bytes_per_s: number(ProcessField::ReadRate),
        written_bytes_per_s: number(ProcessField::WrittenRate),
    }
}

/// The name of its user; a user without a name is a number.
fn process_user(process: &Process) -> Option<String> {
    match &process.text.user {
        Some(name) => Some((**name).to_owned()),
        None => process.text(ProcessField::User).map(std::borrow::Cow::into_owned),
    }
}

fn totals(sample: &Sample) -> NodeTotals {
    let Some(node) = &sample.node_stats else { return NodeTotals::default() };
    let number = |field| node.row.value(field).and_then(FieldValue::as_f64);
    NodeTotals {
        load1: number(NodeField::Load1),
        online_cpus: node.row.get(NodeField::OnlineCpus),
        cpu_busy_percent: number(NodeField::BusyPercent),
        mem_total_bytes: node.row.get(NodeField::MemTotal),
        mem_available_bytes: node.row.get(NodeField::MemAvailable),
        ..NodeTotals::default()
    }
}
