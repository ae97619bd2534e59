//! Origins of processes: `/proc/<pid>/cgroup`, and the job variables of `environ`.
//!
//! In: a process, and how to read its files. Out: its origin, cached until it executes another file
//! or may have been moved. An unreadable environment counts as empty; one that was read before the
//! new image was in place is read again.

use monitor_model::{Environ, Identity, Ns, Origin};
use std::{collections::HashMap, sync::Arc};

/// Maximum number of cached processes; the origins of others are read each time.
pub const MAX_ORIGINS: usize = 65_536;
/// Maximum bytes read of an environment; real ones have a few KiB.
pub const LONGEST_ENVIRON: usize = 256 << 10;
/// Time for which paths of cgroup v1 are cached: no id shows that a process was moved there.
pub const PATHS_VALID_FOR: Ns = Ns(30_000_000_000);

/// A process at the current reading.
#[derive(Clone, Copy, Debug)]
pub struct SeenProcess {
    /// Identity.
    pub id: Identity,
    /// Changes with each exec.
    pub generation: u32,
    /// Id of its cgroup in the unified hierarchy; absent if the backend does not provide it.
    pub cgroup_id: Option<u64>,
}

#[derive(Debug)]
struct CachedOrigin {
    generation: u32,
    cgroup_id: Option<u64>,
    /// When its cgroups were read.
    at: Ns,
    /// Whether the environment is final: an empty one must be read twice.
    settled: bool,
    origin: Arc<Origin>,
}

/// Cache of origins.
#[derive(Debug, Default)]
pub struct Origins {
    known: HashMap<Identity, CachedOrigin>,
}

impl Origins {
    /// The origin of a process; none if it has ended. `read` returns the beginning of a file.
    pub fn origin(
        &mut self,
        seen: SeenProcess,
        now: Ns,
        read: impl Fn(&str, usize) -> Option<Vec<u8>>,
    ) -> Option<Arc<Origin>> {
        let known = self.known.get(&seen.id).filter(|it| it.generation == seen.generation);
        if let Some(known) = known.filter(|it| it.settled && it.is_valid(&seen, now)) {
            return Some(Arc::clone(&known.origin));
        }
        let cgroups = String::from_utf8_lossy(&read("cgroup", usize::MAX)?).into();
        let environ = match known.filter(|it| it.settled) {
            Some(known) => known.origin.environ.clone(),
            None => environ(read("environ", LONGEST_ENVIRON).unwrap_or_default()),
        };
        let settled = known.is_some() || !environ.is_empty();
        let origin = Origin { cgroups, environ };
        let origin = match known.filter(|it| *it.origin == origin) {
            Some(known) => Arc::clone(&known.origin),
            None => Arc::new(origin),
        };
        if self.known.len() < MAX_ORIGINS || self.known.contains_key(&seen.id) {
            let SeenProcess { id, generation, cgroup_id } = seen;
            let origin = Arc::clone(&origin);
            let cached = CachedOrigin { generation, cgroup_id, at: now, settled, origin };
            self.known.insert(id, cached);
        }
        Some(origin)
    }

    /// Removes processes that have ended.
    pub fn keep_only(&mut self, is_live: impl Fn(&Identity) -> bool) {
        self.known.retain(|id, _| is_live(id));
    }
}

impl CachedOrigin {
    /// Whether it is still in the cgroups that were read.
    fn is_valid(&self, seen: &SeenProcess, now: Ns) -> bool {
        let id_is_sufficient = seen.cgroup_id.is_some()
            && self.origin.cgroups.lines().all(|line| line.starts_with("0::"));
        self.cgroup_id == seen.cgroup_id
            && (id_is_sufficient || now.since(self.at) < PATHS_VALID_FOR)
    }
}

/// Parses an environment; if it is truncated, the last variable is discarded.
pub fn environ(mut bytes: Vec<u8>) -> Environ {
    let cut = bytes.len() >= LONGEST_ENVIRON;
    if cut {
        bytes.truncate(bytes.iter().rposition(|&byte| byte == 0).unwrap_or(0));
    }
    let mut environ = Environ::parse(&bytes);
    environ.cut = cut;
    environ
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_model::id::Pid;
    use std::cell::Cell;

    const SECOND: u64 = 1_000_000_000;

    fn seen(generation: u32, cgroup_id: Option<u64>) -> SeenProcess {
        SeenProcess { id: Identity { pid: Pid(7), start: Ns(1) }, generation, cgroup_id }
    }

    /// Number of files read for these processes at these seconds.
    #[track_caller]
    fn check(cgroups: &str, environ: &[u8], readings: &[(SeenProcess, u64)], want: &[u32]) {
        let mut origins = Origins::default();
        let reads = Cell::new(0);
        let read = |name: &str, _: usize| {
            reads.set(reads.get() + 1);
            Some(if name == "cgroup" { cgroups.as_bytes().to_vec() } else { environ.to_vec() })
        };
        for ((seen, at), want) in readings.iter().zip(want) {
            let origin = origins.origin(*seen, Ns(at * SECOND), read).expect("it is there");
            assert_eq!((&*origin.cgroups, reads.replace(0)), (cgroups, *want), "at {at}");
        }
    }

    #[test]
    fn both_files_are_read_once_per_exec() {
        let readings = [(seen(0, Some(5)), 0), (seen(0, Some(5)), 99), (seen(1, Some(5)), 99)];
        check("0::/a\n", b"PMIX_RANK=1\0", &readings, &[2, 0, 2]);
    }

    #[test]
    fn the_cgroups_are_read_again_after_a_move() {
        let readings = [(seen(0, Some(5)), 0), (seen(0, Some(6)), 1), (seen(0, Some(6)), 2)];
        check("0::/a\n", b"PMIX_RANK=1\0", &readings, &[2, 1, 0]);
    }

    #[test]
    fn paths_without_an_id_are_cached_for_a_time() {
        let readings = [(seen(0, Some(1)), 0), (seen(0, Some(1)), 29), (seen(0, Some(1)), 30)];
        check("4:cpu:/a\n0::/\n", b"PMIX_RANK=1\0", &readings, &[2, 0, 1]);
        let readings = [(seen(0, None), 0), (seen(0, None), 29), (seen(0, None), 30)];
        check("0::/a\n", b"PMIX_RANK=1\0", &readings, &[2, 0, 1]);
    }

    #[test]
    fn an_empty_environment_is_read_twice() {
        let readings = [(seen(0, Some(1)), 0), (seen(0, Some(1)), 1), (seen(0, Some(1)), 2)];
        check("0::/a\n", b"HOME=/\0", &readings, &[2, 2, 0]);
    }

    #[test]
    fn an_unreadable_environment_is_empty_and_an_ended_process_has_no_origin() {
        let mut origins = Origins::default();
        let denied = |name: &str, _: usize| (name == "cgroup").then(|| b"0::/a\n".to_vec());
        let origin = origins.origin(seen(0, None), Ns(0), denied).expect("it is there");
        assert!(origin.environ.is_empty());
        assert_eq!(origins.origin(seen(1, None), Ns(0), |_, _| None), None);
    }

    #[test]
    fn a_truncated_variable_is_discarded() {
        let mut bytes = b"PMIX_NAMESPACE=a\0".to_vec();
        bytes.resize(LONGEST_ENVIRON - 12, b'x');
        bytes.extend_from_slice(b"\0PMIX_RANK=1");
        let environ = environ(bytes);
        assert!(environ.cut);
        assert_eq!((environ.get("PMIX_NAMESPACE"), environ.get("PMIX_RANK")), (Some("a"), None));
    }
}
