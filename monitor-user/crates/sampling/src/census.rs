//! The jobs of all processes and who is which rank, learned once for all who look.
//!
//! In: readings of everybody, and claims that a process is a rank. Out: the job of each process,
//! the processes of a rank, and which ranks are here. Environments are read only with a reading
//! in which somebody looks who wants to know of jobs.

use super::job::{self, Jobs, Registry, Which};
use super::target::Namespaces;
use super::veil::Veil;
use monitor_backend::Backend;
use monitor_model::field::ProcessField;
use monitor_model::id::{Identity, Ns, Pid};
use monitor_model::request::Rank;
use monitor_model::sample::Sample;
use monitor_model::status::Refusal;
use monitor_model::unseen;
use monitor_model::want::Want;

/// What is known of jobs and ranks.
#[derive(Debug, Default)]
pub struct Census {
    jobs: Jobs,
    /// The changes of the registry that were told.
    told: u64,
}

/// Somebody says that a process is a rank, or asks whether he may speak for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The process.
    pub pid: Pid,
    /// Which rank; none, if he only watches for its beats.
    pub rank: Option<job::Rank>,
    /// The user who says so.
    pub uid: u32,
    /// What he may see.
    pub veil: Veil,
    /// When: who had the number later is not meant.
    pub at: Ns,
}

impl Census {
    /// Takes in a reading of everybody, before those that ended are taken out of it.
    pub fn learn(&mut self, sample: &mut Sample, want: &Want, backend: &mut dyn Backend) {
        if want.wants(ProcessField::Job) {
            let origins = Want { costly: vec![ProcessField::Job], ..Want::default() };
            backend.describe(&mut sample.processes, &origins);
            self.jobs.learn(sample);
        }
        self.jobs.registry_mut().keep_only(&sample.processes);
    }

    /// Takes a process for the rank that somebody says it is, if it is his to say.
    pub fn settle(&mut self, claim: &Claim, sample: &Sample) -> Result<(), Refusal> {
        let Pid(pid) = claim.pid;
        let meant = |it: &&monitor_model::sample::Process| {
            it.id.pid == claim.pid && !it.ended() && it.id.start <= claim.at
        };
        let process = sample.processes.iter().find(meant).filter(|it| claim.veil.shows(it));
        let process = process.ok_or_else(|| {
            let unseen: Vec<_> =
                claim.veil.unseen().into_iter().chain(sample.unseen.clone()).collect();
            let cause = unseen::cause(&unseen, std::iter::once(claim.pid));
            Refusal::absent(format!("no process {pid}{cause}"))
        })?;
        let uid = process.row.get(ProcessField::Uid);
        if claim.uid != 0 && uid != Some(u64::from(claim.uid)) {
            let what = if claim.rank.is_some() { "register it" } else { "watch for its beats" };
            return Err(Refusal::denied(format!(
                "process {pid} is of another user: only he and root can {what}"
            )));
        }
        let Some(rank) = claim.rank.clone() else { return Ok(()) };
        let registry = self.jobs.registry_mut();
        let held = registry.register(process.id, rank);
        held.map_err(|full| Refusal::limit(full.to_string()))
    }

    /// The ranks that are here, if they have changed since this was asked.
    pub fn news(&mut self) -> Option<Vec<Rank>> {
        let registry = self.jobs.registry();
        if std::mem::replace(&mut self.told, registry.changes()) == registry.changes() {
            return None;
        }
        let named =
            |it: &job::Rank| Rank { namespace: it.namespace.to_string(), rank: Some(it.rank) };
        Some(registry.ranks().map(named).collect())
    }
}

impl Namespaces for Census {
    fn processes(&self, rank: &Rank) -> Vec<Identity> {
        self.jobs.registry().processes(rank)
    }
}

impl Namespaces for Registry {
    fn processes(&self, rank: &Rank) -> Vec<Identity> {
        let which = rank.rank.map_or(Which::All, Which::Rank);
        self.find(&rank.namespace, which).into_iter().map(|(_, id)| id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_backends::canned::Canned;
    use monitor_model::status::Status;
    use monitor_model::whose::Eyes;

    /// A world, what is known of it, and what was read last.
    struct World {
        backend: Canned,
        census: Census,
        sample: Sample,
    }

    impl World {
        fn new(script: &str) -> Self {
            let backend = Canned::scripted(script).expect("a script");
            let mut it = Self { backend, census: Census::default(), sample: Sample::default() };
            it.read();
            it
        }

        fn read(&mut self) {
            let want = Want { processes: true, ..Want::default() };
            self.sample = self.backend.read(&want).expect("a sample");
            self.census.learn(&mut self.sample, &want, &mut self.backend);
        }

        /// What becomes of a claim of this user.
        fn claim(&mut self, pid: u32, uid: u32) -> Result<(), Status> {
            let veil = if uid == 0 { Veil::None } else { Veil::Own(Eyes { uid, gid: uid }) };
            let rank = Some(job::Rank { namespace: "job".into(), rank: pid });
            let claim = Claim { pid: Pid(pid), rank, uid, veil, at: self.sample.at.boot };
            self.census.settle(&claim, &self.sample).map_err(|refusal| refusal.status)
        }

        fn found(&self) -> Vec<u32> {
            let all = Rank { namespace: "job".into(), rank: None };
            self.census.processes(&all).into_iter().map(|it| it.pid.0).collect()
        }
    }

    #[test]
    fn a_process_is_registered_by_its_user_and_by_root_alone() {
        let mut world = World::new("process 7 uid=1000\nprocess 8 uid=1001");
        assert_eq!(world.claim(7, 1000), Ok(()));
        assert_eq!(world.claim(8, 1000), Err(Status::NoPermissions));
        assert_eq!(world.claim(9, 1000), Err(Status::NotFound));
        assert_eq!(world.found(), [7]);
        assert_eq!(world.claim(8, 0), Ok(()));
        assert_eq!(world.found(), [7, 8]);
    }

    #[test]
    fn who_only_watches_needs_the_same_right_and_registers_nothing() {
        let mut world = World::new("process 7 uid=1000\nprocess 8 uid=1001");
        let mut watch = |pid| {
            let veil = Veil::Own(Eyes { uid: 1000, gid: 1000 });
            let at = world.sample.at.boot;
            let claim = Claim { pid: Pid(pid), rank: None, uid: 1000, veil, at };
            world.census.settle(&claim, &world.sample).map_err(|refusal| refusal.to_string())
        };
        assert_eq!(watch(7), Ok(()));
        let why = "process 8 is of another user: only he and root can watch for its beats";
        assert_eq!([watch(8), watch(9)], [Err(why.into()), Err("no process 9".into())]);
        assert!(world.found().is_empty());
    }

    #[test]
    fn what_he_may_not_see_is_not_there() {
        let mut world = World::new("process 7 uid=1001");
        let rank = Some(job::Rank { namespace: "job".into(), rank: 0 });
        let (veil, at) = (Veil::Only(Eyes { uid: 1000, gid: 1000 }), world.sample.at.boot);
        let claim = Claim { pid: Pid(7), rank, uid: 1000, veil, at };
        let refusal = world.census.settle(&claim, &world.sample).expect_err("hidden");
        assert!(refusal.message.starts_with("no process 7: /proc is mounted"), "{refusal}");
    }

    #[test]
    fn a_registration_goes_with_its_process_and_is_not_that_of_the_next() {
        let mut world = World::new("process 7\nat 1s end 7\nat 2s process 7");
        assert_eq!(world.claim(7, 0), Ok(()));
        world.read();
        assert!(world.found().is_empty());
        let before = world.sample.at;
        world.read();
        assert!(world.found().is_empty());
        world.sample.at = before;
        assert_eq!(world.claim(7, 0), Err(Status::NotFound), "who had the number was meant");
    }

    #[test]
    fn the_ranks_that_are_here_are_told_when_they_change() {
        let mut world = World::new("process 7\nat 1s end 7");
        assert_eq!(world.census.news(), None);
        assert_eq!(world.claim(7, 0), Ok(()));
        let rank = Rank { namespace: "job".into(), rank: Some(7) };
        assert_eq!((world.census.news(), world.census.news()), (Some(vec![rank]), None));
        world.read();
        assert_eq!(world.census.news(), Some(vec![]));
    }
}
