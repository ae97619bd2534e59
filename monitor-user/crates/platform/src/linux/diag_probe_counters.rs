//! Static probes of this node's processes, counted in the kernel with a cell for each.
//!
//! In: the processes. Out: the hits of each probe. A rule program counts for one process at one
//! site, so nothing is reported for a hit. A process that executes or loads something is scanned
//! again within a second.

use crate::{node::DiagProbeCount, poller::backend_refusal};
use monitor_backend::Opener;
use monitor_backend::rule::insn::{Builtin, Cell, CellKind, Compare, Insn, Reg as Slot, Width};
use monitor_backend::rule::{HookPoint, ProgramId, RuleProgram, RuleResource, Rules, Site};
use monitor_event::outcome::Refusal;
use monitor_model::{DiagOrigin, Environ, Identity, Ns, Origin, Pid};
use monitor_omis::Status;
use monitor_proc::maps::mappings;
use monitor_sampling::job::Membership;
use monitor_symbols::diag_probes::{self, DiagProbe, EventsPerHit};
use monitor_symbols::site::ProbeSite;
use monitor_sys::clock;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::{SystemTime, UNIX_EPOCH};
use std::{path::Path, sync::Arc};

/// The interval between two scans of a process.
const SCAN_INTERVAL: Ns = Ns(1_000_000_000);
const PROC: &str = "/proc";

/// The counted probes of all processes.
pub(super) struct DiagProbeCounters {
    opener: Opener,
    rules: Option<Box<dyn Rules>>,
    processes: BTreeMap<Identity, ProcessProbes>,
    last_scan: Ns,
}

/// The probes of a process.
#[derive(Default)]
struct ProcessProbes {
    counted: Vec<ProbeCounter>,
    /// The files that were mapped at the last scan.
    mapped: HashSet<u64>,
}

struct ProbeCounter {
    probe: Arc<DiagProbe>,
    /// Held open, so that the file stays what it is.
    site: ProbeSite,
    program: ProgramId,
    cell: Cell,
    last: u64,
}

impl DiagProbeCounters {
    /// Without processes.
    pub(super) fn new(opener: Opener) -> Self {
        Self { opener, rules: None, processes: BTreeMap::new(), last_scan: Ns(0) }
    }

    /// The rules that count, opened when first needed; or why there are none.
    pub(super) fn rules(&mut self) -> Result<&mut dyn Rules, Refusal> {
        if self.rules.is_none() {
            let Some(opened) = self.opener.rules() else {
                let text = "static probes are counted by eBPF only: see monitor doctor";
                return Err(Refusal::new(Status::UNSUPPORTED, text));
            };
            self.rules = Some(opened.map_err(backend_refusal)?);
        }
        Ok(self.rules.as_deref_mut().expect("it was opened above"))
    }

    /// Counts the probes of exactly these processes.
    pub(super) fn set_processes(&mut self, processes: &BTreeSet<Identity>) {
        let gone = self.processes.extract_if(.., |id, _| !processes.contains(id));
        for it in gone.flat_map(|(_, it)| it.counted).collect::<Vec<_>>() {
            self.remove_counter(it.program, it.cell);
        }
        for id in processes {
            if !self.processes.contains_key(id) {
                let _none = self.processes.insert(*id, ProcessProbes::default());
                self.scan(*id);
            }
        }
    }

    /// Looks for probes that are not counted yet, if anything was mapped since.
    fn scan(&mut self, id: Identity) {
        let mapped = mapped(id.pid);
        let Some(probed) = self.processes.get_mut(&id).filter(|it| it.mapped != mapped) else {
            return;
        };
        probed.mapped = mapped;
        // One that has ended has nothing more to be found.
        let Ok((found, failed)) = diag_probes::in_process(Path::new(PROC), id.pid) else { return };
        for error in failed {
            tracing::debug!("static probes of process {}: {error}", id.pid.0);
        }
        for (probe, site) in found {
            if let Err(why) = self.add(id, probe, site) {
                tracing::warn!("a static probe of process {} is not counted: {why}", id.pid.0);
            }
        }
    }

    fn add(&mut self, id: Identity, probe: Arc<DiagProbe>, site: ProbeSite) -> Result<(), Refusal> {
        let Some(probed) = self.processes.get(&id) else { return Ok(()) };
        let is_it = |it: &ProbeCounter| {
            (it.site.file.identity, it.site.offset) == (site.file.identity, site.offset)
        };
        if probed.counted.iter().any(is_it) {
            return Ok(());
        }
        let rules = self.rules()?;
        let cell = rules.make_cell(CellKind::Sum).map_err(backend_refusal)?;
        let place = Site { path: site.file.attach_path(), offset: site.offset };
        let (slot, pid) = (Slot(0), i64::from(id.pid.0));
        // A child made by vfork(2) shares the memory, and with it the probe.
        let mut insns =
            vec![Insn::Builtin(slot, Builtin::Pid), Insn::Filter(slot, Compare::Equal, pid)];
        match probe.events_per_hit {
            EventsPerHit::One => insns.push(Insn::Count(cell)),
            // A negative argument would subtract events that were reported.
            EventsPerHit::Argument => insns.extend([
                Insn::Argument(slot, 0, Width::U64),
                Insn::Filter(slot, Compare::AtLeast, 0),
                Insn::Add(cell, slot),
            ]),
        }
        let program = RuleProgram::new(HookPoint::Entry(place), None, insns);
        let program = RuleProgram { process: Some(id.pid), ..program };
        let program = match rules.add(&program) {
            Ok(program) => program,
            Err(error) => {
                rules.free(RuleResource::Cell(cell));
                return Err(backend_refusal(error));
            }
        };
        rules.enable(program);
        let counted = ProbeCounter { probe, site, program, cell, last: 0 };
        if let Some(probed) = self.processes.get_mut(&id) {
            probed.counted.push(counted);
        }
        Ok(())
    }

    fn remove_counter(&mut self, program: ProgramId, cell: Cell) {
        if let Some(rules) = &mut self.rules {
            rules.remove(program);
            rules.free(RuleResource::Cell(cell));
        }
    }

    /// The hits since the last call; processes are scanned again once in a while.
    pub(super) fn take_counts(&mut self) -> Vec<DiagProbeCount> {
        let mut counts = Vec::new();
        let Some(rules) = &self.rules else { return counts };
        for (id, probed) in &mut self.processes {
            for it in &mut probed.counted {
                let count = rules.cell(it.cell).unwrap_or(0).cast_unsigned();
                let times = count.saturating_sub(it.last);
                it.last = count;
                counts.extend((times > 0).then(|| (*id, Arc::clone(&it.probe), times)));
            }
        }
        let now = clock::boot();
        if now.since(self.last_scan) >= SCAN_INTERVAL {
            self.last_scan = now;
            for id in Vec::from_iter(self.processes.keys().copied()) {
                self.scan(id);
            }
        }
        counts
    }
}

/// Which files a process runs code of.
fn mapped(pid: Pid) -> HashSet<u64> {
    let all = mappings(Path::new(PROC), pid).unwrap_or_default();
    all.iter().filter(|it| it.is_executable).map(|it| it.inode).collect()
}

/// The job and rank of a process; the process alone where its environment cannot be read.
pub(super) fn diag_origin(id: Identity) -> DiagOrigin {
    let read = |name: &str| std::fs::read(format!("{PROC}/{}/{name}", id.pid.0));
    let environ = Environ::parse(&read("environ").unwrap_or_default());
    let cgroups = String::from_utf8_lossy(&read("cgroup").unwrap_or_default()).into();
    match Membership::from_origin(&Origin { cgroups, environ }).rank {
        Some(rank) => DiagOrigin::rank(&rank.namespace, rank.rank, id.pid),
        None => DiagOrigin::process(id.pid),
    }
}

/// A time of `CLOCK_BOOTTIME` as time since 1970.
pub(super) fn unix_time(at: Ns) -> Ns {
    let ago = clock::boot().since(at);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
    Ns(now.saturating_sub(ago.0))
}
