//! `monitor run --nodes SET -- COMMAND`: runs a command in a session on each of several nodes.
//!
//! In: the command, names and addresses of nodes, standard input, signals. Out: what the programs
//! write, by node; the exit code of the worst. What a session is and may do, the node decides; here
//! are its files, as a client of 9P. Sessions end with this process, however it ends.

mod addresses;
mod copy_tree;
mod input;
mod node_session;
mod plan;
mod printer;
mod program;

use super::args::RunArgs;
use super::client::runtime;
use super::exit::{Exit, Failure};
use super::forwarded_signals::ForwardedSignals;
use super::output::{OutputState, notice};
use super::run::not_started;
use addresses::{Addresses, addresses};
use copy_tree::{CopyTree, TreeSlot};
use input::InputSenders;
use monitor_cluster::node_set;
use monitor_sys::fd_limit;
use node_session::{NodeEnd, NodeError, NodeTask};
use plan::RunPlan;
use printer::{PrintForm, Printer, print_folded};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::broadcast;
use tokio::task::JoinSet;

/// Nodes from which on files are copied over a tree, and sessions that each copies to at a time.
const TREE_NODES: usize = 9;
const TREE_WIDTH: usize = 4;
/// Signals that wait for a session to take them.
const SIGNALS: usize = 16;
/// Codes of a program that is not executed, as in a shell.
const NOT_EXECUTED: u8 = 126;
const ABSENT: u8 = 127;
/// The code of a node that does not answer, as of ssh(1).
const NO_ANSWER: u8 = 255;

/// The nodes of a run.
struct NodeRuns {
    names: Vec<String>,
    /// How each has ended, by its number in the set.
    ends: BTreeMap<usize, NodeEnd>,
    tasks: JoinSet<(usize, Result<NodeEnd, NodeError>)>,
    signals: broadcast::Sender<u32>,
    printer: Printer,
}

/// How the waiting for all nodes ended.
enum Waited {
    /// All have ended.
    All,
    /// The user has interrupted it twice, with this signal at last.
    Interrupted(u32),
    /// The reader of the output has closed it.
    OutputClosed,
}

/// Runs the command on the nodes of a set. Returns the largest of the exit codes.
///
/// # Errors
///
/// When the set, an address or a file of the program is wrong; errors of nodes are printed, and
/// count as exit codes.
pub fn run_nodes(args: &RunArgs, set: &str) -> Result<u8, Failure> {
    let addresses = addresses(&args.on_nodes.at);
    let addresses = addresses.map_err(|why| Failure::usage(format!("--at: {why}")))?;
    let names = node_set::expand(set, &addresses.keys().cloned().collect());
    let names = names.map_err(|why| Failure::usage(format!("--nodes: {why}")))?;
    if names.is_empty() {
        return Err(Failure::usage(format!("--nodes: {set:?} names no node")));
    }
    let names: Vec<String> = names.into_iter().collect();
    let Some(plan) = RunPlan::new(args)? else {
        let absent = std::io::ErrorKind::NotFound.into();
        return Ok(not_started(&args.command[0], &absent));
    };
    // A connection for each node.
    let _limit = fd_limit::raise();
    let form = if args.on_nodes.fold { PrintForm::Folded } else { PrintForm::Lines };
    let is_fed = !args.on_nodes.no_input;
    let slots = slots(args, &plan, names.len());
    let runtime = runtime()?;
    let runs = runtime.block_on(async {
        let mut signals = ForwardedSignals::install()
            .map_err(|why| Failure::failed(format!("cannot wait for signals: {why}")))?;
        let mut runs = NodeRuns::start((names, slots), &addresses, (plan, form, is_fed));
        let waited = runs.wait(&mut signals).await;
        // Connections that are left end here, and their sessions with them.
        runs.tasks.shutdown().await;
        Ok::<_, Failure>((runs, waited))
    });
    let (runs, waited) = runs?;
    runs.finish(&waited)
}

/// The places of nodes in a tree, if the files are copied over one.
fn slots(args: &RunArgs, plan: &RunPlan, nodes: usize) -> Vec<TreeSlot> {
    let named = args.on_nodes.tree;
    let is_used = !plan.program.files.is_empty() && (named.is_some() || nodes >= TREE_NODES);
    let width = named.unwrap_or(TREE_WIDTH);
    if is_used && width > 0 { CopyTree::slots(width, named.is_some(), nodes) } else { Vec::new() }
}

impl NodeRuns {
    fn start(
        (names, mut slots): (Vec<String>, Vec<TreeSlot>),
        addresses: &Addresses,
        (plan, form, is_fed): (RunPlan, PrintForm, bool),
    ) -> Self {
        let (signals, _) = broadcast::channel(SIGNALS);
        let (printer, plan) = (Printer::start(), Arc::new(plan));
        let (mut ends, mut tasks) = (BTreeMap::new(), JoinSet::new());
        let mut inputs = InputSenders::default();
        for (index, name) in names.iter().enumerate() {
            let slot = slots.pop().unwrap_or(TreeSlot::none());
            let Some(address) = addresses.get(name).cloned() else {
                let why = "no address is known: name it with --at NAME=PATH, or in MONITOR_NODES";
                let _first = ends.insert(index, end_of_error(NodeError::NoAnswer(why.to_owned())));
                continue;
            };
            let task = NodeTask {
                index,
                address,
                name: name.clone(),
                plan: Arc::clone(&plan),
                slot,
                input: inputs.add(),
                signals: signals.subscribe(),
                streams: printer.streams(name, form),
            };
            tasks.spawn(async move { (index, node_session::run(task).await) });
        }
        if is_fed {
            inputs.start();
        }
        Self { names, ends, tasks, signals, printer }
    }

    /// Waits for all nodes, and passes signals on. The second signal ends the waiting.
    async fn wait(&mut self, signals: &mut ForwardedSignals) -> Waited {
        let mut is_interrupted = false;
        loop {
            tokio::select! {
                ended = self.tasks.join_next() => match ended {
                    None => return Waited::All,
                    Some(Ok((_, Err(NodeError::OutputClosed)))) => return Waited::OutputClosed,
                    Some(Ok((index, end))) => {
                        let _first = self.ends.insert(index, end.unwrap_or_else(end_of_error));
                    }
                    // A panic, which has printed itself; the node counts as one without an end.
                    Some(Err(_)) => {}
                },
                number = signals.next() => {
                    if is_interrupted {
                        return Waited::Interrupted(number);
                    }
                    is_interrupted = true;
                    // No node may be left to get it.
                    let _nodes = self.signals.send(number);
                }
                () = self.printer.closed() => return Waited::OutputClosed,
            }
        }
    }

    /// Prints what is left, and how nodes ended. Returns the largest exit code.
    fn finish(mut self, waited: &Waited) -> Result<u8, Failure> {
        if self.printer.finish()? == OutputState::Closed || matches!(waited, Waited::OutputClosed) {
            return Ok(Exit::Ok as u8);
        }
        let mut outputs = Vec::new();
        let mut reports: Vec<(String, Vec<&str>)> = Vec::new();
        let mut worst = 0;
        for (index, name) in self.names.iter().enumerate() {
            let lost = || end_of_error(NodeError::NoAnswer("its end was not awaited".to_owned()));
            let end = self.ends.remove(&index).unwrap_or_else(lost);
            worst = worst.max(end.code);
            outputs.push((name.clone(), end.output));
            match reports.iter_mut().find(|it| it.0 == end.report) {
                _ if end.report.is_empty() => {}
                Some((_, nodes)) => nodes.push(name),
                None => reports.push((end.report, vec![name])),
            }
        }
        print_folded(&outputs)?;
        for (report, nodes) in reports {
            notice(&format!("{}: {report}", node_set::fold(nodes)));
        }
        Ok(match waited {
            // As a shell returns it.
            Waited::Interrupted(number) => u8::try_from(128 + number).unwrap_or(u8::MAX),
            Waited::All | Waited::OutputClosed => worst,
        })
    }
}

/// An error of a node, as it counts and is printed.
fn end_of_error(error: NodeError) -> NodeEnd {
    let (code, report) = match error {
        NodeError::NoAnswer(why) => (NO_ANSWER, why),
        NodeError::Refused(why) => (NOT_EXECUTED, format!("not run: {why}")),
        NodeError::NotExecuted { why, is_absent } => {
            (if is_absent { ABSENT } else { NOT_EXECUTED }, format!("not executed: {why}"))
        }
        NodeError::OutputClosed => (0, String::new()),
    };
    NodeEnd { code, report, output: Vec::new() }
}
