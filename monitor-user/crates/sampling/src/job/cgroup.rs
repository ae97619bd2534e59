//! Membership from the paths of `/proc/<pid>/cgroup`, component by component.
//!
//! In: the whole text, a line `id:controllers:path` for each hierarchy (cgroups(7)); with version
//! 2 alone there is one, `0::path`. Out: the membership. Every line is parsed: on a
//! hybrid host the job is in the lines of version 1 and the unit in that of systemd.

use super::membership::{BatchJob, Container, Membership, Pod, Qos, Slurm, Unit};
use monitor_proc::cgroup::{self, Container as CgroupContainer};
use std::sync::Arc;

/// Appended where the cgroup was removed while a zombie was in it (cgroup-v2.rst, "Processes").
const REMOVED: &str = " (deleted)";

/// Sets the membership from the paths.
pub fn fill(membership: &mut Membership, text: &str) {
    for line in text.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let path = path.strip_suffix(REMOVED).unwrap_or(path);
        let path: Vec<&str> = path.split('/').filter(|it| !it.is_empty()).collect();
        keep_most_detailed(&mut membership.slurm, slurm(&path));
        keep_first(&mut membership.batch, pbs(&path));
        keep_first(&mut membership.pod, pod(&path));
        keep_first(&mut membership.container, container(&path));
        // systemd manages the unified hierarchy, or the one of its own name.
        if controllers.is_empty() || controllers == "name=systemd" {
            keep_first(&mut membership.session, session(&path));
            keep_first(&mut membership.unit, unit(&path));
        }
    }
    // A session and a container are scopes too, and are reported as what they are.
    if membership.session.is_some() || membership.container.is_some() {
        membership.unit = None;
    }
}

/// Keeps the first value.
fn keep_first<T>(slot: &mut Option<T>, found: Option<T>) {
    *slot = slot.take().or(found);
}

/// Keeps the most detailed job: one line may end at the job, another at the task.
fn keep_most_detailed(slot: &mut Option<Slurm>, found: Option<Slurm>) {
    let detail = |it: &Slurm| usize::from(it.step.is_some()) + usize::from(it.task.is_some());
    if found.as_ref().map(detail) > slot.as_ref().map(detail) {
        *slot = found;
    }
}

/// Version 1: `/slurm/uid_U/job_N/step_S/task_T`, or `/slurm_NODE/…` where several `slurmd` share
/// a host (Slurm's cgroup.conf(5), "CgroupPlugin"; its xcgroup.c). Version 2:
/// `/system.slice/[NODE_]slurmstepd.scope/job_N/step_S/user/task_T` (Slurm's cgroup_v2.html;
/// `_set_int_cg_ns` of its cgroup_v2.c), with the sluid in place of `job_N` since 26.05 unless
/// CgroupJobIdPaths is set (its release notes).
fn slurm(path: &[&str]) -> Option<Slurm> {
    let (at, node) =
        path.iter().enumerate().find_map(|(at, part)| slurm_root(part).map(|node| (at, node)))?;
    let mut it = Slurm { node: node.map(Arc::from), ..Slurm::default() };
    for part in &path[at + 1..] {
        match part.split_once('_') {
            Some(("job", number)) => it.job = number.parse().ok(),
            Some(("step", step)) => it.step = Some(step.into()),
            // `task_special`: what is in the step but not of a task.
            Some(("task", task)) => it.task = task.parse().ok(),
            _ if is_sluid(part) => it.sluid = Some((*part).into()),
            _ => {}
        }
    }
    (it.job.is_some() || it.sluid.is_some()).then_some(it)
}

/// The node in the name of a Slurm root; `None` if the part is none.
fn slurm_root<'p>(part: &&'p str) -> Option<Option<&'p str>> {
    match part.strip_suffix("slurmstepd.scope") {
        Some("") => Some(None),
        Some(node) => node.strip_suffix('_').map(Some),
        None if *part == "slurm" => Some(None),
        None => part.strip_prefix("slurm_").map(Some),
    }
}

/// `s` and letters of Crockford's base 32, 14 in all, such as `s5K1KKYAYG5D00`.
fn is_sluid(part: &str) -> bool {
    part.len() == 14
        && part.strip_prefix('s').is_some_and(|rest| {
            rest.bytes().all(|it| it.is_ascii_digit() || it.is_ascii_uppercase())
        })
}

/// `/pbs_jobs.service/jobid/N.server` with version 1, `/pbs_jobs.service/jobs/N…` with version 2,
/// `/pbspro.slice/pbspro-N.server.slice` and `/pbspro/N.server` before (the cgroups hook of
/// OpenPBS, pbs_cgroups.PY; in the names of slices systemd escapes what it must). Torque has
/// `/torque/N.server` (Administrator Guide 6.1, "Torque NUMA-Aware Configuration").
fn pbs(path: &[&str]) -> Option<BatchJob> {
    const ROOTS: [&str; 4] = ["pbs_jobs.service", "pbspro.slice", "pbspro", "torque"];
    let mut parts = path.iter();
    let id = match *parts.find(|part| ROOTS.contains(part))? {
        "pbs_jobs.service" => {
            parts.next().filter(|it| ["jobid", "jobs"].contains(it))?;
            (*parts.next()?).to_owned()
        }
        "pbspro.slice" => {
            let slice = parts.next()?.strip_prefix("pbspro-")?;
            unescaped(slice.strip_suffix(".slice")?)
        }
        _ => (*parts.next()?).to_owned(),
    };
    let is_id = id.starts_with(|first: char| first.is_ascii_digit());
    is_id.then(|| BatchJob { system: "pbs", id: id.into() })
}

/// What systemd.unit(5), "String Escaping for Inclusion in Unit Names", made of a name: `\xHH`.
/// Its `-` for `/` is left: no id of a job has a `/`.
fn unescaped(name: &str) -> String {
    let mut out = String::new();
    let mut rest = name;
    while let Some((before, after)) = rest.split_once("\\x") {
        out.push_str(before);
        let byte = after.get(..2).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match byte {
            Some(byte) => out.push(char::from(byte)),
            None => out.push_str("\\x"),
        }
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    out + rest
}

/// Driver `cgroupfs`: `/kubepods[/burstable|/besteffort]/podUID/…`. Driver `systemd`:
/// `/kubepods.slice[/kubepods-burstable.slice]/kubepods-burstable-podUID.slice/…`, in which `-`
/// of the uid became `_`, below a parent of any name that is then put before each
/// (kubelet: `cgroup_manager_linux.go`, `ToSystemd`; `pod_container_manager_linux.go`).
fn pod(path: &[&str]) -> Option<Pod> {
    let at = path.iter().position(|part| {
        let name = part.strip_suffix(".slice").unwrap_or(part);
        name == "kubepods" || name.ends_with("-kubepods")
    })?;
    path[at + 1..].iter().find_map(|part| match part.strip_suffix(".slice") {
        Some(slice) => {
            let (before, uid) = slice.rsplit_once("-pod")?;
            Some(Pod { uid: uid.replace('_', "-").into(), qos: qos(before) })
        }
        None => {
            let uid = part.strip_prefix("pod")?;
            Some(Pod { uid: uid.into(), qos: qos(path[at + 1]) })
        }
    })
}

fn qos(text: &str) -> Qos {
    match text {
        _ if text.ends_with("burstable") => Qos::Burstable,
        _ if text.ends_with("besteffort") => Qos::BestEffort,
        _ => Qos::Guaranteed,
    }
}

/// The innermost container.
fn container(path: &[&str]) -> Option<Container> {
    let CgroupContainer { runtime, id } = cgroup::container(path)?;
    Some(Container { runtime, id: id.into() })
}

/// `session-N.scope` below `user-U.slice` (systemd-logind.service(8), pam_systemd(8)).
fn session(path: &[&str]) -> Option<Arc<str>> {
    let scope = path.iter().rev().find_map(|part| part.strip_prefix("session-"))?;
    scope.strip_suffix(".scope").map(Arc::from)
}

/// The innermost service or scope. Units below `user@U.service` belong to the manager of user U
/// (systemd.special(7), user@.service(5)).
fn unit(path: &[&str]) -> Option<Unit> {
    let is_unit = |part: &&&str| part.ends_with(".service") || part.ends_with(".scope");
    let name = path.iter().rev().find(is_unit)?;
    let manager = path
        .iter()
        .find_map(|part| part.strip_prefix("user@")?.strip_suffix(".service")?.parse().ok());
    // The manager itself is a unit of the system.
    let user = manager.filter(|_| !name.starts_with("user@"));
    Some(Unit { name: (*name).into(), user })
}
