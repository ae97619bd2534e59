//! State of loaded objects: runs and run time of their programs, and memory of their maps.
//!
//! In: a loaded object. Out: the state of a capability. Run times are available only while the
//! kernel's BPF statistics are enabled.

use crate::fdinfo;
use crate::object::{Fallback, Object};
use aya::maps::Map;
use aya::sys::{Stats, enable_stats};
use monitor_backend::Error;
use monitor_model::{Capability, Cost, Health, Probe};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::{process::Command, time::Duration};

/// Cost of one event if it was not measured: a tracepoint program with one map update, on the
/// machine of the measurements in docs/journal.
const CALIBRATED_NS: f64 = 150.0;
/// Repetitions of each activity of `exercise`.
const ROUNDS: usize = 10;
/// Timeout for its own datagram.
const DATAGRAM_TIMEOUT: Duration = Duration::from_millis(100);

/// How an object provides a capability.
pub fn probe(capability: Capability, object: &Object, dropped: u64) -> Probe {
    let loss = object.loss();
    let (run_ns, runs) = run_time(object);
    let measured =
        (runs > 0).then(|| Cost { ns_per_event: run_ns as f64 / runs as f64, estimated: false });
    Probe {
        capability,
        health: object.fallback.as_ref().map_or(Health::Active, Fallback::health),
        with: None,
        hooks: object.hooks.to_vec(),
        events: counts_events(capability).then_some(loss.events),
        cost: Some(measured.unwrap_or(Cost { ns_per_event: CALIBRATED_NS, estimated: true })),
        lost: loss.ring_full + loss.table_full + dropped + missed(object),
        map_bytes: map_bytes(object) + object.ring_bytes,
    }
}

/// Whether its programs count events: the iterator has none.
const fn counts_events(capability: Capability) -> bool {
    !matches!(capability, Capability::Snapshot)
}

/// Has the kernel measure the run time of programs until the result is dropped; `None` without
/// CAP_SYS_ADMIN, or before 5.8.
pub fn statistics() -> Option<OwnedFd> {
    enable_stats(Stats::RunTime).ok()
}

/// Triggers the hooks: processes, switches, datagrams and a connection. Disks and signals are not
/// used: their cost stays an estimate unless other processes use them.
pub fn exercise() {
    for _ in 0..ROUNDS {
        // The result does not matter: fork, exec and exit happen in any case.
        let _ = Command::new("/bin/true").status();
        let _ = datagram();
        let _ = connection();
    }
}

fn datagram() -> std::io::Result<()> {
    let [one, other] = [UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?];
    other.set_read_timeout(Some(DATAGRAM_TIMEOUT))?;
    let _ = one.send_to(b"?", other.local_addr()?)?;
    other.recv(&mut [0]).map(drop)
}

fn connection() -> std::io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    TcpStream::connect(listener.local_addr()?).map(drop)
}

/// State of a capability whose object was refused.
pub fn refused(error: &Error) -> Health {
    match error {
        Error::Unsupported { why, fix, .. } => {
            Health::Unsupported { why: why.clone(), fix: fix.clone() }
        }
        _ => Health::Failed { error: error.to_string() },
    }
}

/// Run time and number of runs of all its programs, as far as the kernel measured them.
fn run_time(object: &Object) -> (u64, u64) {
    object.ebpf.programs().filter_map(|(_, program)| program.fd().ok()).fold((0, 0), |sum, fd| {
        let info = fdinfo::read(fd.as_fd());
        (sum.0 + fdinfo::number(&info, "run_time_ns"), sum.1 + fdinfo::number(&info, "run_cnt"))
    })
}

/// Runs skipped by the kernel because the same program was already running on that CPU.
fn missed(object: &Object) -> u64 {
    let programs = object.ebpf.programs().filter_map(|(_, program)| program.fd().ok());
    programs.map(|fd| fdinfo::number(&fdinfo::read(fd.as_fd()), "recursion_misses")).sum()
}

fn map_bytes(object: &Object) -> u64 {
    let data = |map| match map {
        &Map::Array(ref it)
        | &Map::HashMap(ref it)
        | &Map::PerCpuArray(ref it)
        | &Map::PerCpuHashMap(ref it) => Some(it),
        _ => None,
    };
    object
        .ebpf
        .maps()
        .filter_map(|(_, map)| data(map))
        .fold(0, |sum, map| sum + fdinfo::memory(map.fd().as_fd()))
}
