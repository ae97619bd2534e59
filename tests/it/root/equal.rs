//! The eBPF backend against `/proc`: the same process at the same instant, number by number.

use super::privilege::granted;
use super::workload::{Guarded, alive, ebpf, processes, until};
use crate::backend::{contract, origin};
use monitor_backend::Backend as _;
use monitor_backends::procfs::{Procfs, Root};
use monitor_model::field::{FieldValue, ProcessField as F};
use monitor_model::read_spec::Capability;
use rustix::process::{Signal, kill_process};

/// What both backends read from the same counters of the kernel.
const EQUAL: &[F] = &[
    F::Ppid,
    F::Uid,
    F::Gid,
    F::State,
    F::Threads,
    F::Priority,
    F::Nice,
    F::Policy,
    F::Processor,
    F::RunDelay,
    F::RunCount,
    F::VoluntarySwitches,
    F::InvoluntarySwitches,
    F::MinorFaults,
    F::MajorFaults,
    F::Rss,
    F::RssAnon,
    F::RssFile,
    F::RssShmem,
    F::Swap,
    F::Vsize,
    F::PeakRss,
    F::PeakVsize,
    F::ReadBytes,
    F::WrittenBytes,
    F::CancelledBytes,
    F::ReadCalls,
    F::WriteCalls,
    F::ReadChars,
    F::WrittenChars,
];

/// Touches memory of every kind, writes a file, makes threads and ends some, and says it is ready.
const BUSY: &str = "
import mmap, os, tempfile, threading
anon = bytearray(23 << 20)
shared = mmap.mmap(-1, 7 << 20)
shared.write(b'x' * (7 << 20))
with tempfile.TemporaryFile() as file:
    file.write(b'y' * (5 << 20)); file.flush(); os.fsync(file.fileno())
stay = threading.Event()
[threading.Thread(target=stay.wait, daemon=True).start() for _ in range(3)]
print('ready', flush=True)
while True: sum(range(1000))
";

#[test]
fn root_a_stopped_process_is_the_same_to_both_backends() {
    if !granted("root_a_stopped_process_is_the_same_to_both_backends") {
        return;
    }
    let mut child = Guarded::python(BUSY);
    assert_eq!(child.line(), "ready");
    let pid = child.pid();
    let stop = rustix::process::Pid::from_child(&child.0);
    kill_process(stop, Signal::STOP).unwrap();
    let mut kernel = ebpf(&[]);
    until(&mut kernel, &super::workload::threads(), |sample| {
        alive(sample, pid).is_some_and(|process| {
            process
                .threads
                .iter()
                .all(|thread| thread.value(F::State) == Some(FieldValue::Letter('T')))
        })
    });
    let mut proc = Procfs::open(Root::default()).unwrap();
    let (one, other) = (kernel.read(&processes()).unwrap(), proc.read(&processes()).unwrap());
    let (one, other) = (alive(&one, pid).unwrap(), alive(&other, pid).unwrap());
    assert!(one.row.get(F::Rss) > Some(30 << 20));
    for field in EQUAL {
        assert_eq!(one.value(*field), other.value(*field), "{field:?}");
    }
}

#[test]
fn root_the_ebpf_backend_keeps_the_contract() {
    if !granted("root_the_ebpf_backend_keeps_the_contract") {
        return;
    }
    contract::check(&mut ebpf(&[Capability::Snapshot, Capability::Lifetimes]));
}

#[test]
fn root_ranks_are_found_by_their_environment() {
    if !granted("root_ranks_are_found_by_their_environment") {
        return;
    }
    origin::check(&mut ebpf(&[Capability::Lifetimes]));
}
