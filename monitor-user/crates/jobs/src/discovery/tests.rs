//! Jobs of processes that a test describes.

use super::{JobState, discover, hidden_launchers};
use crate::runtime::Runtime;
use monitor_model::{Environ, Identity, Ns, Origin, Pid, Process, ProcessField, Rank};
use std::sync::Arc;

/// A process that began at its pid's number of ns.
fn process(pid: u32, parent: u32, comm: &str) -> Process {
    let id = Identity { pid: Pid(pid), start: Ns(u64::from(pid)) };
    let mut it = Process { id, ..Process::default() };
    it.comm[..comm.len()].copy_from_slice(comm.as_bytes());
    it.row.set(ProcessField::Ppid, parent.into());
    it.row.set(ProcessField::Uid, 1000);
    it.row.set(ProcessField::State, b'S'.into());
    it
}

/// A process with a rank of a namespace, or with none, and variables in lines.
fn with_rank(mut it: Process, rank: Option<(&str, u32)>, environ: &str) -> Process {
    let bytes = environ.replace('\n', "\0");
    let environ = Environ::parse(bytes.as_bytes());
    it.text.origin = Some(Arc::new(Origin { cgroups: "0::/\n".into(), environ }));
    it.text.rank =
        rank.map(|(namespace, rank)| Arc::new(Rank { namespace: namespace.into(), rank }));
    it
}

const OMPI: &str = "OMPI_MCA_ess_base_jobid=77\nOMPI_COMM_WORLD_SIZE=2\n\
                    OMPI_COMM_WORLD_LOCAL_SIZE=2";

fn ompi_rank(pid: u32, parent: u32, rank: u32) -> Process {
    with_rank(process(pid, parent, "app"), Some(("77", rank)), OMPI)
}

/// Two ranks below `mpirun` of Open MPI 4.
fn open_mpi() -> Vec<Process> {
    let launcher = process(10, 5, "mpirun.openmpi");
    vec![process(5, 1, "bash"), launcher, ompi_rank(11, 10, 0), ompi_rank(12, 10, 1)]
}

/// Id, runtime, launcher, ranks with their processes, and state of each job.
fn found(processes: &[Process]) -> Vec<String> {
    let jobs = discover(processes, &|_| None);
    let describe = |it: &super::ParallelJob| {
        let rank = |it: &super::RankProcesses| {
            let all: Vec<_> = it.all.iter().map(|it| it.pid.0).collect();
            format!("{}={}{all:?}", it.rank, it.process.pid.0)
        };
        let ranks: Vec<_> = it.ranks.iter().map(rank).collect();
        let pid = |it: Option<Identity>| it.map_or_else(|| "-".into(), |it| it.pid.0.to_string());
        let [launcher, daemon] = [it.launcher, it.daemon].map(pid);
        let size = it.size.map_or_else(|| "?".to_owned(), |it| it.to_string());
        let (runtime, state) = (it.runtime.name(), it.state.name());
        format!("{} {runtime} {launcher} {daemon} {} of {size} {state}", it.id, ranks.join(" "))
    };
    jobs.iter().map(describe).collect()
}

#[test]
fn the_launcher_is_the_parent_of_the_ranks_of_open_mpi() {
    assert_eq!(found(&open_mpi()), ["77 openmpi4 10 - 0=11[11] 1=12[12] of 2 running"]);
}

#[test]
fn a_child_of_a_rank_is_no_second_rank() {
    let mut all = open_mpi();
    // A child, and one that started within the same tick and has a lower pid.
    all.push(ompi_rank(13, 11, 0));
    let mut wrapped = ompi_rank(9, 12, 1);
    wrapped.id.start = Ns(12);
    all.push(wrapped);
    all.sort_by_key(|it| it.id);
    assert_eq!(found(&all), ["77 openmpi4 10 - 0=11[11, 13] 1=12[9, 12] of 2 running"]);
}

#[test]
fn the_launcher_of_hydra_is_above_its_proxy() {
    let environ = "PMI_RANK=0\nPMI_SIZE=1\nMPI_LOCALNRANKS=1";
    let all = [
        process(10, 5, "mpiexec.hydra"),
        process(11, 10, "hydra_pmi_proxy"),
        with_rank(process(12, 11, "app"), Some(("hydra-11", 0)), environ),
    ];
    assert_eq!(found(&all), ["hydra-11 hydra 10 11 0=12[12] of 1 running"]);
    // That of MPICH 5 is a file of its own with this name.
    let all = [process(10, 5, "mpiexec"), all[1].clone(), all[2].clone()];
    assert_eq!(found(&all), ["hydra-11 hydra 10 11 0=12[12] of 1 running"]);
}

#[test]
fn an_mpirun_of_any_runtime_is_known_by_its_file_or_by_the_environment() {
    let mut all = open_mpi();
    all[1] = process(10, 5, "mpirun");
    assert_eq!(found(&all), ["77 openmpi4 10 - 0=11[11] 1=12[12] of 2 running"]);
    let file = |it: &Process| (it.id.pid == Pid(10)).then(|| "/opt/prrte/bin/prterun".into());
    assert_eq!(discover(&all, &file)[0].runtime, Runtime::Prrte);
}

#[test]
fn tasks_of_slurm_without_an_mpi_are_ranks_of_their_step() {
    let environ = "SLURM_JOB_ID=7\nSLURM_STEP_ID=0\nSLURM_PROCID=1\nSLURM_NTASKS=2";
    let batch = "SLURM_JOB_ID=7\nSLURM_STEPID=4294967291\nSLURM_PROCID=0";
    let all = [
        process(10, 1, "slurmstepd"),
        with_rank(process(11, 10, "app"), None, environ),
        with_rank(process(12, 10, "bash"), None, batch),
    ];
    assert_eq!(found(&all), ["7.0 slurm - 10 1=11[11] of 2 running"]);
}

#[test]
fn a_step_of_slurm_has_as_many_ranks_here_as_its_list_says_for_this_node() {
    #[track_caller]
    fn check(list: &str, node: u32, want: Option<u32>) {
        let environ = format!("SLURM_NODEID={node}\nSLURM_STEP_TASKS_PER_NODE={list}");
        let environ = Environ::parse(environ.replace('\n', "\0").as_bytes());
        assert_eq!(super::local_tasks(&environ), want);
    }
    check("4", 0, Some(4));
    check("4", 1, None);
    check("4(x2),3", 1, Some(4));
    check("4(x2),3", 2, Some(3));
    check("4(x", 0, None);
    check("", 0, None);
}

#[test]
fn another_launcher_within_an_allocation_of_slurm_has_a_size_of_its_own() {
    let environ = "SLURM_NTASKS=8\nSLURM_STEP_NUM_TASKS=8\nSLURM_NODEID=0\n\
                   SLURM_STEP_TASKS_PER_NODE=8";
    let all = [
        process(10, 1, "prterun"),
        with_rank(process(11, 10, "app"), Some(("prterun-vm-10@1", 0)), environ),
    ];
    assert_eq!(found(&all), ["prterun-vm-10@1 prrte 10 - 0=11[11] of ? running"]);
}

#[test]
fn a_job_within_a_rank_has_its_own_launcher() {
    let mut all = open_mpi();
    // The inner launcher has the environment of its rank.
    let mut inner = ompi_rank(20, 11, 0);
    inner.comm = process(20, 11, "prterun").comm;
    all.push(inner);
    let app = process(21, 20, "app");
    all.push(with_rank(app, Some(("prterun-vm-20@1", 0)), "PMIX_RANK=0"));
    let want = [
        "77 openmpi4 10 - 0=11[11, 20] 1=12[12] of 2 running",
        "prterun-vm-20@1 prrte 20 - 0=21[21] of ? running",
    ];
    assert_eq!(found(&all), want);
}

#[track_caller]
fn check_state(change: impl FnOnce(&mut Vec<Process>), want: JobState) {
    let mut all = open_mpi();
    change(&mut all);
    assert_eq!(discover(&all, &|_| None)[0].state, want);
}

#[test]
fn a_job_has_a_state() {
    let set = |it: &mut Process, letter: u8| it.row.set(ProcessField::State, letter.into());
    check_state(|_| {}, JobState::Running);
    check_state(|all| set(&mut all[2], b'T'), JobState::Running);
    check_state(|all| all[2..].iter_mut().for_each(|it| set(it, b'T')), JobState::Stopped);
    check_state(|all| all[2..].iter_mut().for_each(|it| set(it, b'Z')), JobState::Ended);
    check_state(|all| set(&mut all[2], b'Z'), JobState::Incomplete);
    check_state(|all| drop(all.pop()), JobState::Incomplete);
    let orphan = |all: &mut Vec<Process>| {
        drop(all.remove(1));
        all[1..].iter_mut().for_each(|it| it.row.set(ProcessField::Ppid, 1));
    };
    check_state(orphan, JobState::Orphaned);
    // An ancestor that is not visible may be the launcher.
    check_state(|all| drop(all.remove(1)), JobState::Running);
}

#[test]
fn a_launcher_without_visible_ranks_is_named() {
    let mut all = open_mpi();
    all.push(process(30, 1, "mpirun"));
    all.push(process(31, 1, "bash"));
    let jobs = discover(&all, &|_| None);
    let hidden: Vec<_> = hidden_launchers(&all, &jobs).map(|it| it.id.pid.0).collect();
    assert_eq!(hidden, [30]);
    // A script of that name around the launcher is none, and neither is `srun`.
    all[0] = process(5, 1, "mpirun");
    all[4] = process(30, 1, "srun");
    assert_eq!(hidden_launchers(&all, &discover(&all, &|_| None)).count(), 0);
}

#[test]
fn a_process_of_another_user_cannot_join_a_job() {
    let mut all = open_mpi();
    // It is older than the rank that it claims to be.
    let mut other = ompi_rank(8, 1, 0);
    other.row.set(ProcessField::Uid, 1001);
    all.insert(1, other);
    // A child of a rank may have another user, and stays a process of the rank.
    let mut child = ompi_rank(20, 12, 1);
    child.row.set(ProcessField::Uid, 0);
    all.push(child);
    let want = [
        "77 openmpi4 10 - 0=11[11] 1=12[12, 20] of 2 running",
        "77 openmpi4 - - 0=8[8] of 2 orphaned",
    ];
    assert_eq!(found(&all), want);
    let uids: Vec<_> = discover(&all, &|_| None).iter().map(|it| it.uid).collect();
    assert_eq!(uids, [Some(1000), Some(1001)]);
}

#[test]
fn any_processes_give_each_claimant_to_one_rank() {
    // A linear congruential generator (Knuth, MMIX).
    let mut seed = 23_u64;
    let mut next = |below: u32| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        u32::try_from(seed >> 33).unwrap_or_default() % below
    };
    let names = ["app", "mpirun", "prterun", "srun", "orted"];
    for _ in 0..2_000 {
        let mut all = Vec::new();
        for pid in 1..=next(12) + 1 {
            let name = names[usize::try_from(next(5)).unwrap_or_default()];
            let mut it = process(pid, next(13), name);
            // Parents that are younger, and circles of equal start times.
            it.id.start = Ns(u64::from(next(3)));
            it.row.set(ProcessField::Uid, next(2).into());
            let environ = if next(2) == 0 { OMPI } else { "" };
            let namespace = if next(2) == 0 { "77" } else { "78" };
            all.push(with_rank(it, (next(3) > 0).then(|| (namespace, next(2))), environ));
        }
        all.sort_by_key(|it| it.id);
        let jobs = discover(&all, &|_| None);
        let ranks = jobs.iter().flat_map(|job| &job.ranks);
        let mut claimants: Vec<_> = ranks.flat_map(|rank| rank.all.iter().copied()).collect();
        claimants.sort_unstable();
        let with_ranks = all.iter().filter(|it| it.text.rank.is_some());
        assert_eq!(claimants, with_ranks.map(|it| it.id).collect::<Vec<_>>());
        assert!(hidden_launchers(&all, &jobs).count() <= all.len());
    }
}
