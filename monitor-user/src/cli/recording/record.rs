//! `monitor record FILE`: records samples to a file. The daemon reads, if one answers.
//!
//! It ends after the given time, number of samples or size, or when it is interrupted; all of these
//! are a normal end. A series contains what the daemon shows to this user; the boot time, which the
//! daemon does not send, is added from the clocks of this process: they are the same.

use super::args::RecordArgs;
use super::record_nodes;
use super::sink::{RecordingSink, default_fields, header, open_sink};
use crate::cli::args::ReadingArgs;
use crate::cli::client::{self, DISCONNECTED, find, reconnected, runtime};
use crate::cli::columns::SampleMode;
use crate::cli::exit::{Exit, Failure};
use crate::cli::log;
use crate::cli::output::{OutputState, notice};
use crate::cli::pipeline::PidTargets;
use crate::cli::plan::Plan;
use crate::cli::run_loop::{self, EndSignals, LoopEnd, PeriodicTask, skipped_note};
use monitor_backend::Backend;
use monitor_backends::host;
use monitor_client::{Client, Series, SeriesItem};
use monitor_format::OutputFormat;
use monitor_loader::select;
use monitor_model::field::ProcessField;
use monitor_model::id::Ns;
use monitor_model::read_spec::ReadSpec;
use monitor_model::request::MonitorRequest;
use monitor_model::sample::{BackendKind, Note, Sample};
use monitor_protocol::event::{EndReason, Event};
use monitor_recording::{Existing, Writer};
use monitor_sampling::approximate_notes::is_approximate_note;
use monitor_sampling::pipeline::SampleReader;
use monitor_sampling::process_tree::ProcessTree;
use monitor_sampling::schedule::Schedule;
use monitor_sampling::select_rows::RowSelector;
use monitor_sys::clock;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

/// Records until the end.
pub fn record(args: &RecordArgs) -> Result<Exit, Failure> {
    check(args)?;
    if let Some(nodes) = &args.on_nodes.nodes {
        return record_nodes::record_nodes(args, (nodes, args.on_nodes.within));
    }
    // With all fields, as in JSON.
    let reading = ReadingArgs { format: OutputFormat::Json, ..args.reading.clone() };
    let plan = Plan::resolve(&reading, SampleMode::Periodic)?;
    log::start(0);
    let runtime = runtime()?;
    // Only a local backend reports signals.
    let daemon = match args.reading.signals {
        true => None,
        false => runtime.block_on(find(&args.reader))?,
    };
    runtime.block_on(async {
        match daemon {
            Some(client) => DaemonRecorder::start(args, &plan, &client).await?.run().await,
            None => run_loop::run(|| LocalRecorder::open(args, plan)).await,
        }
    })
}

/// Refuses options about formats and order, which belong to `replay`.
fn check(args: &RecordArgs) -> Result<(), Failure> {
    let reading = &args.reading;
    let given = [
        ("--pmix", reading.pmix),
        ("--output", reading.output.is_some()),
        ("--filter", reading.filter.is_some()),
        ("--sort", reading.sort.is_some()),
        ("--top", reading.top.is_some()),
        ("--group-by", reading.group_by.is_some()),
    ];
    match given.into_iter().find(|(_, given)| *given) {
        Some((option, _)) => Err(Failure::usage(format!(
            "{option} applies to monitor replay: a recording contains all selected processes"
        ))),
        None => Ok(()),
    }
}

/// A series and the sink that records it.
struct DaemonRecorder {
    series: Series,
    sink: RecordingSink,
    /// Boot time of the previous sample.
    before: Option<Ns>,
    missed: u64,
    over: bool,
}

impl DaemonRecorder {
    /// Starts the monitor, then creates the file.
    async fn start(args: &RecordArgs, plan: &Plan, client: &Client) -> Result<Self, Failure> {
        let named = plan.request.fields.clone();
        let request = MonitorRequest {
            every_ns: Some(Ns::from(args.every).0),
            count: args.limit.samples(args.every),
            follow: true,
            sort: None,
            fields: named.or_else(|| Some(default_fields(&args.reading))),
            ..plan.request.clone()
        };
        let mut series = client.start(&request).await?;
        // The first sample names the backend.
        let first = match series.next().await? {
            Some(SeriesItem::Event(event)) => event,
            _ => return Err(Failure::failed("the daemon sent no sample")),
        };
        let rates = client::rates(&first)?.unwrap_or_default();
        let sink = open_sink((args, &args.file), &first.node, rates.sample.backend.name())?;
        let mut source = Self { series, sink, before: None, missed: 0, over: false };
        source.over = !source.record(SeriesItem::Event(first))?;
        Ok(source)
    }

    /// Records until the end.
    async fn run(mut self) -> Result<Exit, Failure> {
        let mut signals = EndSignals::install()?;
        while !self.over {
            let event = tokio::select! {
                biased;
                _ = signals.recv() => break,
                event = self.series.next() => event?,
            };
            let Some(event) = event else { break };
            self.over = !self.record(event)?;
        }
        self.sink.finish()
    }

    /// Records an event. Returns whether to continue.
    fn record(&mut self, event: SeriesItem) -> Result<bool, Failure> {
        match event {
            SeriesItem::Disconnected => notice(DISCONNECTED),
            SeriesItem::Reconnected(after) => self.sink.note(Note::missing(reconnected(after))),
            SeriesItem::Event(event) => {
                if let Some(sample) = self.sample(&event)?
                    && self.sink.append(sample)? == OutputState::Closed
                {
                    return Ok(false);
                }
                match event.ended {
                    None => {}
                    Some(EndReason::Shutdown | EndReason::Failed) => {
                        notice(event.message.as_deref().unwrap_or("the daemon could not continue"));
                        return Ok(false);
                    }
                    Some(_) => return Ok(false),
                }
            }
        }
        Ok(true)
    }

    /// The sample of an event, with notes about skipped and dropped ones.
    fn sample(&mut self, event: &Event) -> Result<Option<Sample>, Failure> {
        for note in client::delivery_notes(event, &mut self.missed) {
            self.sink.note(note);
        }
        let Some(rates) = client::rates(event)? else { return Ok(None) };
        let mut sample = rates.sample;
        // A replay makes its own, of the rows that it shows.
        sample.notes.retain(|note| !is_approximate_note(note));
        let since_boot = {
            let now = clock::now();
            Ns(now.boot.0.saturating_sub(now.unix.0.saturating_sub(sample.at.unix.0)))
        };
        sample.at.boot = match (self.before, rates.interval) {
            (Some(before), Some(interval)) => Ns(before.0.saturating_add(interval.0)),
            _ => since_boot,
        };
        self.before = Some(sample.at.boot);
        Ok(Some(sample))
    }
}

/// A backend and the sink that records its samples.
struct LocalRecorder {
    reader: SampleReader,
    targets: Option<PidTargets>,
    selector: RowSelector,
    schedule: Schedule,
    sink: RecordingSink,
}

impl LocalRecorder {
    /// Opens the backend, then creates the file.
    fn open(args: &RecordArgs, mut plan: Plan) -> Result<Self, Failure> {
        let choice = args.reader.backend;
        let (mut backend, opening) = select::open(choice, &plan.capabilities, 0)?;
        let targets = PidTargets::resolve(&mut *backend, &mut plan)?;
        if args.reading.fields.is_empty() && plan.read_spec.processes {
            // These names cannot be looked up later.
            plan.read_spec.costly.extend([ProcessField::User, ProcessField::Job]);
        }
        let mut sink = open_sink((args, &args.file), &host::name(), backend.kind().name())?;
        opening.iter().for_each(|note| notice(&note.text));
        opening.into_iter().for_each(|note| sink.note(note));
        let schedule = Schedule::new(Ns(0), Ns::from(args.every), args.limit.samples(args.every));
        Ok(Self {
            reader: SampleReader::new(backend, plan.read_spec, true),
            targets: Some(targets),
            selector: plan.selector,
            schedule,
            sink,
        })
    }
}

impl PeriodicTask for LocalRecorder {
    fn next_due(&self) -> Option<Ns> {
        self.schedule.due()
    }

    fn tick(&mut self) -> Result<OutputState, Failure> {
        let mut sample = self.reader.read()?;
        if let Some(targets) = self.targets.take()
            && let Some(message) = targets.absent(&sample)?
        {
            notice(&message);
            sample.notes.push(Note::missing(message));
        }
        sample.events = self.selector.events(&sample).into_owned();
        let filter = &self.selector.filter;
        sample.processes.retain(|process| filter.admits(process));
        sample.all_visible &= filter.admits_all();
        self.sink.append(sample)
    }

    fn ticked(&mut self, now: Ns) {
        if let Some(note) = skipped_note(self.schedule.taken(now)) {
            self.sink.note(note);
        }
    }

    fn wake(&self) -> std::io::Result<Option<OwnedFd>> {
        self.reader.wake()
    }

    fn drain(&mut self) {
        self.reader.backend.drain();
    }

    /// Finishes the file, for every kind of end.
    fn finish(&mut self, _: LoopEnd) -> Result<Exit, Failure> {
        self.sink.finish()
    }
}

/// Records a process tree.
pub struct RunRecorder {
    writer: Option<Writer>,
}

impl RunRecorder {
    /// Creates the file.
    pub fn create(
        (path, existing, every): (&Path, Existing, Duration),
        source: BackendKind,
    ) -> Result<Self, Failure> {
        let header = header(source.name(), every);
        Ok(Self { writer: Some(Writer::create(path, existing, &header)?) })
    }

    /// Appends the processes of the tree.
    pub fn append(&mut self, sample: &Sample, family: &ProcessTree, backend: &mut dyn Backend) {
        let Some(writer) = &mut self.writer else { return };
        let own = sample.processes.iter().filter(|process| family.has(process.id));
        let mut own = Sample { processes: own.cloned().collect(), ..without_processes(sample) };
        let costly = vec![ProcessField::Cmdline, ProcessField::Path, ProcessField::User];
        let want = ReadSpec { processes: true, costly, ..ReadSpec::default() };
        backend.describe(&mut own.processes, &want);
        if let Err(error) = writer.append(&own) {
            notice(&error.to_string());
            self.writer = None;
        }
    }

    /// Finishes the file.
    pub fn finish(self) {
        if let Some(Err(error)) = self.writer.map(Writer::finish) {
            notice(&error.to_string());
        }
    }
}

/// A sample without its processes.
fn without_processes(sample: &Sample) -> Sample {
    Sample {
        at: sample.at,
        backend: sample.backend,
        node: sample.node.clone(),
        notes: sample.notes.clone(),
        lost: sample.lost.clone(),
        ..Sample::default()
    }
}
