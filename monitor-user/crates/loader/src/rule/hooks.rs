//! Attaches rule programs: probes for each program, a tracepoint while it has programs.
//!
//! A tracepoint runs the programs of its row in `HOOKS`. Fork and exit are also attached while
//! there are process sets: by a small program, unless rules have programs there.

use super::hardware_breakpoints::HardwareBreakpoints;
use super::probes::{ProbeProgram, ProbeTargets, Probes};
use super::{encode::unsupported, map};
use crate::{kernel, object::Object};
use aya::{Btf, programs::tp_btf::BtfTracePointLinkId};
use monitor_backend::Error;
use monitor_backend::rule::{HookPoint, ProgramId, RuleProgram};
use monitor_ebpf::abi::rule::{self as abi, HookPrograms, PROGRAMS_PER_HOOK, hook};
use std::collections::BTreeMap;

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
    (hook::OOM_KILL, "oom_kill", "mark_victim"),
    (hook::MACHINE_CHECK, "machine_check", "mce_record"),
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
    hardware: HardwareBreakpoints,
    rows: BTreeMap<u32, Vec<ProgramId>>,
    /// Whether rules have programs at forks and ends all the time.
    is_for_calls: bool,
    /// The attached BPF programs of tracepoints. A program that is detached stays verified: the
    /// next tool that needs it does not wait for that.
    attached: BTreeMap<&'static str, (&'static str, BtfTracePointLinkId)>,
}

/// How a program is attached.
pub enum Link {
    /// By probes.
    Probes,
    /// By breakpoints of the processor.
    Hardware,
    /// By the row of its tracepoint or event.
    Row(u32),
    /// Not attached: it is a switch.
    None,
}

impl Hooks {
    /// Verifies the programs that the taps of calls need, all at the same time: of processes that
    /// fork, execute a program and end, and of probes. The first ones then also keep the sets.
    pub fn verify_for_calls(&mut self, object: &mut Object, probes: &[CallHook], types: &Btf) {
        let probes = probes.iter().map(|probe| (probe.program(), None));
        object.verify(&tracepoints(&["fork", "exec", "exit"]).chain(probes).collect(), types);
        self.is_for_calls = true;
    }

    /// Verifies the programs of the births and ends of processes.
    pub fn verify_for_events(object: &mut Object, types: &Btf) {
        object.verify(&tracepoints(&["fork", "exit"]).collect(), types);
    }

    /// Attaches a program.
    pub fn link(
        &mut self,
        object: &mut Object,
        program: &RuleProgram,
        id: ProgramId,
    ) -> Result<Link, Error> {
        if let HookPoint::Hardware(breakpoint) = program.hook {
            let process = program.process.ok_or_else(|| no_process("a breakpoint"))?;
            self.hardware.add(object, id, (process, breakpoint))?;
            return Ok(Link::Hardware);
        }
        let Some(call_hook) = CallHook::from_hook_point(&program.hook) else {
            return self.link_row(object, row(&program.hook), id);
        };
        let targets = match (program.set, program.process) {
            (Some(set), _) => ProbeTargets::Set(set),
            (None, Some(process)) => ProbeTargets::Process(process),
            (None, None) => return Err(no_process("a probe")),
        };
        let user = program.user.unwrap_or_else(|| rustix::process::geteuid().as_raw());
        let owner = (call_hook == CallHook::Trampoline).then_some(user);
        let bpf = call_hook.program();
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
            Link::Hardware => self.hardware.remove(id),
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
    fn needed(&self, object: &Object) -> BTreeMap<&'static str, &'static str> {
        let is_used = |row: u32| self.rows.get(&row).is_some_and(|programs| !programs.is_empty());
        let of_rules = TRACEPOINTS.iter().filter(|(row, ..)| is_used(*row));
        let mut needed: BTreeMap<_, _> =
            of_rules.map(|&(_, program, tracepoint)| (program, tracepoint)).collect();
        for &(of_rules, of_sets, tracepoint) in OF_SETS {
            if self.n_sets > 0 && !needed.contains_key(of_rules) {
                let is_ready = self.is_for_calls && object.is_verified(of_rules);
                let _ = needed.insert(if is_ready { of_rules } else { of_sets }, tracepoint);
            }
        }
        needed
    }

    /// Attaches the tracepoints that are needed, then detaches the others: where one program
    /// replaces another, the sets see each process, some of them twice.
    pub fn attach_needed(&mut self, object: &mut Object) -> Result<(), Error> {
        let needed = self.needed(object);
        let new = needed.iter().filter(|(program, _)| !self.attached.contains_key(*program));
        let missing: Vec<_> = new.map(|(program, tracepoint)| (*program, *tracepoint)).collect();
        verify(object, &missing)?;
        for (program, tracepoint) in missing {
            let link = match object.is_verified(program) {
                true => object.attach_verified(program, tracepoint)?,
                false => object.attach(program, tracepoint, &kernel::types()?)?,
            };
            let _ = self.attached.insert(program, (tracepoint, link));
        }
        let unneeded = self.attached.extract_if(.., |program, _| !needed.contains_key(program));
        for (program, (tracepoint, link)) in unneeded {
            object.detach(program, tracepoint, link);
        }
        Ok(())
    }
}

/// These programs, and the tracepoint of each.
fn tracepoints(programs: &[&str]) -> impl Iterator<Item = (&'static str, Option<&'static str>)> {
    let is_needed = |(_, program, _): &&(u32, &str, &str)| programs.contains(program);
    let all = TRACEPOINTS.iter().filter(is_needed);
    all.map(|(_, program, tracepoint)| (*program, Some(*tracepoint)))
}

fn no_process(what: &str) -> Error {
    unsupported(format!("{what} in all processes would slow all of them"), "name the processes")
}

/// Verifies those programs of tracepoints that are not verified, all at the same time.
fn verify(object: &mut Object, programs: &[(&str, &str)]) -> Result<(), Error> {
    let new = programs.iter().filter(|(program, _)| !object.is_verified(program));
    let new = BTreeMap::from_iter(new.map(|(program, tracepoint)| (*program, Some(*tracepoint))));
    if !new.is_empty() {
        object.verify(&new, &kernel::types()?);
        monitor_sys::memory::trim_heap();
    }
    Ok(())
}

/// Where a call is probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallHook {
    /// [`HookPoint::Entry`].
    Entry,
    /// [`HookPoint::Ends`].
    Ends,
    /// [`HookPoint::Trampoline`].
    Trampoline,
}

impl CallHook {
    const fn from_hook_point(hook: &HookPoint) -> Option<Self> {
        match hook {
            HookPoint::Entry(_) => Some(Self::Entry),
            HookPoint::Ends(_) => Some(Self::Ends),
            HookPoint::Trampoline(_) => Some(Self::Trampoline),
            _ => None,
        }
    }

    /// Its BPF program.
    const fn program(self) -> &'static str {
        match self {
            Self::Entry => "call",
            Self::Ends => "call_end",
            Self::Trampoline => "call_return",
        }
    }
}

const fn row(hook: &HookPoint) -> u32 {
    match hook {
        HookPoint::Entry(_)
        | HookPoint::Ends(_)
        | HookPoint::Trampoline(_)
        | HookPoint::Hardware(_) => hook::NONE,
        HookPoint::Fork => hook::FORK,
        HookPoint::Exec => hook::EXEC,
        HookPoint::Exit => hook::EXIT,
        HookPoint::LeaderlessExit => hook::LEADERLESS_EXIT,
        HookPoint::SignalGenerate => hook::SIGNAL_GENERATE,
        HookPoint::SignalDeliver => hook::SIGNAL_DELIVER,
        HookPoint::Switch => hook::SWITCH,
        HookPoint::Wakeup => hook::WAKEUP,
        HookPoint::OomKill => hook::OOM_KILL,
        HookPoint::MachineCheck => hook::MACHINE_CHECK,
        HookPoint::Raised(event) => hook::FIRST_USER_EVENT + event.0,
    }
}
