//! How soon the death of a daemon is in the order: killed, behind the server of a rack, hanging.

use super::node::Node;
use super::sites::{DEADLINE, TOOL, runtime};
use crate::measure::median;
use crate::service::quantile;
use crate::verdict::{Bar, line};
use monitor_nats::suite::{Agent, TestSite};
use rustix::process::Signal;
use std::time::Instant;
use tokio::runtime::Runtime;
use tokio::time::timeout;

/// Daemons of each kind.
const DEATHS: usize = 7;

pub fn run(_most: usize) {
    let nodes = format!("n[1-{}],{TOOL}", 2 * DEATHS);
    let mut site = TestSite::write_with_racks(1, &nodes, TOOL, &[format!("m[1-{DEATHS}]")]);
    site.start();
    let runtime = runtime();
    let _guard = runtime.enter();
    // It removes dead members, and sees that they are.
    let observer = site.agent(TOOL);
    runtime.block_on(observer.until(|view| view.is_member));
    let last = DEATHS + 1;
    let kinds = [
        ("a daemon is killed", ('n', 1), Signal::KILL, 200.0),
        ("killed behind the server of a rack", ('m', 1), Signal::KILL, 2000.0),
        ("stopped", ('n', last), Signal::STOP, 6000.0),
    ];
    for (what, (letter, first), signal, bar) in kinds {
        let names = (first..first + DEATHS).map(|it| format!("{letter}{it}"));
        let daemons: Vec<_> = names.map(|it| Node::start(&site, &it, "procfs")).collect();
        let n_members = daemons.len() + 1;
        let all = observer.until(|view| view.n_members >= n_members);
        runtime.block_on(async { timeout(DEADLINE, all).await }).expect("all are members");
        runtime.block_on(site.signs_of_life(n_members));
        let mut took: Vec<f64> = match signal {
            // All at once: each takes seconds.
            Signal::STOP => {
                let start = Instant::now();
                daemons.iter().for_each(|it| it.signal(signal));
                daemons.iter().map(|it| removed(&runtime, &observer, (it, start))).collect()
            }
            _ => daemons.iter().map(|it| killed(&runtime, &observer, it)).collect(),
        };
        line(&format!("{what}: dead after, p50"), median(took.clone()), "ms", Bar::None);
        line(&format!("{what}: most"), quantile(&mut took, 1.0), "ms", Bar::AtMost(bar));
        daemons.iter().for_each(|it| it.signal(Signal::KILL));
        let alone = observer.until(|view| view.n_members == 1);
        runtime.block_on(async { timeout(DEADLINE, alone).await }).expect("all are dead");
    }
}

/// Milliseconds from the kill of a daemon until it is removed.
fn killed(runtime: &Runtime, observer: &Agent, node: &Node) -> f64 {
    let start = Instant::now();
    node.signal(Signal::KILL);
    removed(runtime, observer, (node, start))
}

/// Milliseconds from a time until a node is removed.
fn removed(runtime: &Runtime, observer: &Agent, (node, start): (&Node, Instant)) -> f64 {
    let seen = observer.until(|view| view.removed.contains(&node.name));
    let seen = runtime.block_on(async { timeout(DEADLINE, seen).await });
    seen.expect("it is removed");
    start.elapsed().as_secs_f64() * 1e3
}
