//! `monitor job show --nodes`: the ranks of one job on the nodes of a set, in one table.
//!
//! In: a job, a set of nodes. Out: each rank with its node, what it uses between two replies of its
//! node, and how far that is from the median of all ranks; as a table or JSON.

use super::args::JobShowArgs;
use super::job_on_nodes::{JobOnNodes, NodePart};
use super::show::{medians_json, rank_json};
use super::show_text::{HostColumn, rank_lines};
use crate::cli::client::with_daemon;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output;
use monitor_format::human;
use monitor_jobs::{RankRow, RankTable};
use monitor_model::Ns;
use monitor_services::job::ranks::NodeRank;
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// Prints the ranks of a job on the nodes.
///
/// # Errors
/// No node has the job, or several jobs have this name; the set is none, or no service answers.
pub fn show_nodes(args: &JobShowArgs, on: (&str, Duration)) -> Result<Exit, Failure> {
    let socket = args.on_nodes.daemon.socket.as_deref();
    with_daemon(socket, async |client| -> Result<Exit, Failure> {
        let (begun, before) = (Instant::now(), JobOnNodes::find(&client, on, &args.job).await?);
        sleep(args.span.saturating_sub(begun.elapsed())).await;
        // The second request is about the same job.
        let (again, after) = (Instant::now(), JobOnNodes::find(&client, on, &before.id).await?);
        let ranks = NodeRanks::new(&before, after, again.duration_since(begun));
        let text = match args.format.as_str() {
            "json" => output::json(&ranks.to_json())?,
            _ => ranks.to_text(),
        };
        let exit = output::print(text.as_bytes())?;
        Ok(ranks.job.missing.end(ranks.job.parts.len(), exit))
    })
}

/// The ranks of a job on nodes, measured.
struct NodeRanks {
    job: JobOnNodes,
    table: RankTable,
    interval: Duration,
    notes: Vec<String>,
}

impl NodeRanks {
    /// Two replies of each node, to requests that were sent so far apart.
    fn new(before: &JobOnNodes, job: JobOnNodes, apart: Duration) -> Self {
        let mut rows = Vec::new();
        for (node, part) in &job.parts {
            let earlier = before.parts.get(node);
            let late = |of: &JobOnNodes| of.late.get(node).copied().unwrap_or_default();
            // Between the replies of this node.
            let apart = (apart + late(&job)).saturating_sub(late(before)).as_secs_f64();
            for rank in &part.ranks {
                let is_same = |it: &&NodeRank| (it.rank, it.pid) == (rank.rank, rank.pid);
                let earlier = earlier.and_then(|part| part.ranks.iter().find(is_same));
                rows.push(rank.row(node, earlier, apart));
            }
        }
        rows.sort_by(|a: &RankRow, b| (a.rank, &a.host).cmp(&(b.rank, &b.host)));
        let notes = ended(before, &job).into_iter().chain(repeated(&rows)).collect();
        Self { table: RankTable::of_rows(rows), job, interval: apart, notes }
    }

    fn to_text(&self) -> String {
        let id = human::escaped_text(&self.job.id);
        let of_parts = |value: fn(&NodePart) -> &str| {
            let all: BTreeSet<&str> = self.job.parts.values().map(value).collect();
            human::escaped_text(&all.into_iter().collect::<Vec<_>>().join(", "))
        };
        let (runtime, state) = (of_parts(|it| &it.runtime), of_parts(|it| &it.state));
        let launcher = self.job.parts.iter().find_map(|(node, part)| Some((node, part.launcher?)));
        let launcher = match launcher {
            Some((node, pid)) => format!("launcher {pid} on {}", human::escaped_text(node)),
            None => "launcher elsewhere".to_owned(),
        };
        let nodes = human::escaped_text(&self.job.nodes());
        let time = human::duration_text(self.interval.as_nanos() as f64);
        let n = self.table.rows.len();
        let ranks = if n == 1 { "rank" } else { "ranks" };
        let mut out = format!("job {id}: {runtime}, {state}\n");
        out += &format!("{launcher}, {n} {ranks} on {nodes}, measured over {time}\n");
        rank_lines((&self.table.rows, &self.notes), HostColumn::Shown, &mut out);
        out
    }

    fn to_json(&self) -> Json {
        let parts: BTreeMap<&String, Json> = self
            .job
            .parts
            .iter()
            .map(|(node, part)| {
                let NodePart { runtime, state, launcher, .. } = part;
                (node, json!({ "runtime": runtime, "state": state, "launcher_pid": launcher }))
            })
            .collect();
        json!({
            "schema_version": 1,
            "interval_ns": Ns::from(self.interval).0,
            "job": {
                "id": self.job.id,
                "nodes": parts,
                "ranks": self.table.rows.iter().map(rank_json).collect::<Json>(),
            },
            "medians": medians_json(&self.table.rows),
            "notes": self.notes,
            "others": self.job.missing.to_json(),
        })
    }
}

/// The note about ranks that ended between the replies.
fn ended(before: &JobOnNodes, job: &JobOnNodes) -> Option<String> {
    let ended = before.ranks();
    let left = job.ranks();
    let ended: monitor_jobs::RankSet = ended.iter().filter(|rank| !left.contains(*rank)).collect();
    let ranks = if ended.len() == 1 { "rank" } else { "ranks" };
    (!ended.is_empty()).then(|| format!("{ranks} {ended} ended while the job was measured"))
}

/// The note about ranks that several nodes have: services that see the same processes.
fn repeated(rows: &[RankRow]) -> Option<String> {
    let pair = rows.windows(2).find(|pair| pair[0].rank == pair[1].rank)?;
    let [rank, one, other] = [&pair[0].rank.to_string(), &*pair[0].host, &*pair[1].host];
    Some(format!("rank {rank} is on {one} and on {other}: they see the same processes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_jobs::rank_table::Quantity;

    fn rank(number: u32, cpu_s: f64) -> NodeRank {
        NodeRank {
            rank: number,
            pid: 70 + number,
            executable: "/a/b".into(),
            state: 'R',
            cpu_s: Some(cpu_s),
            delay_s: None,
            rss_bytes: Some(1 << 20),
        }
    }

    fn job(ranks: &[(&str, Vec<NodeRank>)]) -> JobOnNodes {
        let part = |(node, ranks): &(&str, Vec<NodeRank>)| {
            let (runtime, state) = ("prrte".to_owned(), "running".to_owned());
            let launcher = (*node == "n1").then_some(6);
            ((*node).to_owned(), NodePart { runtime, state, launcher, ranks: ranks.clone() })
        };
        let parts = ranks.iter().map(part).collect();
        let (named, late, missing) = (None, BTreeMap::new(), Default::default());
        JobOnNodes { id: "a@1".into(), named, parts, late, missing }
    }

    #[test]
    fn ranks_of_all_nodes_are_compared_in_one_table() {
        let at = |seconds: f64| {
            job(&[("n1", vec![rank(0, seconds), rank(2, seconds)]), ("n2", vec![rank(1, 0.0)])])
        };
        let found = NodeRanks::new(&at(1.0), at(1.5), Duration::from_secs(1));
        let text = found.to_text();
        let lines: Vec<_> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        let head =
            "job a@1: prrte, running\nlauncher 6 on n1, 3 ranks on n[1-2], measured over 1.0s";
        assert!(text.starts_with(head), "{text}");
        let lines: Vec<Vec<&str>> = lines;
        assert_eq!(lines[2][..4], ["RANK", "NODE", "PID", "S"]);
        assert_eq!(lines[3][..5], ["0", "n1", "70", "R", "50.0"]);
        assert_eq!(lines[4][..5], ["1", "n2", "71", "R", "0.0"]);
        let json = found.to_json();
        assert_eq!(json["job"]["ranks"][1]["host"], "n2");
        assert_eq!(
            (&json["notes"], &json["job"]["nodes"]["n2"]["launcher_pid"]),
            (&json!([]), &Json::Null)
        );
    }

    #[test]
    fn ranks_that_end_or_are_on_two_nodes_are_noted() {
        let before = job(&[("n1", vec![rank(0, 1.0), rank(1, 1.0)])]);
        let found = NodeRanks::new(&before, job(&[("n1", vec![rank(0, 1.0)])]), Duration::ZERO);
        assert_eq!(found.notes, ["rank 1 ended while the job was measured"]);
        assert_eq!(found.table.rows[0].value(Quantity::Cpu), None);
        let both = || job(&[("n1", vec![rank(0, 1.0)]), ("n2", vec![rank(0, 1.0)])]);
        let found = NodeRanks::new(&both(), both(), Duration::from_secs(1));
        assert_eq!(found.notes, ["rank 0 is on n1 and on n2: they see the same processes"]);
    }
}
