//! How `/proc` provides each capability, as data for `doctor`.
//!
//! In: a capability. Out: the files read instead of hooks, and what they lack.

use crate::inet_diag;
use monitor_model::{Capability, Health, Note, Probe};

/// How `/proc` provides a capability.
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
        _ => {
            let why = "not available in /proc".to_owned();
            let fix = "use the eBPF backend, as root or with CAP_BPF and CAP_PERFMON".to_owned();
            return Probe { health: Health::Unsupported { why, fix }, ..Probe::off(capability) };
        }
    };
    fallback(capability, why, hooks)
}

/// The note on requested opt-in capabilities that `/proc` does not provide.
pub fn missing_capabilities(wanted: &[Capability]) -> Option<Note> {
    let missing: Vec<_> = wanted.iter().filter(|it| it.opt_in()).map(|it| it.name()).collect();
    let note = || Note::missing(format!("no {}: needs the eBPF backend", missing.join(", ")));
    (!missing.is_empty()).then(note)
}

/// How TCP is provided by inet_diag.
pub fn tcp() -> Probe {
    fallback(Capability::Tcp, inet_diag::MISSES, inet_diag::SOURCES.map(str::to_owned).to_vec())
}

fn fallback(capability: Capability, why: &str, hooks: Vec<String>) -> Probe {
    let health = Health::Fallback { why: why.to_owned(), exact: false };
    Probe { health, hooks, ..Probe::off(capability) }
}
