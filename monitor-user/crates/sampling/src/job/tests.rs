//! The recorded cases of `tests/fixture/job/cases.txt`, and memberships over several samples.

use super::membership::{Pod, Slurm, Unit};
use super::*;
use monitor_model::{Environ, Identity, Ns, Pid, Process, ProcessField, Sample};

const CASES: &str = include_str!("../../../../../tests/fixture/job/cases.txt");

/// A membership as text: a line for each kind, the job last.
fn membership_lines(it: &Membership) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(it.slurm.as_ref().map(slurm));
    lines.extend(it.batch.as_ref().map(|it| format!("{} {}", it.system, it.id)));
    lines.extend(it.rank.as_ref().map(|it| format!("rank {} {}", it.namespace, it.rank)));
    let pod = |it: &Pod| format!("pod {} {:?}", it.uid, it.qos).to_lowercase();
    lines.extend(it.pod.as_ref().map(pod));
    let container = |it: &Container| format!("container {} {}", it.runtime.unwrap_or("?"), it.id);
    lines.extend(it.container.as_ref().map(container));
    let user = |it: &Unit| it.user.map_or(String::new(), |user| format!(" of {user}"));
    lines.extend(it.unit.as_ref().map(|it| format!("unit {}{}", it.name, user(it))));
    lines.extend(it.session.as_ref().map(|id| format!("session {id}")));
    lines.extend(it.job().map(|job| job.to_string()));
    lines
}

fn slurm(it: &Slurm) -> String {
    let mut text = "slurm".to_owned();
    let mut part = |name: &str, value: Option<String>| {
        text.extend(value.map(|value| format!(" {name} {value}")));
    };
    part("job", it.job.map(|job| job.to_string()));
    part("sluid", it.sluid.as_ref().map(ToString::to_string));
    part("step", it.step.as_ref().map(ToString::to_string));
    part("task", it.task.map(|task| task.to_string()));
    part("node", it.node.as_ref().map(ToString::to_string));
    text
}

fn origin(cgroups: &str, environ: &str) -> Origin {
    let environ = Environ::parse(environ.replace('\n', "\0").as_bytes());
    Origin { cgroups: cgroups.into(), environ }
}

#[test]
fn the_container_of_a_path_has_its_runtime() {
    let id = "0123456789abcdef".repeat(4);
    let found = |path: &str| container(path).map(|it| it.to_string());
    let docker = format!("/system.slice/docker-{id}.scope");
    assert_eq!(found(&docker), Some(format!("docker:{id}")));
    let pod = format!("/kubepods/burstable/pod1/{id}");
    assert_eq!(found(&pod), Some(format!("container:{id}")));
    assert_eq!(found("/system.slice/ssh.service"), None);
}

#[test]
fn each_recorded_case_has_its_membership() {
    let mut cases = 0;
    for case in CASES.split("\n\n") {
        let lines = || case.lines().filter(|line| !line.starts_with('#'));
        let with_prefix = |sign| lines().filter_map(move |line| line.strip_prefix(sign));
        let cgroups: Vec<_> = lines().filter(|line| !line.starts_with(['$', '='])).collect();
        let environ: Vec<_> = with_prefix("$").collect();
        let want: Vec<_> = with_prefix("= ").collect();
        let got = Membership::from_origin(&origin(&cgroups.join("\n"), &environ.join("\n")));
        assert_eq!(membership_lines(&got), want, "of {case}");
        cases += usize::from(lines().next().is_some());
    }
    assert_eq!(cases, 58);
}

#[test]
fn any_path_is_parsed() {
    let parts = [
        "slurm",
        "slurm_",
        "job_",
        "step_",
        "_slurmstepd.scope",
        "pbspro.slice",
        "pbspro-\\x",
        "pbspro-\\xé1.slice",
        "pbs_jobs.service",
        "kubepods",
        "pod",
        ".slice",
        "-pod.slice",
        "kubepods.slice",
        "docker-.scope",
        "user@.service",
        "session-.scope",
        "é",
    ];
    for one in parts {
        for other in parts {
            for third in parts {
                let text = format!("0::/{one}/{other}/{third}");
                let _ = Membership::from_origin(&origin(&text, "")).job();
            }
        }
    }
}

fn process(pid: u32, parent: u32, cgroup: Option<&str>) -> Process {
    let id = Identity { pid: Pid(pid), start: Ns(u64::from(pid)) };
    let mut it = Process { id, ..Process::default() };
    it.row.set(ProcessField::Ppid, parent.into());
    it.text.origin = cgroup
        .map(|path| Arc::new(origin(&format!("0::{path}\n"), "PMIX_RANK=0\nPMIX_NAMESPACE=a")));
    it
}

fn learn(jobs: &mut JobTable, second: u64, processes: Vec<Process>) -> Vec<Option<String>> {
    let mut sample = Sample { processes, ..Sample::default() };
    sample.at.boot = Ns(second * 1_000_000_000);
    jobs.learn(&mut sample);
    sample.processes.iter().map(|it| it.text.job.as_deref().map(str::to_owned)).collect()
}

#[test]
fn a_short_lived_process_belongs_to_the_job_of_its_parent() {
    let mut jobs = JobTable::default();
    let step = "/system.slice/slurmstepd.scope/job_7/step_0";
    // The grandchild precedes its parent, whose pid is higher.
    let mut grandchild = process(150, 200, None);
    grandchild.id.start = Ns(300);
    let all = vec![process(100, 1, Some(step)), grandchild, process(200, 100, None)];
    let job = || Some("slurm:7".to_owned());
    assert_eq!(learn(&mut jobs, 1, all), [job(), job(), job()]);
    assert_eq!(learn(&mut jobs, 2, vec![process(400, 9, None)]), [None]);
}

#[test]
fn a_parent_of_the_same_tick_may_have_a_higher_pid() {
    // Process ids have begun again between the two ranks of one proxy.
    let at_once = |mut it: Process| {
        it.id.start = Ns(5);
        it
    };
    let all = vec![
        at_once(with_environ(300, 32_766, "PMI_RANK=1")),
        at_once(process(301, 300, None)),
        at_once(with_environ(32_766, 32_765, "")),
        at_once(with_environ(32_767, 32_766, "PMI_RANK=0")),
    ];
    let job = || Some("mpi:hydra-32766".to_owned());
    assert_eq!(learn(&mut JobTable::default(), 1, all), [job(), job(), None, job()]);
}

#[test]
fn the_parent_may_have_ended_before() {
    let mut jobs = JobTable::default();
    learn(&mut jobs, 1, vec![process(100, 1, Some("/slurm/job_7"))]);
    learn(&mut jobs, 2, vec![]);
    assert_eq!(learn(&mut jobs, 3, vec![process(200, 100, None)]), [Some("slurm:7".to_owned())]);
    learn(&mut jobs, 9, vec![]);
    assert_eq!(learn(&mut jobs, 10, vec![process(201, 100, None)]), [None]);
}

#[test]
fn a_rank_is_registered_while_it_lives() {
    let mut jobs = JobTable::default();
    learn(&mut jobs, 1, vec![process(100, 1, Some("/"))]);
    assert_eq!(jobs.registry().find("a", RankSelector::All).len(), 1);
    let mut ended = process(100, 1, None);
    ended.row.set(ProcessField::Ended, 1);
    learn(&mut jobs, 2, vec![ended]);
    assert_eq!(jobs.registry().find("a", RankSelector::All), []);
}

#[test]
fn a_rank_without_an_exit_record_is_forgotten() {
    let mut jobs = JobTable::default();
    learn(&mut jobs, 1, vec![process(100, 1, Some("/"))]);
    learn(&mut jobs, 9, vec![]);
    assert_eq!(jobs.registry().find("a", RankSelector::All), []);
}

/// The same process with this environment.
fn with_environ(pid: u32, parent: u32, environ: &str) -> Process {
    let mut it = process(pid, parent, None);
    it.text.origin = Some(Arc::new(origin("0::/\n", environ)));
    it
}

#[test]
fn a_process_without_job_variables_has_the_job_of_its_parent() {
    let mut jobs = JobTable::default();
    let job = || Some("pbs:12.head".to_owned());
    // The grandchild, whose environment was cleared, and a child of it that ended at once.
    let all = vec![
        with_environ(100, 1, "PBS_JOBID=12.head"),
        with_environ(101, 100, ""),
        with_environ(102, 101, ""),
        process(103, 102, None),
        with_environ(104, 1, ""),
    ];
    assert_eq!(learn(&mut jobs, 1, all.clone()), [job(), job(), job(), job(), None]);
    // Its parent has ended, and it has executed another program.
    assert_eq!(learn(&mut jobs, 2, vec![with_environ(102, 1, "")]), [job()]);
    let other = with_environ(105, 102, "PBS_JOBID=13.head");
    assert_eq!(learn(&mut jobs, 3, vec![other]), [Some("pbs:13.head".to_owned())]);
}

#[test]
fn ranks_of_a_runtime_that_names_no_job_belong_to_its_proxy() {
    let mut jobs = JobTable::default();
    let all = vec![
        with_environ(100, 1, ""),
        with_environ(101, 100, "PMI_RANK=0"),
        with_environ(102, 100, "PMI_RANK=1"),
        // A child of the second rank.
        with_environ(103, 102, "PMI_RANK=1"),
        process(104, 103, None),
        // Its parent is not known.
        with_environ(105, 9, "PMI_RANK=0"),
    ];
    let job = || Some("mpi:hydra-100".to_owned());
    assert_eq!(learn(&mut jobs, 1, all), [None, job(), job(), job(), job(), None]);
    assert_eq!(jobs.registry().find("hydra-100", RankSelector::Rank(1)).len(), 2);
}
