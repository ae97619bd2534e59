//! A cluster beside NATS's own floor: gathers, roll-ups, an idle member, deaths, a viewer that
//! stops, and the loss of servers.
//!
//! In: how many nodes there are at most, in `MONITOR_BENCH_NODES` (1,000 without it, and with
//! servers of racks up to 10,000); the parts that are measured, in `MONITOR_BENCH_PARTS`, all
//! without it. Out: lines with limits. Nodes are light agents of this process, which run the code
//! of a node over connections of their own, or daemons.

mod agents;
mod daemons;
mod death;
mod gather;
mod idle;
mod node;
mod recovery;
mod rollup;
mod sites;
mod viewers;

pub use daemons::serve_as_floor;

use monitor_nats::suite::has_server;

/// A part: its name, and what runs it with at most this number of nodes.
type Part = (&'static str, fn(usize));

const PARTS: &[Part] = &[
    ("idle", idle::run),
    ("death", death::run),
    ("daemons", daemons::run),
    ("agents", agents::run),
    ("racked-agents", agents::run_in_racks),
    ("rollup", rollup::run),
    ("racks", rollup::run_in_racks),
    ("recovery", recovery::run),
    ("viewers", viewers::run),
];

/// Runs all measurements.
pub fn run() {
    if !has_server() {
        return;
    }
    // Each agent has a connection, and so have the servers.
    let _limit = monitor_sys::fd_limit::raise();
    let most = std::env::var("MONITOR_BENCH_NODES").ok().and_then(|it| it.parse().ok());
    let wanted = std::env::var("MONITOR_BENCH_PARTS").ok();
    let is_wanted =
        |name: &str| wanted.as_ref().is_none_or(|all| all.split([' ', ',']).any(|it| it == name));
    for (_, run) in PARTS.iter().filter(|(name, _)| is_wanted(name)) {
        run(most.unwrap_or(sites::AGENTS).max(1));
    }
}
