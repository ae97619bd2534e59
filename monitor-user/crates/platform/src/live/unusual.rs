//! Static probes of this node's processes: counted in the kernel, a cell for each.
//!
//! In: whose probes matter. Out: how often each was met. A list of the kernel counts for one
//! process at one place, so no event is told and no process is switched to. A process that executes
//! or loads something is looked at again within a second.

use super::Live;
use crate::diagnose::{Diagnoses, Met};
use crate::reading;
use monitor_backend::rule::insn::{Builtin, Cell, CellKind, Compare, Insn, Reg as Slot, Width};
use monitor_backend::rule::{
    HookPoint, ProgramId, RuleProgram, RuleResource, Rules as _, Site as Spot,
};
use monitor_backends::ebpf::rule::KernelRules;
use monitor_backends::select::BackendChoice;
use monitor_event::outcome::Refusal;
use monitor_model::diagnosis::DiagOrigin;
use monitor_model::id::{Identity, Ns, Pid};
use monitor_model::job::{Environ, Origin};
use monitor_omis::Status;
use monitor_proc::maps::mappings;
use monitor_sampling::job::Membership;
use monitor_symbols::diag_probes;
use monitor_symbols::diag_probes::{DiagProbe, EventsPerHit};
use monitor_symbols::site::ProbeSite;
use monitor_sys::clock;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// How soon a process is looked at again.
const AGAIN: Ns = Ns(1_000_000_000);
const PROC: &str = "/proc";

/// What is counted.
pub(super) struct Unusuals {
    choice: BackendChoice,
    rules: Option<KernelRules>,
    of: BTreeMap<Identity, Probed>,
    looked: Ns,
}

/// The probes of a process.
#[derive(Default)]
struct Probed {
    counted: Vec<Counted>,
    /// What it had mapped when it was looked at.
    mapped: HashSet<u64>,
}

struct Counted {
    what: Arc<DiagProbe>,
    /// Held open, so that the file stays what it is.
    site: ProbeSite,
    list: ProgramId,
    cell: Cell,
    last: u64,
}

impl Unusuals {
    /// Nothing is counted yet.
    pub(super) fn new(choice: BackendChoice) -> Self {
        Self { choice, rules: None, of: BTreeMap::new(), looked: Ns(0) }
    }

    fn rules(&mut self) -> Result<&mut KernelRules, Refusal> {
        if self.rules.is_none() {
            if !matches!(self.choice, BackendChoice::Auto | BackendChoice::Ebpf) {
                let text = "static probes are counted by eBPF only: see monitor doctor";
                return Err(Refusal::new(Status::UNSUPPORTED, text));
            }
            self.rules = Some(KernelRules::open().map_err(reading::failed)?);
        }
        Ok(self.rules.as_mut().expect("it was opened above"))
    }

    fn follow(&mut self, processes: &BTreeSet<Identity>) {
        let gone: Vec<Identity> =
            self.of.keys().filter(|id| !processes.contains(id)).copied().collect();
        for id in gone {
            for it in self.of.remove(&id).into_iter().flat_map(|it| it.counted) {
                self.drop_list(it.list, it.cell);
            }
        }
        for id in processes {
            if !self.of.contains_key(id) {
                let _none = self.of.insert(*id, Probed::default());
                self.look(*id);
            }
        }
    }

    /// Looks for probes that are not counted yet, if anything was mapped since.
    fn look(&mut self, id: Identity) {
        let mapped = mapped(id.pid);
        let Some(probed) = self.of.get_mut(&id).filter(|it| it.mapped != mapped) else { return };
        probed.mapped = mapped;
        // One that has ended has nothing more to be found.
        let Ok((found, failed)) = diag_probes::in_process(Path::new(PROC), id.pid) else { return };
        for error in failed {
            tracing::debug!("static probes of process {}: {error}", id.pid.0);
        }
        for (what, site) in found {
            if let Err(why) = self.add(id, what, site) {
                tracing::warn!("a static probe of process {} is not counted: {why}", id.pid.0);
            }
        }
    }

    fn add(&mut self, id: Identity, what: Arc<DiagProbe>, site: ProbeSite) -> Result<(), Refusal> {
        let Some(probed) = self.of.get(&id) else { return Ok(()) };
        let is_it = |it: &Counted| {
            (it.site.file.identity, it.site.offset) == (site.file.identity, site.offset)
        };
        if probed.counted.iter().any(is_it) {
            return Ok(());
        }
        let rules = self.rules()?;
        let cell = rules.make_cell(CellKind::Sum).map_err(reading::failed)?;
        let place = Spot { path: site.file.attach_path(), offset: site.offset };
        let (slot, pid) = (Slot(0), i64::from(id.pid.0));
        let mut acts =
            vec![Insn::Builtin(slot, Builtin::Pid), Insn::Filter(slot, Compare::Equal, pid)];
        match what.events_per_hit {
            EventsPerHit::One => acts.push(Insn::Count(cell)),
            // What is negative would take events away that were told.
            EventsPerHit::Argument => acts.extend([
                Insn::Argument(slot, 0, Width::U64),
                Insn::Filter(slot, Compare::AtLeast, 0),
                Insn::Add(cell, slot),
            ]),
        }
        let list = RuleProgram::new(HookPoint::Entry(place), None, acts);
        let list = match rules.add(&list) {
            Ok(list) => list,
            Err(error) => {
                rules.free(RuleResource::Cell(cell));
                return Err(reading::failed(error));
            }
        };
        rules.enable(list);
        let counted = Counted { what, site, list, cell, last: 0 };
        if let Some(probed) = self.of.get_mut(&id) {
            probed.counted.push(counted);
        }
        Ok(())
    }

    fn drop_list(&mut self, list: ProgramId, cell: Cell) {
        if let Some(rules) = &mut self.rules {
            rules.remove(list);
            rules.free(RuleResource::Cell(cell));
        }
    }

    fn met(&mut self) -> Vec<Met> {
        let mut met = Vec::new();
        let Some(rules) = &self.rules else { return met };
        for (id, probed) in &mut self.of {
            for it in &mut probed.counted {
                let count = rules.cell(it.cell).unwrap_or(0).cast_unsigned();
                let times = count.saturating_sub(it.last);
                it.last = count;
                met.extend((times > 0).then(|| (*id, Arc::clone(&it.what), times)));
            }
        }
        let now = clock::boot();
        if now.since(self.looked) >= AGAIN {
            self.looked = now;
            for id in Vec::from_iter(self.of.keys().copied()) {
                self.look(id);
            }
        }
        met
    }
}

/// Which files a process runs code of.
fn mapped(pid: Pid) -> HashSet<u64> {
    let all = mappings(Path::new(PROC), pid).unwrap_or_default();
    all.iter().filter(|it| it.is_executable).map(|it| it.inode).collect()
}

impl Diagnoses for Live {
    fn whose(&mut self, id: Identity) -> DiagOrigin {
        let read = |name: &str| std::fs::read(format!("{PROC}/{}/{name}", id.pid.0));
        // Whose environment we may not read is known by his pid alone.
        let environ = Environ::parse(&read("environ").unwrap_or_default());
        let cgroups = String::from_utf8_lossy(&read("cgroup").unwrap_or_default()).into();
        match Membership::from_origin(&Origin { cgroups, environ }).rank {
            Some(rank) => DiagOrigin::rank(&rank.namespace, rank.rank, id.pid),
            None => DiagOrigin::process(id.pid),
        }
    }

    fn probed(&mut self, _: Identity) -> Result<(), Refusal> {
        self.unusuals.rules().map(drop)
    }

    fn count(&mut self, processes: &BTreeSet<Identity>) {
        self.unusuals.follow(processes);
    }

    fn met(&mut self) -> Vec<Met> {
        self.unusuals.met()
    }

    fn since_1970(&self, at: Ns) -> Ns {
        let ago = clock::boot().since(at);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        Ns(now.saturating_sub(ago.0))
    }
}
