//! `monitor record --nodes`: a recording of each node of a set, in a file of its own.
//!
//! In: what is recorded, a set of nodes. Out: FILE.NODE for each node that sends samples, which
//! `replay`, `report`, `export` and `top` read as any recording. A node that joins later, or comes
//! back, is recorded from then on. Times since boot are those of the node: its samples have the
//! time for which it is up.

use super::args::RecordArgs;
use super::sink::{RecordingSink, default_fields, open_sink};
use crate::cli::args::ReadingArgs;
use crate::cli::client::{self, connect, runtime};
use crate::cli::columns::SampleMode;
use crate::cli::exit::{Exit, Failure};
use crate::cli::followed_nodes::{FollowedItem, FollowedNodes};
use crate::cli::node_blocks::blocks;
use crate::cli::output::{OutputState, notice};
use crate::cli::plan::Plan;
use crate::cli::run_loop::EndSignals;
use crate::cli::sample_lines::{self, SampleLine};
use crate::cli::watch_nodes::SAMPLES;
use monitor_client::{Event, MonitorRequest};
use monitor_format::OutputFormat;
use monitor_model::field::{Category as _, NodeField};
use monitor_model::id::Ns;
use monitor_model::sample::{Note, Sample};
use monitor_sampling::approximate_notes::is_approximate_note;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::PathBuf;
use std::time::Duration;

/// Records until the end.
///
/// # Errors
/// An option is of this node alone, a file exists or cannot be written, no service answers, or the
/// set of nodes is none.
pub fn record_nodes(args: &RecordArgs, on: (&str, Duration)) -> Result<Exit, Failure> {
    if args.reading.signals {
        return Err(Failure::usage("--nodes: samples of other nodes have no --signals"));
    }
    if !args.reading.part.node() {
        let why = "--nodes: record all or node: with the node comes the time for which it is up";
        return Err(Failure::usage(why));
    }
    let reading = ReadingArgs { format: OutputFormat::Json, ..args.reading.clone() };
    let plan = Plan::resolve(&reading, SampleMode::Periodic)?;
    let mut fields = plan.request.fields.clone().unwrap_or_else(|| default_fields(&args.reading));
    let uptime = format!("node.{}", NodeField::Uptime.field().name);
    if !fields.contains(&uptime) {
        fields.push(uptime);
    }
    let request = MonitorRequest {
        pmix: false,
        every_ns: Some(Ns::from(args.every).0),
        count: args.limit.samples(args.every),
        follow: true,
        sort: None,
        fields: Some(fields),
        ..plan.request.clone()
    };
    runtime()?.block_on(async {
        let signals = EndSignals::install()?;
        let client = connect(args.reader.socket.as_deref()).await?;
        let line = sample_lines::begin(request);
        let nodes = FollowedNodes::start(&client, on, vec![line], SAMPLES).await?;
        let recorder = NodesRecorder { args, files: BTreeMap::new() };
        recorder.follow(nodes, signals).await
    })
}

/// The files of the nodes.
struct NodesRecorder<'a> {
    args: &'a RecordArgs,
    files: BTreeMap<String, NodeFile>,
}

/// The file of a node.
struct NodeFile {
    sink: RecordingSink,
    /// Skipped readings, as the last event counted them.
    missed: u64,
    /// Whether a limit of the file is reached.
    is_full: bool,
}

impl NodesRecorder<'_> {
    async fn follow(
        mut self,
        mut nodes: FollowedNodes,
        mut signals: EndSignals,
    ) -> Result<Exit, Failure> {
        while !nodes.is_over() {
            let item = tokio::select! {
                biased;
                // Recordings end so, as those of one node.
                _ = signals.recv() => break,
                item = nodes.next() => item?,
            };
            if let FollowedItem::Line(node, seq, line) = item {
                let recorded = self.line(&mut nodes, (&node, seq, &line));
                if let Err(failure) = recorded {
                    self.finish()?;
                    return Err(failure);
                }
            }
        }
        let is_partial = self.files.values().any(|it| it.sink.is_partial());
        self.finish()?;
        Ok(nodes.end(if is_partial { Exit::Partial } else { Exit::Ok }))
    }

    /// Takes a line of a node.
    fn line(
        &mut self,
        nodes: &mut FollowedNodes,
        (node, seq, line): (&str, u64, &str),
    ) -> Result<(), Failure> {
        let event = match SampleLine::read(seq, line)? {
            SampleLine::Event { event, .. } => event,
            SampleLine::Refused(why) => {
                nodes.refused(node, &why);
                return Ok(());
            }
            SampleLine::Other => return Ok(()),
        };
        nodes.count_lost(node, event.dropped);
        if self.append(node, &event)? {
            nodes.count(node, 1);
        }
        let is_full = self.files.get(node).is_some_and(|it| it.is_full);
        if event.ended.is_some() || is_full {
            nodes.done(node);
        }
        Ok(())
    }

    /// Records the sample of an event, if it has one.
    fn append(&mut self, node: &str, event: &Event) -> Result<bool, Failure> {
        let Some(rates) = client::rates(event)? else { return Ok(false) };
        let mut sample = rates.sample;
        sample.notes.retain(|note| !is_approximate_note(note));
        sample.node = node.into();
        // They come in the order of the request; rates need that of identities.
        sample.processes.sort_unstable_by_key(|it| it.id);
        if !set_boot_time(&mut sample) {
            sample.notes.push(Note::missing("the time since boot is not known".to_owned()));
        }
        let file = match self.files.entry(node.to_owned()) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let path = file_of(self.args, node)?;
                let sink = open_sink((self.args, &path), node, sample.backend.name())?;
                entry.insert(NodeFile { sink, missed: 0, is_full: false })
            }
        };
        for note in client::delivery_notes(event, &mut file.missed) {
            file.sink.note(note);
        }
        file.is_full |= file.sink.append(sample)? == OutputState::Closed;
        Ok(true)
    }

    /// Finishes all files, and prints what each has.
    fn finish(&mut self) -> Result<(), Failure> {
        let mut texts = Vec::new();
        let mut failed = None;
        for (node, file) in &mut self.files {
            match file.sink.finish_quietly() {
                Ok(text) => texts.push((node.as_str(), text)),
                Err(failure) => failed = Some(failure),
            }
        }
        let file = self.args.file.display();
        for block in blocks(texts) {
            notice(&format!("{file}.{}: {}", block.set(), block.text));
        }
        failed.map_or(Ok(()), Err)
    }
}

/// Sets the boot clock of the node, which its row has.
fn set_boot_time(sample: &mut Sample) -> bool {
    let uptime = sample.node_stats.as_ref().and_then(|it| it.row.get(NodeField::Uptime));
    if let Some(uptime) = uptime {
        sample.set_boot(Ns(uptime));
    }
    uptime.is_some()
}

/// The file of a node. A name that would be in another folder is none.
fn file_of(args: &RecordArgs, node: &str) -> Result<PathBuf, Failure> {
    if node.contains('/') {
        return Err(Failure::failed(format!("{node:?} cannot be part of the name of a file")));
    }
    let mut name = args.file.clone().into_os_string();
    name.push(format!(".{node}"));
    Ok(name.into())
}
