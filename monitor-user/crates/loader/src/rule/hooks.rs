//! Attaches rule programs: probes for each program, a tracepoint while it has programs.
//!
//! A tracepoint runs the programs of its row in `HOOKS`. Fork and exit are also attached while
//! there are process sets: by a small program, unless rules have programs there.

use super::probes::{ProbeProgram, ProbeTargets, Probes};
use super::{encode::unsupported, map};
use crate::{kernel, object::Object};
use aya::programs::BtfTracePoint;
use monitor_backend::Error;
use monitor_backend::rule::{HookPoint, ProgramId, RuleProgram};
use monitor_ebpf::abi::rule::{self as abi, HookPrograms, PROGRAMS_PER_HOOK, hook};
use std::collections::{BTreeMap, BTreeSet};

/// Rows of the tracepoints, the BPF program of each, and the name.
const TRACEPOINTS: &[(u32, &str, &str)] = &[
    (hook::FORK, "fork", "sched_process_fork"),
    (hook::EXEC, "exec", "sched_process_exec"),
    (hook::EXIT, "exit", "sched_process_exit"),
    (hook::LEADERLESS_EXIT, "exit", "sched_process_exit"),
    (hook::SIGNAL_GENERATE, "signal_generate", "signal_generate"),
    (hook::SIGNAL_DELIVER, "signal_deliver", "signal_deliver"),
    (hook::SWITCH, "switch", "sched_switch"),
    (hook::WAKEUP, "wakeup", "sched_wakeup"),
];

/// The BPF program of rules, the one that keeps the process sets alone, and their tracepoint.
const OF_SETS: &[(&str, &str, &str)] = &[
    ("fork", "fork_of_sets", "sched_process_fork"),
    ("exit", "exit_of_sets", "sched_process_exit"),
];

/// The attached hooks.
#[derive(Default)]
pub struct Hooks {
    /// Number of process sets.
    pub n_sets: u32,
    /// The attached probes.
    pub probes: Probes,
    rows: BTreeMap<u32, Vec<ProgramId>>,
    /// The attached BPF programs.
    attached: BTreeSet<&'static str>,
}

/// How a program is attached.
pub enum Link {
    /// By probes.
    Probes,
    /// By the row of its tracepoint or event.
    Row(u32),
    /// Not attached: it is a switch.
    None,
}

impl Hooks {
    /// Attaches a program.
    pub fn link(
        &mut self,
        object: &mut Object,
        program: &RuleProgram,
        id: ProgramId,
    ) -> Result<Link, Error> {
        let bpf = match &program.hook {
            HookPoint::Entry(_) => "call",
            HookPoint::Ends(_) => "call_end",
            HookPoint::Trampoline(_) => "call_return",
            hook => return self.link_row(object, row(hook), id),
        };
        let targets = match (program.set, program.process) {
            (Some(set), _) => ProbeTargets::Set(set),
            (None, Some(process)) => ProbeTargets::Process(process),
            (None, None) => {
                let why = "a probe in all processes would slow all of them".to_owned();
                return Err(unsupported(why, "name the processes"));
            }
        };
        let by_trampoline = matches!(program.hook, HookPoint::Trampoline(_));
        let user = program.user.unwrap_or_else(|| rustix::process::geteuid().as_raw());
        let owner = by_trampoline.then_some(user);
        let program = ProbeProgram { bpf, sites: program.hook.sites().to_vec(), targets, owner };
        self.probes.add(object, id, program)?;
        Ok(Link::Probes)
    }

    fn link_row(&mut self, object: &mut Object, row: u32, id: ProgramId) -> Result<Link, Error> {
        let programs = self.rows.entry(row).or_default();
        if programs.len() == PROGRAMS_PER_HOOK {
            let why = format!("{PROGRAMS_PER_HOOK} programs are attached to this hook already");
            return Err(unsupported(why, "remove one, or combine programs"));
        }
        programs.push(id);
        let attached = self.write(object, row).and_then(|()| self.attach_needed(object));
        attached.inspect_err(|_| self.remove_program(object, row, id))?;
        Ok(Link::Row(row))
    }

    /// Detaches a program.
    pub fn unlink(&mut self, object: &mut Object, link: Link, id: ProgramId) {
        match link {
            Link::Probes => self.probes.remove(id),
            Link::Row(row) => self.remove_program(object, row, id),
            Link::None => {}
        }
    }

    fn remove_program(&mut self, object: &mut Object, row: u32, id: ProgramId) {
        if let Some(programs) = self.rows.get_mut(&row) {
            programs.retain(|program| *program != id);
        }
        let _ = self.write(object, row);
        // Only detaches here, which cannot fail.
        let _ = self.attach_needed(object);
    }

    fn write(&self, object: &mut Object, row: u32) -> Result<(), Error> {
        let mut hook = HookPrograms::default();
        let programs = self.rows.get(&row).into_iter().flatten();
        for (slot, program) in hook.programs.iter_mut().zip(programs) {
            *slot = program.0 + 1;
        }
        map::set(object, abi::HOOKS, row, &hook)
    }

    /// The BPF programs of tracepoints that are needed, each with its tracepoint.
    fn needed(&self) -> BTreeMap<&'static str, &'static str> {
        let is_used = |row: u32| self.rows.get(&row).is_some_and(|programs| !programs.is_empty());
        let of_rules = TRACEPOINTS.iter().filter(|(row, ..)| is_used(*row));
        let mut needed: BTreeMap<_, _> =
            of_rules.map(|&(_, program, tracepoint)| (program, tracepoint)).collect();
        for &(of_rules, of_sets, tracepoint) in OF_SETS {
            if self.n_sets > 0 && !needed.contains_key(of_rules) {
                let _ = needed.insert(of_sets, tracepoint);
            }
        }
        needed
    }

    /// Attaches the tracepoints that are needed, then detaches the others: where one program
    /// replaces another, the sets see each process, some of them twice.
    pub fn attach_needed(&mut self, object: &mut Object) -> Result<(), Error> {
        let needed = self.needed();
        let new = |program: &&str| !self.attached.contains(*program);
        let missing: Vec<_> = needed.keys().copied().filter(new).collect();
        if !missing.is_empty() {
            let types = kernel::types()?;
            for program in missing {
                object.attach(program, needed[program], &types)?;
                let _ = self.attached.insert(program);
            }
            drop(types);
            monitor_sys::memory::trim_heap();
        }
        for program in self.attached.extract_if(.., |it| !needed.contains_key(it)) {
            detach(object, program);
        }
        Ok(())
    }
}

fn detach(object: &mut Object, program: &str) {
    let found = object.program::<BtfTracePoint>(program);
    // If it is not loaded, there is nothing to do.
    let _ = found.map(|program| program.unload());
}

const fn row(hook: &HookPoint) -> u32 {
    match hook {
        HookPoint::Entry(_) | HookPoint::Ends(_) | HookPoint::Trampoline(_) => hook::NONE,
        HookPoint::Fork => hook::FORK,
        HookPoint::Exec => hook::EXEC,
        HookPoint::Exit => hook::EXIT,
        HookPoint::LeaderlessExit => hook::LEADERLESS_EXIT,
        HookPoint::SignalGenerate => hook::SIGNAL_GENERATE,
        HookPoint::SignalDeliver => hook::SIGNAL_DELIVER,
        HookPoint::Switch => hook::SWITCH,
        HookPoint::Wakeup => hook::WAKEUP,
        HookPoint::Raised(event) => hook::FIRST_USER_EVENT + event.0,
    }
}
