//! The last record of each node, and the roll-up of all of them.
//!
//! In: records with the node that the bus vouches for, the members, the boot clock. Out: the
//! cluster: each member with the age of its record, sums of jobs and users over the nodes whose
//! record is current. A record that did not come is noticed by the number of the next one.

use super::rack::LATE;
use super::record::by_use;
use monitor_cluster::node_set::fold;
use monitor_model::Ns;
use monitor_protocol::cluster::{Member, MemberState};
use monitor_protocol::rollup::{
    ClusterRollup, JobOnNode, JobSummary, MAX_RECORD, NodeRollup, NodeSummary, RackNode,
    RecordState, UserSummary, VERSION,
};
use monitor_sys::clock;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Most jobs of a cluster, and most users.
const MAX_ROWS: usize = 1000;
/// Most nodes with a record: more than the members that one server has.
const MAX_NODES: usize = 16_384;

/// What came from a node.
struct Received {
    at: Ns,
    record: KnownRecord<NodeRollup>,
    /// Records that did not come.
    lost: u64,
}

/// The record of a node, as far as it is known.
#[derive(Clone, Copy, Debug)]
pub enum KnownRecord<R> {
    /// It was read.
    Read(R),
    /// It has another version, or is malformed.
    Unreadable,
    /// An aggregator has it, and this gateway came later.
    Unseen,
}

impl<R> KnownRecord<R> {
    const fn as_ref(&self) -> KnownRecord<&R> {
        match self {
            Self::Read(record) => KnownRecord::Read(record),
            Self::Unreadable => KnownRecord::Unreadable,
            Self::Unseen => KnownRecord::Unseen,
        }
    }

    fn read(self) -> Option<R> {
        match self {
            Self::Read(record) => Some(record),
            Self::Unreadable | Self::Unseen => None,
        }
    }
}

/// The last record of each node.
#[derive(Default)]
pub struct RollupTable {
    nodes: BTreeMap<String, Received>,
}

/// What every version of a record has.
#[derive(Deserialize)]
struct RecordHead {
    version: u32,
}

impl RollupTable {
    /// Takes a record of a node.
    pub fn add(&mut self, now: Ns, node: &str, bytes: &[u8]) {
        let record = read(bytes);
        if let Err(why) = &record {
            tracing::debug!("record of {node}: {why}");
        }
        let record = record.map_or(KnownRecord::Unreadable, KnownRecord::Read);
        let Some(last) = self.nodes.get_mut(node) else {
            if self.nodes.len() < MAX_NODES {
                self.nodes.insert(node.to_owned(), Received { at: now, record, lost: 0 });
            }
            return;
        };
        if let (Some(before), Some(record)) = (last.record.as_ref().read(), record.as_ref().read())
            && before.series == record.series
        {
            let Some(skipped) = record.number.checked_sub(before.number + 1) else {
                // A copy, or one that was overtaken: it was counted as lost.
                last.lost = last.lost.saturating_sub(u64::from(record.number < before.number));
                return;
            };
            last.lost = last.lost.saturating_add(skipped);
        }
        (last.at, last.record) = (now, record);
    }

    /// Takes what an aggregator has of a node.
    pub fn add_of_rack(&mut self, now: Ns, of: &RackNode<'_>) {
        let Some(age) = of.age_ns else { return };
        let at = Ns(now.0.saturating_sub(age));
        match of.record {
            Some(record) => self.add(at, &of.node, record.get().as_bytes()),
            None if self.nodes.len() < MAX_NODES => {
                let unseen = Received { at, record: KnownRecord::Unseen, lost: 0 };
                self.nodes.entry(of.node.to_string()).or_insert(unseen);
            }
            None => {}
        }
    }

    /// The roll-up of the members, as this gateway has them; what came from other nodes is
    /// forgotten.
    pub fn rollup(&mut self, now: Ns, (gateway, members): (&str, &[Member])) -> ClusterRollup {
        let known: BTreeMap<&str, &Member> =
            members.iter().map(|member| (member.node.as_str(), member)).collect();
        self.nodes.retain(|node, _| known.contains_key(node.as_str()));
        let nodes: Vec<_> = members.iter().map(|member| self.summary(now, member)).collect();
        let current: Vec<(&str, &NodeRollup)> = self
            .nodes
            .iter()
            .filter(|(_, received)| now.since(received.at) < LATE)
            .filter_map(|(node, received)| Some((node.as_str(), received.record.as_ref().read()?)))
            .collect();
        join_records((gateway, clock::now().unix), nodes, &current)
    }

    fn summary(&self, now: Ns, member: &Member) -> NodeSummary {
        let last = self.nodes.get(&member.node).map(|it| LastRecord {
            age: now.since(it.at),
            record: it.record.as_ref(),
            lost: it.lost,
        });
        node_summary((&member.node, member.state), last, LATE)
    }
}

/// The last record of a node.
#[derive(Clone, Copy, Debug)]
pub struct LastRecord<'a> {
    /// How long ago it came.
    pub age: Ns,
    /// The record.
    pub record: KnownRecord<&'a NodeRollup>,
    /// Number of records that did not come.
    pub lost: u64,
}

/// A node with its last record, which is late from this age on.
pub fn node_summary(
    (node, state): (&str, MemberState),
    last: Option<LastRecord<'_>>,
    late: Ns,
) -> NodeSummary {
    let record = last.and_then(|it| it.record.read());
    let of_record = match last.map(|it| (it.record, it.age)) {
        None => RecordState::None,
        Some((KnownRecord::Unreadable, _)) => RecordState::Unreadable,
        Some((KnownRecord::Read(_), age)) if age < late => RecordState::Current,
        Some((KnownRecord::Read(_) | KnownRecord::Unseen, _)) => RecordState::Late,
    };
    let count = |of: fn(&NodeRollup) -> u64| record.map_or(0, of);
    NodeSummary {
        node: node.to_owned(),
        state,
        record: of_record,
        age_ns: last.map(|it| it.age.0),
        lost: last.map_or(0, |it| it.lost),
        totals: record.map(|it| it.totals),
        jobs: count(|it| it.jobs.len() as u64 + it.other_jobs),
        users: count(|it| it.users.len() as u64 + it.other_users),
    }
}

/// The roll-up of a cluster at a time, as a gateway has it: all nodes, and the sums of those with a
/// current record.
pub fn join_records(
    (gateway, unix): (&str, Ns),
    nodes: Vec<NodeSummary>,
    current: &[(&str, &NodeRollup)],
) -> ClusterRollup {
    let (jobs, further_jobs) = sum_jobs(current);
    let (users, further_users) = sum_users(current);
    let sum = |of: fn(&NodeRollup) -> u64| -> u64 { current.iter().map(|it| of(it.1)).sum() };
    ClusterRollup {
        gateway: gateway.to_owned(),
        unix_ns: unix.0,
        is_limited: false,
        nodes,
        jobs,
        other_jobs: further_jobs + sum(|it| it.other_jobs),
        users,
        other_users: further_users + sum(|it| it.other_users),
    }
}

fn read(bytes: &[u8]) -> Result<NodeRollup, String> {
    if bytes.len() > MAX_RECORD {
        return Err(format!("it has {} bytes; at most {MAX_RECORD} are read", bytes.len()));
    }
    let head: RecordHead = serde_json::from_slice(bytes).map_err(|why| why.to_string())?;
    if head.version != VERSION {
        return Err(format!("it has version {}; this program reads {VERSION}", head.version));
    }
    serde_json::from_slice(bytes).map_err(|why| why.to_string())
}

/// The jobs of all records, and the number of those that are left out.
fn sum_jobs(records: &[(&str, &NodeRollup)]) -> (Vec<JobSummary>, u64) {
    let mut jobs: BTreeMap<(&str, Option<u32>), JobSummary> = BTreeMap::new();
    for (node, record) in records {
        for job in &record.jobs {
            let sum = jobs.entry((&job.name, job.uid)).or_insert_with(|| JobSummary {
                name: job.name.clone(),
                uid: job.uid,
                user: job.user.clone(),
                ..JobSummary::default()
            });
            sum.usage.add(&job.usage);
            sum.by_node.push(JobOnNode { node: (*node).to_owned(), usage: job.usage });
        }
    }
    let mut jobs: Vec<_> = jobs.into_values().collect();
    jobs.sort_by(|a, b| by_use(&a.usage, &b.usage));
    let further = jobs.len().saturating_sub(MAX_ROWS) as u64;
    jobs.truncate(MAX_ROWS);
    for job in &mut jobs {
        job.n_nodes = job.by_node.len() as u64;
        job.nodes = fold(job.by_node.iter().map(|it| it.node.as_str()));
    }
    (jobs, further)
}

/// The users of all records, and the number of those that are left out.
fn sum_users(records: &[(&str, &NodeRollup)]) -> (Vec<UserSummary>, u64) {
    let mut users: BTreeMap<&str, UserSummary> = BTreeMap::new();
    for user in records.iter().flat_map(|(_, record)| &record.users) {
        let sum = users
            .entry(&user.name)
            .or_insert_with(|| UserSummary { name: user.name.clone(), ..UserSummary::default() });
        sum.n_nodes += 1;
        sum.usage.add(&user.usage);
    }
    let mut users: Vec<_> = users.into_values().collect();
    users.sort_by(|a, b| by_use(&a.usage, &b.usage));
    let further = users.len().saturating_sub(MAX_ROWS) as u64;
    users.truncate(MAX_ROWS);
    (users, further)
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_protocol::cluster::MessageFormats;
    use monitor_protocol::rollup::{JobUsage, Usage, UserUsage};

    const SECOND: u64 = 1_000_000_000;

    fn record(series: u64, number: u64) -> NodeRollup {
        let usage = Usage { processes: 2, cpu_percent: Some(50.0), ..Usage::default() };
        let job = |uid| JobUsage { name: "slurm:7".into(), uid: Some(uid), user: None, usage };
        NodeRollup {
            version: VERSION,
            series,
            number,
            jobs: vec![job(5)],
            users: vec![UserUsage { name: "u".into(), usage }],
            other_users: 1,
            ..NodeRollup::default()
        }
    }

    fn bytes(record: &NodeRollup) -> Vec<u8> {
        serde_json::to_vec(record).expect("JSON")
    }

    fn members(names: &[&str]) -> Vec<Member> {
        let member = |node: &&str| Member {
            node: (*node).to_owned(),
            state: MemberState::Up,
            since_unix_ns: None,
            formats: MessageFormats::default(),
        };
        names.iter().map(member).collect()
    }

    #[test]
    fn a_job_of_many_nodes_is_one_and_a_late_node_is_in_no_sum() {
        let mut table = RollupTable::default();
        for node in ["n1", "n2", "n3", "other"] {
            table.add(Ns(SECOND), node, &bytes(&record(1, 0)));
        }
        table.add(Ns(3 * SECOND), "n1", &bytes(&record(1, 1)));
        table.add(Ns(3 * SECOND), "n2", &bytes(&record(1, 1)));
        let rollup = table.rollup(Ns(4 * SECOND), ("n1", &members(&["n1", "n2", "n3", "n4"])));
        let nodes: Vec<_> =
            rollup.nodes.iter().map(|it| (it.node.as_str(), it.record, it.age_ns)).collect();
        let want = [
            ("n1", RecordState::Current, Some(SECOND)),
            ("n2", RecordState::Current, Some(SECOND)),
            ("n3", RecordState::Late, Some(3 * SECOND)),
            ("n4", RecordState::None, None),
        ];
        assert_eq!(nodes, want);
        let job = &rollup.jobs[0];
        assert_eq!((job.nodes.as_str(), job.n_nodes, job.usage.processes), ("n[1-2]", 2, 4));
        assert_eq!(job.usage.cpu_percent, Some(100.0));
        assert_eq!((rollup.users[0].n_nodes, rollup.other_users), (2, 2));
        assert_eq!(rollup.nodes[2].jobs, 1, "what was known last is shown");
    }

    #[test]
    fn a_thousand_nodes_with_five_jobs_each_are_one_roll_up() {
        let names: Vec<String> = (0..1000).map(|at| format!("n{at:04}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let members = members(&names);
        let mut table = RollupTable::default();
        let mut rollup = ClusterRollup::default();
        for number in 0..3 {
            for (at, name) in names.iter().enumerate() {
                let mut own = record(1, number);
                // Each job is on eight nodes.
                let job = |job| JobUsage {
                    name: format!("slurm:{}.{job}", at / 8),
                    ..own.jobs[0].clone()
                };
                own.jobs = (0..5).map(job).collect();
                table.add(Ns(SECOND), name, &bytes(&own));
            }
            rollup = table.rollup(Ns(SECOND), ("n0000", &members));
        }
        assert_eq!((rollup.jobs.len(), rollup.other_jobs), (625, 0));
        assert!(rollup.jobs.iter().all(|it| it.n_nodes == 8 && it.usage.processes == 16));
        assert_eq!(rollup.users[0].n_nodes, 1000);
    }

    #[test]
    fn records_that_did_not_come_are_counted_by_number() {
        let mut table = RollupTable::default();
        let mut lost = |series, number| {
            table.add(Ns(1), "n1", &bytes(&record(series, number)));
            table.rollup(Ns(1), ("n1", &members(&["n1"]))).nodes[0].lost
        };
        assert_eq!([lost(1, 0), lost(1, 1), lost(1, 5)], [0, 0, 3]);
        // One was overtaken, and one comes twice.
        assert_eq!([lost(1, 4), lost(1, 5)], [2, 2]);
        // The service was started again.
        assert_eq!([lost(2, 0), lost(2, 2)], [2, 3]);
    }

    #[test]
    fn a_record_that_cannot_be_read_is_named_as_such() {
        let mut table = RollupTable::default();
        let later = NodeRollup { version: VERSION + 1, ..record(1, 0) };
        let long = [vec![b' '; MAX_RECORD], bytes(&record(1, 0))].concat();
        for wrong in [bytes(&later), b"nonsense".to_vec(), long] {
            table.add(Ns(1), "n1", &wrong);
            let rollup = table.rollup(Ns(1), ("n1", &members(&["n1"])));
            assert_eq!((rollup.nodes[0].record, rollup.jobs.len()), (RecordState::Unreadable, 0));
        }
        table.add(Ns(1), "n1", &bytes(&record(1, 0)));
        let rollup = table.rollup(Ns(1), ("n1", &members(&["n1"])));
        assert_eq!(rollup.nodes[0].record, RecordState::Current);
    }
}
