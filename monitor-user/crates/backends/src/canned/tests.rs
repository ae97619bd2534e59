//! The test backend is itself tested: what a script says is what is read.

use super::*;
use monitor_model::{Devices, Note, Pid, rates::rates};

fn all() -> ReadSpec {
    let costly = vec![ProcessField::Pss, ProcessField::Cmdline];
    ReadSpec { threads: true, costly, ..ReadSpec::everything() }
}

fn script(text: &str) -> Canned {
    Canned::scripted(text).unwrap()
}

#[track_caller]
fn check(sample: &Sample, pid: u32, field: ProcessField, want: Option<u64>) {
    let it = sample.processes.iter().find(|it| it.id.pid == Pid(pid)).unwrap();
    assert_eq!(it.row.get(field), want, "{field:?} of {pid}");
}

#[test]
fn the_fixed_world_has_the_documented_values() {
    let mut backend = Canned::fixed();
    let mut sample = backend.read(&all()).unwrap();
    assert_eq!(sample.processes[0].comm(), "test-stats");
    check(&sample, 1234, ProcessField::CpuTime, Some(1_234_005_678_000));
    check(&sample, 1234, ProcessField::Priority, Some(5));
    check(&sample, 1234, ProcessField::Pss, Some(335_544));
    backend.describe(&mut sample.processes, &all());
    assert_eq!(sample.processes[0].text.cmdline.as_deref(), Some("test-stats --fixed"));
    assert_eq!(sample.processes[0].text.cgroup, None);
    let node = sample.node_stats.unwrap();
    assert_eq!((node.cpus.len(), node.disks.len(), node.nets.len()), (2, 2, 3));
}

#[test]
fn each_reading_is_one_interval_later_on_both_clocks() {
    let mut backend = script("every 250ms");
    assert_eq!(backend.read(&all()).unwrap().at, BEGINNING);
    let second = backend.read(&all()).unwrap().at;
    assert_eq!(second.boot, Ns(BEGINNING.boot.0 + 250_000_000));
    assert_eq!(second.unix, Ns(BEGINNING.unix.0 + 250_000_000));
}

#[test]
fn a_growing_field_has_a_rate() {
    let mut backend = script("process 7 cpu_ns=1s cpu_ns/s=250ms");
    let first = backend.read(&all()).unwrap();
    let got = rates(&first, backend.read(&all()).unwrap());
    check(&got.sample, 7, ProcessField::CpuTime, Some(1_250_000_000));
    check(&got.sample, 7, ProcessField::CpuPercent, Some(25_f64.to_bits()));
}

#[test]
fn one_that_lived_between_two_readings_is_shown_once() {
    let mut backend =
        script("at 200ms process 7 cpu_ns/s=1s\nat 300ms end 7 exit_code=3\nat 5s process 8");
    assert!(backend.read(&all()).unwrap().processes.is_empty());
    let sample = backend.read(&all()).unwrap();
    assert_eq!(sample.processes.len(), 1);
    assert!(sample.processes[0].ended());
    check(&sample, 7, ProcessField::CpuTime, Some(100_000_000));
    check(&sample, 7, ProcessField::ExitCode, Some(3));
    assert!(backend.read(&all()).unwrap().processes.is_empty());
}

#[test]
fn a_pid_used_again_is_another_identity() {
    let mut backend = script("process 7\nat 300ms end 7\nat 600ms process 7");
    let first = backend.read(&all()).unwrap().processes[0].id;
    let sample = backend.read(&all()).unwrap();
    let ids: Vec<Identity> = sample.processes.iter().map(|it| it.id).collect();
    assert_eq!(ids.len(), 2);
    assert_eq!(ids[0], first);
    assert_eq!(ids[1].start, Ns(BEGINNING.boot.0 + 600_000_000));
}

#[test]
fn threads_are_rows_of_their_process() {
    let mut backend = script("process 7\nthread 7 9 comm=b\nthread 7 8");
    let sample = backend.read(&all()).unwrap();
    let tids: Vec<u32> = sample.processes[0].threads.iter().map(|it| it.id.pid.0).collect();
    assert_eq!(tids, [8, 9]);
    assert_eq!(sample.processes[0].threads[1].row.get(ProcessField::Pid), Some(7));
}

#[test]
fn device_filters_are_honoured() {
    let want = ReadSpec {
        disks: Devices::Named(vec!["sdb".into(), "sdz".into()]),
        nets: Devices::Named(vec!["lo".into()]),
        ..ReadSpec::default()
    };
    let sample = Canned::fixed().read(&want).unwrap();
    let node = sample.node_stats.unwrap();
    assert_eq!((node.disks.len(), node.nets.len(), node.cpus.len()), (1, 1, 0));
    assert_eq!(sample.notes, [Note::missing("no disk sdz: there are sda, sdb")]);
}

#[test]
fn a_parent_is_known_after_its_end() {
    let mut backend = script("process 7\nat 1s process 8 ppid=7\nat 2s end 7");
    let parent = backend.read(&all()).unwrap().processes[0].id;
    let _second = backend.read(&all()).unwrap();
    let last = backend.read(&all()).unwrap();
    assert_eq!(last.processes.iter().find(|it| !it.ended()).unwrap().parent, Some(parent));
}

#[test]
fn the_documented_world_is_as_it_says() {
    let mut backend = script(include_str!("../../../../../docs/examples/world.txt"));
    let samples: Vec<Sample> = (0..8).map(|_| backend.read(&all()).unwrap()).collect();
    assert_eq!(&*samples[0].node, "node7");
    check(&samples[2], 200, ProcessField::CpuTime, Some(1_500_000_000));
    check(&samples[2], 300, ProcessField::Ended, Some(1));
    check(&samples[4], 301, ProcessField::Rss, Some(2 << 20));
    check(&samples[6], 301, ProcessField::ExitCode, Some(1));
    assert_eq!(samples[7].processes.len(), 2);
}
