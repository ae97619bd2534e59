//! What one monitor sees of the readings that all share.
//!
//! In: a reading, and what ended since it looked last. Out: a sample of its own as JSON, and
//! whether there is anything left to look at. Keeps what it saw last, so its rates are its own.
//! Knows neither its name nor its time, nor who is told.

mod sight;

use super::durations::Durations;
use super::group::rule::Rules;
use super::group::{self, Groups};
use super::need;
use super::past::{Past, Seat};
use super::pick::Picker;
use super::plan::{COSTLY, Plan};
use super::session::Session;
use super::target::{Namespaces, Watched};
use super::veil::Veil;
use monitor_backend::Backend;
use monitor_format::{Form, Format, Frame, Layout, Paint, Room};
use monitor_model::field::ProcessField;
use monitor_model::group::Grouped;
use monitor_model::histogram::Latencies;
use monitor_model::id::{Identity, Ns, Pid};
use monitor_model::rates::Rates;
use monitor_model::sample::{Node, Note, Process, Sample};
use monitor_model::scope::Scope;
use monitor_model::status::Refusal;
use monitor_model::want::{Capability, Want};
use monitor_model::whose::Whose;
use monitor_sys::pidfd::Held;

/// What every view of a reading looks at.
pub struct Reading<'a> {
    /// What lives, and the notes and losses of the reading.
    pub sample: &'a Sample,
    /// The node's own numbers as this view wants them, with notes of their own.
    pub node: Option<&'a (Option<Node>, Vec<Note>)>,
    /// What is told once.
    pub past: &'a Past,
    /// Who is which rank of a parallel job.
    pub namespaces: &'a dyn Namespaces,
    /// What the service gave up to keep within its budget, and the sentence that says so.
    pub shed: &'a [(Capability, String)],
}

/// A frame for one monitor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The sample, one JSON object without a line end.
    pub json: Vec<u8>,
    /// When it was taken, on the realtime clock.
    pub unix: Ns,
    /// How many processes there were to choose from.
    pub matched: usize,
    /// Something that was asked for is missing.
    pub partial: bool,
    /// What is to be said of it where its form has no room for notes.
    pub notes: Vec<String>,
    /// Somebody of them has ended since it looked last.
    pub ended: bool,
    /// All that it was to look at is gone.
    pub gone: bool,
}

/// The eye of one monitor.
pub struct View {
    plan: Plan,
    veil: Veil,
    /// Fields that are asked for and that others' processes do not show him.
    hidden: Vec<ProcessField>,
    watched: Watched,
    session: Session,
    groups: Option<Groups>,
    picker: Picker,
    durations: Durations,
    /// What they have come to.
    latencies: Latencies,
    format: Box<dyn Format + Send>,
    /// How much of the past it has seen; none, before it looked first.
    seat: Option<Seat>,
    /// Whether all that it shows of a process is in the kernel's own accounting.
    plain: bool,
    /// Whether anybody had ended at the last look.
    ended: bool,
}

impl View {
    /// Of a plan, for these eyes.
    pub fn new(plan: Plan, veil: Veil) -> Self {
        Self {
            hidden: veil.hides(plan.layout.processes.clone()),
            watched: Watched::new(plan.targets.clone()),
            session: Session::default(),
            groups: plan.grouping.map(|it| Groups::new(it.by, it.limits)),
            picker: Picker::new(plan.filter.clone(), plan.order, plan.top),
            durations: Durations::default(),
            latencies: Latencies::default(),
            format: plan.form.writer(plan.layout.clone(), Paint::Plain),
            seat: None,
            plain: plain(&plan),
            ended: false,
            plan,
            veil,
        }
    }

    /// With groups that rules name; those that none fits are named as the plan says.
    pub fn ruled(plan: Plan, veil: Veil, rules: Rules) -> Self {
        let mut it = Self::new(plan, veil);
        for field in rules.fields().filter(|field| COSTLY.contains(field)) {
            if !it.plan.want.costly.contains(&field) {
                it.plan.want.costly.push(field);
            }
        }
        it.groups = it.plan.grouping.map(|by| Groups::ruled(by.by, by.limits, rules));
        it
    }

    /// What must be read for it.
    pub const fn want(&self) -> &Want {
        &self.plan.want
    }

    /// Which fields are shown.
    pub const fn layout(&self) -> &Layout {
        &self.plan.layout
    }

    /// The processes that a reading must have for it, if these and what the kernel itself keeps
    /// of them are enough.
    pub fn few(&self) -> Option<Vec<Pid>> {
        self.watched.pids().filter(|_| self.plain)
    }

    /// Whose page tables it is about: of those that it watches, those that he may look into.
    pub fn pss_of(&self) -> Whose {
        Whose { pids: self.watched.pids(), eyes: self.veil.eyes() }
    }

    /// Whether nobody of them is missing.
    pub fn finds_all(&self, processes: &[Process]) -> bool {
        self.watched.all_in(processes)
    }

    /// Holds those that it watches and that live.
    pub fn hold(&mut self, hold: &mut dyn FnMut(Identity) -> Option<Held>) {
        self.watched.hold(hold);
    }

    /// Looks at a reading.
    pub fn see(
        &mut self,
        reading: &Reading<'_>,
        backend: &mut dyn Backend,
    ) -> Result<Seen, Refusal> {
        let sample = self.sample(reading)?;
        Ok(self.show(sample, backend))
    }

    /// The same, for who writes down in his own way what it comes to.
    pub fn rates(
        &mut self,
        reading: &Reading<'_>,
        backend: &mut dyn Backend,
    ) -> Result<&Rates, Refusal> {
        let sample = self.sample(reading)?;
        Ok(self.advance(sample, backend).0)
    }

    /// What must be known of every process: by its texts it is chosen, or put into a group. Its job
    /// was made out with the reading.
    fn texts(&self) -> Want {
        let mut texts = self.plan.want.clone();
        let all = self.groups.is_some() || self.picker.filter.needs_texts();
        texts.costly.retain(|it| all && *it != ProcessField::Job);
        texts
    }

    /// Its groups, and how many there were to choose from. Their processes are not kept.
    fn group(&mut self, sample: &mut Sample) -> Option<(Grouped, usize)> {
        let mut grouped = self.groups.as_mut()?.learn(sample, &self.picker.filter);
        let matched = grouped.groups.len();
        group::arrange(&mut grouped.groups, self.picker.order, self.plan.top);
        if !self.plan.layout.signals {
            sample.processes.clear();
        }
        Some((grouped, matched))
    }

    /// Groups and rates, and how many groups there were to choose from.
    fn advance(
        &mut self,
        mut sample: Sample,
        backend: &mut dyn Backend,
    ) -> (&Rates, Option<usize>) {
        let texts = self.texts();
        if self.picker.filter.needs_texts() || !texts.costly.is_empty() {
            backend.describe(&mut sample.processes, &texts);
        }
        let rated = self.session.has_begun();
        let order = self.plan.order.map(|order| if rated { order } else { order.without_rates() });
        self.picker.order = order;
        let (grouped, groups) = self.group(&mut sample).unzip();
        (self.session.advance_grouped(sample, grouped), groups)
    }

    /// Rates, order, texts, text.
    fn show(&mut self, sample: Sample, backend: &mut dyn Backend) -> Seen {
        let (_, groups) = self.advance(sample, backend);
        let rates = self.session.last().expect("a sample was just taken");
        let rows = self.picker.pick(&rates.sample.processes);
        let matched = groups.unwrap_or(rows);
        if !self.plan.want.costly.is_empty() {
            backend.describe(self.picker.shown_mut(), &self.plan.want);
        }
        let room = Room { columns: 80, lines: None };
        let events = &self.picker.events(&rates.sample);
        let frame = Frame { rates, processes: self.picker.shown(), matched, events, room };
        let mut json = Vec::new();
        self.format.write(&frame, &mut json);
        json.pop();
        let unix = rates.sample.at.unix;
        let partial = rates.sample.notes.iter().any(|note| note.partial);
        let looks = matches!(self.plan.layout.scope, Scope::Processes | Scope::All);
        let notes = match self.plan.form {
            Form::Pmix => rates.sample.notes.iter().map(|note| note.text.clone()).collect(),
            _ => Vec::new(),
        };
        let (ended, gone) = (self.ended, looks && self.watched.gone());
        Seen { json, unix, matched, partial, notes, ended, gone }
    }
}

/// Whether all that it shows of a process is in the kernel's own accounting: no field that a hook
/// counts, no thread, nothing that page tables must be walked for.
fn plain(plan: &Plan) -> bool {
    let shown = plan.layout.processes.iter().copied().chain(plan.order.map(|it| it.field));
    !plan.want.threads
        && !plan.want.wants(ProcessField::Pss)
        && !plan.want.wants(ProcessField::Job)
        && !plan.capabilities.iter().any(|it| it.opt_in())
        && !shown.into_iter().any(need::counted)
}
