//! Where processes come from: `/proc/<pid>/cgroup` and what `environ` says of jobs.
//!
//! In: a process as it was seen, and how to read its files. Out: its origin, kept until it
//! executes another file or may have been moved. An environment that we may not read is as good
//! as empty; one that was read before the new image was in place is read again.

use monitor_model::id::{Identity, Ns};
use monitor_model::job::{Environ, Origin};
use std::collections::HashMap;
use std::sync::Arc;

/// Most processes remembered; the origins of others are read each time.
pub const MOST_ORIGINS: usize = 65_536;
/// As much as is read of an environment; real ones have a few KiB.
pub const LONGEST_ENVIRON: usize = 256 << 10;
/// How long the paths of version 1 are believed: no number tells that a process was moved there.
const BELIEVED: Ns = Ns(30_000_000_000);

/// A process as it was seen.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Which.
    pub id: Identity,
    /// Changes with each execution.
    pub generation: u32,
    /// Its cgroup of the unified hierarchy; absent where the backend does not tell.
    pub cgroup_id: Option<u64>,
}

#[derive(Debug)]
struct Known {
    generation: u32,
    cgroup_id: Option<u64>,
    /// When its cgroups were read.
    at: Ns,
    /// Whether an empty environment was read twice: then it is empty.
    settled: bool,
    origin: Arc<Origin>,
}

/// The origins read so far.
#[derive(Debug, Default)]
pub struct Origins {
    known: HashMap<Identity, Known>,
}

impl Origins {
    /// The origin of a process; absent if it is gone. `read` gives the beginning of a file.
    pub fn of(
        &mut self,
        seen: Seen,
        now: Ns,
        read: impl Fn(&str, usize) -> Option<Vec<u8>>,
    ) -> Option<Arc<Origin>> {
        let known = self.known.get(&seen.id).filter(|it| it.generation == seen.generation);
        if let Some(known) = known.filter(|it| it.settled && it.stands(&seen, now)) {
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
        self.keep(
            seen,
            Known {
                generation: seen.generation,
                cgroup_id: seen.cgroup_id,
                at: now,
                settled,
                origin: Arc::clone(&origin),
            },
        );
        Some(origin)
    }

    /// Forgets those that are not there any more.
    pub fn keep_only(&mut self, there: impl Fn(&Identity) -> bool) {
        self.known.retain(|id, _| there(id));
    }

    fn keep(&mut self, seen: Seen, known: Known) {
        if self.known.len() < MOST_ORIGINS || self.known.contains_key(&seen.id) {
            self.known.insert(seen.id, known);
        }
    }
}

impl Known {
    /// Whether it is still in the cgroups that were read.
    fn stands(&self, seen: &Seen, now: Ns) -> bool {
        let tells = seen.cgroup_id.is_some()
            && self.origin.cgroups.lines().all(|line| line.starts_with("0::"));
        self.cgroup_id == seen.cgroup_id && (tells || now.since(self.at) < BELIEVED)
    }
}

/// Of one that is cut, the last variable may be cut too.
fn environ(mut bytes: Vec<u8>) -> Environ {
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

    fn seen(generation: u32, cgroup_id: Option<u64>) -> Seen {
        Seen { id: Identity { pid: Pid(7), start: Ns(1) }, generation, cgroup_id }
    }

    /// How many files are read for what is seen at these seconds.
    #[track_caller]
    fn check(cgroups: &str, environ: &[u8], looks: &[(Seen, u64)], want: &[u32]) {
        let mut origins = Origins::default();
        let reads = Cell::new(0);
        let read = |name: &str, _: usize| {
            reads.set(reads.get() + 1);
            Some(if name == "cgroup" { cgroups.as_bytes().to_vec() } else { environ.to_vec() })
        };
        for ((seen, at), want) in looks.iter().zip(want) {
            let origin = origins.of(*seen, Ns(at * SECOND), read).expect("it is there");
            assert_eq!((&*origin.cgroups, reads.replace(0)), (cgroups, *want), "at {at}");
        }
    }

    #[test]
    fn both_are_read_once_for_each_execution() {
        let looks = [(seen(0, Some(5)), 0), (seen(0, Some(5)), 99), (seen(1, Some(5)), 99)];
        check("0::/a\n", b"PMIX_RANK=1\0", &looks, &[2, 0, 2]);
    }

    #[test]
    fn a_move_has_the_cgroups_read_again() {
        let looks = [(seen(0, Some(5)), 0), (seen(0, Some(6)), 1), (seen(0, Some(6)), 2)];
        check("0::/a\n", b"PMIX_RANK=1\0", &looks, &[2, 1, 0]);
    }

    #[test]
    fn what_no_number_tells_is_believed_for_a_time() {
        let looks = [(seen(0, Some(1)), 0), (seen(0, Some(1)), 29), (seen(0, Some(1)), 30)];
        check("4:cpu:/a\n0::/\n", b"PMIX_RANK=1\0", &looks, &[2, 0, 1]);
        let looks = [(seen(0, None), 0), (seen(0, None), 29), (seen(0, None), 30)];
        check("0::/a\n", b"PMIX_RANK=1\0", &looks, &[2, 0, 1]);
    }

    #[test]
    fn an_empty_environment_is_read_twice() {
        let looks = [(seen(0, Some(1)), 0), (seen(0, Some(1)), 1), (seen(0, Some(1)), 2)];
        check("0::/a\n", b"HOME=/\0", &looks, &[2, 2, 0]);
    }

    #[test]
    fn one_that_we_may_not_read_is_empty_and_one_that_is_gone_has_none() {
        let mut origins = Origins::default();
        let denied = |name: &str, _: usize| (name == "cgroup").then(|| b"0::/a\n".to_vec());
        let origin = origins.of(seen(0, None), Ns(0), denied).expect("it is there");
        assert!(origin.environ.is_empty());
        assert_eq!(origins.of(seen(1, None), Ns(0), |_, _| None), None);
    }

    #[test]
    fn the_variable_at_the_cut_is_not_believed() {
        let mut bytes = b"PMIX_NAMESPACE=a\0".to_vec();
        bytes.resize(LONGEST_ENVIRON - 12, b'x');
        bytes.extend_from_slice(b"\0PMIX_RANK=1");
        let environ = environ(bytes);
        assert!(environ.cut);
        assert_eq!((environ.get("PMIX_NAMESPACE"), environ.get("PMIX_RANK")), (Some("a"), None));
    }
}
