//! Probes of rule programs: a perf event for each program, site and process.
//!
//! A perf event with a process puts the breakpoint into that process's memory alone
//! (`uprobe_perf_filter` in kernel/trace/trace_uprobe.c); a child that it forks has a copy until
//! it hits it, executes a program or ends. So a probe never slows or endangers another process.
//! The event belongs to one thread: when that has ended, the kernel drops the breakpoint.
//! The program's id is the cookie of each link (5.15).

use super::{
    encode::unsupported, probe_closer::ProbeCloser, probed_thread::ProbedThread, process_sets,
};
use crate::object::{Object, refused, refused_program};
use crate::uprobe_link::UprobeLink;
use aya::programs::{ProbeKind, UProbe};
use monitor_backend::rule::{ProgramId, Site};
use monitor_backend::{Error, rule::insn::ProcessSetId};
use monitor_backends::procfs;
use monitor_model::{Ns, Pid, user_budget::UserBudget};
use monitor_sys::{bpf, clock, perf_event};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::fd::AsFd as _;
use std::os::unix::{ffi::OsStrExt as _, fs::MetadataExt as _};
use std::sync::Arc;

/// Most probes, each with two descriptors. To set one takes the kernel about 12 ms
/// (docs/journal/2026-11-23-probes.md).
const MAX_PROBES: usize = 2048;

/// Probes in processes of one user that join a set, at once; then one after each interval: other
/// requests wait while they are set.
const BURST: u64 = 256;
const INTERVAL: Ns = Ns(1_000_000_000);

/// Where a program is to be probed.
pub struct ProbeProgram {
    /// The BPF program.
    pub bpf: &'static str,
    /// Its sites.
    pub sites: Vec<Site>,
    /// The processes.
    pub targets: ProbeTargets,
    /// The user whose processes alone are probed, if it is dangerous for them.
    pub owner: Option<u32>,
}

/// The processes of a program with probes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ProbeTargets {
    /// The members of a set, also later ones.
    Set(ProcessSetId),
    /// One process.
    Process(Pid),
}

/// All probes.
pub struct Probes {
    programs: BTreeMap<ProgramId, ProbeProgram>,
    processes: BTreeMap<Pid, ProbedProcess>,
    /// Probes of the processes.
    n_set: usize,
    closer: ProbeCloser,
    /// For processes that join a set: children of a member may be many.
    budget: UserBudget,
}

/// A process with probes.
struct ProbedProcess {
    thread: Arc<ProbedThread>,
    links: BTreeMap<ProgramId, Vec<UprobeLink>>,
}

impl Default for Probes {
    fn default() -> Self {
        let (programs, processes, n_set, closer) = Default::default();
        Self { programs, processes, n_set, closer, budget: UserBudget::new(BURST, INTERVAL) }
    }
}

impl Probes {
    /// Adds a program, with probes in all processes that it is for; or none of them.
    pub fn add(
        &mut self,
        object: &mut Object,
        id: ProgramId,
        program: ProbeProgram,
    ) -> Result<(), Error> {
        let processes = match program.targets {
            ProbeTargets::Set(set) => process_sets::members_of(object, set),
            ProbeTargets::Process(pid) => vec![pid],
        };
        let _none = self.programs.insert(id, program);
        // Before the first one is set, all are counted.
        let room = self.check_room(id, processes.len());
        let attach_all =
            || processes.into_iter().try_for_each(|pid| self.attach(object, id, pid).map(drop));
        room.and_then(|()| attach_all()).inspect_err(|_| self.remove(id))
    }

    /// Removes a program and its probes.
    pub fn remove(&mut self, id: ProgramId) {
        let _program = self.programs.remove(&id);
        let processes = self.processes.iter_mut();
        let links =
            processes.filter_map(|(_, it)| Some((Arc::clone(&it.thread), it.links.remove(&id)?)));
        for (thread, links) in Vec::from_iter(links) {
            self.close(&thread, [(id, links)]);
        }
        self.processes.retain(|_, process| !process.links.is_empty());
    }

    /// Sets the probes of the sets that a process belongs to, and those that the kernel has dropped
    /// because their thread has ended; returns how many were not set before.
    pub fn attach_in(&mut self, object: &mut Object, pid: Pid) -> Result<usize, Error> {
        if self.processes.get(&pid).is_some_and(|it| !it.thread.is_alive())
            && let Some(process) = self.processes.remove(&pid)
        {
            self.close(&process.thread, process.links);
        }
        let sets = process_sets::sets_of(object, pid);
        let is_for = |program: &ProbeProgram| match program.targets {
            ProbeTargets::Set(set) => sets & process_sets::bit(set) != 0,
            ProbeTargets::Process(process) => process == pid,
        };
        let wanted = self.programs.iter().filter(|(_, program)| is_for(program));
        let mut n_new = 0;
        for id in Vec::from_iter(wanted.map(|(id, _)| *id)) {
            if self.is_probed(pid, id) {
                continue;
            }
            self.check_room(id, 1)?;
            self.check_budget(id, pid)?;
            n_new += self.attach(object, id, pid)?;
        }
        Ok(n_new)
    }

    /// Refuses the probes of a program in this number of processes beyond the limit.
    fn check_room(&mut self, id: ProgramId, n_processes: usize) -> Result<(), Error> {
        self.close_ended();
        let Some(program) = self.programs.get(&id) else { return Ok(()) };
        let n_probes = program.sites.len() * n_processes;
        if self.n_set + self.closer.n_waiting() + n_probes > MAX_PROBES {
            let why = format!("at most {MAX_PROBES} probes can be set");
            return Err(unsupported(why, "watch fewer functions, or fewer processes"));
        }
        Ok(())
    }

    /// Counts the probes of a program in a process that joins its set; refuses them if those of the
    /// processes of its user are too many.
    fn check_budget(&mut self, id: ProgramId, pid: Pid) -> Result<(), Error> {
        let Some(program) = self.programs.get(&id) else { return Ok(()) };
        // A process that has ended gets no probes.
        let Ok(process) = std::fs::metadata(format!("/proc/{}", pid.0)) else { return Ok(()) };
        if self.budget.take(process.uid(), program.sites.len(), clock::boot()) {
            return Ok(());
        }
        let why = format!("new processes of user {} got {BURST} probes already", process.uid());
        Err(unsupported(why, "watch fewer functions, or detach a parent of many processes"))
    }

    /// Whether the probes of a program are set in a process.
    fn is_probed(&self, pid: Pid, id: ProgramId) -> bool {
        let has_probes =
            |it: &ProbedProcess| it.links.contains_key(&id) && !it.thread.process_has_ended();
        self.processes.get(&pid).is_some_and(has_probes)
    }

    /// Removes the probes of a set from a process that leaves it.
    pub fn detach_from(&mut self, pid: Pid, set: ProcessSetId) {
        let Some(process) = self.processes.get_mut(&pid) else { return };
        let of_set = |id: &ProgramId| {
            self.programs.get(id).is_some_and(|it| it.targets == ProbeTargets::Set(set))
        };
        let links = Vec::from_iter(process.links.extract_if(.., |id, _| of_set(id)));
        let thread = Arc::clone(&process.thread);
        if process.links.is_empty() {
            let _process = self.processes.remove(&pid);
        }
        self.close(&thread, links);
    }

    /// Closes the probes of processes that have ended.
    fn close_ended(&mut self) {
        let ended = self.processes.extract_if(.., |_, it| it.thread.process_has_ended());
        for (_, process) in Vec::from_iter(ended) {
            self.close(&process.thread, process.links);
        }
    }

    /// Removes probes of a thread.
    fn close(
        &mut self,
        thread: &Arc<ProbedThread>,
        links: impl IntoIterator<Item = (ProgramId, Vec<UprobeLink>)>,
    ) {
        for (id, links) in links {
            self.n_set -= links.len();
            self.closer.close(id, thread, links);
        }
    }

    /// Whether probes are being removed.
    pub fn has_leaving(&self) -> bool {
        self.closer.is_busy()
    }

    /// Whether probes of a program that was removed are still set: its id is in use.
    pub fn has_probes(&self, id: ProgramId) -> bool {
        self.closer.has_probes(id)
    }

    /// Sets the probes of a program in a process, unless they are set; a process that has ended
    /// gets none. Returns how many were set.
    fn attach(&mut self, object: &mut Object, id: ProgramId, pid: Pid) -> Result<usize, Error> {
        if self.is_probed(pid, id) {
            return Ok(0);
        }
        let Some(program) = self.programs.get(&id) else { return Ok(0) };
        if let Some(owner) = program.owner.filter(|it| procfs::real_uid(pid) != Some(*it)) {
            tracing::warn!(pid = pid.0, "only processes of user {owner} get a return trampoline");
            return Ok(0);
        }
        let known = self.processes.get(&pid).map(|it| &it.thread);
        let thread = match known.filter(|thread| thread.is_alive()) {
            Some(known) => Arc::clone(known),
            None => Arc::new(ProbedThread::of_process(pid)),
        };
        let mut links = self.closer.take_back(id, thread.tid);
        if links.len() < program.sites.len() {
            links.clear();
        }
        for site in program.sites.iter().skip(links.len()) {
            match attach_at(object, program.bpf, site, (id, thread.tid))? {
                Some(link) => links.push(link),
                None => break,
            }
        }
        // It may have ended meanwhile, and its pid may belong to a process of another user.
        if thread.process_has_ended() {
            return Ok(0);
        }
        let n_links = links.len();
        self.n_set += n_links;
        let new = || ProbedProcess { thread, links: BTreeMap::new() };
        let process = self.processes.entry(pid).or_insert_with(new);
        let _none = process.links.insert(id, links);
        Ok(n_links)
    }
}

/// Sets one probe; none in a process that has ended.
fn attach_at(
    object: &mut Object,
    bpf: &'static str,
    site: &Site,
    (id, tid): (ProgramId, Pid),
) -> Result<Option<UprobeLink>, Error> {
    let what = format!("a probe on {} at {:#x}", site.path.display(), site.offset);
    let program: &mut UProbe = object.program(bpf)?;
    if program.fd().is_err() {
        program.load().map_err(|error| refused_program(&what, error))?;
    }
    let is_return = matches!(program.kind(), ProbeKind::Return);
    let path = CString::new(site.path.as_os_str().as_bytes());
    let path = path.map_err(|_| Error::malformed(what.clone(), "a path without NUL"))?;
    let event = match perf_event::open_uprobe(tid, (&path, site.offset), is_return) {
        Ok(event) => event,
        Err(error) if Errno::from_io_error(&error) == Some(Errno::SRCH) => return Ok(None),
        Err(error) => return Err(refused(&what, &error, "perf_event_open")),
    };
    let linked = program.fd().map_err(|error| refused_program(&what, error)).and_then(|program| {
        let link = bpf::link_perf_event(program.as_fd(), event.as_fd(), id.0.into());
        link.map_err(|error| refused(&what, &error, "bpf_link_create"))
    });
    // The link has the event; without a link, this is the last descriptor of a probe.
    match linked {
        Ok(link) => Ok(Some(UprobeLink::new(link))),
        Err(error) => {
            drop(UprobeLink::new(event));
            Err(error)
        }
    }
}
