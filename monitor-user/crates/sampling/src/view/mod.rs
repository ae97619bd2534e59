//! The view of one monitor on the shared readings.
//!
//! In: a reading, and the processes that have ended since its last one. Out: its own encoded
//! sample, and whether its targets are gone. Keeps its last sample, so its rates cover its own
//! intervals. Has no name, schedule or client; `monitors` has.

mod note_scope;
mod visible_rows;

use super::exit_log::{Cursor, ExitLog};
use super::plan::{COSTLY, Plan};
use super::target::{Namespaces, WatchedTargets};
use super::{
    capability_deps, expression::Expression, group::Groups, group::rule::GroupRules,
    latency_deltas::LatencyDeltas, pipeline::FrameBuilder, select_rows::RowSelector,
    visibility::Visibility,
};
use crate::session::KeptReading;
use monitor_backend::Backend;
use monitor_format::{Layout, OutputFormat, Paint, Viewport};
use monitor_model::rates::Counters;
use monitor_model::{
    Capability, Identity, Latencies, Node, Note, Ns, Pid, Process, ProcessField, ProcessFilter,
    Rates, ReadSpec, Refusal, Sample, Scope,
};
use monitor_sys::pidfd::PidFd;
use std::{cell::OnceCell, sync::Arc};

/// A reading that all consumers share.
pub struct Reading<'a> {
    /// The living processes, notes and losses.
    pub sample: &'a Sample,
    /// The node's counters as this view needs them, with their notes.
    pub node: Option<&'a (Option<Arc<Node>>, Vec<Note>)>,
    /// The counters of the processes, made for the first consumer that keeps them.
    pub counters: &'a OnceCell<Arc<Counters>>,
    /// Exited processes and events that some consumer has not seen.
    pub exit_log: &'a ExitLog,
    /// The ranks of parallel jobs.
    pub namespaces: &'a dyn Namespaces,
    /// The capabilities shed to stay within the budget, with the note about each.
    pub shed: &'a [(Capability, String)],
}

/// The output of a consumer for one reading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// The encoded sample: one JSON object without a line end, or an exposition.
    pub bytes: Vec<u8>,
    /// Time of the reading on the realtime clock.
    pub unix: Ns,
    /// Number of processes or groups that matched.
    pub matched: usize,
    /// Whether something requested is missing.
    pub partial: bool,
    /// The notes, where the format has no place for them.
    pub notes: Vec<String>,
    /// Whether a process has ended since the last reading.
    pub ended: bool,
    /// Whether all targets have ended.
    pub targets_gone: bool,
}

/// The view of one monitor.
pub struct View {
    plan: Plan,
    visibility: Visibility,
    /// Requested fields that are hidden for processes of other users.
    hidden: Vec<ProcessField>,
    /// Fields that the condition compares and that are hidden for processes of other users.
    hidden_compared: Vec<ProcessField>,
    targets: WatchedTargets,
    frames: FrameBuilder,
    latency_deltas: LatencyDeltas,
    /// The sum of all deltas.
    latencies: Latencies,
    /// Its position in the exit log; `None` before the first reading.
    cursor: Option<Cursor>,
    /// Whether all its fields come from the kernel's own accounting.
    is_plain: bool,
    /// Whether a process had ended at the last reading.
    ended: bool,
    /// What it keeps of its last reading, for the rates of the next.
    kept: Option<KeptReading>,
    /// Notes on its schedule, for the next sample.
    remarks: Vec<String>,
}

impl View {
    /// A view of a plan for a user.
    pub fn new(plan: Plan, visibility: Visibility) -> Self {
        Self {
            hidden: visibility.hidden_fields(plan.layout.processes.clone()),
            hidden_compared: visibility.hidden_fields(compared_fields(&plan)),
            targets: WatchedTargets::new(plan.targets.clone()),
            frames: frames(&plan, plan.grouping.map(|it| Groups::new(it.by, it.limits))),
            latency_deltas: LatencyDeltas::default(),
            latencies: Latencies::default(),
            cursor: None,
            is_plain: is_plain(&plan),
            ended: false,
            kept: None,
            remarks: Vec::new(),
            plan,
            visibility,
        }
    }

    /// The same with rules that name groups; processes without a rule are grouped as planned.
    pub fn with_rules(plan: Plan, visibility: Visibility, rules: GroupRules) -> Self {
        let mut it = Self::new(plan, visibility);
        for field in rules.fields().filter(|field| COSTLY.contains(field)) {
            if !it.plan.read_spec.costly.contains(&field) {
                it.plan.read_spec.costly.push(field);
            }
        }
        let groups = it.plan.grouping.map(|by| Groups::with_rules(by.by, by.limits, rules));
        it.frames = frames(&it.plan, groups);
        it
    }

    /// What must be read for it.
    pub const fn read_spec(&self) -> &ReadSpec {
        &self.plan.read_spec
    }

    /// The fields it shows.
    pub const fn layout(&self) -> &Layout {
        &self.plan.layout
    }

    /// The processes that suffice for it, read from the kernel's own accounting; `None` if it needs
    /// all.
    pub fn sufficient_pids(&self) -> Option<Vec<Pid>> {
        self.targets.pids().filter(|_| self.is_plain)
    }

    /// The processes whose page tables are read: the targets that the user may inspect.
    pub fn pss_filter(&self) -> ProcessFilter {
        ProcessFilter { pids: self.targets.pids(), credentials: self.visibility.credentials() }
    }

    /// Whether all its targets are in the list.
    pub fn finds_all(&self, processes: &[Process]) -> bool {
        self.targets.all_in(processes)
    }

    /// Opens a pidfd for each living target.
    pub fn open_pidfds(&mut self, hold: &mut dyn FnMut(Identity) -> Option<PidFd>) {
        self.targets.open_pidfds(hold);
    }

    /// The counters that it keeps, which all views of that reading share.
    pub fn kept(&self) -> Option<&Counters> {
        self.kept.as_ref().map(|it| &*it.counters)
    }

    /// Keeps nothing of its last reading: the next sample has no rates, and this note.
    pub fn forget(&mut self, note: String) {
        self.kept = None;
        self.remarks.push(note);
    }

    /// Adds a note to the next sample.
    pub fn remark(&mut self, note: String) {
        self.remarks.push(note);
    }

    /// Consumes a reading.
    ///
    /// # Errors
    /// If none of the targets exists at the first reading.
    pub fn consume(
        &mut self,
        reading: &Reading<'_>,
        backend: &mut dyn Backend,
    ) -> Result<Output, Refusal> {
        let sample = self.sample(reading)?;
        let output = self.encode((sample, reading), backend);
        self.frames.free_sample();
        Ok(output)
    }

    /// Consumes a reading and returns the rates, for a caller that encodes them itself.
    ///
    /// # Errors
    /// As [`Self::consume`].
    pub fn rates(
        &mut self,
        reading: &Reading<'_>,
        backend: &mut dyn Backend,
    ) -> Result<&Rates, Refusal> {
        let sample = self.sample(reading)?;
        Ok(self.advance((sample, reading), backend).0)
    }

    /// Advances groups and rates; returns the rates and the number of groups that matched.
    fn advance(
        &mut self,
        (mut sample, reading): (Sample, &Reading<'_>),
        backend: &mut dyn Backend,
    ) -> (&Rates, Option<usize>) {
        if self.frames.needs_all_texts() {
            // Jobs were resolved with the reading.
            let mut texts = self.plan.read_spec.clone();
            texts.costly.retain(|it| *it != ProcessField::Job);
            backend.describe(&mut sample.processes, &texts);
        }
        let (grouped, matched) = self.frames.group(&mut sample, ROOM).unzip();
        let before = self.keep(reading);
        (self.frames.rate_since(before.as_ref(), (sample, grouped)), matched)
    }

    /// Keeps what the rates of the next reading need, and returns what was kept before.
    fn keep(&mut self, reading: &Reading<'_>) -> Option<KeptReading> {
        let needs_processes = self.plan.read_spec.processes && self.plan.grouping.is_none();
        let counters = || Arc::new(Counters::from_sample(reading.sample));
        let counters = match needs_processes {
            true => Arc::clone(reading.counters.get_or_init(counters)),
            false => Arc::new(Counters::at(reading.sample.at.boot)),
        };
        let node = reading.node.and_then(|it| it.0.clone());
        self.kept.replace(KeptReading { counters, node })
    }

    /// Computes the rates, selects the rows and encodes them.
    fn encode(&mut self, sampled: (Sample, &Reading<'_>), backend: &mut dyn Backend) -> Output {
        let (_, groups) = self.advance(sampled, backend);
        let mut json = Vec::new();
        let spec = &self.plan.read_spec;
        let matched = self.frames.write((backend, spec), (groups, ROOM), &mut json);
        json.pop();
        let rates = self.frames.rates().expect("a sample was just taken");
        let unix = rates.sample.at.unix;
        let partial = rates.sample.notes.iter().any(|note| note.partial);
        let has_processes = matches!(self.plan.layout.scope, Scope::Processes | Scope::All);
        let notes = match self.plan.form {
            OutputFormat::Pmix => rates.sample.notes.iter().map(|note| note.text.clone()).collect(),
            _ => Vec::new(),
        };
        let (ended, gone) = (self.ended, has_processes && self.targets.all_ended());
        Output { bytes: json, unix, matched, partial, notes, ended, targets_gone: gone }
    }
}

/// The room of encoded frames, which are not cut.
const ROOM: Viewport = Viewport { columns: 80, lines: None };

fn frames(plan: &Plan, groups: Option<Groups>) -> FrameBuilder {
    let selector = RowSelector::new(plan.filter.clone(), plan.order, plan.top)
        .with_condition(plan.condition.clone());
    let format = plan.form.writer(plan.layout.clone(), Paint::Plain);
    FrameBuilder::new(selector, groups, plan.layout.signals, format)
}

/// The fields that the condition compares, each once.
fn compared_fields(plan: &Plan) -> Vec<ProcessField> {
    let mut fields = Vec::new();
    for field in plan.condition.iter().flat_map(Expression::compared_fields) {
        if !fields.contains(&field) {
            fields.push(field);
        }
    }
    fields
}

/// Whether all fields come from the kernel's own accounting: none from a hook, no thread, none that
/// needs a walk of page tables.
fn is_plain(plan: &Plan) -> bool {
    let compared = plan.condition.iter().flat_map(Expression::fields);
    let shown = plan.layout.processes.iter().copied().chain(plan.order.map(|it| it.field));
    let shown = shown.chain(compared);
    !plan.read_spec.threads
        && !plan.read_spec.wants(ProcessField::Pss)
        && !plan.read_spec.wants(ProcessField::Job)
        && !plan.capabilities.iter().any(|it| it.opt_in())
        && !shown.into_iter().any(capability_deps::is_probe_field)
}
