//! A member without a viewer, with 1,000 processes: beside a daemon alone that reads the same
//! fields once a second, and beside itself while a gateway asks.

use super::node::{Connection, Node};
use super::sites::{TOOL, site};
use crate::load::{Sleepers, processes};
use crate::verdict::{Bar, line};
use serde_json::json;
use std::thread::sleep;
use std::time::{Duration, Instant};

const PROCESSES: usize = 1000;
/// Until what a start costs is over.
const WARM_UP: Duration = Duration::from_secs(8);
const MEASURED: Duration = Duration::from_secs(40);
/// What a roll-up is made of.
const PROCESS_FIELDS: [&str; 7] =
    ["uid", "user", "job", "cpu_percent", "rss_bytes", "read_bytes_per_s", "written_bytes_per_s"];
const USER_FIELDS: [&str; 9] = [
    "cpu_percent",
    "rss_bytes",
    "read_bytes_per_s",
    "written_bytes_per_s",
    "node.load1",
    "node.online_cpus",
    "node.cpu_busy_percent",
    "node.mem_total_bytes",
    "node.mem_available_bytes",
];
const IS_JOB: &str = "job !~ \"unit:\" and job !~ \"session:\" and job !~ \"container:\"";

pub fn run(_most: usize) {
    let _sleepers = Sleepers::up_to(PROCESSES);
    let site = site(2, ",a1");
    let service = Node::start(&site, TOOL, "auto");
    service.connect().sees(1);
    let member = Node::start(&site, "n1", "auto");
    let asked = Node::start(&site, "web", "auto");
    let alone_at = site.folder.join("nodes/a1");
    // No section of a cluster: the node is alone.
    std::fs::write(alone_at.join("monitor.toml"), "").unwrap();
    let alone = Node::start_in(&alone_at, "a1", "auto");
    member.connect().sees(3);
    println!("  {} processes", processes());
    let mut reader = alone.connect();
    read_once_a_second(&mut reader);
    sleep(WARM_UP);
    let nodes = [&alone, &member, &service];
    let [reading, idle, holder] = percent(nodes, Node::cpu_ns);
    let bus = percent_of_thread(&member);
    let of_holder = percent_of_thread(&service);
    line("alone, read once a second", reading, "% core", Bar::None);
    line("a member without a viewer", idle, "% core", Bar::None);
    line("a member / alone", idle / reading, "x", Bar::AtMost(1.1));
    line("the bus of a member", bus.0, "% core", Bar::AtMost(0.02));
    line("the bus of a member: wakes a second", bus.1, "", Bar::None);
    line("a member that removes dead ones", holder, "% core", Bar::None);
    line("its bus", of_holder.0, "% core", Bar::None);
    line("its bus: wakes a second", of_holder.1, "", Bar::None);
    let mut viewer = asked.connect();
    let looks = Instant::now();
    let look = |viewer: &mut Connection| drop(viewer.call("rollup", &json!({})));
    while looks.elapsed() < WARM_UP {
        look(&mut viewer);
        sleep(Duration::from_secs(2));
    }
    let before = [&alone, &member].map(Node::cpu_ns);
    while looks.elapsed() < WARM_UP + MEASURED {
        look(&mut viewer);
        sleep(Duration::from_secs(2));
    }
    let [reading, asked] = [&alone, &member].map(Node::cpu_ns);
    let ratio = (asked - before[1]) / (reading - before[0]);
    line("a member whose roll-ups a gateway reads / alone", ratio, "x", Bar::AtMost(1.1));
}

/// Two series, as those of a roll-up.
fn read_once_a_second(reader: &mut Connection) {
    let every_ns = 1_000_000_000_u64;
    let jobs = json!({
        "part": "proc", "filter": IS_JOB, "fields": PROCESS_FIELDS, "every_ns": every_ns,
    });
    let users = json!({
        "part": "all", "group_by": "user", "fields": USER_FIELDS, "every_ns": every_ns,
    });
    let _first = reader.call("monitor", &jobs).unwrap();
    let _first = reader.call("monitor", &users).unwrap();
}

/// Percent of a core of each, in the same time.
fn percent<const N: usize>(nodes: [&Node; N], cpu: fn(&Node) -> f64) -> [f64; N] {
    let (before, start) = (nodes.map(cpu), Instant::now());
    sleep(MEASURED);
    let after = nodes.map(cpu);
    let elapsed = start.elapsed().as_nanos() as f64;
    std::array::from_fn(|at| (after[at] - before[at]) / elapsed * 100.0)
}

/// Percent of a core of the thread of the bus, and how often it woke up in a second.
fn percent_of_thread(node: &Node) -> (f64, f64) {
    let (before, start) = (node.thread("cluster"), Instant::now());
    sleep(MEASURED);
    let after = node.thread("cluster");
    let elapsed = start.elapsed().as_secs_f64();
    ((after.0 - before.0) / elapsed / 1e9 * 100.0, (after.1 - before.1) / elapsed)
}
