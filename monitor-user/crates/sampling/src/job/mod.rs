//! Membership of processes: a batch job, an MPI rank, a container, a unit, a session.
//!
//! In: samples whose processes have their [`Origin`]. Out: the [`Membership`] of each process,
//! the text `job` of each, and a [`RankRegistry`]. Pure: backends read control groups and
//! environments, `cgroup` and `environ` parse them.

mod cgroup;
mod environ;
mod learn;
mod membership;
mod public_job;
mod registry;
#[cfg(test)]
mod tests;

pub use environ::{is_rank, rank_number};
pub use learn::JobTable;
pub use membership::{Container, Membership};
pub use monitor_model::job::Rank;
pub use public_job::forget_environ;
pub use registry::{RankRegistry, RankSelector, RegistryFull};

use monitor_model::{Environ, Origin};
use std::sync::Arc;

/// The container of a path of a cgroup, such as `docker:` and its id.
pub fn container(path: &str) -> Option<Arc<str>> {
    let mut it = Membership::default();
    cgroup::fill(&mut it, &format!("0::{path}"));
    let Container { runtime, id } = it.container?;
    Some(format!("{}:{id}", runtime.unwrap_or("container")).into())
}

impl Membership {
    /// The membership from an origin. The path of a cgroup is set by the system, the environment by
    /// the process: the path has precedence, and the environment adds what it lacks.
    pub fn from_origin(origin: &Origin) -> Self {
        Self::from_parts(&origin.cgroups, &origin.environ)
    }

    /// The same from its parts.
    fn from_parts(cgroups: &str, environ: &Environ) -> Self {
        let mut it = Self::default();
        cgroup::fill(&mut it, cgroups);
        environ::fill(&mut it, environ);
        it
    }
}
