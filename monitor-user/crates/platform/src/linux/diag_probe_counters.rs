//! Static probes of this node's processes, counted in the kernel with a cell for each.
//!
//! In: the processes. Out: the hits of each probe. A rule program counts for one process at one
//! site, so nothing is reported for a hit. A process that executes or loads something is scanned
//! again within a second.

use crate::{node::DiagProbeCount, poller::backend_refusal, status_map::symbol_refusal};
use monitor_backend::Opener;
use monitor_backend::rule::insn::{Builtin, Cell, CellKind, Compare, Insn, Reg as Slot, Width};
use monitor_backend::rule::{HookPoint, ProgramId, RuleProgram, RuleResource, Rules, Site};
use monitor_event::outcome::Refusal;
use monitor_model::{DiagOrigin, Environ, Identity, Ns, Origin, Pid};
use monitor_omis::Status;
use monitor_proc::maps::mappings;
use monitor_sampling::job::Membership;
use monitor_symbols::diag_probes::{DiagProbe, DiagProbeSite, EventsPerHit};
use monitor_symbols::{SymbolError, held_file::HeldFile};
use monitor_sys::clock;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::{SystemTime, UNIX_EPOCH};
use std::{path::Path, sync::Arc, task::Poll};

/// The interval between two scans of a process.
const SCAN_INTERVAL: Ns = Ns(1_000_000_000);
const PROC: &str = "/proc";

/// Most processes whose probes are remembered.
const MAX_SEARCHED: usize = 4096;

type FoundSites = Vec<DiagProbeSite>;

/// The counted probes of all processes.
pub(super) struct DiagProbeCounters {
    opener: Opener,
    rules: Option<Box<dyn Rules>>,
    processes: BTreeMap<Identity, ProcessProbes>,
    /// Processes whose files are to be searched.
    unsearched: Vec<Identity>,
    /// What is known of others, and what they had mapped then; none while it is awaited.
    searched: BTreeMap<Identity, (HashSet<u64>, Option<FoundSites>)>,
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
    file: HeldFile,
    offset: u64,
    program: ProgramId,
    cell: Cell,
    last: u64,
}

impl DiagProbeCounters {
    /// Without processes.
    pub(super) fn new(opener: Opener) -> Self {
        let (processes, unsearched, searched) = (BTreeMap::new(), Vec::new(), BTreeMap::new());
        Self { opener, rules: None, processes, unsearched, searched, last_scan: Ns(0) }
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
        if self.processes.get(&id).is_none_or(|it| it.mapped == mapped) {
            return;
        }
        let Poll::Ready(found) = self.find(id, &mapped) else { return };
        if let Some(probed) = self.processes.get_mut(&id) {
            probed.mapped = mapped;
        }
        for site in found {
            if let Err(why) = self.add(id, site) {
                tracing::warn!("a static probe of process {} is not counted: {why}", id.pid.0);
            }
        }
    }

    /// Whether the probes of a process can be counted; pending while its files are searched.
    pub(super) fn check(&mut self, id: Identity) -> Poll<Result<(), Refusal>> {
        let _rules = self.rules()?;
        self.find(id, &mapped(id.pid)).map(|_| Ok(()))
    }

    /// The probes in these files of a process; a search is begun if they are not known.
    fn find(&mut self, id: Identity, mapped: &HashSet<u64>) -> Poll<FoundSites> {
        match self.searched.get(&id) {
            Some((_, None)) => return Poll::Pending,
            Some((before, Some(found))) if before == mapped => return Poll::Ready(found.clone()),
            _ => {}
        }
        if self.searched.len() >= MAX_SEARCHED {
            self.searched.retain(|_, (_, found)| found.is_none());
        }
        let _before = self.searched.insert(id, (mapped.clone(), None));
        self.unsearched.push(id);
        Poll::Pending
    }

    /// The processes whose files are to be searched for probes.
    pub(super) fn take_questions(&mut self) -> Vec<Identity> {
        std::mem::take(&mut self.unsearched)
    }

    /// Whether there are any.
    pub(super) const fn has_questions(&self) -> bool {
        !self.unsearched.is_empty()
    }

    /// The files of a process were searched.
    pub(super) fn probes_found(
        &mut self,
        id: Identity,
        found: Result<Vec<DiagProbeSite>, SymbolError>,
    ) {
        // One that has ended has nothing more to be found.
        let found = found.unwrap_or_else(|error| {
            tracing::debug!("static probes of process {}: {error}", id.pid.0);
            FoundSites::new()
        });
        if let Some((_, known)) = self.searched.get_mut(&id) {
            *known = Some(found);
        }
        self.scan(id);
    }

    fn add(&mut self, id: Identity, site: DiagProbeSite) -> Result<(), Refusal> {
        let Some(probed) = self.processes.get(&id) else { return Ok(()) };
        let is_it =
            |it: &ProbeCounter| (it.file.identity, it.offset) == (site.file.identity, site.offset);
        if probed.counted.iter().any(is_it) {
            return Ok(());
        }
        let (probe, offset) = (Arc::new(site.probe), site.offset);
        let file =
            site.file.hold(Path::new(PROC), id.pid).map_err(|error| symbol_refusal(&error))?;
        let rules = self.rules()?;
        let cell = rules.make_cell(CellKind::Sum).map_err(backend_refusal)?;
        let place = Site { path: file.attach_path(), offset };
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
        let counted = ProbeCounter { probe, file, offset, program, cell, last: 0 };
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
