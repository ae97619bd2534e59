//! Reading and writing the memory of a process.

use super::target::{Target, byte_breakpoint, does, refuses, worker};
use monitor_control::{ControlError, RequestTag, WorkerReply, WorkerRequest};

#[test]
fn memory_is_read_and_written_while_the_process_runs() {
    let (target, mut worker) = (Target::new("spin", 1), worker());
    let (whole, text) = (target.whole(), target.at("text"));
    assert_eq!(
        does(&mut worker, WorkerRequest::ReadMemory(whole, text, 6)),
        WorkerReply::Bytes(b"hello\0".to_vec())
    );
    assert_eq!(
        does(&mut worker, WorkerRequest::WriteMemory(whole, text, b"howdy".to_vec())),
        WorkerReply::Done
    );
    assert_eq!(
        does(&mut worker, WorkerRequest::ReadMemory(whole, text, 6)),
        WorkerReply::Bytes(b"howdy\0".to_vec())
    );
}

#[test]
fn read_only_memory_of_the_program_can_be_written() {
    let (target, mut worker) = (Target::new("spin", 1), worker());
    let (whole, fixed) = (target.whole(), target.at("fixed"));
    assert_eq!(
        does(&mut worker, WorkerRequest::WriteMemory(whole, fixed, b"writ".to_vec())),
        WorkerReply::Done
    );
    assert_eq!(
        does(&mut worker, WorkerRequest::ReadMemory(whole, fixed, 9)),
        WorkerReply::Bytes(b"writ-only".to_vec())
    );
}

#[test]
fn a_read_into_a_hole_reports_how_far_it_came() {
    let (target, mut worker) = (Target::new("spin", 1), worker());
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", target.id().pid.0)).unwrap();
    let hex = |text: &str| u64::from_str_radix(text, 16).unwrap();
    let ranges: Vec<(u64, u64)> = maps
        .lines()
        .filter_map(|line| line.split_once(' ')?.0.split_once('-'))
        .map(|(from, to)| (hex(from), hex(to)))
        .collect();
    let hole = ranges.windows(2).find(|pair| pair[0].1 < pair[1].0).unwrap()[0].1;
    match refuses(&mut worker, WorkerRequest::ReadMemory(target.whole(), hole - 3, 8)) {
        ControlError::Fault { address, done } => assert_eq!((address, done.len()), (hole, 3)),
        other => panic!("{other:?}"),
    }
    match refuses(&mut worker, WorkerRequest::WriteMemory(target.whole(), 16, vec![1])) {
        ControlError::Fault { address: 16, done } => assert!(done.is_empty()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn too_much_and_beyond_the_end_are_refused_before_anything_is_done() {
    let (target, mut worker) = (Target::new("spin", 1), worker());
    for (address, bytes) in [(0x1000, u64::MAX), (u64::MAX, 2), (0x1000, 1 << 40)] {
        let refused =
            refuses(&mut worker, WorkerRequest::ReadMemory(target.whole(), address, bytes));
        assert!(matches!(refused, ControlError::InvalidArgument(_)), "{refused:?}");
    }
    let refused =
        refuses(&mut worker, WorkerRequest::WriteMemory(target.whole(), u64::MAX, vec![1, 2]));
    assert!(matches!(refused, ControlError::InvalidArgument(_)), "{refused:?}");
}

#[test]
fn bytes_of_breakpoints_are_not_read_and_not_overwritten() {
    let (target, mut worker) = (Target::new("slow", 1), worker());
    let (whole, sum) = (target.whole(), target.at("sum"));
    let WorkerReply::Bytes(before) = does(&mut worker, WorkerRequest::ReadMemory(whole, sum, 4))
    else {
        panic!()
    };
    let _placed = does(&mut worker, byte_breakpoint(whole, sum, RequestTag(1)));
    assert_eq!(target.number(sum) & 0xff, 0xcc, "ours is there");
    assert_eq!(
        does(&mut worker, WorkerRequest::ReadMemory(whole, sum, 4)),
        WorkerReply::Bytes(before)
    );
    // A write under a breakpoint takes effect when the breakpoint is removed.
    let _written = does(&mut worker, WorkerRequest::WriteMemory(whole, sum, vec![0x90, 0x90]));
    assert_eq!(target.number(sum) & 0xffff, 0x90cc);
    let WorkerReply::Bytes(now) = does(&mut worker, WorkerRequest::ReadMemory(whole, sum, 2))
    else {
        panic!()
    };
    assert_eq!(now, [0x90, 0x90]);
    let _unset = does(&mut worker, WorkerRequest::Unset(whole, RequestTag(1)));
    assert_eq!(target.number(sum) & 0xffff, 0x9090);
}
