//! One job of many nodes as one row: sums, the slowest rank, the imbalance.
//!
//! In: what each node says of the job and its ranks. Out: the values of a row. The slowest rank is
//! the one with the least CPU time: ranks begin together, so it has progressed least, unless it
//! waits without a CPU where the others wait on one.

use super::job_on_nodes::NodePart;
use super::node_job::NodeJob;
use super::reader::user;
use monitor_cluster::node_set::fold;
use monitor_format::human;
use monitor_jobs::straggler::{imbalance, slowest};
use monitor_services::job::ranks::NodeRank;
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};

/// What names a job: users may give theirs the id of another one's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobKey {
    /// Its id.
    pub id: String,
    /// Its user.
    pub uid: Option<u32>,
}

/// A job.
#[derive(Debug, Default)]
pub struct JoinedJob {
    /// What each node says of it.
    pub nodes: BTreeMap<String, NodeJob>,
    /// Its ranks, with their nodes.
    ranks: BTreeMap<u32, (String, NodeRank)>,
    /// The note about a rank that two nodes have.
    pub repeated: Option<String>,
}

impl JoinedJob {
    /// Adds what a node lists.
    pub fn add(&mut self, node: &str, job: NodeJob) {
        self.nodes.insert(node.to_owned(), job);
    }

    /// Adds the ranks of a node. One that another node has already is counted once.
    pub fn add_ranks(&mut self, node: &str, part: NodePart) {
        for rank in part.ranks {
            let number = rank.rank;
            if let Some((other, _)) = self.ranks.get(&number) {
                let id = self.id();
                let note = format!(
                    "rank {number} of job {id} is on {other} and on {node}: they see the same \
                     processes; it is counted once"
                );
                self.repeated.get_or_insert(note);
            } else {
                self.ranks.insert(number, (node.to_owned(), rank));
            }
        }
    }

    /// Its id.
    pub fn id(&self) -> &str {
        self.nodes.values().next().map(|it| it.id.as_str()).unwrap_or_default()
    }

    /// Its user.
    pub fn uid(&self) -> Option<u32> {
        self.nodes.values().find_map(|it| it.uid)
    }

    /// The names of its runtimes.
    pub fn runtime(&self) -> String {
        self.names(|it| &it.runtime)
    }

    /// Its states: those of its nodes.
    pub fn state(&self) -> String {
        self.names(|it| &it.state)
    }

    fn names(&self, of: fn(&NodeJob) -> &str) -> String {
        let all: BTreeSet<&str> = self.nodes.values().map(of).collect();
        all.into_iter().collect::<Vec<_>>().join(",")
    }

    /// Its nodes, folded.
    pub fn node_set(&self) -> String {
        fold(self.nodes.keys().map(String::as_str))
    }

    /// The number of its ranks on the nodes.
    pub fn local_ranks(&self) -> u64 {
        match self.ranks.len() as u64 {
            0 => self.nodes.values().filter_map(|it| it.local_ranks).map(u64::from).sum(),
            n_ranks => n_ranks,
        }
    }

    /// The number of all its ranks, if a node knows it.
    pub fn size(&self) -> Option<u32> {
        self.nodes.values().filter_map(|it| it.size).max()
    }

    /// Seconds since it began on the first node.
    pub fn age_s(&self) -> f64 {
        self.nodes.values().map(|it| it.age_s).fold(0.0, f64::max)
    }

    /// CPU time of its ranks, seconds; `None` if that of a rank is not known.
    pub fn cpu_s(&self) -> Option<f64> {
        let times = self.cpu_times()?;
        Some(times.iter().map(|it| it.1).sum())
    }

    /// The CPU time of each rank.
    fn cpu_times(&self) -> Option<Vec<(u32, f64)>> {
        let times: Option<Vec<(u32, f64)>> =
            self.ranks.values().map(|(_, rank)| Some((rank.rank, rank.cpu_s?))).collect();
        times.filter(|times| !times.is_empty())
    }

    /// Resident memory of its ranks; `None` if that of a rank is not known.
    pub fn rss_bytes(&self) -> Option<u64> {
        let sizes: Option<Vec<u64>> = self.ranks.values().map(|(_, rank)| rank.rss_bytes).collect();
        sizes.filter(|sizes| !sizes.is_empty()).map(|sizes| sizes.iter().sum())
    }

    /// The rank with the least CPU time, and its node; `None` for one rank.
    pub fn slowest(&self) -> Option<(u32, &str)> {
        let rank = slowest(self.cpu_times()?)?;
        Some((rank, self.ranks.get(&rank)?.0.as_str()))
    }

    /// Imbalance of the CPU time, percent: 0 if all ranks have the same, 100 if only one has any,
    /// as that of times in MPI. `None` for one rank.
    pub fn imbalance(&self) -> Option<f64> {
        imbalance(self.cpu_times()?.into_iter().map(|it| it.1))
    }

    /// As an object, with its nodes.
    pub fn to_json(&self) -> Json {
        let node = |(node, job): (&String, &NodeJob)| {
            json!({
                "node": node,
                "launcher_pid": job.launcher,
                "local_ranks": job.local_ranks,
                "state": job.state,
                "age_s": job.age_s,
            })
        };
        let slowest = self.slowest();
        json!({
            "id": self.id(),
            "runtime": self.runtime(),
            "uid": self.uid(),
            "user": self.uid().map(user),
            "n_nodes": self.nodes.len(),
            "nodes": self.nodes.iter().map(node).collect::<Vec<_>>(),
            "ranks": self.local_ranks(),
            "size": self.size(),
            "state": self.state(),
            "age_s": self.age_s(),
            "cpu_s": self.cpu_s(),
            "rss_bytes": self.rss_bytes(),
            "slowest_rank": slowest.map(|it| it.0),
            "slowest_node": slowest.map(|it| it.1),
            "imbalance_percent": self.imbalance().and_then(human::rounded),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(ranks: &[(&str, u32, f64)]) -> JoinedJob {
        let mut joined = JoinedJob::default();
        for &(node, rank, cpu_s) in ranks {
            joined.add(
                node,
                NodeJob {
                    id: "77".into(),
                    runtime: "slurm".into(),
                    launcher: None,
                    uid: Some(1000),
                    local_ranks: Some(1),
                    size: Some(4),
                    state: "running".into(),
                    age_s: cpu_s,
                },
            );
            let rank = NodeRank {
                rank,
                pid: 7,
                executable: "/a".into(),
                state: 'R',
                cpu_s: Some(cpu_s),
                delay_s: None,
                rss_bytes: Some(1 << 20),
            };
            let (runtime, state) = ("slurm".into(), "running".into());
            let ranks = vec![rank];
            joined.add_ranks(node, NodePart { runtime, state, launcher: None, ranks });
        }
        joined
    }

    #[test]
    fn ranks_of_all_nodes_are_summed_and_compared() {
        let joined = job(&[("n1", 0, 3.0), ("n2", 1, 1.0), ("n3", 2, 2.0)]);
        assert_eq!((joined.node_set().as_str(), joined.local_ranks()), ("n[1-3]", 3));
        assert_eq!((joined.cpu_s(), joined.rss_bytes()), (Some(6.0), Some(3 << 20)));
        assert_eq!((joined.slowest(), joined.imbalance()), (Some((1, "n2")), Some(50.0)));
        assert_eq!(joined.age_s(), 3.0);
        let one = job(&[("n1", 0, 3.0)]);
        assert_eq!((one.slowest(), one.imbalance()), (None, None));
    }

    #[test]
    fn a_rank_that_two_nodes_see_is_counted_once() {
        let joined = job(&[("n1", 0, 3.0), ("n2", 0, 3.0)]);
        assert_eq!((joined.local_ranks(), joined.cpu_s()), (1, Some(3.0)));
        let note = joined.repeated.as_deref().unwrap_or_default();
        assert!(note.starts_with("rank 0 of job 77 is on n1 and on n2: "), "{note}");
    }
}
