//! Which programs are attached where: a probe for each list, a tracepoint while it has lists.
//!
//! A probe is one perf event and one link with the list's number as its cookie (5.15). What a
//! tracepoint runs stands in its row. Fork and exit are attached as long as there are sets, too.

use super::code::unsupported;
use super::map;
use crate::ebpf::kernel;
use crate::ebpf::object::{Object, refused_program};
use aya::programs::uprobe::{UProbeAttachLocation, UProbeAttachPoint, UProbeLinkId, UProbeScope};
use aya::programs::{BtfTracePoint, ProgramError, UProbe};
use monitor_backend::Error;
use monitor_backend::rule::{ListId, Place, Site};
use monitor_ebpf::abi::rule::{self as abi, Hook, LISTS_PER_HOOK, hook};
use std::collections::{BTreeMap, BTreeSet};

/// Rows of tracepoints, with program and tracepoint.
const TRACEPOINTS: &[(u32, &str, &str)] = &[
    (hook::FORK, "fork", "sched_process_fork"),
    (hook::EXEC, "exec", "sched_process_exec"),
    (hook::EXIT, "exit", "sched_process_exit"),
    (hook::SIGNAL_GENERATE, "signal_generate", "signal_generate"),
    (hook::SIGNAL_DELIVER, "signal_deliver", "signal_deliver"),
    (hook::SWITCH, "switch", "sched_switch"),
    (hook::WAKEUP, "wakeup", "sched_wakeup"),
];

/// What is attached.
#[derive(Default)]
pub struct Hooks {
    /// How many sets there are.
    pub n_sets: u32,
    rows: BTreeMap<u32, Vec<ListId>>,
    attached: BTreeSet<u32>,
}

/// How a list is attached.
pub enum Link {
    /// By a probe of this program.
    Probe(&'static str, UProbeLinkId),
    /// By its row.
    Row(u32),
    /// Nothing runs it: it is a switch.
    Nowhere,
}

impl Hooks {
    /// Attaches a list.
    pub fn link(&mut self, object: &mut Object, place: &Place, id: ListId) -> Result<Link, Error> {
        match place {
            Place::Entry(site) => probe(object, "call", site, id),
            Place::Return(site) => probe(object, "call_return", site, id),
            _ => self.link_row(object, row(place), id),
        }
    }

    fn link_row(&mut self, object: &mut Object, row: u32, id: ListId) -> Result<Link, Error> {
        let lists = self.rows.entry(row).or_default();
        if lists.len() == LISTS_PER_HOOK {
            let why = format!("{LISTS_PER_HOOK} lists run there already");
            return Err(unsupported(why, "remove one, or put their acts into one list"));
        }
        lists.push(id);
        let attached = self.write(object, row).and_then(|()| self.settle(object));
        attached.inspect_err(|_| self.forget(object, row, id))?;
        Ok(Link::Row(row))
    }

    /// Detaches a list.
    pub fn unlink(&mut self, object: &mut Object, link: Link, id: ListId) {
        match link {
            Link::Probe(program, link) => {
                let found = object.program::<UProbe>(program);
                // It is attached; else there is nothing to do.
                let _ = found.map(|program| program.detach(link));
            }
            Link::Row(row) => self.forget(object, row, id),
            Link::Nowhere => {}
        }
    }

    fn forget(&mut self, object: &mut Object, row: u32, id: ListId) {
        if let Some(lists) = self.rows.get_mut(&row) {
            lists.retain(|list| *list != id);
        }
        let _ = self.write(object, row);
        // Only lets go here, which cannot be refused.
        let _ = self.settle(object);
    }

    fn write(&self, object: &mut Object, row: u32) -> Result<(), Error> {
        let mut hook = Hook::default();
        let lists = self.rows.get(&row).into_iter().flatten();
        for (place, list) in hook.lists.iter_mut().zip(lists) {
            *place = list.0 + 1;
        }
        map::set(object, abi::HOOKS, row, &hook)
    }

    /// Attaches the tracepoints that are needed, and lets go of the others.
    pub fn settle(&mut self, object: &mut Object) -> Result<(), Error> {
        let needed = |row: u32| {
            let has_lists = self.rows.get(&row).is_some_and(|lists| !lists.is_empty());
            has_lists || (self.n_sets > 0 && matches!(row, hook::FORK | hook::EXIT))
        };
        let (mut types, attached) = (None, self.attached.clone());
        for &(row, program, tracepoint) in TRACEPOINTS {
            match (needed(row), attached.contains(&row)) {
                (true, false) => {
                    // The kernel's types are read for the first that needs them.
                    let types = match &mut types {
                        Some(types) => types,
                        none => none.insert(kernel::types()?),
                    };
                    object.attach(program, tracepoint, types)?;
                    let _ = self.attached.insert(row);
                }
                (false, true) => {
                    detach(object, program);
                    let _ = self.attached.remove(&row);
                }
                _ => {}
            }
        }
        if types.take().is_some() {
            monitor_sys::memory::give_back();
        }
        Ok(())
    }
}

fn detach(object: &mut Object, program: &str) {
    let found = object.program::<BtfTracePoint>(program);
    // It is loaded; else there is nothing to do.
    let _ = found.map(|program| program.unload());
}

const fn row(place: &Place) -> u32 {
    match place {
        Place::Entry(_) | Place::Return(_) => hook::NONE,
        Place::Fork => hook::FORK,
        Place::Exec => hook::EXEC,
        Place::Exit => hook::EXIT,
        Place::SignalGenerate => hook::SIGNAL_GENERATE,
        Place::SignalDeliver => hook::SIGNAL_DELIVER,
        Place::Switch => hook::SWITCH,
        Place::Wakeup => hook::WAKEUP,
        Place::Raised(event) => hook::FIRST_USER + event.0,
    }
}

fn probe(object: &mut Object, name: &'static str, site: &Site, id: ListId) -> Result<Link, Error> {
    let what = format!("a probe on {} at {:#x}", site.path.display(), site.offset);
    let refused = |error: ProgramError| refused_program(&what, error);
    let program: &mut UProbe = object.program(name)?;
    if program.fd().is_err() {
        program.load().map_err(refused)?;
    }
    let location = UProbeAttachLocation::AbsoluteOffset(site.offset);
    let point = UProbeAttachPoint { location, cookie: Some(id.0.into()) };
    let link = program.attach(point, &site.path, UProbeScope::AllProcesses).map_err(refused)?;
    Ok(Link::Probe(name, link))
}
