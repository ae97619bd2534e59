//! Whether calls of functions can be followed here, and what a call then costs: tried on a
//! function of this program, which nobody else calls.
//!
//! In: nothing. Out: the health of library calls, for `doctor`. Nothing stays attached; rules that
//! somebody asked for are not touched.

use super::KernelRules;
use crate::ebpf::health;
use monitor_backend::Error;
use monitor_backend::rule::act::{Act, CellKind};
use monitor_backend::rule::{List, Place, Rules as _, Site};
use monitor_model::id::Pid;
use monitor_model::probe::{Health, Probe};
use monitor_model::want::Capability;
use monitor_proc::maps;
use std::hint::black_box;
use std::path::Path;

/// How often the function is called.
const ROUNDS: u64 = 100;
/// What serves the beginning of a call; its end is served by the second.
const HOOKS: [&str; 2] = ["uprobe", "uretprobe"];
/// What `doctor` is told of where the probe was.
const SELF: &str = "/proc/self/exe";

/// How library calls are served here.
pub fn tried() -> Probe {
    match followed() {
        Ok(probe) => probe,
        Err(error) => {
            Probe { health: health::refused(&error), ..Probe::off(Capability::LibraryCalls) }
        }
    }
}

/// Calls the function under probes, and counts.
fn followed() -> Result<Probe, Error> {
    let mut rules = KernelRules::open()?;
    let counts = [rules.make_cell(CellKind::Sum)?, rules.make_cell(CellKind::Sum)?];
    let site = site()?;
    let places = [Place::Entry(site.clone()), Place::Return(site)];
    for (place, count) in places.into_iter().zip(counts) {
        let list = List::new(place, None, vec![Act::Count(count)]);
        let id = rules.add(&list)?;
        rules.enable(id);
    }
    let function: extern "C" fn(u64) -> u64 = black_box(called);
    for round in 0..ROUNDS {
        let _ = black_box(function(round));
    }
    let events = counts.map(|it| rules.cell(it).and_then(|n| u64::try_from(n).ok()).unwrap_or(0));
    let probe = health::probe(Capability::LibraryCalls, &rules.object, 0);
    // Others that run this program may have called it too.
    let health = match events.iter().find(|seen| **seen < ROUNDS) {
        Some(seen) => Health::Failed { error: format!("{seen} of {ROUNDS} calls were seen") },
        None => probe.health,
    };
    Ok(Probe { health, events: events[0], hooks: HOOKS.map(str::to_owned).to_vec(), ..probe })
}

/// Where the function stands in the file of this program.
fn site() -> Result<Site, Error> {
    let address = called as extern "C" fn(u64) -> u64 as usize as u64;
    let told = |source| Error::Kernel { call: "read", what: "/proc/self/maps".into(), source };
    let mapped = maps::mappings(Path::new("/proc"), Pid(std::process::id())).map_err(told)?;
    let it = mapped.iter().find(|it| (it.start..it.end).contains(&address));
    let it = it.ok_or_else(|| Error::Malformed {
        what: "/proc/self/maps".into(),
        want: "the code of this program".into(),
    })?;
    Ok(Site { path: SELF.into(), offset: address - it.start + it.offset })
}

/// What is called.
#[inline(never)]
extern "C" fn called(round: u64) -> u64 {
    black_box(round)
}
