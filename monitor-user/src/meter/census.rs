//! The jobs of all processes and who is which rank, learned once for all who look.
//!
//! In: readings of everybody, and claims that a process is a rank. Out: the job of each process,
//! the processes of a rank, and which ranks are here. Environments are read only with a reading
//! in which somebody looks who wants to know of jobs.

use super::job::{self, Jobs, Registry, Which};
use super::target::Namespaces;
use super::veil::Veil;
use crate::backend::Backend;
use crate::model::field::ProcessField;
use crate::model::id::{Identity, Ns, Pid};
use crate::model::request::Rank;
use crate::model::sample::Sample;
use crate::model::status::Refusal;
use crate::model::want::Want;

/// What is known of jobs and ranks.
#[derive(Debug, Default)]
pub struct Census {
    jobs: Jobs,
    /// The changes of the registry that were told.
    told: u64,
}

/// Somebody says that a process is a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The process.
    pub pid: Pid,
    /// Which rank.
    pub rank: job::Rank,
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
        let meant = |it: &&crate::model::sample::Process| {
            it.id.pid == claim.pid && !it.ended() && it.id.start <= claim.at
        };
        let process = sample.processes.iter().find(meant).filter(|it| claim.veil.shows(it));
        let process = process.ok_or_else(|| Refusal::absent(format!("no process {pid}")))?;
        let uid = process.row.get(ProcessField::Uid);
        if claim.uid != 0 && uid != Some(u64::from(claim.uid)) {
            return Err(Refusal::denied(format!(
                "process {pid} is of another user: only he and root can register it"
            )));
        }
        let registry = self.jobs.registry_mut();
        let held = registry.register(process.id, claim.rank.clone());
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
