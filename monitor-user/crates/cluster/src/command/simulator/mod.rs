//! Nodes over a simulated bus, with faults of all kinds; the same seed is the same run.
//!
//! ```text
//!  faults --> nodes <--packets--> network (the server)
//!  world: the true time, what was executed; outcomes: compared with what callers got to know
//! ```
//!
//! In: a seed and sizes, from the environment. Out: figures, or the first promise that was broken.
//! `cargo xtask soak simulator` runs the full sizes.

mod faults;
mod network;
mod nodes;
mod outcomes;
mod random;
mod run_kind;
mod world;

use super::executor::Check;
use network::MS;
use run_kind::{SMALL, Size};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use world::{SECOND, SimWorld};

/// Number of seeds of which each fault happens often.
const ENOUGH_SEEDS: u64 = 200;

/// Hash of all that happened, and how often what happened.
type Summary = (u64, BTreeMap<&'static str, u64>);

fn run(seed: u64, size: Size, without: Option<Check>) -> Result<Summary, String> {
    let mut world = SimWorld::new(seed, size, without);
    world.run_until(SECOND);
    let mut step = 0;
    while step < size.n_commands || (world.commands.len() as u64) < size.n_commands {
        world.disturb(step);
        let pause = world.random(300 * MS);
        world.run_until(world.now() + pause);
        step += 1;
        if world.violation.is_some() {
            break;
        }
    }
    world.settle();
    world.check_outcomes();
    let network = std::mem::take(&mut world.network.lock().counts);
    world.counts.extend(network);
    world.violation.map_or(Ok((world.trace, world.counts)), Err)
}

/// A number in the environment.
fn given(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|it| it.parse().unwrap_or_else(|_| panic!("{name}: no number")))
}

/// The totals of many seeds, on all processors; or the first seed that broke a promise.
fn run_seeds(seeds: Range<u64>, size: Size) -> Result<BTreeMap<&'static str, u64>, String> {
    let next = AtomicU64::new(seeds.start);
    let run_next = || {
        let mut total = BTreeMap::<_, u64>::new();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return Ok(total);
            }
            match run(seed, size, None) {
                Ok((_, counts)) => add(&mut total, counts),
                Err(violation) => {
                    next.store(seeds.end, Ordering::Relaxed);
                    return Err(format!("seed {seed}: {violation}"));
                }
            }
        }
    };
    let n_threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..n_threads).map(|_| scope.spawn(run_next)).collect();
        let mut total = BTreeMap::new();
        for thread in threads {
            add(&mut total, thread.join().expect("a seed that panics says so")?);
        }
        Ok(total)
    })
}

fn add(total: &mut BTreeMap<&'static str, u64>, counts: BTreeMap<&'static str, u64>) {
    for (what, n) in counts {
        *total.entry(what).or_default() += n;
    }
}

/// What fails, and what becomes of commands.
const COUNTED: [&str; 18] = [
    "calls",
    "copied messages",
    "departures",
    "executed",
    "expired",
    "gaps",
    "kills",
    "losses noticed",
    "losses of entries",
    "lost messages",
    "missing",
    "partitions",
    "pauses",
    "reboots",
    "refused",
    "removals",
    "repeated entries",
    "restarts of the server",
];

#[allow(clippy::print_stderr, reason = "the numbers are those of the journal")]
#[test]
fn each_outcome_is_true_whatever_fails() {
    let first = given("MONITOR_SIMULATOR_SEED").unwrap_or(0);
    let n_seeds = given("MONITOR_SIMULATOR_SEEDS").unwrap_or(ENOUGH_SEEDS);
    let size = Size {
        n_nodes: given("MONITOR_SIMULATOR_NODES").unwrap_or(SMALL.n_nodes),
        n_commands: given("MONITOR_SIMULATOR_COMMANDS").unwrap_or(SMALL.n_commands),
    };
    let Size { n_nodes, n_commands } = size;
    eprintln!("seeds from {first}: {n_seeds}, with {n_nodes} nodes, {n_commands} commands each");
    let total = run_seeds(first..first + n_seeds, size);
    let total = total.unwrap_or_else(|violation| panic!("{violation}"));
    eprintln!("{total:?}");
    if n_seeds < ENOUGH_SEEDS {
        // Of one seed, either nodes are rebooted or entries are lost.
        return;
    }
    for what in COUNTED {
        assert!(total.get(what).is_some_and(|n| *n >= 20), "{what} is too rare: {total:?}");
    }
    let decided = total["executed"] + total["expired"] + total["refused"];
    assert!(decided > 2 * total["missing"], "most outcomes are decided: {total:?}");
}

/// Without one of its checks a node breaks a promise, and the simulator finds that.
#[allow(clippy::print_stderr, reason = "the numbers are those of the journal")]
#[test]
fn each_check_is_needed() {
    let expected = [
        (Check::Ledger, "executed twice"),
        (Check::Order, "executed twice"),
        (Check::Deadline, "after the deadline"),
        (Check::Joining, "refused, but executed 1 times"),
        (Check::Pause, "removed in a pause"),
    ];
    for (check, violation) in expected {
        let found = (0..150).find(|seed| {
            run(*seed, SMALL, Some(check)).is_err_and(|found| found.contains(violation))
        });
        eprintln!("without {check:?}: \"{violation}\" at seed {found:?}");
        assert!(found.is_some(), "the simulator does not need {check:?}");
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    assert_eq!(run(7, SMALL, None), run(7, SMALL, None));
    assert_ne!(run(7, SMALL, None).unwrap().0, run(8, SMALL, None).unwrap().0);
}
