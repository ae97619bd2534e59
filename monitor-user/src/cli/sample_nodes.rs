//! `monitor sample --nodes`: one sample of each node of a set, as rows of one output.
//!
//! In: what is read, a set of nodes. Out: the rows of all nodes with the name of their node, in any
//! format: a column, a label, or a sample for each node. Each node selects and sorts its rows.

use super::args::{ReadingArgs, SampleArgs};
use super::client::{self, with_daemon};
use super::columns::SampleMode;
use super::exit::{Exit, Failure};
use super::node_blocks::blocks;
use super::node_replies::{NodeReplies, gather_call};
use super::output::{self, Output, notice};
use super::plan::Plan;
use monitor_client::{Client, Event, MonitorRequest, SampleReply};
use monitor_format::{Frame, OutputFormat, Viewport, loss_text};
use monitor_model::rates::Rates;
use monitor_protocol::call::Call;
use monitor_protocol::cluster::NodeOutcome;
use std::time::Duration;

/// Reads and prints one sample of each node.
pub fn sample_nodes(args: &SampleArgs, on: (&str, Duration)) -> Result<Exit, Failure> {
    check(args)?;
    let mut plan = Plan::resolve(&args.reading, SampleMode::Once)?;
    plan.rate_note(&args.reading.fields).iter().for_each(|note| notice(note));
    plan.layout.names_nodes = true;
    with_daemon(args.reader.socket.as_deref(), async |client| print(args, plan, on, &client).await)
}

/// Refuses options that other nodes do not have.
///
/// # Errors
/// There is one.
pub fn check(args: &SampleArgs) -> Result<(), Failure> {
    if args.log.level() > 0 {
        return Err(Failure::usage("--nodes: the log of BPF programs is that of this node alone"));
    }
    check_reading(&args.reading)
}

/// What a reading of other nodes does not have.
///
/// # Errors
/// It is asked for.
pub fn check_reading(args: &ReadingArgs) -> Result<(), Failure> {
    if args.signals {
        return Err(Failure::usage("--nodes: samples of other nodes have no --signals"));
    }
    Ok(())
}

async fn print(
    args: &SampleArgs,
    plan: Plan,
    on: (&str, Duration),
    client: &Client,
) -> Result<Exit, Failure> {
    // Other forms than that of PMIx are made of the same sample.
    let request = MonitorRequest { pmix: false, ..plan.request.clone() };
    let found = gather_call(client, on, &Call::Monitor(Box::new(request))).await?;
    let NodeReplies { replies, mut missing } = found;
    let mut samples = Vec::new();
    for (node, result) in replies {
        match NodeSample::read(&node, result.get()) {
            Ok(Some(sample)) => samples.push(sample),
            Ok(None) => {}
            Err(why) => missing.add(&node, (NodeOutcome::Refused, &why.message)),
        }
    }
    let mut output = args.reading.output.clone().map_or(Output::Stream, Output::Replace);
    let room = output.room();
    let frames: Vec<Frame<'_>> = samples.iter().map(|it| it.frame(room)).collect();
    let mut writer = plan.form.writer(plan.layout, output::paint(&output));
    let mut bytes = Vec::new();
    writer.write_nodes(&frames, &mut bytes);
    writer.finish(&mut bytes);
    output.put(&bytes)?;
    if plan.form != OutputFormat::Json {
        new_notes(&samples, |_, _| true).iter().for_each(|note| notice(note));
    }
    let is_partial = samples.iter().any(|it| it.is_partial);
    let exit = if is_partial { Exit::Partial } else { Exit::Ok };
    let exit = missing.end(samples.len(), exit);
    Ok(selected(args, &samples, exit))
}

/// The exit code; if options select processes and no node has one, that is printed.
fn selected(args: &SampleArgs, samples: &[NodeSample], exit: Exit) -> Exit {
    let options = args.reading.selecting_options();
    if options.is_empty() || samples.is_empty() || samples.iter().any(|it| it.matched > 0) {
        return exit;
    }
    let rows = if args.reading.group_by.is_some() { "group" } else { "process" };
    notice(&format!("no {rows} matches {options} on these nodes"));
    if exit == Exit::Ok && args.reading.names_processes() { Exit::NoTarget } else { exit }
}

/// The sample of a node.
pub struct NodeSample {
    rates: Rates,
    matched: usize,
    /// Whether requested data is missing.
    pub is_partial: bool,
}

impl NodeSample {
    /// Reads the result of `monitor`; `None` if it has no sample.
    ///
    /// # Errors
    /// It is no such result.
    pub fn read(node: &str, result: &str) -> Result<Option<Self>, Failure> {
        let SampleReply { event, partial, .. } = SampleReply::from_result(result)?;
        Self::of_event(node, &event, partial)
    }

    /// Reads an event; `None` if it has no sample.
    ///
    /// # Errors
    /// Its sample is malformed.
    pub fn of_event(node: &str, event: &Event, is_partial: bool) -> Result<Option<Self>, Failure> {
        let Some(mut rates) = client::rates(event)? else { return Ok(None) };
        // Nodes are named as the cluster names them; several may be on one host.
        rates.sample.node = node.into();
        rates.sample.relayed = true;
        let matched = event.matched.and_then(|it| usize::try_from(it).ok());
        let matched = matched.unwrap_or(rates.sample.processes.len());
        Ok(Some(Self { rates, matched, is_partial }))
    }

    /// Its frame.
    pub fn frame(&self, viewport: Viewport) -> Frame<'_> {
        let Self { rates, matched, .. } = self;
        let (processes, events) = (&rates.sample.processes, &rates.sample.events);
        Frame { rates, processes, matched: *matched, events, viewport }
    }
}

/// A line for each note of the nodes, equal ones once; of those that are to be printed.
pub fn new_notes<'a>(
    samples: impl IntoIterator<Item = &'a NodeSample>,
    mut is_new: impl FnMut(&str, &str) -> bool,
) -> Vec<String> {
    let all = samples.into_iter().flat_map(|own| {
        let sample = &own.rates.sample;
        let lost = sample.lost.iter().filter(|it| !it.is_none()).map(loss_text);
        let notes = sample.notes.iter().map(|note| note.text.clone()).chain(lost);
        notes.map(|text| (&*sample.node, text))
    });
    let new = all.filter(|(node, text)| is_new(node, text));
    blocks(new).iter().map(|block| format!("{}: {}", block.set(), block.text)).collect()
}
