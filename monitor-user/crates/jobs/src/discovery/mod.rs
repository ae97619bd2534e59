//! Finds the parallel jobs among the processes of a node.
//!
//! In: processes with their ranks and variables, and the file that each executes. Out: the jobs,
//! with launcher and ranks. A child of a rank has the environment of the rank, and is no second
//! one: of the processes of one rank, the one without an ancestor among them is the rank, the
//! oldest of several. A process may claim the namespace of another user's job: processes of two
//! users are never one job. Jobs are of the processes that the reader may see; [`hidden_launchers`]
//! names those whose ranks it may not.

use crate::runtime::{LauncherRole, Runtime};
use monitor_model::{Environ, Identity, Pid, Process, ProcessField, Rank};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// Steps of Slurm from here on are no numbered steps but `batch`, `extern` and `interactive`
/// (slurm.h, `SLURM_MAX_NORMAL_STEP_ID`).
const FIRST_SPECIAL_STEP: u32 = 0xffff_fff0;

/// Returns the path of the file that a process executes, if it is readable.
pub type ReadExecutable<'r> = dyn Fn(&Process) -> Option<Arc<str>> + 'r;

/// A parallel job, as far as this node shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParallelJob {
    /// Its id: the namespace that the runtime gave it.
    pub id: Arc<str>,
    /// The runtime that started it.
    pub runtime: Runtime,
    /// The launcher that the user started; absent if it is on another node or has ended.
    pub launcher: Option<Identity>,
    /// The runtime's daemon on this node, if it is not the launcher.
    pub daemon: Option<Identity>,
    /// User id of its ranks.
    pub uid: Option<u32>,
    /// Its ranks on this node, by number.
    pub ranks: Vec<RankProcesses>,
    /// Number of its ranks on this node, as the environment names it.
    pub local_size: Option<u32>,
    /// Number of all its ranks, as the environment names it.
    pub size: Option<u32>,
    /// Its state.
    pub state: JobState,
    /// When its first rank on this node started, since boot.
    pub start: monitor_model::Ns,
}

/// The processes of one rank.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct RankProcesses {
    /// Its number.
    pub rank: u32,
    /// The process that the runtime started.
    pub process: Identity,
    /// All its processes: this one and its descendants, in the order of identities.
    pub all: Vec<Identity>,
}

/// The state of a job on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobState {
    /// Its ranks are there.
    Running,
    /// All its ranks are stopped, by a signal or a debugger.
    Stopped,
    /// It has fewer ranks here than the runtime started or is starting.
    Incomplete,
    /// Neither its launcher nor a daemon of its runtime is an ancestor of its ranks.
    Orphaned,
    /// All its ranks are zombies.
    Ended,
}

monitor_model::names! { JobState {
    Running "running", Stopped "stopped", Incomplete "incomplete", Orphaned "orphaned",
    Ended "ended",
} }

/// The jobs, by id and user. `processes` are in the order of identities.
pub fn discover(processes: &[Process], executable: &ReadExecutable<'_>) -> Vec<ParallelJob> {
    let tree = Tree::new(processes);
    let mut claims: BTreeMap<Rank, Vec<&Process>> = BTreeMap::new();
    for process in processes.iter().filter(|it| !it.ended()) {
        if let Some(rank) = rank_of(process) {
            claims.entry(rank).or_default().push(process);
        }
    }
    let mut jobs: BTreeMap<(Arc<str>, Option<u32>), Vec<RankProcesses>> = BTreeMap::new();
    for (rank, claimants) in claims {
        for (owner, of_owner) in tree.by_owner(&claimants) {
            let found = tree.rank(rank.rank, &of_owner);
            jobs.entry((Arc::clone(&rank.namespace), owner)).or_default().push(found);
        }
    }
    let jobs = jobs.into_iter();
    jobs.filter_map(|((id, uid), ranks)| job(&tree, (id, uid), ranks, executable)).collect()
}

/// Launchers that no job has: their ranks are hidden from the reader, on other nodes, or not there
/// yet. `srun` is none of them: the ranks of Slurm are not its descendants. `jobs`
/// are the jobs of these processes.
pub fn hidden_launchers<'p>(
    processes: &'p [Process],
    jobs: &[ParallelJob],
) -> impl Iterator<Item = &'p Process> {
    let tree = Tree::new(processes);
    // The program that the user started may be a script around the launcher, and `mpirun` too.
    let found = jobs.iter().flat_map(|job| job.launcher.into_iter().chain(job.daemon));
    let found: Vec<_> = found.filter_map(|id| tree.by_id.get(&id).copied()).collect();
    let above = found.iter().flat_map(|process| tree.ancestors(process)).map(|it| it.id);
    let known: HashSet<Identity> = found.iter().map(|it| it.id).chain(above).collect();
    let is_launcher = |it: &&Process| {
        let program = Runtime::of_program(&it.comm());
        let is_launcher = program.is_some_and(|(runtime, role)| {
            role == LauncherRole::Launcher && runtime != Runtime::Slurm
        });
        is_launcher && !it.ended() && !it.is_zombie()
    };
    processes.iter().filter(is_launcher).filter(move |it| !known.contains(&it.id))
}

/// The real user id of a process.
fn uid(process: &Process) -> Option<u32> {
    process.row.get(ProcessField::Uid).and_then(|uid| u32::try_from(uid).ok())
}

/// The variables of a process.
fn environ(process: &Process) -> Option<&Environ> {
    process.text.origin.as_ref().map(|origin| &origin.environ)
}

/// The rank of a process: of a namespace, else the task of a step of Slurm, which has the id of
/// the step as srun(1) prints it.
pub fn rank_of(process: &Process) -> Option<Rank> {
    if let Some(rank) = &process.text.rank {
        return Some(Rank::clone(rank));
    }
    let environ = environ(process)?;
    let number = |name| environ.get(name)?.parse::<u32>().ok();
    let job = number("SLURM_JOB_ID").or_else(|| number("SLURM_JOBID"))?;
    let step = number("SLURM_STEP_ID").or_else(|| number("SLURM_STEPID"))?;
    if step >= FIRST_SPECIAL_STEP {
        return None;
    }
    Some(Rank { namespace: format!("{job}.{step}").into(), rank: number("SLURM_PROCID")? })
}

/// The processes by pid.
struct Tree<'p> {
    by_pid: HashMap<Pid, &'p Process>,
    by_id: HashMap<Identity, &'p Process>,
}

impl<'p> Tree<'p> {
    fn new(processes: &'p [Process]) -> Self {
        let living = || processes.iter().filter(|it| !it.ended());
        Self {
            by_pid: living().map(|it| (it.id.pid, it)).collect(),
            by_id: living().map(|it| (it.id, it)).collect(),
        }
    }

    fn parent(&self, process: &Process) -> Option<&'p Process> {
        let pid = process.row.get(ProcessField::Ppid).and_then(|it| u32::try_from(it).ok())?;
        let parent = self.by_pid.get(&Pid(pid)).copied()?;
        // A pid that was reused since the parent ended names a younger process.
        (parent.id != process.id && parent.id.start <= process.id.start).then_some(parent)
    }

    /// The ancestors, the parent first. Their start times never increase, and a circle of equal
    /// ones is cut.
    fn ancestors(&self, process: &'p Process) -> impl Iterator<Item = &'p Process> {
        let mut seen = HashSet::from([process.id]);
        let parents = std::iter::successors(Some(process), move |it| self.parent(it));
        parents.skip(1).take_while(move |it| seen.insert(it.id))
    }

    /// The processes that claim a rank, by the user of the first ancestor that claims it: a child
    /// of a rank may have another user.
    fn by_owner(&self, claimants: &[&'p Process]) -> BTreeMap<Option<u32>, Vec<&'p Process>> {
        let ids: HashSet<Identity> = claimants.iter().map(|it| it.id).collect();
        let mut owners: BTreeMap<Option<u32>, Vec<&'p Process>> = BTreeMap::new();
        for process in claimants.iter().copied() {
            let top = self.ancestors(process).filter(|it| ids.contains(&it.id)).last();
            owners.entry(uid(top.unwrap_or(process))).or_default().push(process);
        }
        owners
    }

    /// The processes of a rank, of which one at least claims it.
    fn rank(&self, rank: u32, claimants: &[&'p Process]) -> RankProcesses {
        let ids: HashSet<Identity> = claimants.iter().map(|it| it.id).collect();
        let is_first = |it: &&&'p Process| !self.ancestors(it).any(|it| ids.contains(&it.id));
        let age = |it: &&&Process| (it.id.start, it.id.pid);
        let oldest = claimants.iter().filter(is_first).min_by_key(age);
        let process = oldest.or_else(|| claimants.iter().min_by_key(age));
        let process = process.map(|it| it.id).expect("a rank has a claimant");
        let mut all: Vec<_> = ids.into_iter().collect();
        all.sort_unstable();
        RankProcesses { rank, process, all }
    }
}

/// The launcher and the daemon among the ancestors of a rank.
#[derive(Default)]
struct Launchers {
    runtime: Option<Runtime>,
    launcher: Option<Identity>,
    daemon: Option<Identity>,
    /// Whether there is an ancestor that is not known.
    is_cut: bool,
}

impl Launchers {
    fn find(tree: &Tree<'_>, rank: &Process, executable: &ReadExecutable<'_>) -> Self {
        let mut it = Self::default();
        let mut last = rank;
        for ancestor in tree.ancestors(rank) {
            last = ancestor;
            let Some((runtime, role)) = program(ancestor, executable) else { continue };
            // The launcher of a job within a rank of another one comes first. A program that
            // several runtimes have, such as `mpiexec`, is of that of its daemon.
            let differs = |known| ![runtime, Runtime::Unknown].contains(&known);
            if runtime != Runtime::Unknown && it.runtime.is_some_and(differs) {
                break;
            }
            it.runtime = it.runtime.filter(|known| *known != Runtime::Unknown).or(Some(runtime));
            match role {
                LauncherRole::Daemon if it.daemon.is_none() => it.daemon = Some(ancestor.id),
                LauncherRole::Daemon => {}
                // `mpirun.mpich` may be a script around `mpiexec.hydra`: the nearest one counts.
                LauncherRole::Launcher => {
                    it.launcher = Some(ancestor.id);
                    break;
                }
            }
        }
        let top = last.row.get(ProcessField::Ppid);
        it.is_cut = last.id.pid != Pid(1) && !matches!(top, Some(0 | 1));
        it
    }
}

/// The runtime and role of a process, by the file that it executes, else by its command name.
fn program(process: &Process, executable: &ReadExecutable<'_>) -> Option<(Runtime, LauncherRole)> {
    let by_comm = Runtime::of_program(&process.comm());
    if by_comm.is_some_and(|(runtime, _)| runtime != Runtime::Unknown) {
        return by_comm;
    }
    let path = executable(process);
    let file = path.as_deref().and_then(|path| path.rsplit('/').next());
    file.and_then(Runtime::of_program).or(by_comm)
}

fn job(
    tree: &Tree<'_>,
    (id, uid): (Arc<str>, Option<u32>),
    ranks: Vec<RankProcesses>,
    executable: &ReadExecutable<'_>,
) -> Option<ParallelJob> {
    let processes: Vec<&Process> =
        ranks.iter().filter_map(|it| tree.by_id.get(&it.process).copied()).collect();
    let first = processes.first()?;
    let nothing = Environ::default();
    let variables = environ(first).unwrap_or(&nothing);
    let launchers = Launchers::find(tree, first, executable);
    let by_environ = Runtime::of_environ(variables, &id);
    // `mpirun` may be of any runtime: the environment names it.
    let runtime = launchers.runtime.filter(|it| *it != Runtime::Unknown).unwrap_or(by_environ);
    let (size, local_size) = sizes(variables, runtime);
    let is_orphaned = runtime != Runtime::Unknown
        && launchers.launcher.or(launchers.daemon).is_none()
        && !launchers.is_cut;
    let state = state(&processes, is_orphaned, local_size);
    let start = processes.iter().map(|it| it.id.start).min()?;
    let Launchers { launcher, daemon, .. } = launchers;
    Some(ParallelJob { id, runtime, launcher, daemon, uid, ranks, local_size, size, state, start })
}

/// The variables with the number of all ranks, in lookup order: Open MPI's mpirun(1), PMI-1 and
/// Hydra, the PMIx host of this program.
const SIZES: [&str; 3] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MONITOR_JOB_SIZE"];
/// The same of a step of Slurm (srun(1)): the tasks of the step, then of the job. Other launchers
/// within an allocation inherit them, and start another number of ranks.
const STEP_SIZES: [&str; 2] = ["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"];
/// The same of the ranks on this node.
const LOCAL_SIZES: [&str; 3] =
    ["OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "MONITOR_JOB_LOCAL_SIZE"];

/// The number of ranks that the runtime starts on this node, as the environment of one names it.
pub fn local_size(variables: &Environ) -> Option<u32> {
    number_of(variables, &LOCAL_SIZES)
}

/// The numbers of all ranks, and of those on this node.
fn sizes(variables: &Environ, runtime: Runtime) -> (Option<u32>, Option<u32>) {
    match runtime {
        Runtime::Slurm => (number_of(variables, &STEP_SIZES), local_tasks(variables)),
        // A launcher above the session may have left its variables.
        Runtime::Session => (Some(1), Some(1)),
        _ => (number_of(variables, &SIZES), local_size(variables)),
    }
}

/// The number of tasks that a step of Slurm has on this node: of a list such as `4(x2),3` for its
/// nodes, the one at the number of this node.
fn local_tasks(variables: &Environ) -> Option<u32> {
    let mut node = number_of(variables, &["SLURM_NODEID"])?;
    for part in variables.get("SLURM_STEP_TASKS_PER_NODE")?.split(',') {
        let (tasks, nodes) = match part.split_once("(x") {
            Some((tasks, nodes)) => (tasks, nodes.strip_suffix(')')?.parse().ok()?),
            None => (part, 1_u32),
        };
        match node.checked_sub(nodes) {
            Some(after) => node = after,
            None => return tasks.parse().ok(),
        }
    }
    None
}

fn number_of(variables: &Environ, names: &[&str]) -> Option<u32> {
    names.iter().find_map(|name| variables.get(name)?.parse::<u32>().ok())
}

fn state(ranks: &[&Process], is_orphaned: bool, local_size: Option<u32>) -> JobState {
    let letter =
        |it: &Process| it.row.get(ProcessField::State).and_then(|it| u8::try_from(it).ok());
    let is_zombie = |it: &&&Process| matches!(letter(it), Some(b'Z' | b'X'));
    let living = ranks.iter().filter(|it| !is_zombie(it)).count();
    let expected = local_size.and_then(|it| usize::try_from(it).ok());
    match living {
        0 => JobState::Ended,
        _ if is_orphaned => JobState::Orphaned,
        _ if ranks.iter().filter(|it| it.is_stopped()).count() == living => JobState::Stopped,
        _ if expected.is_some_and(|expected| living < expected) => JobState::Incomplete,
        _ => JobState::Running,
    }
}

#[cfg(test)]
mod tests;
