//! The contract of `Backend`: one suite that every backend passes.
//!
//! In: a backend that can read. A broken promise fails the test that called. The world may be a
//! real one, so nothing is assumed of it but that it has a process.

use monitor_backend::Backend;
use monitor_model::credentials::{Credentials, ProcessFilter};
use monitor_model::field::{Category, ProcessField, Role, ValueKind};
use monitor_model::id::Pid;
use monitor_model::read_spec::{Devices, ReadSpec};
use monitor_model::sample::{Process, Sample};
use std::collections::HashSet;

/// Fields that every process has, for every reader.
const REQUIRED: [ProcessField; 6] = [
    ProcessField::Pid,
    ProcessField::Ppid,
    ProcessField::Uid,
    ProcessField::State,
    ProcessField::StartTime,
    ProcessField::CpuTime,
];

/// Every promise.
pub fn check(backend: &mut dyn Backend) {
    nothing_wanted_is_nothing_read(backend);
    processes_are_in_order_and_whole(backend);
    only_asked_processes_are_given(backend);
    threads_are_one_level_below(backend);
    counters_never_go_backwards(backend);
    costly_fields_are_read_only_when_wanted(backend);
    page_tables_are_walked_only_of_the_selected_processes(backend);
    node_parts_come_alone(backend);
    unknown_devices_are_named(backend);
    texts_are_given_when_wanted(backend);
    the_list_of_pids_has_exactly_the_living_processes(backend);
}

/// Where a backend can read few processes alone.
fn the_list_of_pids_has_exactly_the_living_processes(backend: &mut dyn Backend) {
    let all = read(backend, &processes());
    let own = monitor_model::id::Pid(std::process::id());
    let Some(it) = all.processes.iter().find(|it| it.id.pid == own) else { return };
    let Some(seen) = backend.read_few(&[own, monitor_model::id::Pid(u32::MAX >> 1)]) else {
        return;
    };
    let seen = seen.unwrap();
    assert_eq!(seen.processes.iter().map(|it| it.id).collect::<Vec<_>>(), [it.id]);
    assert!(seen.at.boot >= all.at.boot);
    for field in REQUIRED.into_iter().chain([ProcessField::Rss, ProcessField::RunDelay]) {
        assert!(seen.processes[0].row.get(field).is_some(), "{field:?}");
    }
    let cpu = |it: &Process| it.row.get(ProcessField::CpuTime);
    assert!(cpu(&seen.processes[0]) >= cpu(it), "what was read later is not less");
}

fn read(backend: &mut dyn Backend, want: &ReadSpec) -> Sample {
    let sample = backend.read(want).unwrap();
    assert_eq!(sample.backend, backend.kind());
    assert!(!sample.node.is_empty(), "a sample names its node");
    sample
}

fn processes() -> ReadSpec {
    ReadSpec { processes: true, ..ReadSpec::default() }
}

fn nothing_wanted_is_nothing_read(backend: &mut dyn Backend) {
    let sample = read(backend, &ReadSpec::default());
    assert!(sample.processes.is_empty() && sample.node_stats.is_none());
}

fn processes_are_in_order_and_whole(backend: &mut dyn Backend) {
    let sample = read(backend, &processes());
    assert!(!sample.processes.is_empty());
    let ids = sample.processes.windows(2).all(|pair| pair[0].id < pair[1].id);
    assert!(ids, "identities rise, so none is there twice");
    for process in &sample.processes {
        check_row(process);
        assert!(process.threads.is_empty(), "threads were not asked for");
        assert_eq!(process.row.get(ProcessField::Pid), Some(u64::from(process.id.pid.0)));
        assert_eq!(process.row.get(ProcessField::Tid), None);
    }
}

fn check_row(process: &Process) {
    for field in REQUIRED {
        let name = field.field().name;
        assert!(process.row.get(field).is_some(), "{} has no {name}", process.comm());
    }
    for field in ProcessField::all() {
        if matches!(field.field().role, Role::RateOf(_)) || field.field().kind == ValueKind::Text {
            assert_eq!(process.row.get(field), None, "a backend sets no {}", field.field().name);
        }
    }
}

fn only_asked_processes_are_given(backend: &mut dyn Backend) {
    let all = read(backend, &processes());
    let live = |process: &&Process| !process.ended();
    let asked = all.processes.iter().find(live).unwrap().id;
    // Twice, and one that cannot exist: pids end at 4,194,304.
    let pids = Some(vec![asked.pid, monitor_model::id::Pid(u32::MAX), asked.pid]);
    let sample = read(backend, &ReadSpec { pids, ..processes() });
    assert!(sample.processes.iter().all(|it| it.id.pid == asked.pid));
    assert!(sample.processes.len() <= 1);
}

fn threads_are_one_level_below(backend: &mut dyn Backend) {
    let sample = read(backend, &ReadSpec { threads: true, ..processes() });
    for process in &sample.processes {
        let mut tids = HashSet::new();
        for thread in &process.threads {
            assert!(thread.threads.is_empty(), "a thread has no threads");
            assert!(tids.insert(thread.id), "{:?} is there twice", thread.id);
            let row = &thread.row;
            assert_eq!(row.get(ProcessField::Pid), Some(u64::from(process.id.pid.0)));
            assert_eq!(row.get(ProcessField::Tid), Some(u64::from(thread.id.pid.0)));
            assert!(row.get(ProcessField::CpuTime).is_some());
        }
        assert!(process.threads.windows(2).all(|pair| pair[0].id < pair[1].id));
    }
}

fn counters_never_go_backwards(backend: &mut dyn Backend) {
    let before = read(backend, &processes());
    let after = read(backend, &processes());
    assert!(before.at.boot <= after.at.boot);
    let mut compared = 0;
    for old in before.processes.iter().filter(|it| !it.ended()) {
        let Some(new) = after.processes.iter().find(|it| it.id == old.id) else { continue };
        compared += 1;
        for field in ProcessField::all().filter(|it| it.field().role == Role::Counter) {
            // The kernel divides the exact time again at each reading.
            if matches!(field, ProcessField::UserTime | ProcessField::SystemTime) {
                continue;
            }
            let (old_value, new_value) = (old.row.get(field), new.row.get(field));
            let name = field.field().name;
            assert!(
                new_value >= old_value,
                "{} of {}: {old_value:?} {new_value:?}",
                name,
                old.comm()
            );
        }
    }
    assert!(compared > 0, "a process that lives through two readings keeps its identity");
}

fn costly_fields_are_read_only_when_wanted(backend: &mut dyn Backend) {
    let sample = read(backend, &processes());
    for process in &sample.processes {
        assert_eq!(process.row.get(ProcessField::Pss), None);
        assert!(process.text.cmdline.is_none() && process.text.cgroup.is_none());
    }
}

fn page_tables_are_walked_only_of_the_selected_processes(backend: &mut dyn Backend) {
    let mut shares = |pss_of: ProcessFilter| {
        let sample =
            read(backend, &ReadSpec { costly: vec![ProcessField::Pss], pss_of, ..processes() });
        let has = |it: &&Process| it.row.get(ProcessField::Pss).is_some();
        sample.processes.iter().filter(has).map(|it| it.id.pid).collect::<Vec<_>>()
    };
    let all = shares(ProcessFilter::default());
    // Another process may end between two readings; this one does not.
    let own = Pid(std::process::id());
    let Some(&last) = all.last() else { return };
    let one = if all.contains(&own) { own } else { last };
    assert_eq!(shares(ProcessFilter { pids: Some(vec![one]), credentials: None }), [one]);
    // No user has this number: it means that none is given (setreuid(2)).
    let no_user = Some(Credentials { uid: u32::MAX, gid: u32::MAX });
    assert_eq!(shares(ProcessFilter { pids: None, credentials: no_user }), []);
}

fn node_parts_come_alone(backend: &mut dyn Backend) {
    let node = read(backend, &ReadSpec { node: true, ..ReadSpec::default() });
    assert!(node.processes.is_empty());
    let stats = node.node_stats.unwrap();
    assert!(!stats.cpus.is_empty() && stats.disks.is_empty() && stats.nets.is_empty());
    let nets = read(backend, &ReadSpec { nets: Devices::All, ..ReadSpec::default() });
    let stats = nets.node_stats.unwrap();
    assert!(stats.cpus.is_empty() && stats.disks.is_empty());
    assert_eq!(stats.row, monitor_model::field::node::NodeRow::default());
}

fn unknown_devices_are_named(backend: &mut dyn Backend) {
    let named = |name: &str| Devices::Named(vec![name.into()]);
    let want = ReadSpec { disks: named("no-disk"), nets: named("no-net"), ..ReadSpec::default() };
    let sample = read(backend, &want);
    for name in ["no disk no-disk", "no interface no-net"] {
        let is_noted = sample.notes.iter().any(|note| note.partial && note.text.starts_with(name));
        assert!(is_noted, "{name}: {:?}", sample.notes);
    }
}

fn texts_are_given_when_wanted(backend: &mut dyn Backend) {
    let want = ReadSpec { costly: vec![ProcessField::Cmdline], ..processes() };
    let mut sample = read(backend, &want);
    backend.describe(&mut sample.processes, &want);
    assert!(sample.processes.iter().any(|it| it.text.cmdline.is_some()));
    assert!(sample.processes.iter().all(|it| it.text.cgroup.is_none()));
}
