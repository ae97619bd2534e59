//! Views of canned worlds that share readings: groups, and ranks by their namespace.

use super::census::Census;
use super::past::Past;
use super::plan::Plan;
use super::target::Namespaces as _;
use super::veil::Veil;
use super::view::{Reading, View};
use monitor_backend::Backend;
use monitor_backends::canned::Canned;
use monitor_model::field::{GroupField, ProcessField, Value};
use monitor_model::group::Grouped;
use monitor_model::rates::Rates;
use monitor_model::request::{Rank, Request, Target};
use monitor_model::want::Want;
use monitor_model::whose::Eyes;
use monitor_protocol::decode;

const MS: u64 = 1_000_000;

/// A world, and what all who look at it share.
struct World {
    backend: Canned,
    past: Past,
    census: Census,
}

impl World {
    fn new(script: &str) -> Self {
        let backend = Canned::scripted(script).expect("a script");
        Self { backend, past: Past::default(), census: Census::default() }
    }

    /// One reading, a second after the one before, at which these look.
    fn round<const N: usize>(&mut self, mut views: [&mut View; N]) -> [Rates; N] {
        let costly = views.iter().flat_map(|it| it.want().costly.clone()).collect();
        let want = Want { processes: true, costly, ..Want::default() };
        let mut sample = self.backend.read(&want).expect("a sample");
        self.census.learn(&mut sample, &want, &mut self.backend);
        self.past.take_from(&mut sample);
        let (sample, past, namespaces) = (&sample, &self.past, &self.census);
        let reading = Reading { sample, node: None, past, namespaces, shed: &[] };
        views.each_mut().map(|view| {
            let seen = view.see(&reading, &mut self.backend).expect("somebody is there");
            let json = String::from_utf8(seen.json).expect("text");
            decode::rates(&json).expect("an object")
        })
    }
}

fn grouped(by: &str, veil: Veil) -> View {
    let fields = Some(vec!["cpu_ns".into(), "cpu_percent".into(), "read_bytes".into()]);
    let request = Request { group_by: Some(by.into()), fields, ..Request::default() };
    View::new(Plan::of(&request).expect("a plan"), veil)
}

fn ranks(rank: Option<u32>, veil: Veil) -> View {
    let targets = vec![Target::Rank(Rank { namespace: "job".into(), rank })];
    let fields = Some(vec!["ended".into()]);
    let request = Request { targets, fields, ..Request::default() };
    View::new(Plan::of(&request).expect("a plan"), veil)
}

/// Name, living, ended and CPU time of each group.
fn told(grouped: &Grouped) -> Vec<(&str, u64, u64, u64)> {
    let groups = grouped.groups.iter().map(|it| {
        let head = |field| it.head.get(field).expect("it is always there");
        let cpu = it.row.get(ProcessField::CpuTime).expect("it was read");
        (&*it.name, head(GroupField::Processes), head(GroupField::Ended), cpu)
    });
    groups.collect()
}

fn groups(rates: &Rates) -> &Grouped {
    rates.groups.as_ref().expect("groups were asked for")
}

/// Process ids, and whether each has ended.
fn pids(rates: &Rates) -> Vec<(u32, bool)> {
    rates.sample.processes.iter().map(|it| (it.id.pid.0, it.ended())).collect()
}

#[test]
fn totals_are_the_same_whenever_one_looks_and_nobody_who_ended_is_forgotten() {
    let mut world = World::new(
        "process 7 comm=a cpu_ns=0 cpu_ns/s=100ms
         at 1s process 8 comm=b ppid=7 cpu_ns=5ms
         at 2s end 8 cpu_ns=30ms
         at 3s process 9 comm=b ppid=7 cpu_ns=1ms
         at 3s end 9 cpu_ns=2ms",
    );
    let (mut often, mut seldom) = (grouped("comm", Veil::None), grouped("comm", Veil::None));
    let [first, _] = world.round([&mut often, &mut seldom]);
    assert_eq!(told(groups(&first)), [("a", 1, 0, 0)]);
    let [second] = world.round([&mut often]);
    assert_eq!(told(groups(&second)), [("a", 1, 0, 100 * MS), ("b", 1, 0, 5 * MS)]);
    let percent = groups(&second).groups[0].row.value(ProcessField::CpuPercent);
    assert_eq!(percent, Some(Value::Float(10.0)));
    let [third] = world.round([&mut often]);
    assert_eq!(told(groups(&third))[1], ("b", 0, 1, 30 * MS));
    let _fourth = world.round([&mut often]);
    let last = world.round([&mut often, &mut seldom]);
    for rates in &last {
        assert_eq!(told(groups(rates)), [("a", 1, 0, 400 * MS), ("b", 0, 2, 32 * MS)]);
    }
}

#[test]
fn a_finished_group_is_told_once_more() {
    let mut world = World::new("process 7 comm=a\nprocess 8 comm=b\nat 1s end 8 cpu_ns=3ms");
    let request = Request {
        group_by: Some("comm".into()),
        keep_ns: Some(1_000 * MS),
        fields: Some(vec!["cpu_ns".into()]),
        ..Request::default()
    };
    let mut view = View::new(Plan::of(&request).expect("a plan"), Veil::None);
    let _there = world.round([&mut view]);
    let [ended] = world.round([&mut view]);
    assert!(groups(&ended).finished.is_empty());
    let [finished] = world.round([&mut view]);
    assert_eq!(groups(&finished).groups.len(), 1);
    assert_eq!(&*groups(&finished).finished[0].name, "b");
    let [after] = world.round([&mut view]);
    assert!(groups(&after).finished.is_empty());
}

#[test]
fn only_so_many_groups_are_shown_as_were_asked_for() {
    let mut world = World::new("process 7 comm=a cpu_ns=1ms\nprocess 8 comm=b cpu_ns=2ms");
    let request = Request {
        group_by: Some("comm".into()),
        sort: Some("cpu_ns".into()),
        top: Some(1),
        ..Request::default()
    };
    let mut view = View::new(Plan::of(&request).expect("a plan"), Veil::None);
    let [rates] = world.round([&mut view]);
    assert_eq!(told(groups(&rates)), [("b", 1, 0, 2 * MS)]);
}

#[test]
fn a_user_adds_up_of_others_what_everybody_may_know() {
    let mut world = World::new(
        "process 7 uid=1000 gid=1000 cpu_ns=1ms read_bytes=1 $PMIX_NAMESPACE=own $PMIX_RANK=0
         process 8 uid=1001 cpu_ns=2ms read_bytes=2 $PMIX_NAMESPACE=secret $PMIX_RANK=0
         process 9 uid=1001 cpu_ns=4ms read_bytes=4 cgroup=/system.slice/ssh.service",
    );
    let mut view = grouped("job", Veil::Own(Eyes { uid: 1000, gid: 1000 }));
    let [rates] = world.round([&mut view]);
    let want =
        [("(none)", 1, 0, 2 * MS), ("mpi:own", 1, 0, MS), ("unit:ssh.service", 1, 0, 4 * MS)];
    assert_eq!(told(groups(&rates)), want);
    let read: Vec<_> =
        groups(&rates).groups.iter().map(|it| it.row.get(ProcessField::ReadBytes)).collect();
    assert_eq!(read, [None, Some(1), None]);
}

#[test]
fn ranks_are_found_by_their_environment_late_ones_join_and_a_reused_number_never() {
    let mut world = World::new(
        "process 7 $PMIX_NAMESPACE=job $PMIX_RANK=0
         process 8 $PMIX_NAMESPACE=job $PMIX_RANK=1
         process 10 $PMIX_NAMESPACE=other $PMIX_RANK=0
         at 1s process 9 $PMIX_NAMESPACE=job $PMIX_RANK=2
         at 2s end 8
         at 3s process 8 comm=new",
    );
    let (mut all, mut one) = (ranks(None, Veil::None), ranks(Some(1), Veil::None));
    let [everybody, second] = world.round([&mut all, &mut one]);
    assert_eq!(pids(&everybody), [(7, false), (8, false)]);
    assert_eq!(pids(&second), [(8, false)]);
    let [everybody] = world.round([&mut all]);
    assert_eq!(pids(&everybody), [(7, false), (8, false), (9, false)]);
    let [everybody, second] = world.round([&mut all, &mut one]);
    assert_eq!(pids(&everybody), [(7, false), (8, true), (9, false)]);
    assert_eq!(pids(&second), [(8, true)]);
    let [everybody, second] = world.round([&mut all, &mut one]);
    assert_eq!(pids(&everybody), [(7, false), (9, false)]);
    assert_eq!(pids(&second), []);
}

#[test]
fn a_user_finds_his_own_ranks_alone() {
    let mut world = World::new(
        "process 7 uid=1000 gid=1000 $PMIX_NAMESPACE=job $PMIX_RANK=0
         process 8 uid=1001 $PMIX_NAMESPACE=job $PMIX_RANK=1",
    );
    let mut view = ranks(None, Veil::Own(Eyes { uid: 1000, gid: 1000 }));
    let [rates] = world.round([&mut view]);
    assert_eq!(pids(&rates), [(7, false)]);
}

#[test]
fn the_job_of_a_process_is_told_and_no_environment_read_for_who_does_not_ask() {
    let mut world = World::new("process 7 $PMIX_NAMESPACE=job $PMIX_RANK=0");
    let view = |field: &str| {
        let request = Request { fields: Some(vec![field.into()]), ..Request::default() };
        View::new(Plan::of(&request).expect("a plan"), Veil::None)
    };
    let job = Rank { namespace: "job".into(), rank: Some(0) };
    let [rates] = world.round([&mut view("cpu_ns")]);
    assert_eq!(rates.sample.processes[0].text.job, None);
    assert!(world.census.processes(&job).is_empty());
    let [rates] = world.round([&mut view("job")]);
    assert_eq!(rates.sample.processes[0].text.job.as_deref(), Some("mpi:job"));
    assert_eq!(world.census.processes(&job).len(), 1);
}

#[test]
fn who_lived_between_two_looks_at_jobs_counts_where_its_parent_does() {
    let mut world = World::new(
        "process 7 cpu_ns=1ms $PMIX_NAMESPACE=job $PMIX_RANK=0
         at 1s process 8 ppid=7 cpu_ns=1ms
         at 2s end 8 cpu_ns=6ms",
    );
    let mut jobs = grouped("job", Veil::None);
    let plain = Request { fields: Some(vec!["cpu_ns".into()]), ..Request::default() };
    let mut plain = View::new(Plan::of(&plain).expect("a plan"), Veil::None);
    let _first = world.round([&mut jobs, &mut plain]);
    for _ in 0..3 {
        let _meanwhile = world.round([&mut plain]);
    }
    let [rates] = world.round([&mut jobs]);
    assert_eq!(told(groups(&rates)), [("mpi:job", 1, 1, 7 * MS)]);
}

#[test]
fn signals_of_anothers_process_are_told_to_nobody_but_root() {
    let mut world = World::new(
        "process 7 uid=1000 gid=1000\nprocess 8 uid=1001 gid=1001
         at 1s signal 7 10\nat 1s signal 8 12",
    );
    let request = Request {
        capabilities: vec!["signals".into()],
        fields: Some(vec!["pid".into()]),
        ..Request::default()
    };
    let view = |veil| View::new(Plan::of(&request).expect("a plan"), veil);
    let mut user = view(Veil::Own(Eyes { uid: 1000, gid: 1000 }));
    let mut root = view(Veil::None);
    let _first = world.round([&mut user, &mut root]);
    let told = world.round([&mut user, &mut root]).map(|rates| {
        let targets = rates.sample.events.iter().map(|it| it.target.pid.0);
        targets.collect::<Vec<_>>()
    });
    assert_eq!(told, [vec![7], vec![7, 8]]);
}
