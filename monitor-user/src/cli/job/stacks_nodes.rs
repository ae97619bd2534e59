//! `monitor job stacks --nodes`: where the ranks of one job are, on the nodes of a set.
//!
//! In: a job, a set of nodes, each of which executes `job_stacks`. Out: the stacks of all ranks,
//! merged into one tree and one list of places. Nodes look at about the same time, not at the same
//! moment.

use super::args::JobStacksArgs;
use super::job_on_nodes::{JobOnNodes, text};
use super::merged_stacks::MergedStacks;
use crate::cli::client::with_daemon;
use crate::cli::exit::Failure;
use crate::cli::node_replies::MissingNodes;
use monitor_control::rank_stacks::RankStacks;
use monitor_jobs::RankSet;
use monitor_jobs::stack_class::{self, StackClass};
use monitor_jobs::stack_tree::{StackRow, StackTree};
use monitor_omis::Value;
use std::sync::Arc;
use std::time::Duration;

/// Values of a class, of a node of the tree, and of a rank that is missing.
const CLASS_VALUES: usize = 4;
const ROW_VALUES: usize = 6;
const MISSING_VALUES: usize = 4;
/// Most looks, which `job_stacks` has, and the longest time from the first to the last.
const MAX_LOOKS: u16 = 20;
const MAX_TIME: Duration = Duration::from_secs(30);

/// The stacks of the nodes that have replied.
pub struct NodesStacks {
    /// The stacks.
    pub stacks: MergedStacks,
    /// The nodes without.
    pub missing: MissingNodes,
    /// Whether a node has refused it for lack of rights.
    pub is_denied: bool,
}

/// Reads the stacks of the ranks on the nodes.
///
/// # Errors
/// No node has the job, or several jobs have this name; there are too many looks; the set is none,
/// or no service answers.
pub fn read(args: &JobStacksArgs, on: (&str, Duration)) -> Result<NodesStacks, Failure> {
    let lasts = args.every * u32::from(args.count.saturating_sub(1));
    if args.count > MAX_LOOKS || lasts > MAX_TIME {
        let why = format!("--nodes: at most {MAX_LOOKS} looks, and {MAX_TIME:?} in all");
        return Err(Failure::usage(why));
    }
    let socket = args.on_nodes.daemon.socket.as_deref();
    with_daemon(socket, async |client| -> Result<NodesStacks, Failure> {
        let mut job = JobOnNodes::find(&client, on, &args.job).await?;
        let request = |name: &str| request(args, name);
        let mut called = job.call_each(&client, (on.1, lasts), request).await?;
        let taken = called.take(NodeStacks::from_results).into_iter();
        let stacks = merged((args, &job), taken.map(|it| it.1));
        Ok(NodesStacks { stacks, missing: called.missing, is_denied: called.is_denied })
    })
}

fn request(args: &JobStacksArgs, name: &str) -> String {
    let threads = if args.threads { "all" } else { "first" };
    let looks = match args.count {
        1 => String::new(),
        n_looks => format!(",{n_looks},{:.3}", args.every.as_secs_f64()),
    };
    let lines = if args.lines { ",\"lines\"" } else { "" };
    format!("job_stacks({},\"{threads}\"{looks}{lines})", Value::from(name))
}

fn merged(
    (args, job): (&JobStacksArgs, &JobOnNodes),
    read: impl Iterator<Item = NodeStacks>,
) -> MergedStacks {
    let mut stacks = RankStacks::default();
    let (mut trees, mut classes, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    let mut looks = usize::from(args.count);
    for node in read {
        stacks.stopped = stacks.stopped.max(node.stopped);
        stacks.lacks_lines |= node.lacks_lines;
        looks = looks.min(node.looks);
        trees.push(node.rows);
        classes.extend(node.classes);
        notes.extend(node.missing);
    }
    let is_partial = !notes.is_empty();
    if stacks.lacks_lines {
        notes.push("--lines is ignored where the files belong to another user".to_owned());
    }
    // Its rows were checked.
    stacks.tree = StackTree::join(trees).unwrap_or_default();
    stacks.classes = stack_class::join(classes);
    let ranks = RankSet::union(stacks.classes.iter().map(|it| &it.ranks));
    stacks.ranks = usize::try_from(ranks.len()).unwrap_or(usize::MAX);
    let (heading, hosts, every) = (job.heading(), job.hosts(), args.every);
    MergedStacks { job: heading, hosts, looks, every, stacks, notes, is_partial }
}

/// What a node says of the stacks of its ranks.
struct NodeStacks {
    rows: Vec<StackRow>,
    classes: Vec<StackClass>,
    /// A note for each rank that could not be read.
    missing: Vec<String>,
    stopped: Duration,
    looks: usize,
    lacks_lines: bool,
}

impl NodeStacks {
    /// Those of a reply; `None` if it is malformed.
    fn from_results(node: &str, results: &[Value]) -> Option<Self> {
        let [classes, rows, missing, stopped, looks, lacks_lines] = results else { return None };
        let rows: Vec<StackRow> =
            rows.list()?.chunks(ROW_VALUES).map(row).collect::<Option<_>>()?;
        StackTree::join([rows.clone()])?;
        let missing = missing.list()?.chunks(MISSING_VALUES).map(|values| {
            let [rank, pid, _, why] = values else { return None };
            let (rank, pid) = (rank.integer::<u32>()?, pid.integer::<u32>()?);
            Some(format!("rank {rank} (process {pid} on {node}): {}", text(why)?))
        });
        Some(Self {
            rows,
            classes: classes.list()?.chunks(CLASS_VALUES).map(class).collect::<Option<_>>()?,
            missing: missing.collect::<Option<_>>()?,
            stopped: Duration::try_from_secs_f64(stopped.float()?).ok()?,
            looks: looks.integer()?,
            lacks_lines: lacks_lines.integer::<u8>()? != 0,
        })
    }
}

fn class(values: &[Value]) -> Option<StackClass> {
    let [ranks, representative, pid, path] = values else { return None };
    let name = |it: &Value| Some(Arc::from(text(it)?));
    Some(StackClass {
        ranks: text(ranks)?.parse().ok()?,
        representative: representative.integer()?,
        pid: pid.integer()?,
        path: path.list()?.iter().map(name).collect::<Option<_>>()?,
    })
}

fn row(values: &[Value]) -> Option<StackRow> {
    let [depth, name, ranks, threads, ends, stayed] = values else { return None };
    Some(StackRow {
        depth: depth.integer()?,
        name: text(name)?.into(),
        ranks: text(ranks)?.parse().ok()?,
        threads: threads.integer()?,
        ends: ends.integer()?,
        stayed: stayed.integer::<u8>()? != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_omis::parse;

    fn results(text: &str) -> Vec<Value> {
        let reply = parse::reply(text.as_bytes()).expect("a reply");
        reply.0.into_iter().next().expect("an answer").results
    }

    #[test]
    fn a_reply_is_stacks_or_malformed() {
        let text = "1 [0] job_stacks(0,[\"0-1\",0,7,[\"main\",\"work\"]],\
                    [0,\"main\",\"0-1\",2,0,0,1,\"work\",\"0-1\",2,2,0],\
                    [2,9,300,\"it is traced\"],0.001,1,0)";
        let read = NodeStacks::from_results("n1", &results(text)).expect("stacks");
        assert_eq!((read.rows.len(), read.classes[0].path.len()), (2, 2));
        assert_eq!(read.missing, ["rank 2 (process 9 on n1): it is traced"]);
        let deep = text.replace("[0,\"main\"", "[1,\"main\"");
        assert!(NodeStacks::from_results("n1", &results(&deep)).is_none());
        let short = "1 [0] job_stacks(0,[],[0,\"main\"],[],0.0,1,0)";
        assert!(NodeStacks::from_results("n1", &results(short)).is_none());
    }
}
