//! How `/proc` serves each capability, as data for `doctor`.
//!
//! In: a capability. Out: the files read instead of hooks, and what they cannot tell.

use crate::inet_diag;
use monitor_model::probe::{Health, Probe};
use monitor_model::sample::Note;
use monitor_model::want::Capability;

/// How `/proc` serves a capability.
pub fn probe(capability: Capability) -> Probe {
    let (why, hooks) = match capability {
        Capability::Snapshot => (
            "read from /proc: CPU of ended threads to a tick, short-lived processes missed",
            vec!["/proc/<pid>/{stat,status,io,schedstat}".to_owned()],
        ),
        Capability::Block => (
            "read_bytes and written_bytes from the kernel's I/O accounting in place of block_*: no \
             devices, no requests, no latencies",
            vec!["/proc/<pid>/io".to_owned()],
        ),
        _ => return Probe { health: unsupported(), ..Probe::off(capability) },
    };
    fallback(capability, why, hooks)
}

/// What to say of those that are there only where somebody asked for them, and not from `/proc`.
pub fn lacking(wanted: &[Capability]) -> Option<Note> {
    let lacking: Vec<_> = wanted.iter().filter(|it| it.opt_in()).map(|it| it.name()).collect();
    let told = || Note::missing(format!("no {}: only eBPF counts that", lacking.join(", ")));
    (!lacking.is_empty()).then(told)
}

/// How TCP is served where sockets are listed.
pub fn tcp() -> Probe {
    fallback(Capability::Tcp, inet_diag::MISSES, inet_diag::SOURCES.map(str::to_owned).to_vec())
}

fn fallback(capability: Capability, why: &str, hooks: Vec<String>) -> Probe {
    let health = Health::Fallback { why: why.to_owned(), exact: false };
    Probe { health, hooks, ..Probe::off(capability) }
}

fn unsupported() -> Health {
    Health::Unsupported {
        why: "/proc does not tell".to_owned(),
        fix: "use the eBPF backend, as root or with CAP_BPF and CAP_PERFMON".to_owned(),
    }
}
