//! `monitor watch` and `start` with `--nodes`: samples of each node of a set, again and again, as
//! rows of one output.
//!
//! In: what is read, a set of nodes. Out: a frame of all nodes for each interval: those that have
//! sent a sample since the one before, or on a terminal the last one of each. A node that is late
//! comes with the next frame; none is waited for longer than the interval.

use super::args::{ReadingArgs, WatchArgs};
use super::client::{connect, runtime};
use super::columns::SampleMode;
use super::event_writer::without_counts;
use super::exit::{Exit, Failure};
use super::followed_nodes::{CountedName, FollowedItem, FollowedNodes};
use super::output::{self, Output, OutputState, Screen, notice};
use super::plan::Plan;
use super::run_loop::{EndSignals, LoopEnd, tick};
use super::sample_lines::{self, SampleLine};
use super::sample_nodes::{NodeSample, check, new_notes};
use super::watch::redraws;
use monitor_client::MonitorRequest;
use monitor_format::{Frame, FrameWriter, OutputFormat};
use monitor_model::id::Ns;
use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::time::Duration;
use tokio::time::Instant;

/// What is counted of each node.
pub const SAMPLES: CountedName = CountedName { one: "sample", many: "samples", is_total: false };

/// Reads and prints samples of each node until it is stopped or the count is reached.
///
/// # Errors
/// If no service answers, or the set of nodes is none.
pub fn watch_nodes(args: &WatchArgs, on: (&str, Duration)) -> Result<Exit, Failure> {
    check(&args.sample)?;
    let plan = Plan::resolve(&args.sample.reading, SampleMode::Periodic)?;
    let request = MonitorRequest {
        every_ns: Some(Ns::from(args.every).0),
        count: args.limit.samples(args.every),
        ..plan.request.clone()
    };
    let printed = PrintedSeries { reading: &args.sample.reading, plan, every: args.every };
    printed.follow(args.sample.reader.socket.as_deref(), on, request)
}

/// A series of samples of each node, and how it is printed.
pub struct PrintedSeries<'a> {
    /// What is read.
    pub reading: &'a ReadingArgs,
    /// The same, as it is requested and printed.
    pub plan: Plan,
    /// The interval.
    pub every: Duration,
}

impl PrintedSeries<'_> {
    /// Starts the series on a set of nodes, and prints them.
    ///
    /// # Errors
    /// No service answers, or the set of nodes is none.
    pub fn follow(
        mut self,
        socket: Option<&Path>,
        on: (&str, Duration),
        request: MonitorRequest,
    ) -> Result<Exit, Failure> {
        self.plan.layout.names_nodes = true;
        runtime()?.block_on(async {
            let signals = EndSignals::install()?;
            let client = connect(socket).await?;
            // A node without the processes is watched all the same: they may be on another one.
            let line = sample_lines::begin(MonitorRequest { pmix: false, follow: true, ..request });
            let nodes = FollowedNodes::start(&client, on, vec![line], SAMPLES).await?;
            let printer = NodesPrinter::open(&self)?;
            follow(nodes, printer, signals).await
        })
    }
}

async fn follow(
    mut nodes: FollowedNodes,
    mut printer: NodesPrinter,
    mut signals: EndSignals,
) -> Result<Exit, Failure> {
    let mut ended = None;
    while ended.is_none() && !nodes.is_over() {
        let due = printer.due;
        tokio::select! {
            biased;
            end = signals.recv() => ended = Some(end),
            () = tick(due) => ended = printer.print()?,
            item = nodes.next() => {
                if let FollowedItem::Line(node, seq, line) = item? {
                    ended = printer.line(&mut nodes, (&node, seq, &line))?;
                }
                if printer.has_all(nodes.n_sending()) {
                    ended = ended.or(printer.print()?);
                }
            }
        }
    }
    let exit = match ended {
        Some(LoopEnd::Gone) => return Ok(Exit::Ok),
        ended => ended.map_or(Exit::Ok, LoopEnd::exit),
    };
    let rest = printer.print()?;
    let exit = if exit == Exit::Ok && printer.is_partial { Exit::Partial } else { exit };
    drop(printer);
    Ok(if rest == Some(LoopEnd::Gone) { Exit::Ok } else { nodes.end(exit) })
}

/// Prints a frame of all nodes for each interval.
struct NodesPrinter {
    writer: Box<dyn FrameWriter + Send>,
    output: Output,
    form: OutputFormat,
    every: Duration,
    /// The last sample of each node; those that are not printed yet are new.
    samples: BTreeMap<String, (NodeSample, bool)>,
    /// When the new ones are printed.
    due: Option<Instant>,
    /// Notes that were printed.
    notes: HashSet<(String, String)>,
    is_partial: bool,
}

impl NodesPrinter {
    fn open(PrintedSeries { reading, plan, every }: &PrintedSeries<'_>) -> Result<Self, Failure> {
        let mut output = reading.output.clone().map_or(Output::Stream, Output::Deferred);
        if redraws(reading) {
            output = Output::Screen(Screen::open()?);
        }
        Ok(Self {
            writer: plan.form.writer(plan.layout.clone(), output::paint(&output)),
            output,
            form: plan.form,
            every: *every,
            samples: BTreeMap::new(),
            due: None,
            notes: HashSet::new(),
            is_partial: false,
        })
    }

    /// Takes a line of a node: the reply with the first sample, then events.
    fn line(
        &mut self,
        nodes: &mut FollowedNodes,
        (node, seq, line): (&str, u64, &str),
    ) -> Result<Option<LoopEnd>, Failure> {
        let (event, is_partial) = match SampleLine::read(seq, line)? {
            SampleLine::Event { event, is_partial } => (event, is_partial),
            SampleLine::Refused(why) => {
                nodes.refused(node, &why);
                return Ok(None);
            }
            SampleLine::Other => return Ok(None),
        };
        nodes.count_lost(node, event.dropped);
        let ended = event.ended;
        let printed = self.sample(nodes, node, NodeSample::of_event(node, &event, is_partial)?)?;
        if ended.is_some() {
            nodes.done(node);
        }
        Ok(printed)
    }

    /// Takes a sample of a node. One that was not printed is printed before.
    fn sample(
        &mut self,
        nodes: &mut FollowedNodes,
        node: &str,
        sample: Option<NodeSample>,
    ) -> Result<Option<LoopEnd>, Failure> {
        let Some(sample) = sample else { return Ok(None) };
        nodes.count(node, 1);
        self.is_partial |= sample.is_partial;
        let is_waiting = self.samples.get(node).is_some_and(|it| it.1);
        let ended = if is_waiting { self.print()? } else { None };
        self.samples.insert(node.to_owned(), (sample, true));
        self.due.get_or_insert_with(|| Instant::now() + self.every);
        Ok(ended)
    }

    /// Whether this number of nodes has sent a sample that is not printed yet.
    fn has_all(&self, n_nodes: usize) -> bool {
        let n_new = self.samples.values().filter(|it| it.1).count();
        n_new > 0 && n_new >= n_nodes
    }

    /// Prints what is new; on a terminal, the last sample of each node.
    fn print(&mut self) -> Result<Option<LoopEnd>, Failure> {
        self.due = None;
        if !self.samples.values().any(|it| it.1) {
            return Ok(None);
        }
        let room = self.output.room();
        let shows_all = matches!(self.output, Output::Screen(_));
        let shown = self.samples.values().filter(|it| shows_all || it.1);
        let frames: Vec<Frame<'_>> = shown.map(|it| it.0.frame(room)).collect();
        let mut bytes = Vec::new();
        self.writer.write_nodes(&frames, &mut bytes);
        let state = self.output.put(&bytes)?;
        if self.form != OutputFormat::Json && !shows_all {
            let new = self.samples.values().filter(|it| it.1).map(|it| &it.0);
            let seen = &mut self.notes;
            let notes =
                new_notes(new, |node, note| seen.insert((node.to_owned(), without_counts(note))));
            notes.iter().for_each(|note| notice(note));
        }
        self.samples.values_mut().for_each(|it| it.1 = false);
        Ok((state == OutputState::Closed).then_some(LoopEnd::Gone))
    }
}
