//! The jobs and ranks of all processes, shared by all consumers.
//!
//! In: readings of all processes, and claims that a process is a rank. Out: the job of each
//! process, and the processes of a rank. Environments are read only for readings in which a
//! consumer needs jobs.

use super::job::{self, JobTable, RankRegistry, RankSelector};
use super::{target::Namespaces, visibility::Visibility};
use monitor_backend::Backend;
use monitor_model::{
    Identity, Ns, Pid, ProcessField, RankTarget, ReadSpec, Refusal, Sample, hidden,
};

/// Jobs and ranks.
#[derive(Debug, Default)]
pub struct JobIndex {
    jobs: JobTable,
}

/// A claim that a process is a rank, or a check that the user owns the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankClaim {
    /// The process.
    pub pid: Pid,
    /// The rank; `None` for a heartbeat watch.
    pub rank: Option<job::Rank>,
    /// The user that makes the claim.
    pub uid: u32,
    /// What the user may see.
    pub visibility: Visibility,
    /// Time of the claim: a later process with the same id is not meant.
    pub at: Ns,
}

impl JobIndex {
    /// Adds a reading of all processes, ended ones included.
    pub fn learn(&mut self, sample: &mut Sample, want: &ReadSpec, backend: &mut dyn Backend) {
        if want.wants(ProcessField::Job) {
            let origins = ReadSpec { costly: vec![ProcessField::Job], ..ReadSpec::default() };
            backend.describe(&mut sample.processes, &origins);
            self.jobs.learn(sample);
        }
        self.jobs.registry_mut().keep_only(&sample.processes);
    }

    /// Registers the process as the claimed rank.
    ///
    /// # Errors
    /// If the process does not exist or belongs to another user, or the registry is full.
    pub fn register(&mut self, claim: &RankClaim, sample: &Sample) -> Result<(), Refusal> {
        let Pid(pid) = claim.pid;
        let is_meant = |it: &&monitor_model::sample::Process| {
            it.id.pid == claim.pid && !it.ended() && it.id.start <= claim.at
        };
        let process =
            sample.processes.iter().find(is_meant).filter(|it| claim.visibility.shows(it));
        let process = process.ok_or_else(|| {
            let hidden_processes: Vec<_> = claim
                .visibility
                .hidden_processes()
                .into_iter()
                .chain(sample.hidden.clone())
                .collect();
            let cause = hidden::cause(&hidden_processes, std::iter::once(claim.pid));
            Refusal::absent(format!("no process {pid}{cause}"))
        })?;
        let uid = process.row.get(ProcessField::Uid);
        if claim.uid != 0 && uid != Some(u64::from(claim.uid)) {
            let what = if claim.rank.is_some() { "register it" } else { "watch its heartbeats" };
            return Err(Refusal::denied(format!(
                "process {pid} belongs to another user: only that user and root can {what}"
            )));
        }
        let Some(rank) = claim.rank.clone() else { return Ok(()) };
        let registry = self.jobs.registry_mut();
        let registered = registry.register(process.id, rank);
        registered.map_err(|full| Refusal::limit(full.to_string()))
    }
}

impl Namespaces for JobIndex {
    fn processes(&self, rank: &RankTarget) -> Vec<Identity> {
        self.jobs.registry().processes(rank)
    }
}

impl Namespaces for RankRegistry {
    fn processes(&self, rank: &RankTarget) -> Vec<Identity> {
        let which = rank.rank.map_or(RankSelector::All, RankSelector::Rank);
        self.find(&rank.namespace, which).into_iter().map(|(_, id)| id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_backends::canned::Canned;
    use monitor_model::credentials::Credentials;
    use monitor_model::status::Status;

    /// A canned backend, its index, and its last sample.
    struct World {
        backend: Canned,
        index: JobIndex,
        sample: Sample,
    }

    impl World {
        fn new(script: &str) -> Self {
            let backend = Canned::scripted(script).expect("a script");
            let mut it = Self { backend, index: JobIndex::default(), sample: Sample::default() };
            it.read();
            it
        }

        fn read(&mut self) {
            let want = ReadSpec { processes: true, ..ReadSpec::default() };
            self.sample = self.backend.read(&want).expect("a sample");
            self.index.learn(&mut self.sample, &want, &mut self.backend);
        }

        /// The result of a claim of this user.
        fn claim(&mut self, pid: u32, uid: u32) -> Result<(), Status> {
            let visibility = if uid == 0 {
                Visibility::All
            } else {
                Visibility::OwnInFull(Credentials { uid, gid: uid })
            };
            let rank = Some(job::Rank { namespace: "job".into(), rank: pid });
            let claim = RankClaim { pid: Pid(pid), rank, uid, visibility, at: self.sample.at.boot };
            self.index.register(&claim, &self.sample).map_err(|refusal| refusal.status)
        }

        fn found(&self) -> Vec<u32> {
            let all = RankTarget { namespace: "job".into(), rank: None };
            self.index.processes(&all).into_iter().map(|it| it.pid.0).collect()
        }
    }

    #[test]
    fn only_its_user_and_root_can_register_a_process() {
        let mut world = World::new("process 7 uid=1000\nprocess 8 uid=1001");
        assert_eq!(world.claim(7, 1000), Ok(()));
        assert_eq!(world.claim(8, 1000), Err(Status::NoPermissions));
        assert_eq!(world.claim(9, 1000), Err(Status::NotFound));
        assert_eq!(world.found(), [7]);
        assert_eq!(world.claim(8, 0), Ok(()));
        assert_eq!(world.found(), [7, 8]);
    }

    #[test]
    fn a_heartbeat_watch_needs_the_same_right_and_registers_nothing() {
        let mut world = World::new("process 7 uid=1000\nprocess 8 uid=1001");
        let mut watch = |pid| {
            let visibility = Visibility::OwnInFull(Credentials { uid: 1000, gid: 1000 });
            let at = world.sample.at.boot;
            let claim = RankClaim { pid: Pid(pid), rank: None, uid: 1000, visibility, at };
            world.index.register(&claim, &world.sample).map_err(|refusal| refusal.to_string())
        };
        assert_eq!(watch(7), Ok(()));
        let why =
            "process 8 belongs to another user: only that user and root can watch its heartbeats";
        assert_eq!([watch(8), watch(9)], [Err(why.into()), Err("no process 9".into())]);
        assert!(world.found().is_empty());
    }

    #[test]
    fn a_hidden_process_is_not_found() {
        let mut world = World::new("process 7 uid=1001");
        let rank = Some(job::Rank { namespace: "job".into(), rank: 0 });
        let (visibility, at) =
            (Visibility::OwnOnly(Credentials { uid: 1000, gid: 1000 }), world.sample.at.boot);
        let claim = RankClaim { pid: Pid(7), rank, uid: 1000, visibility, at };
        let refusal = world.index.register(&claim, &world.sample).expect_err("hidden");
        assert!(refusal.message.starts_with("no process 7: /proc is mounted"), "{refusal}");
    }

    #[test]
    fn a_registration_ends_with_its_process() {
        let mut world = World::new("process 7\nat 1s end 7\nat 2s process 7");
        assert_eq!(world.claim(7, 0), Ok(()));
        world.read();
        assert!(world.found().is_empty());
        let before = world.sample.at;
        world.read();
        assert!(world.found().is_empty());
        world.sample.at = before;
        assert_eq!(world.claim(7, 0), Err(Status::NotFound), "the claim meant the earlier process");
    }
}
