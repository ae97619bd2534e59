//! The local pipeline of the commands: the stages of `sampling`, with notes, the named processes
//! and the exit code of a command.
//!
//! In: a backend and a plan. Out: frames, in a reused buffer. It does not schedule.

use super::columns;
use super::event_writer::without_counts;
use super::exit::{Exit, Failure};
use super::output::notice;
use super::plan::Plan;
use monitor_backend::{Backend, Error};
use monitor_backend::{BackendChoice, Opened};
use monitor_format::{OutputFormat, Paint, Viewport};
use monitor_loader::select;
use monitor_model::field::{GroupField, ProcessField};
use monitor_model::group::Group;
use monitor_model::hidden;
use monitor_model::id::{Ns, Pid};
use monitor_model::sample::{BackendKind, Instant, Note, Sample};
use monitor_sampling::named_ends::NamedEnds;
use monitor_sampling::pipeline::{FrameBuilder, SampleReader};
use monitor_sys::namespace::has_host_pids;
use std::collections::HashSet;
use std::os::fd::OwnedFd;

/// A backend and all later stages.
pub struct Pipeline {
    reader: SampleReader,
    frames: FrameBuilder,
    targets: PidTargets,
    ends: NamedEnds,
    /// Whether a finished group becomes a note: for formats that have no row for it.
    notes_finished_groups: bool,
    frame: Vec<u8>,
    /// Why a better backend was not used: in every sample.
    opening: Vec<Note>,
    /// Notes for the next sample.
    notes: Vec<Note>,
    /// Notes already printed to standard error; `None` if the format itself contains notes.
    reported: Option<HashSet<String>>,
    exit: Exit,
    has_begun: bool,
    /// How many processes or groups matched in the last frame.
    matched: usize,
    missing: Vec<Note>,
}

impl Pipeline {
    /// Opens the backend of a plan.
    pub fn open(
        plan: Plan,
        choice: BackendChoice,
        probe_log: u8,
        paint: Paint,
    ) -> Result<Self, Failure> {
        let opened = select::open_for(plan.readings, choice, &plan.capabilities, probe_log)?;
        Self::with_backend(opened, plan, paint)
    }

    /// Uses a backend that is open.
    pub fn with_backend(opened: Opened, mut plan: Plan, paint: Paint) -> Result<Self, Failure> {
        let (mut backend, opening) = opened;
        let targets = PidTargets::resolve(&mut *backend, &mut plan)?;
        if backend.kind() == BackendKind::Ebpf && !has_host_pids() {
            columns::add_namespace_pid(&mut plan.layout);
        }
        let is_silent = plan.form.row_format().is_some()
            || matches!(plan.form, OutputFormat::Prometheus | OutputFormat::Pmix);
        let shows_events = plan.layout.signals;
        let format = plan.form.writer(plan.layout, paint);
        let frames = FrameBuilder::new(plan.selector, plan.groups, shows_events, format);
        let notes_finished_groups =
            matches!(plan.form, OutputFormat::Table | OutputFormat::Prometheus);
        Ok(Self {
            reader: SampleReader::new(backend, plan.read_spec, frames.needs_all_texts()),
            frames,
            targets,
            ends: NamedEnds::default(),
            notes_finished_groups,
            frame: Vec::new(),
            opening,
            notes: Vec::new(),
            reported: is_silent.then(HashSet::new),
            exit: Exit::Ok,
            has_begun: false,
            matched: 0,
            missing: Vec::new(),
        })
    }

    /// Reads once and returns the frame. Named processes must exist in the first sample.
    pub fn next_frame(&mut self, room: Viewport) -> Result<&[u8], Failure> {
        let sample = self.reader.read()?;
        if !self.has_begun
            && let Some(message) = self.targets.absent(&sample)?
        {
            notice(&message);
            self.exit = Exit::NoTarget;
        }
        Ok(self.frame_of(sample, room))
    }

    /// Reads the next sample of a recording and returns its time and frame; `None` at the end.
    /// Named processes may appear later in it, so they are not checked.
    pub fn next_recorded(&mut self, room: Viewport) -> Result<Option<(Instant, &[u8])>, Failure> {
        let sample = match self.reader.read() {
            Err(Error::EndOfRecording { missing, .. }) => {
                self.missing = missing;
                return Ok(None);
            }
            read => read?,
        };
        Ok(Some((sample.at, self.frame_of(sample, room))))
    }

    /// The text after the last sample.
    pub fn finish(&mut self) -> &[u8] {
        self.frame.clear();
        self.frames.finish(&mut self.frame);
        &self.frame
    }

    /// What is missing at the end of a recording.
    pub fn missing(&self) -> &[Note] {
        &self.missing
    }

    fn frame_of(&mut self, mut sample: Sample, room: Viewport) -> &[u8] {
        self.has_begun = true;
        sample.notes.splice(..0, self.opening.iter().cloned());
        sample.notes.append(&mut self.notes);
        self.ends.update(self.frames.filter(), &mut sample.processes);
        let (grouped, matched) = self.frames.group(&mut sample, room).unzip();
        if self.notes_finished_groups {
            let finished = grouped.iter().flat_map(|it| &it.finished);
            sample.notes.extend(finished.map(summary));
        }
        let notes = self.frames.rate(sample, grouped).sample.notes.clone();
        self.report_notes(&notes);
        self.frame.clear();
        let SampleReader { backend, spec, .. } = &mut self.reader;
        let to = &mut self.frame;
        self.matched = self.frames.write((&mut **backend, spec), (matched, room), to);
        &self.frame
    }

    /// Sets the exit code for missing parts, and prints notes that the format cannot contain.
    fn report_notes(&mut self, notes: &[Note]) {
        for note in notes {
            if note.partial && self.exit == Exit::Ok {
                self.exit = Exit::Partial;
            }
            let reported = self.reported.as_mut();
            if reported.is_some_and(|it| it.insert(without_counts(&note.text))) {
                notice(&note.text);
            }
        }
    }

    /// Adds a note to the next sample.
    pub fn note(&mut self, note: Note) {
        self.notes.push(note);
    }

    /// A duplicated descriptor that becomes readable when records are queued.
    pub fn wake(&self) -> std::io::Result<Option<OwnedFd>> {
        self.reader.wake()
    }

    /// Fetches the queued records.
    pub fn drain(&mut self) {
        self.reader.backend.drain();
    }

    /// The exit code for what was delivered so far.
    pub fn exit(&self) -> Exit {
        self.exit
    }

    /// How many processes or groups matched in the last frame.
    pub const fn matched(&self) -> usize {
        self.matched
    }
}

/// The note about a finished group and what it used.
fn summary(group: &Group) -> Note {
    let ended = group.head.get(GroupField::Ended).unwrap_or(0);
    let cpu = Ns(group.row.get(ProcessField::CpuTime).unwrap_or(0)).seconds();
    let (by, name) = (group.by.name(), &group.name);
    Note::remark(format!("{by} {name} finished: {ended} processes ended, {cpu:.3} s of CPU"))
}

/// The processes named with `--pid`: as given, and as pids of the host. Messages have those given.
#[derive(Default)]
pub struct PidTargets {
    /// The pid as given, and the pid on the host if the process exists.
    named: Vec<(Pid, Option<Pid>)>,
}

impl PidTargets {
    /// Resolves the pids through the backend and replaces those of the plan by the host's.
    pub fn resolve(backend: &mut dyn Backend, plan: &mut Plan) -> Result<Self, Error> {
        let written = std::mem::take(&mut plan.selector.filter.pids);
        if written.is_empty() {
            return Ok(Self::default());
        }
        let hosts = backend.host_pids(&written)?;
        plan.selector.filter.pids = hosts.iter().copied().flatten().collect();
        plan.read_spec.pids = Some(plan.selector.filter.pids.clone());
        Ok(Self { named: written.into_iter().zip(hosts).collect() })
    }

    /// The message about named processes that do not exist.
    ///
    /// # Errors
    ///
    /// `NoTarget` if none of them exists.
    pub fn absent(&self, sample: &Sample) -> Result<Option<String>, Failure> {
        let there = |host: &Pid| sample.processes.iter().any(|process| process.id.pid == *host);
        let absent = self.named.iter().filter(|(_, host)| !host.as_ref().is_some_and(there));
        let absent: Vec<Pid> = absent.map(|(written, _)| *written).collect();
        if absent.is_empty() {
            return Ok(None);
        }
        let cause = hidden::cause(&sample.hidden, absent.iter().copied());
        let names: Vec<_> = absent.iter().map(|Pid(written)| written.to_string()).collect();
        let message = format!("no process {}{cause}", names.join(", "));
        if absent.len() == self.named.len() {
            return Err(Failure { message, exit: Exit::NoTarget });
        }
        Ok(Some(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::{Cli, Command};
    use crate::cli::columns::SampleMode;
    use clap::Parser;
    use monitor_model::id::{Identity, Pid};
    use monitor_model::probe::Probe;
    use monitor_model::read_spec::ReadSpec;
    use monitor_model::sample::Process;

    /// Three processes that each use as many seconds of CPU per second as their pid.
    #[derive(Default)]
    struct Stub {
        reads: u64,
        /// A process that ended, and whose final record was lost.
        approximate: Option<u32>,
        described: usize,
        note: Option<Note>,
    }

    impl Backend for Stub {
        fn kind(&self) -> BackendKind {
            BackendKind::Test
        }

        fn probes(&mut self) -> Vec<Probe> {
            Vec::new()
        }

        fn read(&mut self, want: &ReadSpec) -> Result<Sample, Error> {
            self.reads += 1;
            let process = |pid: u32| {
                let id = Identity { pid: Pid(pid), start: Ns(1) };
                let mut process = Process { id, ..Process::default() };
                process.row.set(ProcessField::Pid, pid.into());
                let cpu = self.reads * u64::from(pid) * 1_000_000_000;
                process.row.set(ProcessField::CpuTime, cpu);
                if self.approximate == Some(pid) {
                    process.row.set(ProcessField::Ended, 1);
                    process.row.set(ProcessField::Approximate, 1);
                }
                process
            };
            let asked = |pid: &u32| want.pids.as_ref().is_none_or(|pids| pids.contains(&Pid(*pid)));
            let processes = (1..=3).filter(asked).map(process).collect();
            let mut sample = Sample { processes, ..Sample::default() };
            sample.at.boot = Ns(self.reads * 1_000_000_000);
            sample.notes.extend(self.note.clone());
            Ok(sample)
        }

        fn describe(&mut self, processes: &mut [Process], _: &ReadSpec) {
            self.described += processes.len();
            for process in processes {
                process.text.cgroup = Some(format!("/job/{}", process.id.pid.0).into());
            }
        }
    }

    const ROOM: Viewport = Viewport { columns: 80, lines: None };

    fn pipeline(args: &str, stub: Stub) -> Pipeline {
        let args = ["monitor", "watch"].into_iter().chain(args.split_whitespace());
        let Ok(Cli { command: Some(Command::Watch(watch)) }) = Cli::try_parse_from(args) else {
            panic!("arguments that do not parse")
        };
        let plan = Plan::resolve(&watch.sample.reading, SampleMode::Periodic).expect("a plan");
        let opening = vec![Note::remark("not eBPF")];
        Pipeline::with_backend((Box::new(stub), opening), plan, Paint::Plain).expect("a pipeline")
    }

    fn turn(pipeline: &mut Pipeline) -> String {
        let frame = pipeline.next_frame(ROOM).expect("a frame");
        String::from_utf8(frame.to_vec()).expect("text")
    }

    #[test]
    fn rows_are_sorted_by_total_first_and_by_rate_afterwards() {
        let mut pipeline =
            pipeline("--format csv --top 2 --fields pid,cpu_percent", Stub::default());
        assert_eq!(turn(&mut pipeline), "time_unix_ns,pid,cpu_percent\n0,3,\n0,2,\n");
        assert_eq!(turn(&mut pipeline), "0,3,300\n0,2,200\n");
    }

    #[test]
    fn a_cgroup_is_read_before_it_is_filtered_by() {
        let args = "--format csv --cgroup /job/2 --fields pid,cgroup";
        let text = turn(&mut pipeline(args, Stub::default()));
        assert_eq!(text, "time_unix_ns,pid,cgroup\n0,2,/job/2\n");
    }

    #[test]
    fn groups_are_printed_in_place_of_processes() {
        let args = "--group-by cgroup --top 2 --format json --fields cpu_ns,cpu_percent";
        let mut pipeline = pipeline(args, Stub::default());
        let first = turn(&mut pipeline);
        assert!(first.contains(r#""groups":[{"by":"cgroup","name":"/job/3","processes":1"#));
        assert!(!first.contains(r#""processes":["#) && !first.contains("/job/1"), "{first}");
        let second = turn(&mut pipeline);
        assert!(second.contains(r#""cpu_ns":6000000000,"cpu_percent":300.0}"#), "{second}");
    }

    #[test]
    fn options_that_do_not_apply_to_groups_are_refused() {
        let refused = |args: &str| {
            let args = ["monitor", "watch"].into_iter().chain(args.split_whitespace());
            let Ok(Cli { command: Some(Command::Watch(watch)) }) = Cli::try_parse_from(args) else {
                panic!("arguments that do not parse")
            };
            Plan::resolve(&watch.sample.reading, SampleMode::Periodic)
                .err()
                .map(|failure| failure.message)
        };
        let why = "priority cannot be added up: it does not apply with --group-by";
        assert_eq!(refused("--group-by job --fields priority").as_deref(), Some(why));
        assert_eq!(refused("--group-by job --sort -priority").as_deref(), Some(why));
        let why = "--group-by does not apply to node";
        assert_eq!(refused("node --group-by job").as_deref(), Some(why));
        assert!(refused("--group-by job --threads").is_some());
        assert_eq!(refused("--group-by job --sort rss_bytes"), None);
    }

    #[test]
    fn a_missing_named_process_is_an_error() {
        let failure = pipeline("--pid 9", Stub::default()).next_frame(ROOM).map(<[u8]>::to_vec);
        let message = "no process 9".to_owned();
        assert_eq!(failure, Err(Failure { message, exit: Exit::NoTarget }));
    }

    #[test]
    fn existing_named_processes_are_printed_and_the_exit_code_reports_the_others() {
        let mut pipeline = pipeline("--pid 9,2 --format csv --fields pid", Stub::default());
        assert_eq!(turn(&mut pipeline), "time_unix_ns,pid\n0,2\n");
        assert_eq!(pipeline.exit(), Exit::NoTarget);
    }

    #[test]
    fn notes_that_differ_only_in_counts_are_the_same() {
        assert_eq!(
            without_counts("no I/O counters of 98 processes"),
            without_counts("no I/O counters of 9 processes")
        );
        assert_ne!(without_counts("no disk sda1"), without_counts("no disk sda2"));
    }

    #[test]
    fn a_missing_part_makes_the_result_partial() {
        let stub = Stub { note: Some(Note::missing("no disk sdz")), ..Stub::default() };
        let mut pipeline = pipeline("--format json --fields pid", stub);
        assert!(turn(&mut pipeline).contains(r#""notes":["not eBPF","no disk sdz"]"#));
        assert_eq!(pipeline.exit(), Exit::Partial);
    }

    #[test]
    fn a_lost_final_record_is_noted_in_frames_that_show_its_process_and_in_no_reading() {
        let stub = || Stub { approximate: Some(2), ..Stub::default() };
        let note = "1 exited and the final record was lost, counted as of exit";
        let text = turn(&mut pipeline("--format json --fields pid", stub()));
        assert_eq!(text.matches(note).count(), 1, "{text}");
        let args = "--format json --fields pid --filter";
        let arguments = |condition| format!("{args} {condition}");
        assert!(turn(&mut pipeline(&arguments("pid<3"), stub())).contains(note));
        assert!(!turn(&mut pipeline(&arguments("pid>2"), stub())).contains(note));
        let args = "--format json --group-by cgroup --fields cpu_ns";
        let text = turn(&mut pipeline(args, stub()));
        assert_eq!(text.matches(note).count(), 1, "{text}");
        // What a recording stores.
        let spec = ReadSpec { processes: true, ..ReadSpec::default() };
        let mut reader = SampleReader::new(Box::new(stub()), spec, true);
        assert_eq!(reader.read().expect("a sample").notes, []);
    }

    #[test]
    fn every_sample_has_the_reason_for_the_fallback() {
        let mut stream = pipeline("", Stub::default());
        assert!(turn(&mut stream).contains("not eBPF"));
        assert!(turn(&mut stream).contains("not eBPF"));
        let screen = Viewport { columns: 80, lines: Some(10) };
        let again = stream.next_frame(screen).expect("a frame").to_vec();
        assert!(String::from_utf8_lossy(&again).contains("not eBPF"));
    }
}
