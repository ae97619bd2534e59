//! Reading and writing the memory of a process.

use super::target::{Target, does, hand, refuses};
use monitor_control::{Act, Done, Mark, Trouble};

#[test]
fn memory_is_read_and_written_while_it_runs() {
    let (target, mut hand) = (Target::new("spin", 1), hand());
    let (whole, text) = (target.whole(), target.at("text"));
    assert_eq!(does(&mut hand, Act::Read(whole, text, 6)), Done::Bytes(b"hello\0".to_vec()));
    assert_eq!(does(&mut hand, Act::Write(whole, text, b"howdy".to_vec())), Done::It);
    assert_eq!(does(&mut hand, Act::Read(whole, text, 6)), Done::Bytes(b"howdy\0".to_vec()));
}

#[test]
fn what_the_program_may_only_read_is_written_too() {
    let (target, mut hand) = (Target::new("spin", 1), hand());
    let (whole, fixed) = (target.whole(), target.at("fixed"));
    assert_eq!(does(&mut hand, Act::Write(whole, fixed, b"writ".to_vec())), Done::It);
    assert_eq!(does(&mut hand, Act::Read(whole, fixed, 9)), Done::Bytes(b"writ-only".to_vec()));
}

#[test]
fn a_read_into_a_hole_says_how_far_it_came() {
    let (target, mut hand) = (Target::new("spin", 1), hand());
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", target.id().pid.0)).unwrap();
    let hex = |text: &str| u64::from_str_radix(text, 16).unwrap();
    let ranges: Vec<(u64, u64)> = maps
        .lines()
        .filter_map(|line| line.split_once(' ')?.0.split_once('-'))
        .map(|(from, to)| (hex(from), hex(to)))
        .collect();
    let hole = ranges.windows(2).find(|pair| pair[0].1 < pair[1].0).unwrap()[0].1;
    match refuses(&mut hand, Act::Read(target.whole(), hole - 3, 8)) {
        Trouble::Fault { address, done } => assert_eq!((address, done.len()), (hole, 3)),
        other => panic!("{other:?}"),
    }
    match refuses(&mut hand, Act::Write(target.whole(), 16, vec![1])) {
        Trouble::Fault { address: 16, done } => assert!(done.is_empty()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn too_much_and_beyond_the_end_are_refused_before_anything_is_done() {
    let (target, mut hand) = (Target::new("spin", 1), hand());
    for (address, bytes) in [(0x1000, u64::MAX), (u64::MAX, 2), (0x1000, 1 << 40)] {
        let refused = refuses(&mut hand, Act::Read(target.whole(), address, bytes));
        assert!(matches!(refused, Trouble::Range(_)), "{refused:?}");
    }
    let refused = refuses(&mut hand, Act::Write(target.whole(), u64::MAX, vec![1, 2]));
    assert!(matches!(refused, Trouble::Range(_)), "{refused:?}");
}

#[test]
fn bytes_of_ours_are_not_read_and_not_written_over() {
    let (target, mut hand) = (Target::new("slow", 1), hand());
    let (whole, sum) = (target.whole(), target.at("sum"));
    let Done::Bytes(before) = does(&mut hand, Act::Read(whole, sum, 4)) else { panic!() };
    let _placed = does(&mut hand, Act::Break(whole, sum, Mark(1)));
    assert_eq!(target.number(sum) & 0xff, 0xcc, "ours is there");
    assert_eq!(does(&mut hand, Act::Read(whole, sum, 4)), Done::Bytes(before));
    // What is written under it comes when it goes.
    let _written = does(&mut hand, Act::Write(whole, sum, vec![0x90, 0x90]));
    assert_eq!(target.number(sum) & 0xffff, 0x90cc);
    let Done::Bytes(now) = does(&mut hand, Act::Read(whole, sum, 2)) else { panic!() };
    assert_eq!(now, [0x90, 0x90]);
    let _unset = does(&mut hand, Act::Unset(whole, Mark(1)));
    assert_eq!(target.number(sum) & 0xffff, 0x9090);
}
