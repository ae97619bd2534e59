//! `monitor start`, `list`, `cancel` and `events` with `--nodes`: monitors of the services of a set
//! of nodes.
//!
//! In: the arguments, a set of nodes. Out: what each node replies, equal replies once; samples with
//! the name of their node. Nodes need `cluster.control_from` for the node of the command: what is
//! left there changes them.

use super::args::daemon::{CancelArgs, DaemonReportArgs, EventsArgs, StartArgs};
use super::client::{connect, runtime, with_daemon};
use super::columns::SampleMode;
use super::event_writer::EventWriter;
use super::exit::{Exit, Failure};
use super::followed_nodes::{FollowedItem, FollowedNodes};
use super::monitors::{event_writer, interval_text, request, table};
use super::node_blocks::blocks;
use super::node_replies::{NodeReplies, call_result, gather_call};
use super::output::{self, Output, OutputState};
use super::plan::Plan;
use super::run_loop::{EndSignals, tick};
use super::sample_lines;
use super::sample_nodes::check_reading;
use super::watch_nodes::{PrintedSeries, SAMPLES};
use monitor_client::{Cancel, MonitorRequest};
use monitor_format::human;
use monitor_protocol::answer::{Cancelled, MonitorSummary};
use monitor_protocol::call::Call;
use monitor_protocol::params::MonitorName;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use tokio::time::Instant;

/// Starts the monitor at each node, and prints its samples or leaves it there.
///
/// # Errors
/// No service answers, or the set of nodes is none.
pub fn start(args: &StartArgs, on: (&str, Duration)) -> Result<Exit, Failure> {
    let plan = Plan::resolve(&args.reading, SampleMode::Periodic)?;
    if !args.detach {
        check_reading(&args.reading)?;
        let request = request(args, &plan);
        let printed = PrintedSeries { reading: &args.reading, plan, every: args.every };
        return printed.follow(args.daemon.socket.as_deref(), on, request);
    }
    let call = Call::Monitor(Box::new(MonitorRequest { pmix: false, ..request(args, &plan) }));
    let NodeReplies { replies, missing } = ask(args.daemon.socket.as_deref(), on, &call)?;
    if replies.is_empty() {
        return Ok(missing.end(0, Exit::Ok));
    }
    let done = blocks(replies.iter().map(|(node, _)| (node.as_str(), ())));
    let nodes: String = done.iter().map(|it| human::escaped_text(&it.set())).collect();
    let (every, lease) = (interval_text(args.every), interval_text(args.lease));
    let name = &args.name;
    let text = format!(
        "monitor {name:?} reads every {every} on {nodes}; it is cancelled {lease} after it was \
         last read\n\
         read:   monitor events {name} --nodes {nodes} --follow\n\
         cancel: monitor cancel {name} --nodes {nodes}\n"
    );
    let exit = output::print(text.as_bytes())?;
    Ok(missing.end(replies.len(), exit))
}

fn ask(
    socket: Option<&Path>,
    on: (&str, Duration),
    call: &Call,
) -> Result<NodeReplies<Box<RawValue>>, Failure> {
    with_daemon(socket, async |client| gather_call(&client, on, call).await)
}

/// Reads a result.
fn read<T: DeserializeOwned>(result: &RawValue) -> Result<T, Failure> {
    serde_json::from_str(result.get()).map_err(Failure::failed)
}

/// Lists the monitors of each node.
///
/// # Errors
/// No service answers, or the set of nodes is none.
pub fn list(args: &DaemonReportArgs, on: (&str, Duration)) -> Result<Exit, Failure> {
    let NodeReplies { replies, missing } = ask(args.daemon.socket.as_deref(), on, &Call::List)?;
    let mut listed: Vec<(&str, Vec<MonitorSummary>)> = Vec::new();
    for (node, result) in &replies {
        listed.push((node, read(result)?));
    }
    let text = if args.printed.is_json() {
        let nodes =
            listed.iter().map(|(node, monitors)| json!({ "node": node, "monitors": monitors }));
        let nodes: Vec<Json> = nodes.collect();
        let others = missing.to_json();
        output::json(&json!({ "schema_version": 1, "nodes": nodes, "others": others }))?
    } else {
        let tables = blocks(listed.iter().map(|(node, monitors)| (*node, table(monitors))));
        tables.iter().map(|block| block.heading() + &block.text).collect()
    };
    let exit = output::print(text.as_bytes())?;
    Ok(missing.end(replies.len(), exit))
}

/// Cancels one monitor or all at each node, and prints their names.
///
/// # Errors
/// No service answers, or the set of nodes is none.
pub fn cancel(args: &CancelArgs, on: (&str, Duration)) -> Result<Exit, Failure> {
    let which = Cancel {
        id: args.name.clone(),
        all: args.all,
        requestor: args.requestor,
        ..Cancel::default()
    };
    let NodeReplies { replies, missing } =
        ask(args.daemon.socket.as_deref(), on, &Call::Cancel(which))?;
    let mut names: Vec<(&str, String)> = Vec::new();
    for (node, result) in &replies {
        let ended: Cancelled = read(result)?;
        names.extend(ended.cancelled.into_iter().map(|id| (node.as_str(), id)));
    }
    let line = |set: String, name: &str| {
        format!("{}: {}\n", human::escaped_text(&set), human::escaped_text(name))
    };
    let lines: String = blocks(names).iter().map(|block| line(block.set(), &block.text)).collect();
    let exit = output::print(lines.as_bytes())?;
    Ok(missing.end(replies.len(), exit))
}

/// Prints the samples that the nodes have kept of a monitor, and new ones.
///
/// # Errors
/// The monitor is not named, no service answers, or the set of nodes is none.
pub fn events(args: &EventsArgs, on: (&str, Duration)) -> Result<Exit, Failure> {
    let name = args.name.clone().ok_or_else(|| Failure::usage("--nodes: name the monitor"))?;
    let call = Call::Attach(MonitorName { id: name.as_str().into() });
    runtime()?.block_on(async {
        let signals = EndSignals::install()?;
        let client = connect(args.daemon.socket.as_deref()).await?;
        let nodes = FollowedNodes::start(&client, on, vec![call.to_text()], SAMPLES).await?;
        KeptSamples { args, nodes, left: BTreeMap::new(), writers: BTreeMap::new() }
            .print(signals)
            .await
    })
}

/// The samples of a monitor of many nodes.
struct KeptSamples<'a> {
    args: &'a EventsArgs,
    nodes: FollowedNodes,
    /// Without --follow, the number of kept samples of each node that are to come.
    left: BTreeMap<String, usize>,
    writers: BTreeMap<String, EventWriter>,
}

impl KeptSamples<'_> {
    async fn print(mut self, mut signals: EndSignals) -> Result<Exit, Failure> {
        let end = self.args.span.map(|span| Instant::now() + span);
        let mut exit = Exit::Ok;
        while !self.nodes.is_over() {
            let item = tokio::select! {
                biased;
                end = signals.recv() => {
                    exit = end.exit();
                    break;
                }
                () = tick(end) => break,
                item = self.nodes.next() => item?,
            };
            if let FollowedItem::Line(node, seq, line) = item
                && self.line((&node, seq, &line))? == OutputState::Closed
            {
                return Ok(Exit::Ok);
            }
        }
        let is_partial = self.writers.values().any(|it| it.exit() != Exit::Ok);
        Ok(self.nodes.end(if is_partial && exit == Exit::Ok { Exit::Partial } else { exit }))
    }

    /// Takes the reply of a node, or a sample.
    fn line(&mut self, (node, seq, line): (&str, u64, &str)) -> Result<OutputState, Failure> {
        #[derive(Deserialize)]
        struct Attached {
            kept: usize,
        }
        if seq == 0 {
            match call_result(line) {
                Ok(result) => {
                    let Attached { kept } = read(&result)?;
                    self.left.insert(node.to_owned(), kept);
                    self.is_read(node);
                }
                Err(why) => self.nodes.refused(node, &why),
            }
            return Ok(OutputState::Open);
        }
        let Some(mut event) = sample_lines::event(line) else { return Ok(OutputState::Open) };
        self.nodes.count_lost(node, event.dropped);
        self.nodes.count(node, u64::from(event.sample.is_some()));
        // Nodes are named as the cluster names them; several may be on one host.
        event.node = node.to_owned();
        let writer = self.writers.entry(node.to_owned());
        let writer = writer.or_insert_with(|| event_writer(self.args));
        let mut bytes = Vec::new();
        if !self.args.printed.is_json() && event.sample.is_some() {
            bytes.extend(format!("{}: ", human::escaped_text(node)).into_bytes());
        }
        let room = Output::Stream.room();
        bytes.extend(writer.write(&event, room)?);
        if let Some(left) = self.left.get_mut(node) {
            *left = left.saturating_sub(1);
        }
        if event.ended.is_some() {
            self.nodes.done(node);
        }
        self.is_read(node);
        Output::Stream.put(&bytes)
    }

    /// Without --follow, a node is done when it has sent what was kept.
    fn is_read(&mut self, node: &str) {
        if !self.args.follow && self.left.get(node) == Some(&0) {
            self.nodes.done(node);
        }
    }
}
