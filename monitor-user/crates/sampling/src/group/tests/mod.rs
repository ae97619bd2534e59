//! Conservation of usage in random worlds, and one test for each rule.

mod world;

use self::world::{Nature, World};
use super::*;
use monitor_model::{Identity, Pid, Process, field::ProcessField as F};

/// Groups over samples of a world, and the sums that they must have.
struct Watch {
    groups: Groups,
    /// The most that was seen of the CPU time of each process.
    cpu: HashMap<Identity, u64>,
    last: HashMap<Arc<str>, Group>,
    /// CPU and I/O of groups that were reported for the last time.
    finished: (u64, u64),
}

impl Watch {
    fn new(limits: GroupLimits) -> Self {
        let groups = Groups::new(GroupBy::Comm, limits);
        Self { groups, cpu: HashMap::new(), last: HashMap::new(), finished: (0, 0) }
    }

    /// Takes a sample, checks CPU time and that nothing went backwards; returns all reported I/O.
    fn add_sample(&mut self, sample: &Sample) -> u64 {
        for it in &sample.processes {
            let seen = self.cpu.entry(it.id).or_default();
            *seen = (*seen).max(it.row.get(F::CpuTime).unwrap_or(0));
        }
        let got = self.groups.learn(sample, &Filter::default());
        let before = std::mem::take(&mut self.last);
        for group in got.groups.iter().chain(&got.finished) {
            if let Some(before) = before.get(&group.name) {
                for field in [F::CpuTime, F::ReadBytes] {
                    assert!(group.row.get(field) >= before.row.get(field), "{}", group.name);
                }
            }
        }
        let (cpu, io) = totals(&got.finished);
        self.finished = (self.finished.0 + cpu, self.finished.1 + io);
        let (cpu, io) = totals(&got.groups);
        assert_eq!(cpu + self.finished.0, self.cpu.values().sum::<u64>(), "CPU time");
        let living: u64 = got.groups.iter().map(|it| it.row.get(F::Rss).unwrap_or(0)).sum();
        let there = sample.processes.iter().filter(|it| !it.ended()).count() as u64;
        assert_eq!(living, there, "memory of the living");
        self.last = got.groups.into_iter().map(|it| (Arc::clone(&it.name), it)).collect();
        io + self.finished.1
    }
}

fn totals(groups: &[Group]) -> (u64, u64) {
    let total = |field| groups.iter().filter_map(|it| it.row.get(field)).sum();
    (total(F::CpuTime), total(F::ReadBytes))
}

/// Runs worlds of many seeds; `same` compares the reported I/O with what was used.
#[track_caller]
fn check(nature: Nature, limits: GroupLimits, same: impl Fn(&World, u64)) {
    for seed in 0..60 {
        let mut world = World::new(seed, nature);
        let mut watch = Watch::new(limits);
        for _ in 0..40 {
            for _ in 0..world.below(25) {
                world.step();
            }
            let sample = world.sample();
            let io = watch.add_sample(&sample);
            same(&world, io);
        }
    }
}

fn at_most(world: &World, io: u64) {
    assert!(io <= world.io, "{io} of {}", world.io);
}

#[test]
fn what_groups_used_is_what_processes_used() {
    let nature = Nature { reports_ends: true, ..Nature::default() };
    check(nature, GroupLimits::default(), |world, io| {
        at_most(world, io);
        assert!(!world.is_quiet() || io == world.io, "{io} of {}", world.io);
    });
}

#[test]
fn the_same_where_ends_are_not_reported() {
    let exact = |world: &World, io: u64| assert_eq!(io, world.io);
    check(Nature::default(), GroupLimits::default(), exact);
}

#[test]
fn the_same_where_there_is_room_for_two_groups_and_they_are_not_kept() {
    let nature = Nature { reports_ends: true, ..Nature::default() };
    check(nature, GroupLimits { groups: 2, keep: Ns(0) }, at_most);
}

#[test]
fn cpu_time_is_whole_where_parents_end_before_their_children() {
    check(Nature { reports_ends: true, orphans: true }, GroupLimits::default(), |_, _| {});
}

fn process(pid: u32, comm: &str, cpu: u64) -> Process {
    let id = Identity { pid: Pid(pid), start: Ns(pid.into()) };
    let mut it = Process { id, ..Process::default() };
    it.comm[..comm.len()].copy_from_slice(comm.as_bytes());
    it.row.set(F::CpuTime, cpu);
    it.row.set(F::Uid, 7);
    it
}

fn learn(groups: &mut Groups, second: u64, processes: Vec<Process>) -> Grouped {
    let mut sample = Sample { processes, ..Sample::default() };
    sample.at.boot = Ns(second * 1_000_000_000);
    groups.learn(&sample, &Filter::default())
}

#[track_caller]
fn check_groups(groups: &[Group], want: &[(&str, u64, u64, u64)]) {
    let head = |it: &Group, field| it.head.get(field).unwrap_or(0);
    let counts = |it: &Group| {
        let (living, ended) = (head(it, GroupField::Processes), head(it, GroupField::Ended));
        (it.name.to_string(), living, ended, it.row.get(F::CpuTime).unwrap_or(0))
    };
    let got: Vec<_> = groups.iter().map(counts).collect();
    let want: Vec<_> = want.iter().map(|&(name, a, b, c)| (name.to_owned(), a, b, c)).collect();
    assert_eq!(got, want);
}

#[test]
fn one_that_moves_takes_only_its_future_along() {
    let mut groups = Groups::new(GroupBy::Comm, GroupLimits::default());
    check_groups(&learn(&mut groups, 1, vec![process(1, "a", 10)]).groups, &[("a", 1, 0, 10)]);
    let moved = learn(&mut groups, 2, vec![process(1, "b", 15)]);
    check_groups(&moved.groups, &[("a", 0, 0, 10), ("b", 1, 0, 5)]);
    let back = learn(&mut groups, 3, vec![process(1, "a", 16)]);
    check_groups(&back.groups, &[("a", 1, 0, 11), ("b", 0, 0, 5)]);
}

#[test]
fn one_that_vanished_stays_with_its_last_numbers() {
    let mut groups = Groups::new(GroupBy::Comm, GroupLimits::default());
    learn(&mut groups, 1, vec![process(1, "a", 10), process(2, "a", 5)]);
    let got = learn(&mut groups, 2, vec![process(1, "a", 11)]);
    check_groups(&got.groups, &[("a", 1, 0, 16)]);
    let got = learn(&mut groups, 5, vec![process(1, "a", 11)]);
    check_groups(&got.groups, &[("a", 1, 1, 16)]);
    assert_eq!(got.groups[0].head.get(GroupField::Lost), Some(1));
}

#[test]
fn an_unexpected_exit_record_is_not_counted_twice() {
    let mut groups = Groups::new(GroupBy::Comm, GroupLimits::default());
    learn(&mut groups, 10, vec![process(1, "a", 10)]);
    check_groups(&learn(&mut groups, 20, vec![]).groups, &[("a", 0, 0, 10)]);
    let mut ended = process(1, "a", 12);
    ended.row.set(F::Ended, 1);
    let got = learn(&mut groups, 30, vec![ended]);
    check_groups(&got.groups, &[("a", 0, 1, 12)]);
    assert_eq!(got.groups[0].head.get(GroupField::Lost), Some(0));
}

#[test]
fn a_finished_group_keeps_its_totals_and_is_reported_once_more() {
    let mut groups = Groups::new(
        GroupBy::Comm,
        GroupLimits { keep: Ns(5_000_000_000), ..GroupLimits::default() },
    );
    learn(&mut groups, 1, vec![process(1, "a", 10), process(2, "b", 3)]);
    let ended = || {
        let mut it = process(1, "a", 12);
        it.row.set(F::Ended, 1);
        it
    };
    let got = learn(&mut groups, 2, vec![ended(), process(2, "b", 3)]);
    check_groups(&got.groups, &[("a", 0, 1, 12), ("b", 1, 0, 3)]);
    let got = learn(&mut groups, 6, vec![process(2, "b", 3)]);
    check_groups(&got.groups, &[("a", 0, 1, 12), ("b", 1, 0, 3)]);
    let got = learn(&mut groups, 7, vec![process(2, "b", 3)]);
    check_groups(&got.groups, &[("b", 1, 0, 3)]);
    check_groups(&got.finished, &[("a", 0, 1, 12)]);
    assert_eq!(got.finished[0].head.get(GroupField::Until), Some(2_000_000_000));
    assert!(learn(&mut groups, 8, vec![process(2, "b", 3)]).finished.is_empty());
}

#[test]
fn those_beyond_the_most_groups_are_counted_together() {
    let mut groups =
        Groups::new(GroupBy::Comm, GroupLimits { groups: 1, ..GroupLimits::default() });
    let all = vec![process(1, "a", 1), process(2, "b", 2), process(3, "c", 4)];
    check_groups(&learn(&mut groups, 1, all).groups, &[("(other)", 2, 0, 6), ("a", 1, 0, 1)]);
}

#[test]
fn a_process_without_a_known_job_belongs_to_that_of_its_parent() {
    let mut groups = Groups::new(GroupBy::Job, GroupLimits::default());
    let mut parent = process(1, "sh", 1);
    parent.text.job = Some("slurm:7".into());
    let mut child = process(2, "true", 2);
    child.row.set(F::Ppid, 1);
    let mut moved_out = process(4, "daemon", 8);
    moved_out.row.set(F::Ppid, 1);
    moved_out.text.origin = Some(Arc::default());
    let got = learn(&mut groups, 1, vec![parent, child, process(3, "cron", 4), moved_out]);
    check_groups(&got.groups, &[("(none)", 2, 0, 12), ("slurm:7", 2, 0, 3)]);
}

#[test]
fn a_user_without_a_name_is_a_number() {
    let mut groups = Groups::new(GroupBy::User, GroupLimits::default());
    let mut named = process(2, "a", 2);
    named.text.user = Some("root".into());
    let got = learn(&mut groups, 1, vec![process(1, "a", 1), named]);
    check_groups(&got.groups, &[("7", 1, 0, 1), ("root", 1, 0, 2)]);
}

#[test]
fn only_what_is_asked_for_counts() {
    let mut groups = Groups::new(GroupBy::Comm, GroupLimits::default());
    let filter = Filter { comms: vec!["a*".into()], ..Filter::default() };
    let sample = |cpu, comm| Sample {
        processes: vec![process(1, "ab", 1), process(2, comm, cpu)],
        ..Sample::default()
    };
    check_groups(&groups.learn(&sample(2, "b"), &filter).groups, &[("ab", 1, 0, 1)]);
    // What it used while it did not match counts nowhere.
    let got = groups.learn(&sample(5, "ac"), &filter);
    check_groups(&got.groups, &[("ab", 1, 0, 1), ("ac", 1, 0, 3)]);
}

#[test]
fn rates_are_of_the_whole_group() {
    let mut groups = Groups::new(GroupBy::Comm, GroupLimits::default());
    let percent = |got: &Grouped| got.groups[0].row.get(F::CpuPercent).map(f64::from_bits);
    let got = learn(&mut groups, 1, vec![process(1, "a", 0), process(2, "a", 0)]);
    assert_eq!(percent(&got), None);
    let (one, other) = (process(1, "a", 500_000_000), process(2, "a", 250_000_000));
    assert_eq!(percent(&learn(&mut groups, 2, vec![one, other])), Some(75.0));
    assert_eq!(percent(&learn(&mut groups, 3, vec![])), Some(0.0));
}

#[test]
fn what_makes_no_sense_of_many_is_absent_and_the_largest_peak_stays() {
    let mut groups = Groups::new(GroupBy::Comm, GroupLimits::default());
    let with = |pid, peak| {
        let mut it = process(pid, "a", 0);
        it.row.set(F::PeakRss, peak);
        it.row.set(F::Rss, peak);
        it.row.set_signed(F::Priority, 20);
        it
    };
    learn(&mut groups, 1, vec![with(1, 30), with(2, 50)]);
    let row = learn(&mut groups, 2, vec![with(1, 30)]).groups.remove(0).row;
    assert_eq!((row.get(F::PeakRss), row.get(F::Rss)), (Some(50), Some(30)));
    assert_eq!((row.get(F::Priority), row.get(F::Uid)), (None, None));
}

#[test]
fn groups_are_arranged_by_their_sums() {
    let mut groups = Groups::new(GroupBy::Comm, GroupLimits::default());
    let all = vec![process(1, "a", 1), process(2, "b", 9), process(3, "c", 4)];
    let mut got = learn(&mut groups, 1, all).groups;
    let order = Order { field: F::CpuTime, direction: order::Direction::Descending };
    arrange(&mut got, Some(order), Some(2));
    check_groups(&got, &[("b", 1, 0, 9), ("c", 1, 0, 4)]);
}
