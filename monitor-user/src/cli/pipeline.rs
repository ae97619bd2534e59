//! The way of a sample: read, rated, chosen, described, printed.
//!
//! One turn makes one frame in a buffer that is kept. What must be remembered between turns (the
//! last sample, what was said already, what was missing) is here; when a turn is due is not.

use super::columns;
use super::exit::{Exit, Failure};
use super::output::say;
use super::pen::sense;
use super::plan::Plan;
use super::target::Targets;
use monitor_backend::{Backend, Error};
use monitor_backends::select;
use monitor_backends::select::{Choice, Opened};
use monitor_format::{Form, Format, Frame, Paint, Room};
use monitor_model::field::{GroupField, ProcessField};
use monitor_model::group::Group;
use monitor_model::id::Ns;
use monitor_model::sample::{Instant, Note, Sample, Source};
use monitor_model::want::Want;
use monitor_sampling::group;
use monitor_sampling::group::Groups;
use monitor_sampling::job::Jobs;
use monitor_sampling::order::Order;
use monitor_sampling::pick::Picker;
use monitor_sampling::session::Session;
use monitor_sys::namespace::has_host_pids;
use std::collections::HashSet;
use std::os::fd::OwnedFd;

/// A backend and all that comes after it.
pub struct Pipeline {
    backend: Box<dyn Backend>,
    targets: Targets,
    want: Want,
    session: Session,
    jobs: Jobs,
    groups: Option<Groups>,
    /// Whether a group that is told for the last time is a note: where the form has no row for it.
    sums_up: bool,
    picker: Picker,
    /// The order and the number of rows asked for; a frame may have to do with others.
    asked: (Option<Order>, Option<usize>),
    format: Box<dyn Format>,
    frame: Vec<u8>,
    /// Why the backend is not a better one: told with the first sample, and on every screen.
    opening: Vec<Note>,
    /// What the next sample shall tell.
    notes: Vec<Note>,
    /// What was told beside the data; nothing, if the form itself has room for notes.
    told: Option<HashSet<String>>,
    exit: Exit,
    turns: u64,
    missing: Vec<Note>,
}

impl Pipeline {
    /// Opens the backend of a plan.
    pub fn open(plan: Plan, choice: Choice, probe_log: u8, paint: Paint) -> Result<Self, Failure> {
        let opened = select::open(choice, &plan.capabilities, probe_log)?;
        Self::over(opened, plan, paint)
    }

    /// Over a backend that is open.
    pub fn over(opened: Opened, mut plan: Plan, paint: Paint) -> Result<Self, Failure> {
        let (mut backend, opening) = opened;
        let targets = Targets::resolve(&mut *backend, &mut plan)?;
        if backend.source() == Source::Ebpf && !has_host_pids() {
            columns::name_inside(&mut plan.layout);
        }
        let is_silent =
            plan.form.of_rows().is_some() || matches!(plan.form, Form::Prometheus | Form::Pmix);
        let told = is_silent.then(HashSet::new);
        Ok(Self {
            backend,
            targets,
            want: plan.want,
            session: Session::default(),
            jobs: Jobs::default(),
            groups: plan.groups,
            sums_up: matches!(plan.form, Form::Table | Form::Prometheus),
            asked: (plan.picker.order, plan.picker.top),
            picker: plan.picker,
            format: plan.form.writer(plan.layout, paint),
            frame: Vec::new(),
            opening,
            notes: Vec::new(),
            told,
            exit: Exit::Ok,
            turns: 0,
            missing: Vec::new(),
        })
    }

    /// Reads once; gives the text of it.
    pub fn turn(&mut self, room: Room) -> Result<&[u8], Failure> {
        let sample = self.backend.read(&self.want)?;
        if self.turns == 0 {
            self.check_targets(&sample)?;
        }
        self.take(sample, room)
    }

    /// The same of a recording, with its time; nothing after its last sample. Who was named may
    /// come later in it.
    pub fn next(&mut self, room: Room) -> Result<Option<(Instant, &[u8])>, Failure> {
        let sample = match self.backend.read(&self.want) {
            Err(Error::Over { missing, .. }) => {
                self.missing = missing;
                return Ok(None);
            }
            read => read?,
        };
        let at = sample.at;
        self.take(sample, room).map(|frame| Some((at, frame)))
    }

    /// What must stand behind the last sample.
    pub fn finish(&mut self) -> &[u8] {
        self.frame.clear();
        self.format.finish(&mut self.frame);
        &self.frame
    }

    /// What a recording should have had behind its last sample.
    pub fn missing(&self) -> &[Note] {
        &self.missing
    }

    fn take(&mut self, mut sample: Sample, room: Room) -> Result<&[u8], Failure> {
        if self.turns == 0 || room.lines.is_some() {
            sample.notes.splice(..0, self.opening.iter().cloned());
        }
        self.turns += 1;
        sample.notes.append(&mut self.notes);
        self.heed(&sample.notes);
        let job = self.want.wants(ProcessField::Job);
        if self.picker.filter.needs_texts() || self.groups.is_some() || job {
            self.backend.describe(&mut sample.processes, &self.want);
        }
        if job {
            self.jobs.learn(&mut sample);
        }
        if self.groups.is_some() {
            self.print_groups(sample, room);
        } else {
            self.print(sample, room);
        }
        Ok(&self.frame)
    }

    fn print_groups(&mut self, mut sample: Sample, room: Room) {
        let (order, top) = self.asked;
        let rated = self.turns > 1;
        let order = order.map(|order| if rated { order } else { order.without_rates() });
        let grouped = self.groups.as_mut().map(|it| it.learn(&sample, &self.picker.filter));
        let mut grouped = grouped.unwrap_or_default();
        let matched = grouped.groups.len();
        if self.sums_up {
            let summaries: Vec<_> = grouped.finished.iter().map(summary).collect();
            self.heed(&summaries);
            sample.notes.extend(summaries);
        }
        group::arrange(&mut grouped.groups, order, top.or(room.lines));
        let rates = self.session.advance_grouped(sample, Some(grouped));
        self.frame.clear();
        let events = &self.picker.events(&rates.sample);
        let frame = Frame { rates, processes: &[], matched, events, room };
        self.format.write(&frame, &mut self.frame);
    }

    fn print(&mut self, sample: Sample, room: Room) {
        let rates = self.session.advance(sample);
        let (order, top) = self.asked;
        self.picker.order =
            order.map(|order| if rates.interval.is_some() { order } else { order.without_rates() });
        self.picker.top = top.or(room.lines);
        let matched = self.picker.pick(&rates.sample.processes);
        self.backend.describe(self.picker.shown_mut(), &self.want);
        self.frame.clear();
        let events = &self.picker.events(&rates.sample);
        let frame = Frame { rates, processes: self.picker.shown(), matched, events, room };
        self.format.write(&frame, &mut self.frame);
    }

    /// A process that was named must be there at first. If none is, there is nothing to show.
    fn check_targets(&mut self, sample: &Sample) -> Result<(), Failure> {
        if let Some(message) = self.targets.absent(sample)? {
            say(&message);
            self.exit = Exit::NoTarget;
        }
        Ok(())
    }

    /// Remembers that something is missing, and says it where the form cannot.
    fn heed(&mut self, notes: &[Note]) {
        for note in notes {
            if note.partial && self.exit == Exit::Ok {
                self.exit = Exit::Partial;
            }
            if self.told.as_mut().is_some_and(|told| told.insert(sense(&note.text))) {
                say(&note.text);
            }
        }
    }

    /// Has the next sample tell this too.
    pub fn note(&mut self, note: Note) {
        self.notes.push(note);
    }

    /// What becomes readable when records wait, as a descriptor of our own.
    pub fn wake(&self) -> Option<std::io::Result<OwnedFd>> {
        self.backend.wake().map(|fd| fd.try_clone_to_owned())
    }

    /// Fetches the records that wait.
    pub fn drain(&mut self) {
        self.backend.drain();
    }

    /// The code for what was delivered so far.
    pub fn exit(&self) -> Exit {
        self.exit
    }
}

/// What a finished group used, in a sentence.
fn summary(group: &Group) -> Note {
    let ended = group.head.get(GroupField::Ended).unwrap_or(0);
    let cpu = Ns(group.row.get(ProcessField::CpuTime).unwrap_or(0)).seconds();
    let (by, name) = (group.by.name(), &group.name);
    Note::remark(format!("{by} {name} finished: {ended} processes ended, {cpu:.3} s of CPU"))
}

#[cfg(test)]
mod tests {
    use super::super::args::{Cli, Command};
    use super::super::columns::Pace;
    use super::*;
    use clap::Parser;
    use monitor_model::id::{Identity, Pid};
    use monitor_model::probe::Probe;
    use monitor_model::sample::Process;

    /// Three processes that use a second of CPU in each second, times their pid.
    #[derive(Default)]
    struct Stub {
        reads: u64,
        described: usize,
        note: Option<Note>,
    }

    impl Backend for Stub {
        fn source(&self) -> Source {
            Source::Test
        }

        fn probes(&mut self) -> Vec<Probe> {
            Vec::new()
        }

        fn read(&mut self, want: &Want) -> Result<Sample, Error> {
            self.reads += 1;
            let process = |pid: u32| {
                let id = Identity { pid: Pid(pid), start: Ns(1) };
                let mut it = Process { id, ..Process::default() };
                it.row.set(ProcessField::Pid, pid.into());
                it.row.set(ProcessField::CpuTime, self.reads * u64::from(pid) * 1_000_000_000);
                it
            };
            let asked = |pid: &u32| want.pids.as_ref().is_none_or(|pids| pids.contains(&Pid(*pid)));
            let processes = (1..=3).filter(asked).map(process).collect();
            let mut sample = Sample { processes, ..Sample::default() };
            sample.at.boot = Ns(self.reads * 1_000_000_000);
            sample.notes.extend(self.note.clone());
            Ok(sample)
        }

        fn describe(&mut self, processes: &mut [Process], _: &Want) {
            self.described += processes.len();
            for process in processes {
                process.text.cgroup = Some(format!("/job/{}", process.id.pid.0).into());
            }
        }
    }

    const ROOM: Room = Room { columns: 80, lines: None };

    fn pipeline(words: &str, stub: Stub) -> Pipeline {
        let words = ["monitor", "watch"].into_iter().chain(words.split_whitespace());
        let Ok(Cli { command: Some(Command::Watch(watch)) }) = Cli::try_parse_from(words) else {
            panic!("words that do not parse")
        };
        let plan = Plan::resolve(&watch.reading, Pace::Again).expect("a plan");
        let opening = vec![Note::remark("not eBPF")];
        Pipeline::over((Box::new(stub), opening), plan, Paint::Plain).expect("a pipeline")
    }

    fn turn(pipeline: &mut Pipeline) -> String {
        let frame = pipeline.turn(ROOM).expect("a frame");
        String::from_utf8(frame.to_vec()).expect("text")
    }

    #[test]
    fn only_what_is_shown_is_ordered_first_and_rated() {
        let mut pipeline =
            pipeline("--format csv --top 2 --fields pid,cpu_percent", Stub::default());
        assert_eq!(turn(&mut pipeline), "time_unix_ns,pid,cpu_percent\n0,3,\n0,2,\n");
        assert_eq!(turn(&mut pipeline), "0,3,300\n0,2,200\n");
    }

    #[test]
    fn a_cgroup_is_looked_up_before_it_is_asked_for() {
        let words = "--format csv --cgroup /job/2 --fields pid,cgroup";
        let text = turn(&mut pipeline(words, Stub::default()));
        assert_eq!(text, "time_unix_ns,pid,cgroup\n0,2,/job/2\n");
    }

    #[test]
    fn groups_are_told_in_place_of_processes() {
        let words = "--group-by cgroup --top 2 --format json --fields cpu_ns,cpu_percent";
        let mut pipeline = pipeline(words, Stub::default());
        let first = turn(&mut pipeline);
        assert!(first.contains(r#""groups":[{"by":"cgroup","name":"/job/3","processes":1"#));
        assert!(!first.contains(r#""processes":["#) && !first.contains("/job/1"), "{first}");
        let second = turn(&mut pipeline);
        assert!(second.contains(r#""cpu_ns":6000000000,"cpu_percent":300.0}"#), "{second}");
    }

    #[test]
    fn what_makes_no_sense_of_a_group_is_refused() {
        let refused = |words: &str| {
            let words = ["monitor", "watch"].into_iter().chain(words.split_whitespace());
            let Ok(Cli { command: Some(Command::Watch(watch)) }) = Cli::try_parse_from(words)
            else {
                panic!("words that do not parse")
            };
            Plan::resolve(&watch.reading, Pace::Again).err().map(|failure| failure.message)
        };
        let why = "priority is of one process: --group-by has no sum of it";
        assert_eq!(refused("--group-by job --fields priority").as_deref(), Some(why));
        assert_eq!(refused("--group-by job --sort -priority").as_deref(), Some(why));
        let why = "--group-by is of processes, not of node";
        assert_eq!(refused("node --group-by job").as_deref(), Some(why));
        assert!(refused("--group-by job --threads").is_some());
        assert_eq!(refused("--group-by job --sort rss_bytes"), None);
    }

    #[test]
    fn a_named_process_that_is_not_there_is_an_error() {
        let failure = pipeline("--pid 9", Stub::default()).turn(ROOM).map(<[u8]>::to_vec);
        let message = "no process 9".to_owned();
        assert_eq!(failure, Err(Failure { message, exit: Exit::NoTarget }));
    }

    #[test]
    fn those_that_are_there_are_delivered_and_the_code_tells() {
        let mut pipeline = pipeline("--pid 9,2 --format csv --fields pid", Stub::default());
        assert_eq!(turn(&mut pipeline), "time_unix_ns,pid\n0,2\n");
        assert_eq!(pipeline.exit(), Exit::NoTarget);
    }

    #[test]
    fn a_note_that_only_counts_differently_was_told_already() {
        assert_eq!(
            sense("no I/O counters of 98 processes"),
            sense("no I/O counters of 9 processes")
        );
        assert_ne!(sense("no disk sda1"), sense("no disk sda2"));
    }

    #[test]
    fn something_missing_makes_the_answer_partial() {
        let stub = Stub { note: Some(Note::missing("no disk sdz")), ..Stub::default() };
        let mut pipeline = pipeline("--format json --fields pid", stub);
        assert!(turn(&mut pipeline).contains(r#""notes":["not eBPF","no disk sdz"]"#));
        assert_eq!(pipeline.exit(), Exit::Partial);
    }

    #[test]
    fn why_it_is_not_a_better_backend_is_told_once_or_on_every_screen() {
        let mut stream = pipeline("", Stub::default());
        assert!(turn(&mut stream).contains("not eBPF"));
        assert!(!turn(&mut stream).contains("not eBPF"));
        let screen = Room { columns: 80, lines: Some(10) };
        let again = stream.turn(screen).expect("a frame").to_vec();
        assert!(String::from_utf8_lossy(&again).contains("not eBPF"));
    }
}
