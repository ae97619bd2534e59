//! The ranks of one job over its nodes, as the page shows them.
//!
//! In: which nodes have the job, and their replies to `job_ranks`, one round after the other. Out:
//! a row for each rank with what it uses between two replies of its node, the slowest rank and the
//! imbalance of each parallel job, and the nodes without a reply. Their ranks remain, without
//! values, and are in no comparison.

use monitor_cluster::node_set::fold;
use monitor_jobs::rank_table::Quantity;
use monitor_jobs::straggler::{imbalance, slowest};
use monitor_jobs::{RankRow, RankTable};
use monitor_model::Ns;
use monitor_omis::{Status, Value, parse};
use monitor_protocol::cluster::{Gathered, NodeOutcome, NodeReply};
use monitor_protocol::rollup::JobSummary;
use monitor_services::job::ranks::NodeRank;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Most nodes that are asked, the first by name.
const MAX_NODES: usize = 512;
/// Most rows of an event. Of more, those with the least CPU time are in it.
const MAX_ROWS: usize = 256;
/// Most ranks that are kept of one node.
const MAX_OF_NODE: usize = 4096;

/// What the roll-up has of the job.
#[derive(Debug, Default)]
pub struct RollupPart {
    /// Whether a current record has it.
    is_listed: bool,
    nodes: BTreeSet<String>,
}

impl RollupPart {
    /// Of a job, if the viewer sees it.
    pub fn from_job(job: Option<&JobSummary>) -> Self {
        let nodes = job.into_iter().flat_map(|it| &it.by_node).map(|it| it.node.clone());
        Self { is_listed: job.is_some(), nodes: nodes.collect() }
    }
}

/// The ranks of a job.
#[derive(Default)]
pub struct JobRanks {
    /// By node: those that have ranks, or did not reply.
    nodes: BTreeMap<String, RanksOfNode>,
    /// Number of nodes that are not asked.
    other_nodes: usize,
}

/// The ranks on a node.
struct RanksOfNode {
    /// Each with the id of its parallel job.
    ranks: Vec<(String, NodeRank)>,
    /// Their rows.
    rows: Vec<(String, RankRow)>,
    /// When the reply came that has them, on the boot clock.
    at: Ns,
    /// Why there is no newer one.
    missing: Option<String>,
}

/// What a viewer gets.
#[derive(Debug, PartialEq, Serialize)]
pub struct RanksEvent {
    /// When the roll-up was made, by the realtime clock of the gateway.
    unix_ns: u64,
    /// Whether a current record has the job.
    is_listed: bool,
    /// Its parallel jobs.
    jobs: Vec<ComparedRanks>,
    /// Its ranks.
    ranks: Vec<ShownRank>,
    /// Number of ranks that are not shown: they have more CPU time.
    other_ranks: usize,
    /// Number of nodes that were not asked.
    other_nodes: usize,
    /// The nodes without a reply, as a set, and why.
    missing: Vec<MissingReplies>,
    /// What else is to be known.
    notes: Vec<String>,
}

/// The ranks of a parallel job, compared.
#[derive(Debug, PartialEq, Serialize)]
struct ComparedRanks {
    id: String,
    /// Number of its ranks with current values.
    n_ranks: usize,
    /// The rank with the least CPU time, and its node; absent for one rank.
    slowest: Option<(u32, String)>,
    /// Imbalance of the CPU time, percent; absent for one rank.
    imbalance_percent: Option<f64>,
}

/// A rank.
#[derive(Debug, PartialEq, Serialize)]
struct ShownRank {
    job: String,
    rank: u32,
    node: String,
    pid: u32,
    program: String,
    /// Why it has no values: the node did not reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<String>,
    #[serde(flatten)]
    values: RankUse,
}

/// What a rank uses.
#[derive(Debug, Default, PartialEq, Serialize)]
struct RankUse {
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<char>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_percent: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_delay_percent: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rss_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_ns: Option<u64>,
    /// The quantity in which it is far from the median of the ranks, and by how much.
    #[serde(skip_serializing_if = "Option::is_none")]
    straggles_by: Option<(&'static str, f64)>,
}

/// Nodes without a reply.
#[derive(Debug, PartialEq, Serialize)]
struct MissingReplies {
    nodes: String,
    why: String,
}

impl JobRanks {
    /// The nodes that are asked, as a set: those that have the job, and those that had ranks of it.
    /// `None` if there is none.
    pub fn targets(&mut self, part: &RollupPart) -> Option<String> {
        let all: BTreeSet<&String> = part.nodes.iter().chain(self.nodes.keys()).collect();
        self.other_nodes = all.len().saturating_sub(MAX_NODES);
        let asked: Vec<&str> = all.into_iter().take(MAX_NODES).map(String::as_str).collect();
        (!asked.is_empty()).then(|| fold(asked))
    }

    /// Takes the replies to a command that was sent then, on the boot clock.
    pub fn take(&mut self, gathered: Gathered, sent: Ns) {
        for reply in gathered.nodes {
            let at = Ns(sent.0 + reply.late_ns.unwrap_or_default());
            match ranks_of(&reply) {
                Ok(ranks) if ranks.is_empty() => drop(self.nodes.remove(&reply.node)),
                Ok(ranks) => {
                    let earlier = self.nodes.get(&reply.node);
                    let rows = rows(&reply.node, &ranks, earlier, at);
                    let of_node = RanksOfNode { ranks, rows, at, missing: None };
                    drop(self.nodes.insert(reply.node, of_node));
                }
                Err(why) => {
                    let none = || RanksOfNode { ranks: vec![], rows: vec![], at, missing: None };
                    self.nodes.entry(reply.node).or_insert_with(none).missing = Some(why);
                }
            }
        }
    }

    /// What viewers get.
    pub fn table(&self, part: &RollupPart, unix_ns: u64) -> RanksEvent {
        let (mut by_job, notes) = self.by_job();
        let jobs = by_job.iter().map(|(id, rows)| compared(id, rows)).collect();
        let mut ranks = Vec::new();
        for (id, rows) in &mut by_job {
            *rows = RankTable::of_rows(std::mem::take(rows)).rows;
            ranks.extend(rows.iter().map(|row| ShownRank::current(id, row)));
        }
        let current: BTreeSet<(String, u32)> =
            ranks.iter().map(|it| (it.job.clone(), it.rank)).collect();
        for (node, of_node) in &self.nodes {
            let Some(why) = &of_node.missing else { continue };
            let is_absent =
                |(id, rank): &&(String, NodeRank)| !current.contains(&(id.clone(), rank.rank));
            let absent = of_node.ranks.iter().filter(is_absent);
            ranks.extend(absent.map(|(id, rank)| ShownRank::missing((id, rank), (node, why))));
        }
        let other_ranks = ranks.len().saturating_sub(MAX_ROWS);
        if other_ranks > 0 {
            // Those that have no values come last.
            ranks.sort_by_key(|it| it.values.cpu_ns.unwrap_or(u64::MAX));
            ranks.truncate(MAX_ROWS);
        }
        ranks.sort_by(|a, b| (&a.job, a.rank, &a.node).cmp(&(&b.job, b.rank, &b.node)));
        let (other_nodes, missing) = (self.other_nodes, self.missing());
        let is_listed = part.is_listed;
        RanksEvent { unix_ns, is_listed, jobs, ranks, other_ranks, other_nodes, missing, notes }
    }

    /// The rows with current values, by parallel job. A rank that several nodes have is counted
    /// once, which a note says.
    fn by_job(&self) -> (BTreeMap<&str, Vec<RankRow>>, Vec<String>) {
        let mut found: BTreeMap<(&str, u32), &RankRow> = BTreeMap::new();
        let mut notes = Vec::new();
        for of_node in self.nodes.values().filter(|it| it.missing.is_none()) {
            for (id, row) in &of_node.rows {
                if let Some(other) = found.get(&(id.as_str(), row.rank)) {
                    let (rank, one, two) = (row.rank, &other.host, &row.host);
                    let note = format!(
                        "rank {rank} of job {id} is on {one} and on {two}: they see the same \
                         processes; it is counted once"
                    );
                    // One such rank is enough to know.
                    notes = vec![note];
                    continue;
                }
                let _ = found.insert((id, row.rank), row);
            }
        }
        let mut by_job: BTreeMap<&str, Vec<RankRow>> = BTreeMap::new();
        for ((id, _), row) in found {
            by_job.entry(id).or_default().push(row.clone());
        }
        (by_job, notes)
    }

    fn missing(&self) -> Vec<MissingReplies> {
        let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (node, of_node) in &self.nodes {
            if let Some(why) = &of_node.missing {
                by_reason.entry(why).or_default().push(node);
            }
        }
        let by_reason = by_reason.into_iter();
        by_reason
            .map(|(why, nodes)| MissingReplies { nodes: fold(nodes), why: why.into() })
            .collect()
    }
}

/// The ranks in a reply.
///
/// # Errors
/// There is none, or it is an error; why.
fn ranks_of(reply: &NodeReply) -> Result<Vec<(String, NodeRank)>, String> {
    let Some(text) = &reply.reply else {
        let why = match reply.outcome {
            NodeOutcome::Missing => "no reply",
            NodeOutcome::Expired => "not executed in time",
            NodeOutcome::Executed | NodeOutcome::Refused => "no reply, and no reason",
        };
        return Err(reply.why.clone().unwrap_or_else(|| why.to_owned()));
    };
    let malformed = || "its reply is malformed".to_owned();
    let answers = parse::reply(text.as_bytes()).map_err(|_| malformed())?.0;
    let answer = answers.first().ok_or_else(malformed)?;
    if answer.status != Status::OK {
        let detail = answer.results.iter().find_map(Value::text);
        let detail = detail.map(|text| text.to_str_lossy().into_owned());
        return Err(detail.unwrap_or_else(|| format!("status {}", answer.status.0)));
    }
    let mut ranks = NodeRank::of_jobs(&answer.results).ok_or_else(malformed)?;
    ranks.truncate(MAX_OF_NODE);
    Ok(ranks)
}

/// The rows of a node, with what they use since its last reply.
fn rows(
    node: &str,
    ranks: &[(String, NodeRank)],
    before: Option<&RanksOfNode>,
    at: Ns,
) -> Vec<(String, RankRow)> {
    let earlier: BTreeMap<(&str, u32, u32), &NodeRank> = before
        .into_iter()
        .flat_map(|it| &it.ranks)
        .map(|(id, rank)| ((id.as_str(), rank.rank, rank.pid), rank))
        .collect();
    let apart_s = before.map_or(0.0, |it| at.since(it.at).seconds());
    let row = |(id, rank): &(String, NodeRank)| {
        let earlier = earlier.get(&(id.as_str(), rank.rank, rank.pid)).copied();
        (id.clone(), rank.row(node, earlier, apart_s))
    };
    ranks.iter().map(row).collect()
}

fn compared(id: &str, rows: &[RankRow]) -> ComparedRanks {
    let times: Option<Vec<(&RankRow, f64)>> =
        rows.iter().map(|row| Some((row, row.cpu_ns?))).collect();
    let times = times.unwrap_or_default();
    let imbalance_percent = imbalance(times.iter().map(|it| it.1)).map(rounded);
    let slowest = slowest(times).map(|row| (row.rank, row.host.to_string()));
    ComparedRanks { id: id.to_owned(), n_ranks: rows.len(), slowest, imbalance_percent }
}

impl ShownRank {
    fn current(id: &str, row: &RankRow) -> Self {
        let percent = |quantity| row.value(quantity).map(rounded);
        let straggles_by = row.straggles_by();
        let values = RankUse {
            state: Some(row.state),
            cpu_percent: percent(Quantity::Cpu),
            run_delay_percent: percent(Quantity::Delay),
            // A sum of whole bytes.
            rss_bytes: row.value(Quantity::Memory).map(|bytes| bytes as u64),
            cpu_ns: row.cpu_ns.map(|ns| ns as u64),
            straggles_by: straggles_by.map(|(by, it)| (by.name(), rounded(it.difference))),
        };
        Self {
            job: id.to_owned(),
            rank: row.rank,
            node: row.host.to_string(),
            pid: row.process.pid.0,
            program: file_name(&row.executable),
            missing: None,
            values,
        }
    }

    fn missing((id, rank): (&str, &NodeRank), (node, why): (&str, &str)) -> Self {
        Self {
            job: id.to_owned(),
            rank: rank.rank,
            node: node.to_owned(),
            pid: rank.pid,
            program: file_name(&rank.executable),
            missing: Some(why.to_owned()),
            values: RankUse::default(),
        }
    }
}

fn file_name(path: &str) -> String {
    path.rsplit('/').next().unwrap_or_default().to_owned()
}

/// One digit after the point is what is shown.
fn rounded(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests;
