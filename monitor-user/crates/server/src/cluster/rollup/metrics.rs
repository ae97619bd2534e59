//! Metrics of the cluster on a gateway: nodes, jobs and users.
//!
//! In: the roll-up that a client may see, and how many jobs and users may have series. Out: metric
//! families. What is over the limit is summed under the name `(other)`. Usage is exposed as gauges:
//! sums of counters over nodes would go back when a node does, and look like a restart of all.

use monitor_format::exposition::MetricType::{Counter, Gauge};
use monitor_format::exposition::{Exposition, FamilyHead, Labels};
use monitor_model::{Ns, group::OTHER};
use monitor_protocol::cluster::MemberState;
use monitor_protocol::rollup::{ClusterRollup, NodeSummary, NodeTotals, RecordState, Usage};

/// The families of a cluster; with `most` jobs and users, and those of the others in one series.
pub fn cluster_metrics(rollup: &ClusterRollup, most: usize) -> Exposition {
    let mut all = Exposition::default();
    states(&mut all, rollup);
    nodes(&mut all, &rollup.nodes);
    let jobs = rollup.jobs.iter().map(|job| {
        let user = job.user.clone().or_else(|| job.uid.map(|uid| uid.to_string()));
        let labels: Labels =
            vec![("job", (&*job.name).into()), ("user", user.unwrap_or_default().into())];
        (labels, (job.n_nodes, job.usage))
    });
    let other = vec![("job", OTHER.into()), ("user", OTHER.into())];
    usage(&mut all, &JOB_FAMILIES, limited(jobs.collect(), (most, other)));
    let users = rollup.users.iter();
    let users = users.map(|it| (vec![("user", (&*it.name).into())], (it.n_nodes, it.usage)));
    let other = vec![("user", OTHER.into())];
    usage(&mut all, &USER_FAMILIES, limited(users.collect(), (most, other)));
    all
}

/// The number of nodes by state, and of jobs and users.
fn states(all: &mut Exposition, rollup: &ClusterRollup) {
    use MemberState::{Dead, Draining, Left, Up};
    let count = |state| rollup.nodes.iter().filter(|it| it.state == state).count() as f64;
    let points =
        [Up, Draining, Left, Dead].map(|it| (vec![("state", it.name().into())], count(it)));
    all.add(("monitor_cluster_nodes", "", "Nodes by state", Gauge), points);
    let further = "Jobs and users that records of nodes had no room for";
    let totals = [
        ("monitor_cluster_jobs", "Jobs with processes on a node", rollup.jobs.len() as u64),
        ("monitor_cluster_users", "Users with processes on a node", rollup.users.len() as u64),
        ("monitor_cluster_left_out", further, rollup.other_jobs + rollup.other_users),
    ];
    for (stem, help, value) in totals {
        all.add((stem, "", help, Gauge), [(Labels::new(), value as f64)]);
    }
}

/// A number of a node.
type NodeValue = fn(&NodeTotals) -> Option<f64>;

const NODE_FAMILIES: [(FamilyHead, NodeValue); 6] = [
    (("monitor_cluster_node_load1", "", "Load average of 1 minute", Gauge), |it| it.load1),
    (("monitor_cluster_node_online_cpus", "", "Processors on line", Gauge), |totals| {
        totals.online_cpus.map(|n| n as f64)
    }),
    (
        (
            "monitor_cluster_node_cpu_busy_ratio",
            "ratio",
            "Use of its processors in the last second, 1 being one of them",
            Gauge,
        ),
        |it| it.cpu_busy_percent.map(|percent| percent / 100.0),
    ),
    (("monitor_cluster_node_mem_total_bytes", "bytes", "Memory", Gauge), |totals| {
        totals.mem_total_bytes.map(|n| n as f64)
    }),
    (
        (
            "monitor_cluster_node_mem_available_bytes",
            "bytes",
            "Memory that new programs can have without swapping",
            Gauge,
        ),
        |it| it.mem_available_bytes.map(|n| n as f64),
    ),
    (("monitor_cluster_node_processes", "", "Processes", Gauge), |it| Some(it.processes as f64)),
];

fn nodes(all: &mut Exposition, nodes: &[NodeSummary]) {
    let label = |it: &NodeSummary| -> Labels { vec![("node", (&*it.node).into())] };
    let is_member = |it: &&NodeSummary| matches!(it.state, MemberState::Up | MemberState::Draining);
    let members = || nodes.iter().filter(is_member);
    let help = "Whether a record of the member came within the last three seconds";
    let is_current = |it: &NodeSummary| f64::from(u8::from(it.record == RecordState::Current));
    let up = members().map(|it| (label(it), is_current(it)));
    all.add(("monitor_cluster_node_up", "", help, Gauge), up);
    let help = "How long ago the last record of the node came";
    let head = ("monitor_cluster_node_record_age_seconds", "seconds", help, Gauge);
    let ages = members().filter_map(|it| Some((label(it), Ns(it.age_ns?).seconds())));
    all.add(head, ages);
    let help = "Records of the node that did not come, since this gateway wants them";
    let lost = members().map(|it| (label(it), it.lost as f64));
    all.add(("monitor_cluster_node_lost_records", "", help, Counter), lost);
    let current: Vec<_> = members()
        .filter(|it| it.record == RecordState::Current)
        .filter_map(|it| Some((it, it.totals.as_ref()?)))
        .collect();
    for (head, value) in NODE_FAMILIES {
        all.add(head, current.iter().filter_map(|(it, own)| Some((label(it), value(own)?))));
    }
}

/// The families of jobs, or of users: nodes, processes, CPU use, memory.
type UsageFamilies = [FamilyHead; 4];

const JOB_FAMILIES: UsageFamilies = [
    ("monitor_cluster_job_nodes", "", "Nodes with processes of the job", Gauge),
    ("monitor_cluster_job_processes", "", "Processes of the job", Gauge),
    (
        "monitor_cluster_job_cpu_ratio",
        "ratio",
        "CPU use of the job in the last second, 1 being one processor",
        Gauge,
    ),
    (
        "monitor_cluster_job_resident_bytes",
        "bytes",
        "Resident memory of the job; shared memory counts once for each process",
        Gauge,
    ),
];

const USER_FAMILIES: UsageFamilies = [
    ("monitor_cluster_user_nodes", "", "Nodes with processes of the user", Gauge),
    ("monitor_cluster_user_processes", "", "Processes of the user", Gauge),
    (
        "monitor_cluster_user_cpu_ratio",
        "ratio",
        "CPU use of the user in the last second, 1 being one processor",
        Gauge,
    ),
    (
        "monitor_cluster_user_resident_bytes",
        "bytes",
        "Resident memory of the user; shared memory counts once for each process",
        Gauge,
    ),
];

/// Labels, number of nodes and usage.
type UsageRow = (Labels, (u64, Usage));

fn usage(all: &mut Exposition, families: &UsageFamilies, rows: Vec<UsageRow>) {
    let [nodes, processes, cpu, resident] = *families;
    let of = |value: fn(&(u64, Usage)) -> Option<f64>| {
        rows.iter().filter_map(move |(labels, row)| Some((labels.clone(), value(row)?)))
    };
    // A node of (other) is counted once for each of its jobs, which says nothing.
    let named = of(|it| Some(it.0 as f64)).filter(|(labels, _)| labels[0].1.as_ref() != OTHER);
    all.add(nodes, named);
    all.add(processes, of(|it| Some(it.1.processes as f64)));
    all.add(cpu, of(|it| Some(it.1.cpu_percent? / 100.0)));
    all.add(resident, of(|it| Some(it.1.rss_bytes as f64)));
}

/// The first rows, and the sum of the others. Rows with the same labels are one.
fn limited(rows: Vec<UsageRow>, (most, other): (usize, Labels)) -> Vec<UsageRow> {
    let mut kept: Vec<UsageRow> = Vec::new();
    let mut rest: Option<Usage> = None;
    for (labels, (nodes, own)) in rows {
        match kept.iter().position(|it| it.0 == labels) {
            // Two users have one name: nodes that have both are counted twice.
            Some(at) => {
                let (n, sum) = &mut kept[at].1;
                *n += nodes;
                sum.add(&own);
            }
            None if kept.len() < most => kept.push((labels, (nodes, own))),
            None => rest.get_or_insert_default().add(&own),
        }
    }
    kept.extend(rest.map(|sum| (other, (0, sum))));
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_format::exposition::{Dialect, text};
    use monitor_protocol::rollup::{JobSummary, UserSummary};

    fn node(name: &str, state: MemberState, record: RecordState) -> NodeSummary {
        let totals = NodeTotals { cpu_busy_percent: Some(150.0), ..NodeTotals::default() };
        NodeSummary {
            node: name.to_owned(),
            state,
            record,
            age_ns: (record != RecordState::None).then_some(500_000_000),
            lost: 3,
            totals: (record != RecordState::None).then_some(totals),
            jobs: 0,
            users: 0,
        }
    }

    fn exposed(most: usize) -> String {
        let usage = Usage { processes: 2, cpu_percent: Some(50.0), ..Usage::default() };
        let job = |name: &str, uid| JobSummary {
            name: name.to_owned(),
            uid: Some(uid),
            n_nodes: 2,
            usage,
            ..JobSummary::default()
        };
        let rollup = ClusterRollup {
            nodes: vec![
                node("n1", MemberState::Up, RecordState::Current),
                node("n2", MemberState::Up, RecordState::Late),
                node("n3", MemberState::Up, RecordState::None),
                node("n4", MemberState::Dead, RecordState::Late),
            ],
            jobs: vec![job("slurm:7", 5), job("slurm:8", 5), job("slurm:9", 6)],
            users: vec![UserSummary { name: "u".into(), n_nodes: 2, usage }],
            ..ClusterRollup::default()
        };
        text(&cluster_metrics(&rollup, most), Dialect::Prometheus)
    }

    #[test]
    fn a_member_without_a_current_record_is_down_and_has_no_numbers() {
        let out = exposed(10);
        let of = |metric: &str| -> Vec<String> {
            out.lines().filter_map(|it| it.strip_prefix(metric)).map(str::to_owned).collect()
        };
        let up = [r#"{node="n1"} 1"#, r#"{node="n2"} 0"#, r#"{node="n3"} 0"#];
        assert_eq!(of("monitor_cluster_node_up"), up);
        assert_eq!(of("monitor_cluster_node_cpu_busy_ratio"), [r#"{node="n1"} 1.5"#]);
        let ages = [r#"{node="n1"} 0.5"#, r#"{node="n2"} 0.5"#];
        assert_eq!(of("monitor_cluster_node_record_age_seconds"), ages);
        assert!(out.contains("monitor_cluster_nodes{state=\"dead\"} 1\n"), "{out}");
        assert!(out.contains("monitor_cluster_node_lost_records_total{node=\"n1\"} 3\n"), "{out}");
    }

    #[test]
    fn jobs_over_the_limit_are_in_other() {
        let out = exposed(2);
        let has = |line: &str| assert!(out.lines().any(|it| it == line), "{line} in {out}");
        has(r#"monitor_cluster_job_cpu_ratio{job="slurm:7",user="5"} 0.5"#);
        has(r#"monitor_cluster_job_processes{job="(other)",user="(other)"} 2"#);
        has(r#"monitor_cluster_job_nodes{job="slurm:8",user="5"} 2"#);
        assert!(!out.contains("slurm:9") && !out.contains(r#"job_nodes{job="(other)""#), "{out}");
        has(r#"monitor_cluster_user_cpu_ratio{user="u"} 0.5"#);
        has("monitor_cluster_jobs 3");
    }
}
