//! What a process belongs to: a batch job, an MPI rank, a container, a unit, a session.

use monitor_model::Rank;
use std::sync::Arc;

/// Everything that one process belongs to; it can be of several kinds at once, such as a Slurm
/// step that runs an MPI namespace in a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Membership {
    /// A job of Slurm.
    pub slurm: Option<Slurm>,
    /// A job of another batch system.
    pub batch: Option<BatchJob>,
    /// A rank of an MPI or PMIx namespace.
    pub rank: Option<Rank>,
    /// A pod of Kubernetes.
    pub pod: Option<Pod>,
    /// A container.
    pub container: Option<Container>,
    /// A unit of systemd, but for sessions and the scopes of containers.
    pub unit: Option<Unit>,
    /// A login session: its id, such as `3`.
    pub session: Option<Arc<str>>,
}

/// A job of Slurm, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Slurm {
    /// Its number; only from the environment where the path has just the sluid.
    pub job: Option<u64>,
    /// Its lexical id, which names its cgroup since Slurm 26.05.
    pub sluid: Option<Arc<str>>,
    /// The step: a number, `batch`, `extern` or `interactive`.
    pub step: Option<Arc<str>>,
    /// The task within the step, on this node.
    pub task: Option<u32>,
    /// The node's name, where several `slurmd` share a host.
    pub node: Option<Arc<str>>,
}

/// A job of a batch system that has no more than an id.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BatchJob {
    /// `pbs` (Torque too), `lsf`, `sge`, `flux` or `condor`.
    pub system: &'static str,
    /// Its id, such as `123.server`; of HTCondor the slot that it has, such as `slot1_1`.
    pub id: Arc<str>,
}

/// A pod of Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pod {
    /// Its uid.
    pub uid: Arc<str>,
    /// Its class of quality of service.
    pub qos: Qos,
}

/// Classes of quality of service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Qos {
    /// Its limits equal its requests.
    Guaranteed,
    /// Its limits exceed its requests.
    Burstable,
    /// It has no requests and no limits.
    BestEffort,
}

/// A container.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Container {
    /// Its runtime: `docker`, `podman`, `containerd`, `cri-o`, `lxc`, `apptainer`; `None` if the
    /// path does not have it.
    pub runtime: Option<&'static str>,
    /// Its id, or the image of one that has none.
    pub id: Arc<str>,
}

/// A unit of systemd.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Unit {
    /// Its name, such as `sshd.service`.
    pub name: Arc<str>,
    /// The user whose manager runs it; absent for a unit of the system.
    pub user: Option<u32>,
}

impl Membership {
    /// The name of the job that it counts for, by precedence: batch system, MPI runtime, pod,
    /// container, login session, unit.
    pub fn job(&self) -> Option<Arc<str>> {
        let slurm = self.slurm.as_ref().and_then(|slurm| {
            let number = slurm.job.map(|job| format!("slurm:{job}"));
            number.or_else(|| slurm.sluid.as_ref().map(|sluid| format!("slurm:{sluid}")))
        });
        let named = |kind: &str, name: &Arc<str>| format!("{kind}:{name}");
        let name = slurm
            .or_else(|| self.batch.as_ref().map(|it| named(it.system, &it.id)))
            .or_else(|| self.rank.as_ref().map(|it| named("mpi", &it.namespace)))
            .or_else(|| self.pod.as_ref().map(|it| named("pod", &it.uid)))
            .or_else(|| self.container.as_ref().map(|it| named("container", &it.id)))
            .or_else(|| self.session.as_ref().map(|it| named("session", it)))
            .or_else(|| self.unit.as_ref().map(Unit::job));
        name.map(Arc::from)
    }
}

impl Unit {
    fn job(&self) -> String {
        match self.user {
            Some(user) => format!("unit:{}@{user}", self.name),
            None => format!("unit:{}", self.name),
        }
    }
}
