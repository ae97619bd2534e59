//! `monitor nodes`: the nodes of the cluster, as the daemon of this node sees them.
//!
//! In: the members, and what each says of itself. Out: a table or JSON, once or every second. A
//! node alone is listed as such. The clock of a node is compared with that of the daemon: the
//! difference is known as exactly as half the time that the reply took.

use super::args::daemon::NodesArgs;
use super::client::{connect, runtime};
use super::exit::{Exit, Failure};
use super::output::{self, Output, OutputState, Screen, notice};
use super::run_loop::EndSignals;
use monitor_client::{Client, Gather, Gathered, Members, NodeStatus};
use monitor_cluster::bus::entry::FORMATS;
use monitor_cluster::node_set::fold;
use monitor_format::grid::{Column, Grid, Side};
use monitor_format::{human, wrap};
use monitor_model::id::Ns;
use monitor_protocol::call::Call;
use monitor_protocol::cluster::{ClusterState, Member, MemberState, MessageFormats};
use monitor_protocol::reply::CallReply;
use serde::Serialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::sleep;

/// Time between two tables of `--watch`.
const EVERY: Duration = Duration::from_secs(1);

/// Prints the nodes.
pub fn nodes(args: &NodesArgs) -> Result<Exit, Failure> {
    runtime()?.block_on(async {
        let client = connect(args.daemon.socket.as_deref()).await?;
        if args.watch {
            return watch(args, &client).await;
        }
        let view = ClusterView::read(args, &client).await?;
        let exit = output::print(view.text(args.printed.is_json())?.as_bytes())?;
        view.notices().iter().for_each(|line| notice(line));
        Ok(if exit == Exit::Ok { view.exit() } else { exit })
    })
}

async fn watch(args: &NodesArgs, client: &Client) -> Result<Exit, Failure> {
    let mut signals = EndSignals::install()?;
    let is_screen = output::on_terminal() && !args.printed.is_json();
    let mut out = if is_screen { Output::Screen(Screen::open()?) } else { Output::Stream };
    loop {
        let next = async {
            let view = ClusterView::read(args, client).await?;
            view.text(args.printed.is_json())
        };
        let end = tokio::select! {
            biased;
            end = signals.recv() => Some(end),
            text = next => {
                if out.put(text?.as_bytes())? == OutputState::Closed {
                    return Ok(Exit::Ok);
                }
                tokio::select! {
                    end = signals.recv() => Some(end),
                    () = sleep(EVERY) => None,
                }
            }
        };
        if let Some(end) = end {
            return Ok(end.exit());
        }
    }
}

/// A node, with what it says of itself.
#[derive(Debug, Serialize)]
struct NodeRow {
    node: String,
    /// `alone`, or the state of a member.
    state: &'static str,
    /// Since when; absent if it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    since_unix_ns: Option<u64>,
    /// How long its reply took.
    #[serde(skip_serializing_if = "Option::is_none")]
    late_ns: Option<u64>,
    /// By how much its clock is ahead; absent if less than is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    clock_ahead_ns: Option<i64>,
    /// How exactly that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    clock_error_ns: Option<u64>,
    /// The formats of messages between nodes that it reads.
    formats: MessageFormats,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<NodeStatus>,
    /// Why there is no status.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

/// The nodes at one time.
struct ClusterView {
    members: Members,
    rows: Vec<NodeRow>,
    /// The realtime clock of the daemon of this node.
    unix_ns: u64,
}

impl ClusterView {
    async fn read(args: &NodesArgs, client: &Client) -> Result<Self, Failure> {
        let members = client.members().await?;
        if members.state != ClusterState::Member {
            return Ok(Self::of_this_node(members, client.node_status().await?));
        }
        let line = Call::NodeStatus.to_text();
        let within_ns = Some(Ns::from(args.within).0);
        let gathered = client.gather(&Gather { nodes: None, line, within_ns }).await?;
        // Nodes may have come and gone meanwhile.
        Ok(Self::of_all(client.members().await?, gathered))
    }

    fn of_this_node(members: Members, status: NodeStatus) -> Self {
        let unix_ns = status.unix_ns;
        let row = NodeRow {
            node: status.node.clone(),
            state: match members.state {
                ClusterState::Alone => "alone",
                ClusterState::Connecting => "connecting",
                ClusterState::Joining => "joining",
                ClusterState::NameInUse => "name in use",
                ClusterState::Member => MemberState::Up.name(),
            },
            since_unix_ns: Some(unix_ns.saturating_sub(status.uptime_ns)),
            late_ns: None,
            clock_ahead_ns: None,
            clock_error_ns: None,
            formats: FORMATS,
            status: Some(status),
            why: None,
        };
        Self { members, rows: vec![row], unix_ns }
    }

    fn of_all(members: Members, gathered: Gathered) -> Self {
        let sent = gathered.sent_unix_ns;
        let replies = gathered.nodes.into_iter().map(|it| (it.node.clone(), it));
        let mut replies: BTreeMap<_, _> = replies.collect();
        let mut unix_ns = sent;
        let mut rows = Vec::new();
        for Member { node, state, since_unix_ns, formats } in &members.members {
            let reply = replies.remove(node);
            let late_ns = reply.as_ref().and_then(|it| it.late_ns);
            unix_ns = unix_ns.max(sent.saturating_add(late_ns.unwrap_or(0)));
            let result = reply.map(|it| status_of(it.reply.as_deref(), it.why));
            let (status, why) = match result {
                Some(Ok(status)) => (Some(status), None),
                Some(Err(why)) => (None, Some(why)),
                None => (None, None),
            };
            let clock =
                status.as_ref().zip(late_ns).map(|(it, late)| clock(it.unix_ns, sent, late));
            let own_since = status.as_ref().and_then(|it| it.member_since_unix_ns);
            let is_up = *state == MemberState::Up;
            rows.push(NodeRow {
                node: node.clone(),
                state: state.name(),
                // A node that was a member before this daemon was started knows since when.
                since_unix_ns: since_unix_ns.or(own_since.filter(|_| is_up)),
                late_ns,
                clock_ahead_ns: clock.and_then(|it| it.ahead_ns),
                clock_error_ns: clock.map(|it| it.error_ns),
                formats: *formats,
                status,
                why,
            });
        }
        Self { members, rows, unix_ns }
    }

    /// The rows of members.
    fn member_rows(&self) -> impl Iterator<Item = &NodeRow> {
        let is_member = |row: &&NodeRow| {
            [MemberState::Up.name(), MemberState::Draining.name()].contains(&row.state)
        };
        self.rows.iter().filter(is_member)
    }

    /// The members without a status.
    fn silent(&self) -> Vec<&NodeRow> {
        self.member_rows().filter(|row| row.status.is_none()).collect()
    }

    fn notices(&self) -> Vec<String> {
        let mut by_reason: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for row in self.silent() {
            let why = row.why.as_deref().unwrap_or("it came only now");
            by_reason.entry(why.to_owned()).or_default().push(&row.node);
        }
        let own = self.rows.iter().find(|row| row.node == self.members.node);
        for row in self.member_rows() {
            if let Some(why) = own.and_then(|own| unread(own, row)) {
                by_reason.entry(why).or_default().push(&row.node);
            }
        }
        let line = |(why, nodes): (String, Vec<&str>)| format!("{}: {why}", fold(nodes));
        by_reason.into_iter().map(line).collect()
    }

    fn exit(&self) -> Exit {
        if self.silent().is_empty() { Exit::Ok } else { Exit::Partial }
    }

    fn text(&self, is_json: bool) -> Result<String, Failure> {
        if is_json {
            let Members { node, state, .. } = &self.members;
            return output::json(&json!({
                "schema_version": 1, "seen_from": node, "state": state, "unix_ns": self.unix_ns,
                "nodes": self.rows,
            }));
        }
        let mut grid = Grid::default();
        grid.begin(COLUMNS.iter().map(|&(title, side)| Column { title, min_width: 0, side }));
        let cells = self.rows.iter().flat_map(|row| cells(row, self.unix_ns));
        cells.for_each(|text| grid.cell(|out| human::escaped(&text, out)));
        let mut out = String::new();
        grid.lines(wrap::COLUMNS, &mut out);
        Ok(out)
    }
}

/// Why messages of a node are not read here, or those from here not there.
fn unread(own: &NodeRow, row: &NodeRow) -> Option<String> {
    let (here, there) = (own.formats, row.formats);
    let node = &own.node;
    if !here.reads(there) {
        let (format, own) = (there.newest, formats(here));
        return Some(format!("its messages have format {format}, and {node} reads {own}: refused"));
    }
    if !there.reads(here) {
        let (own, format) = (formats(there), here.newest);
        return Some(format!("it reads format {own}, and {node} sends {format}: refused there"));
    }
    None
}

/// The formats of a node, as `1` or `1-2`.
fn formats(MessageFormats { oldest, newest }: MessageFormats) -> String {
    if oldest == newest { newest.to_string() } else { format!("{oldest}-{newest}") }
}

fn status_of(reply: Option<&str>, why: Option<String>) -> Result<NodeStatus, String> {
    let Some(reply) = reply else {
        return Err(why.unwrap_or_else(|| "no reply".to_owned()));
    };
    // A node of another version may reply something else.
    let reply: CallReply<NodeStatus> =
        serde_json::from_str(reply).map_err(|why| why.to_string())?;
    reply.into_result("its reply has no status")
}

/// The difference between two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ClockDifference {
    /// By how much the clock of the node is ahead; absent if that is within the error.
    ahead_ns: Option<i64>,
    error_ns: u64,
}

/// The difference of a clock that showed `there` between `sent` and `late` after it.
fn clock(there: u64, sent: u64, late: u64) -> ClockDifference {
    let error_ns = late / 2;
    let ahead = i128::from(there) - i128::from(sent) - i128::from(error_ns);
    let ahead_ns = (ahead.unsigned_abs() > u128::from(error_ns)).then_some(ahead);
    let ahead_ns = ahead_ns.and_then(|it| i64::try_from(it).ok());
    ClockDifference { ahead_ns, error_ns }
}

const COLUMNS: [(&str, Side); 12] = [
    ("NODE", Side::Left),
    ("STATE", Side::Left),
    ("SINCE", Side::Right),
    ("VERSION", Side::Left),
    ("FORMAT", Side::Left),
    ("BACKEND", Side::Left),
    ("KERNEL", Side::Left),
    ("LOAD", Side::Right),
    ("MEM", Side::Right),
    ("JOBS", Side::Right),
    ("CLOCK", Side::Right),
    ("LATE", Side::Right),
];

fn cells(row: &NodeRow, now_ns: u64) -> [String; 12] {
    let dash = || "-".to_owned();
    let duration = |ns: u64| human::duration_text(ns as f64);
    let status = row.status.as_ref();
    let of_status = |text: fn(&NodeStatus) -> Option<String>| status.and_then(text);
    [
        row.node.clone(),
        row.state.to_owned(),
        row.since_unix_ns.map_or_else(dash, |since| duration(now_ns.saturating_sub(since))),
        of_status(|it| Some(it.version.clone())).unwrap_or_else(dash),
        formats(row.formats),
        of_status(|it| Some(it.backend.clone())).unwrap_or_else(dash),
        of_status(|it| Some(it.kernel.clone())).unwrap_or_else(dash),
        of_status(|it| it.load1.map(|load| format!("{load:.2}"))).unwrap_or_else(dash),
        of_status(memory).unwrap_or_else(dash),
        of_status(|it| it.jobs.map(|jobs| jobs.to_string())).unwrap_or_else(dash),
        match (row.clock_ahead_ns, row.clock_error_ns) {
            (Some(ahead), _) => {
                let sign = if ahead < 0 { "-" } else { "+" };
                format!("{sign}{}", duration(ahead.unsigned_abs()))
            }
            (None, Some(error)) => format!("±{}", duration(error)),
            (None, None) => dash(),
        },
        row.late_ns.map_or_else(dash, duration),
    ]
}

/// The share of memory that is in use.
fn memory(status: &NodeStatus) -> Option<String> {
    let (total, available) = status.mem_total_bytes.zip(status.mem_available_bytes)?;
    let used = total.saturating_sub(available) as f64 / total.max(1) as f64;
    Some(format!("{:.0}%", used * 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_protocol::cluster::{NodeOutcome, NodeReply};

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_clock_is_known_as_exactly_as_half_the_way_there_and_back() {
        let at = |there| clock(there, 100 * SECOND, 2 * SECOND);
        assert_eq!(at(101 * SECOND), ClockDifference { ahead_ns: None, error_ns: SECOND });
        assert_eq!(at(102 * SECOND).ahead_ns, None);
        assert_eq!(at(161 * SECOND).ahead_ns, Some(60_000_000_000));
        assert_eq!(at(41 * SECOND).ahead_ns, Some(-60_000_000_000));
    }

    fn member(node: &str, state: MemberState) -> Member {
        let since_unix_ns = Some(90 * SECOND);
        Member { node: node.to_owned(), state, since_unix_ns, formats: FORMATS }
    }

    #[test]
    fn a_dead_node_is_listed_and_a_silent_member_makes_the_answer_partial() {
        let status = NodeStatus {
            node: "n1".into(),
            version: "0.1.0".into(),
            backend: "ebpf".into(),
            kernel: "6.18".into(),
            unix_ns: 100 * SECOND,
            load1: Some(0.5),
            mem_total_bytes: Some(4),
            mem_available_bytes: Some(1),
            jobs: Some(2),
            ..NodeStatus::default()
        };
        let status = serde_json::to_string(&json!({ "id": 1, "result": status })).unwrap();
        let reply = |node: &str, outcome, reply: Option<&str>| NodeReply {
            node: node.to_owned(),
            outcome,
            late_ns: reply.map(|_| SECOND / 1000),
            reply: reply.map(str::to_owned),
            why: None,
        };
        let gathered = Gathered {
            sent_unix_ns: 100 * SECOND,
            nodes: vec![
                reply("n1", NodeOutcome::Executed, Some(&status)),
                reply("n3", NodeOutcome::Missing, None),
            ],
        };
        let members = Members {
            node: "n1".into(),
            state: ClusterState::Member,
            members: vec![
                member("n1", MemberState::Up),
                member("n2", MemberState::Dead),
                member("n3", MemberState::Up),
            ],
        };
        let view = ClusterView::of_all(members, gathered);
        assert_eq!(view.exit(), Exit::Partial);
        assert_eq!(view.notices(), ["n3: no reply"]);
        let text = view.text(false).unwrap();
        let words: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        let n1 = ["n1", "up", "10s", "0.1.0", "1", "ebpf", "6.18", "0.50", "75%", "2", "±500us"];
        assert_eq!((&words[1][..11], words[1][11]), (&n1[..], "1.0ms"), "{text}");
        assert_eq!(words[2][..3], ["n2", "dead", "10s"], "{text}");
    }

    #[test]
    fn a_member_whose_messages_are_not_read_is_named() {
        let with = |node: &str, newest: u32| Member {
            formats: MessageFormats { oldest: newest - 1, newest },
            ..member(node, MemberState::Up)
        };
        let members = Members {
            node: "n1".into(),
            state: ClusterState::Member,
            members: vec![with("n1", 3), with("n2", 3), with("n3", 2), with("n4", 4)],
        };
        let view = ClusterView::of_all(members, Gathered::default());
        let notices = view.notices();
        let has = |line: &str| notices.iter().any(|it| it == line);
        assert!(has("n3: it reads format 1-2, and n1 sends 3: refused there"), "{notices:?}");
        assert!(has("n4: its messages have format 4, and n1 reads 2-3: refused"), "{notices:?}");
        assert!(view.text(false).unwrap().contains(" 3-4 "));
        let json: serde_json::Value = serde_json::from_str(&view.text(true).unwrap()).unwrap();
        assert_eq!(json["nodes"][3]["formats"], json!({ "oldest": 3, "newest": 4 }));
    }
}
