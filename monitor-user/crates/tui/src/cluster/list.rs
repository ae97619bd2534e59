//! The rows of a list: nodes, jobs, users, or one job on its nodes.
//!
//! In: a roll-up, which list, the order. Out: titles, and rows of texts with what each is about. An
//! absent value is `-`. Names of other nodes are escaped.

use super::selection::{ClusterList, ClusterOrder, OpenJob};
use crate::theme::{Role, Theme};
use monitor_format::human;
use monitor_protocol::cluster::MemberState;
use monitor_protocol::rollup::{
    ClusterRollup, JobOnNode, JobSummary, NodeSummary, NodeTotals, RecordState, Usage, UserSummary,
};
use std::cmp::Ordering;
use std::collections::BTreeSet;

/// A cell: its text, and how it is drawn.
pub type Cell = (Role, String);

/// A row.
#[derive(Clone, Debug, PartialEq)]
pub struct ListRow {
    /// What it is about: it remains selected by that.
    pub key: RowKey,
    /// A cell for each title.
    pub cells: Vec<Cell>,
}

/// What a row is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowKey {
    /// A node.
    Node(String),
    /// A job.
    Job(OpenJob),
    /// A user.
    User(String),
}

/// The title of a column, and whether it is of numbers.
pub type Title = (&'static str, bool);

const NODE_TITLES: [Title; 10] = [
    ("NODE", false),
    ("STATE", false),
    ("AGE", true),
    ("CPU%", true),
    ("LOAD", true),
    ("MEM%", true),
    ("PROCS", true),
    ("JOBS", true),
    ("USERS", true),
    ("LOST", true),
];
const USAGE_TITLES: [Title; 5] =
    [("PROCS", true), ("CPU%", true), ("RSS", true), ("READ/s", true), ("WRITE/s", true)];
const JOB_TITLES: [Title; 4] = [("JOB", false), ("USER", false), ("N", true), ("NODES", false)];
const USER_TITLES: [Title; 2] = [("USER", false), ("N", true)];
const ON_NODE_TITLES: [Title; 1] = [("NODE", false)];

/// The titles of a list.
pub fn titles(list: ClusterList, job: Option<&OpenJob>) -> Vec<Title> {
    let own: &[Title] = match (list, job) {
        (ClusterList::Nodes, _) => return NODE_TITLES.to_vec(),
        (ClusterList::Jobs, Some(_)) => &ON_NODE_TITLES,
        (ClusterList::Jobs, None) => &JOB_TITLES,
        (ClusterList::Users, _) => &USER_TITLES,
    };
    // The set of nodes is long: it is last.
    let (before, last) = own.split_at(own.len() - usize::from(own.len() == JOB_TITLES.len()));
    [before, &USAGE_TITLES, last].concat()
}

/// The share of its processors that a node uses, from 0 to 1.
pub fn cpu_share(it: &NodeTotals) -> Option<f64> {
    let cpus = it.online_cpus.filter(|cpus| *cpus > 0)?;
    Some(it.cpu_busy_percent? / 100.0 / cpus as f64)
}

/// The share of its memory that a node uses, from 0 to 1.
pub fn memory_share(it: &NodeTotals) -> Option<f64> {
    let total = it.mem_total_bytes.filter(|total| *total > 0)?;
    Some(total.saturating_sub(it.mem_available_bytes?) as f64 / total as f64)
}

/// The rows of a list.
pub fn rows(
    rollup: &ClusterRollup,
    (list, job, shown): (ClusterList, Option<&OpenJob>, Option<&BTreeSet<String>>),
    order: ClusterOrder,
) -> Vec<ListRow> {
    match (list, job) {
        (ClusterList::Nodes, _) => nodes(rollup, shown, order),
        (ClusterList::Jobs, Some(open)) => job_on_nodes(rollup, open, order),
        (ClusterList::Jobs, None) => {
            let mut jobs: Vec<_> = rollup.jobs.iter().collect();
            jobs.sort_by(|a, b| by_usage((&a.name, &a.usage), (&b.name, &b.usage), order));
            jobs.into_iter()
                .map(|job| {
                    let uid = || job.uid.map(|uid| uid.to_string());
                    let user = job.user.clone().or_else(uid).unwrap_or_else(|| "-".to_owned());
                    let head = [name(&job.name), plain(human::escaped_text(&user))];
                    let cells = head.into_iter().chain([plain(job.n_nodes.to_string())]);
                    let cells = cells.chain(usage(&job.usage));
                    let cells = cells.chain([plain(human::escaped_text(&job.nodes))]).collect();
                    let key = OpenJob { name: job.name.clone(), uid: job.uid };
                    ListRow { key: RowKey::Job(key), cells }
                })
                .collect()
        }
        (ClusterList::Users, _) => {
            let mut users: Vec<_> = rollup.users.iter().collect();
            users.sort_by(|a, b| by_usage((&a.name, &a.usage), (&b.name, &b.usage), order));
            let row = |user: &UserSummary| {
                let head = [name(&user.name), plain(user.n_nodes.to_string())];
                let cells = head.into_iter().chain(usage(&user.usage)).collect();
                ListRow { key: RowKey::User(user.name.clone()), cells }
            };
            users.into_iter().map(row).collect()
        }
    }
}

fn job_on_nodes(rollup: &ClusterRollup, open: &OpenJob, order: ClusterOrder) -> Vec<ListRow> {
    let is_open = |job: &&JobSummary| job.name == open.name && job.uid == open.uid;
    let by_node = rollup.jobs.iter().find(is_open).map_or(&[][..], |job| &job.by_node);
    let mut rows: Vec<_> = by_node.iter().collect();
    rows.sort_by(|a, b| by_usage((&a.node, &a.usage), (&b.node, &b.usage), order));
    let row = |it: &JobOnNode| ListRow {
        key: RowKey::Node(it.node.clone()),
        cells: [name(&it.node)].into_iter().chain(usage(&it.usage)).collect(),
    };
    rows.into_iter().map(row).collect()
}

fn nodes(
    rollup: &ClusterRollup,
    shown: Option<&BTreeSet<String>>,
    order: ClusterOrder,
) -> Vec<ListRow> {
    let is_shown = |it: &&NodeSummary| shown.is_none_or(|names| names.contains(&it.node));
    let mut nodes: Vec<_> = rollup.nodes.iter().filter(is_shown).collect();
    let value = |it: &NodeSummary| {
        let totals = it.totals.filter(|_| it.record == RecordState::Current)?;
        match order {
            ClusterOrder::Cpu => cpu_share(&totals),
            ClusterOrder::Memory => memory_share(&totals),
            ClusterOrder::Processes => Some(totals.processes as f64),
            ClusterOrder::Name => None,
        }
    };
    // Names of a roll-up are in order already, and the sort is stable.
    nodes.sort_by(|a, b| largest_first(value(a), value(b)));
    nodes.into_iter().map(node).collect()
}

fn node(it: &NodeSummary) -> ListRow {
    let (role, state) = match (it.state, it.record) {
        (MemberState::Dead, _) => (Role::Full, "dead"),
        (MemberState::Left, _) => (Role::Dim, "left"),
        (_, RecordState::Late) => (Role::High, "late"),
        (_, RecordState::None) => (Role::High, "no record"),
        (_, RecordState::Unreadable) => (Role::Full, "unreadable"),
        (state, RecordState::Current) => (Role::Low, state.name()),
    };
    let totals = it.totals.unwrap_or_default();
    let is_current = it.record == RecordState::Current;
    let percent = |share: Option<f64>| match share.filter(|_| is_current) {
        Some(share) => (Theme::level(share), format!("{:.0}", share * 100.0)),
        None => plain("-".to_owned()),
    };
    let number = |value: u64| plain(if is_current { value.to_string() } else { "-".to_owned() });
    let load = totals.load1.filter(|_| is_current);
    let lost_role = if it.lost > 0 { Role::High } else { Role::Text };
    ListRow {
        key: RowKey::Node(it.node.clone()),
        cells: vec![
            name(&it.node),
            (role, state.to_owned()),
            plain(it.age_ns.map_or_else(|| "-".to_owned(), |ns| human::duration_text(ns as f64))),
            percent(cpu_share(&totals)),
            plain(load.map_or_else(|| "-".to_owned(), |load| format!("{load:.2}"))),
            percent(memory_share(&totals)),
            number(totals.processes),
            number(it.jobs),
            number(it.users),
            (lost_role, it.lost.to_string()),
        ],
    }
}

fn name(text: &str) -> Cell {
    (Role::Accent, human::escaped_text(text))
}

const fn plain(text: String) -> Cell {
    (Role::Text, text)
}

fn usage(it: &Usage) -> [Cell; 5] {
    let dash = || "-".to_owned();
    let bytes = |value: f64| human::scaled_text(value, 1024.0);
    [
        plain(it.processes.to_string()),
        plain(it.cpu_percent.map_or_else(dash, |percent| format!("{percent:.1}"))),
        plain(bytes(it.rss_bytes as f64)),
        plain(it.read_bytes_per_s.map_or_else(dash, bytes)),
        plain(it.written_bytes_per_s.map_or_else(dash, bytes)),
    ]
}

fn by_usage(one: (&str, &Usage), other: (&str, &Usage), order: ClusterOrder) -> Ordering {
    let value = |it: &Usage| match order {
        ClusterOrder::Cpu => it.cpu_percent,
        ClusterOrder::Memory => Some(it.rss_bytes as f64),
        ClusterOrder::Processes => Some(it.processes as f64),
        ClusterOrder::Name => None,
    };
    largest_first(value(one.1), value(other.1)).then_with(|| one.0.cmp(other.0))
}

/// What has no value comes last.
fn largest_first(one: Option<f64>, other: Option<f64>) -> Ordering {
    let value = |it: Option<f64>| it.unwrap_or(f64::NEG_INFINITY);
    value(other).total_cmp(&value(one))
}
