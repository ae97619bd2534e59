//! Views that share readings of canned processes: groups, ranks, events.

use super::view::{Reading, View};
use super::{
    exit_log::ExitLog, job_index::JobIndex, plan::Plan, target::Namespaces as _,
    visibility::Visibility,
};
use monitor_backend::Backend;
use monitor_backends::canned::Canned;
use monitor_model::{
    Capability, Credentials, FieldValue, Group, GroupField, Grouped, MonitorRequest, Note,
    NoteAbout, Ns, ProcessField, RankTarget, Rates, ReadSpec, Target,
};
use monitor_protocol::decode;

const MS: u64 = 1_000_000;

/// A canned backend, and what all views share.
struct World {
    backend: Canned,
    exit_log: ExitLog,
    job_index: JobIndex,
    shed: Vec<(Capability, String)>,
    /// Notes of the next readings.
    notes: Vec<Note>,
}

impl World {
    fn new(script: &str) -> Self {
        let backend = Canned::scripted(script).expect("a script");
        let (exit_log, job_index) = (ExitLog::default(), JobIndex::default());
        Self { backend, exit_log, job_index, shed: Vec::new(), notes: Vec::new() }
    }

    /// Takes one reading, a second after the previous one, for these views.
    fn read<const N: usize>(&mut self, views: [&mut View; N]) -> [Rates; N] {
        self.read_json(views).map(|json| decode::rates(&json).expect("an object"))
    }

    /// The same as JSON.
    fn read_json<const N: usize>(&mut self, mut views: [&mut View; N]) -> [String; N] {
        let costly = views.iter().flat_map(|it| it.read_spec().costly.clone()).collect();
        let want = ReadSpec { processes: true, costly, ..ReadSpec::default() };
        let mut sample = self.backend.read(&want).expect("a sample");
        for process in &mut sample.processes {
            process.latencies.block_read.get_or_insert_default().record(Ns(5_000));
        }
        sample.notes.extend(self.notes.iter().cloned());
        self.job_index.learn(&mut sample, &want, &mut self.backend);
        self.exit_log.take_from(&mut sample);
        let (sample, exit_log, namespaces) = (&sample, &self.exit_log, &self.job_index);
        let reading = Reading {
            sample,
            node: None,
            counters: &Default::default(),
            exit_log,
            namespaces,
            shed: &self.shed,
        };
        views.each_mut().map(|view| {
            let output = view.consume(&reading, &mut self.backend).expect("a target exists");
            String::from_utf8(output.bytes).expect("text")
        })
    }
}

fn grouped(by: &str, visibility: Visibility) -> View {
    let fields = Some(vec!["cpu_ns".into(), "cpu_percent".into(), "read_bytes".into()]);
    let request = MonitorRequest { group_by: Some(by.into()), fields, ..MonitorRequest::default() };
    View::new(Plan::from_request(&request).expect("a plan"), visibility)
}

fn ranks(rank: Option<u32>, visibility: Visibility) -> View {
    let targets = vec![Target::Rank(RankTarget { namespace: "job".into(), rank })];
    let fields = Some(vec!["ended".into()]);
    let request = MonitorRequest { targets, fields, ..MonitorRequest::default() };
    View::new(Plan::from_request(&request).expect("a plan"), visibility)
}

/// Name, living, ended and CPU time of each group.
fn rows(grouped: &Grouped) -> Vec<(&str, u64, u64, u64)> {
    let groups = grouped.groups.iter().map(|group| {
        let head = |field| group.head.get(field).expect("a group has these fields");
        let cpu = group.row.get(ProcessField::CpuTime).expect("it was read");
        (&*group.name, head(GroupField::Processes), head(GroupField::Ended), cpu)
    });
    groups.collect()
}

fn groups(rates: &Rates) -> &Grouped {
    rates.groups.as_ref().expect("groups were requested")
}

/// Process ids, and whether each has ended.
fn pids(rates: &Rates) -> Vec<(u32, bool)> {
    rates.sample.processes.iter().map(|it| (it.id.pid.0, it.ended())).collect()
}

#[test]
fn totals_do_not_depend_on_the_period_and_include_all_exits() {
    let mut world = World::new(
        "process 7 comm=a cpu_ns=0 cpu_ns/s=100ms
         at 1s process 8 comm=b ppid=7 cpu_ns=5ms
         at 2s end 8 cpu_ns=30ms
         at 3s process 9 comm=b ppid=7 cpu_ns=1ms
         at 3s end 9 cpu_ns=2ms",
    );
    let (mut fast, mut slow) = (grouped("comm", Visibility::All), grouped("comm", Visibility::All));
    let [first, _] = world.read([&mut fast, &mut slow]);
    assert_eq!(rows(groups(&first)), [("a", 1, 0, 0)]);
    let [second] = world.read([&mut fast]);
    assert_eq!(rows(groups(&second)), [("a", 1, 0, 100 * MS), ("b", 1, 0, 5 * MS)]);
    let percent = groups(&second).groups[0].row.value(ProcessField::CpuPercent);
    assert_eq!(percent, Some(FieldValue::Float(10.0)));
    let [third] = world.read([&mut fast]);
    assert_eq!(rows(groups(&third))[1], ("b", 0, 1, 30 * MS));
    let _fourth = world.read([&mut fast]);
    let last = world.read([&mut fast, &mut slow]);
    for rates in &last {
        assert_eq!(rows(groups(rates)), [("a", 1, 0, 400 * MS), ("b", 0, 2, 32 * MS)]);
    }
}

#[test]
fn a_finished_group_is_reported_once_more() {
    let mut world = World::new("process 7 comm=a\nprocess 8 comm=b\nat 1s end 8 cpu_ns=3ms");
    let request = MonitorRequest {
        group_by: Some("comm".into()),
        keep_ns: Some(1_000 * MS),
        fields: Some(vec!["cpu_ns".into()]),
        ..MonitorRequest::default()
    };
    let mut view = View::new(Plan::from_request(&request).expect("a plan"), Visibility::All);
    let _there = world.read([&mut view]);
    let [ended] = world.read([&mut view]);
    assert!(groups(&ended).finished.is_empty());
    let [finished] = world.read([&mut view]);
    assert_eq!(groups(&finished).groups.len(), 1);
    assert_eq!(&*groups(&finished).finished[0].name, "b");
    let [after] = world.read([&mut view]);
    assert!(groups(&after).finished.is_empty());
}

#[test]
fn top_limits_the_number_of_groups() {
    let mut world = World::new("process 7 comm=a cpu_ns=1ms\nprocess 8 comm=b cpu_ns=2ms");
    let request = MonitorRequest {
        group_by: Some("comm".into()),
        sort: Some("cpu_ns".into()),
        top: Some(1),
        ..MonitorRequest::default()
    };
    let mut view = View::new(Plan::from_request(&request).expect("a plan"), Visibility::All);
    let [rates] = world.read([&mut view]);
    assert_eq!(rows(groups(&rates)), [("b", 1, 0, 2 * MS)]);
}

#[test]
fn groups_of_a_user_include_only_public_fields_of_others() {
    let mut world = World::new(
        "process 7 uid=1000 gid=1000 cpu_ns=1ms read_bytes=1 $PMIX_NAMESPACE=own $PMIX_RANK=0
         process 8 uid=1001 cpu_ns=2ms read_bytes=2 $PMIX_NAMESPACE=secret $PMIX_RANK=0
         process 9 uid=1001 cpu_ns=4ms read_bytes=4 cgroup=/system.slice/ssh.service",
    );
    let mut view = grouped("job", Visibility::OwnInFull(Credentials { uid: 1000, gid: 1000 }));
    let [rates] = world.read([&mut view]);
    let want =
        [("(none)", 1, 0, 2 * MS), ("mpi:own", 1, 0, MS), ("unit:ssh.service", 1, 0, 4 * MS)];
    assert_eq!(rows(groups(&rates)), want);
    let read: Vec<_> =
        groups(&rates).groups.iter().map(|it| it.row.get(ProcessField::ReadBytes)).collect();
    assert_eq!(read, [None, Some(1), None]);
}

#[test]
fn ranks_come_from_the_environment_late_ones_join_and_a_reused_pid_does_not() {
    let mut world = World::new(
        "process 7 $PMIX_NAMESPACE=job $PMIX_RANK=0
         process 8 $PMIX_NAMESPACE=job $PMIX_RANK=1
         process 10 $PMIX_NAMESPACE=other $PMIX_RANK=0
         at 1s process 9 $PMIX_NAMESPACE=job $PMIX_RANK=2
         at 2s end 8
         at 3s process 8 comm=new",
    );
    let (mut all, mut one) = (ranks(None, Visibility::All), ranks(Some(1), Visibility::All));
    let [all_ranks, one_rank] = world.read([&mut all, &mut one]);
    assert_eq!(pids(&all_ranks), [(7, false), (8, false)]);
    assert_eq!(pids(&one_rank), [(8, false)]);
    let [all_ranks] = world.read([&mut all]);
    assert_eq!(pids(&all_ranks), [(7, false), (8, false), (9, false)]);
    let [all_ranks, one_rank] = world.read([&mut all, &mut one]);
    assert_eq!(pids(&all_ranks), [(7, false), (8, true), (9, false)]);
    assert_eq!(pids(&one_rank), [(8, true)]);
    let [all_ranks, one_rank] = world.read([&mut all, &mut one]);
    assert_eq!(pids(&all_ranks), [(7, false), (9, false)]);
    assert_eq!(pids(&one_rank), []);
}

#[test]
fn a_user_finds_only_own_ranks() {
    let mut world = World::new(
        "process 7 uid=1000 gid=1000 $PMIX_NAMESPACE=job $PMIX_RANK=0
         process 8 uid=1001 $PMIX_NAMESPACE=job $PMIX_RANK=1",
    );
    let mut view = ranks(None, Visibility::OwnInFull(Credentials { uid: 1000, gid: 1000 }));
    let [rates] = world.read([&mut view]);
    assert_eq!(pids(&rates), [(7, false)]);
}

#[test]
fn the_environment_is_read_only_if_the_job_is_requested() {
    let mut world = World::new("process 7 $PMIX_NAMESPACE=job $PMIX_RANK=0");
    let view = |field: &str| {
        let request =
            MonitorRequest { fields: Some(vec![field.into()]), ..MonitorRequest::default() };
        View::new(Plan::from_request(&request).expect("a plan"), Visibility::All)
    };
    let job = RankTarget { namespace: "job".into(), rank: Some(0) };
    let [rates] = world.read([&mut view("cpu_ns")]);
    assert_eq!(rates.sample.processes[0].text.job, None);
    assert!(world.job_index.processes(&job).is_empty());
    let [rates] = world.read([&mut view("job")]);
    assert_eq!(rates.sample.processes[0].text.job.as_deref(), Some("mpi:job"));
    assert_eq!(world.job_index.processes(&job).len(), 1);
}

#[test]
fn a_process_between_two_samples_counts_for_the_job_of_its_parent() {
    let mut world = World::new(
        "process 7 cpu_ns=1ms $PMIX_NAMESPACE=job $PMIX_RANK=0
         at 1s process 8 ppid=7 cpu_ns=1ms
         at 2s end 8 cpu_ns=6ms",
    );
    let mut jobs = grouped("job", Visibility::All);
    let plain = MonitorRequest { fields: Some(vec!["cpu_ns".into()]), ..MonitorRequest::default() };
    let mut plain = View::new(Plan::from_request(&plain).expect("a plan"), Visibility::All);
    let _first = world.read([&mut jobs, &mut plain]);
    for _ in 0..3 {
        let _meanwhile = world.read([&mut plain]);
    }
    let [rates] = world.read([&mut jobs]);
    assert_eq!(rows(groups(&rates)), [("mpi:job", 1, 1, 7 * MS)]);
}

#[test]
fn signals_of_a_process_are_shown_only_to_its_user_and_root() {
    let mut world = World::new(
        "process 7 uid=1000 gid=1000\nprocess 8 uid=1001 gid=1001
         at 1s signal 7 10\nat 1s signal 8 12",
    );
    let request = MonitorRequest {
        capabilities: vec!["signals".into()],
        fields: Some(vec!["pid".into()]),
        ..MonitorRequest::default()
    };
    let view = |visibility| View::new(Plan::from_request(&request).expect("a plan"), visibility);
    let mut user = view(Visibility::OwnInFull(Credentials { uid: 1000, gid: 1000 }));
    let mut root = view(Visibility::All);
    let _first = world.read([&mut user, &mut root]);
    let targets = world.read([&mut user, &mut root]).map(|rates| {
        let targets = rates.sample.events.iter().map(|it| it.target.pid.0);
        targets.collect::<Vec<_>>()
    });
    assert_eq!(targets, [vec![7], vec![7, 8]]);
}

#[test]
fn latencies_that_are_given_up_are_absent() {
    let mut world = World::new("process 1 comm=a");
    let capabilities = vec!["block".to_owned()];
    let request = MonitorRequest {
        histograms: true,
        capabilities,
        fields: Some(vec!["pid".into()]),
        ..MonitorRequest::default()
    };
    let plan = Plan::from_request(&request).expect("a plan");
    let mut view = View::new(plan, Visibility::All);
    let mut counted = |world: &mut World| {
        let [json] = world.read_json([&mut view]);
        (json.contains("\"block_read\":[["), json.contains("\"histograms\":{}"))
    };
    assert_eq!(counted(&mut world), (true, false));
    world.shed = vec![(Capability::Block, "no block: given up".to_owned())];
    assert_eq!(counted(&mut world), (false, true));
    world.shed.clear();
    assert_eq!(counted(&mut world), (true, false));
}

/// A view of all processes, or of those with this id, of this user if one is named.
fn ended_of(pid: Option<u32>, uid: Option<u32>) -> View {
    let request = MonitorRequest {
        targets: pid.map(|pid| Target::Pid { pid: pid.into(), node: None }).into_iter().collect(),
        uids: uid.into_iter().collect(),
        fields: Some(vec!["ended".into()]),
        ..MonitorRequest::default()
    };
    View::new(Plan::from_request(&request).expect("a plan"), Visibility::All)
}

#[test]
fn a_lost_final_record_is_noted_in_the_views_that_show_its_process() {
    let mut world = World::new(
        "process 7 uid=1\nprocess 8 uid=2
         at 1s end 7 approximate=1",
    );
    let mut views = [ended_of(None, None), ended_of(None, Some(1)), ended_of(None, Some(2))];
    let [all, with, without] = &mut views;
    let _there = world.read([all, with, without]);
    let rates = world.read([all, with, without]);
    let notes = rates.map(|it| it.sample.notes.into_iter().map(|it| it.text).collect::<Vec<_>>());
    let lost = vec!["1 exited and the final record was lost, counted as of exit".to_owned()];
    assert_eq!(notes, [lost.clone(), lost, vec![]]);
}

#[test]
fn the_last_reading_of_a_target_is_no_lost_record() {
    let mut world = World::new("process 7 uid=1\nprocess 8 uid=2");
    let mut view = ended_of(Some(7), None);
    let _there = world.read([&mut view]);
    world.backend = Canned::scripted("process 8 uid=2").expect("a script");
    let [rates] = world.read([&mut view]);
    assert_eq!(pids(&rates), [(7, true)]);
    let notes: Vec<_> = rates.sample.notes.iter().map(|it| &*it.text).collect();
    assert_eq!(notes, ["1 exited without a final record, counted as last read"]);
}

#[test]
fn a_condition_on_groups_selects_finished_groups_and_the_events_of_their_processes() {
    let mut world = World::new(
        "process 5 comm=big cpu_ns=0 cpu_ns/s=40ms\nprocess 6 comm=big cpu_ns=0 cpu_ns/s=40ms
         process 7 comm=small cpu_ns=1ms\nprocess 8 comm=gone cpu_ns=2ms
         process 9 comm=over cpu_ns=80ms
         at 1s end 8\nat 1s end 9\nat 2s signal 5 10\nat 2s signal 7 12",
    );
    let request = MonitorRequest {
        group_by: Some("comm".into()),
        keep_ns: Some(1_000 * MS),
        fields: Some(vec!["cpu_ns".into()]),
        // Of the two processes in the group, none matches.
        filter: Some("cpu_ns > 70ms".into()),
        capabilities: vec!["signals".into()],
        ..MonitorRequest::default()
    };
    let mut view = View::new(Plan::from_request(&request).expect("a plan"), Visibility::All);
    let _there = world.read([&mut view]);
    let _ended = world.read([&mut view]);
    let [rates] = world.read([&mut view]);
    let names = |all: &[Group]| all.iter().map(|it| it.name.to_string()).collect::<Vec<_>>();
    assert_eq!(names(&groups(&rates).groups), ["big"]);
    assert_eq!(names(&groups(&rates).finished), ["over"]);
    let targets: Vec<_> = rates.sample.events.iter().map(|it| it.target.pid.0).collect();
    assert_eq!(targets, [5]);
}

#[test]
fn a_condition_on_a_field_that_is_hidden_from_the_user_is_noted() {
    let mut world = World::new(
        "process 7 uid=1000 gid=1000 read_bytes=1\nprocess 8 uid=1001 read_bytes=9
         process 9 uid=1001 read_bytes=9",
    );
    let noted = |world: &mut World, condition: &str, visibility| {
        let request = MonitorRequest {
            fields: Some(vec!["pid".into()]),
            filter: Some(condition.into()),
            ..MonitorRequest::default()
        };
        let mut view = View::new(Plan::from_request(&request).expect("a plan"), visibility);
        let [rates] = world.read([&mut view]);
        rates.sample.notes.into_iter().map(|it| it.text).collect::<Vec<_>>()
    };
    let user = Visibility::OwnInFull(Credentials { uid: 1000, gid: 1000 });
    let note = "NO_PERMISSIONS: the filter cannot compare read_bytes of 2 processes of other \
                users: this needs observe-all";
    assert_eq!(noted(&mut world, "read_bytes > 5 or read_bytes < 2", user), [note]);
    assert_eq!(noted(&mut world, "cpu_ns > 5s", user), Vec::<String>::new());
    assert_eq!(noted(&mut world, "read_bytes > 5", Visibility::All), Vec::<String>::new());
}

#[test]
fn a_sample_says_whether_it_has_all_processes_that_the_user_may_see() {
    let mut world = World::new("process 7 uid=1000\nprocess 8 uid=1001");
    let mut whole = |request: MonitorRequest| {
        let request = MonitorRequest { fields: Some(vec!["pid".into()]), ..request };
        let plan = Plan::from_request(&request).expect("a plan");
        let [rates] = world.read([&mut View::new(plan, Visibility::All)]);
        rates.sample.all_visible
    };
    let all = MonitorRequest::default();
    assert!(whole(all.clone()));
    assert!(!whole(MonitorRequest { top: Some(1), ..all.clone() }));
    assert!(!whole(MonitorRequest { uids: vec![1000], ..all.clone() }));
    assert!(!whole(MonitorRequest { filter: Some("pid > 7".into()), ..all.clone() }));
    assert!(!whole(MonitorRequest { targets: vec![Target::Pid { pid: 7, node: None }], ..all }));
}

#[test]
fn a_note_reaches_the_views_whose_request_it_concerns() {
    let mut world = World::new("process 7");
    let about = |text: &str, about| Note::remark(text).about(about);
    world.notes = vec![
        Note::remark("of all"),
        about("of processes", NoteAbout::Processes),
        about("of resident sizes", NoteAbout::Fields(&[ProcessField::Rss])),
        about("of reads", NoteAbout::Fields(&[ProcessField::ReadBytes])),
        about("of block", NoteAbout::Capabilities(&[Capability::Block, Capability::WriteBack])),
    ];
    world.shed = vec![(Capability::ExactCpu, "no exact-cpu: given up".to_owned())];
    let mut noted = |request: MonitorRequest| {
        let mut view = View::new(Plan::from_request(&request).expect("a plan"), Visibility::All);
        let [rates] = world.read([&mut view]);
        rates.sample.notes.into_iter().map(|it| it.text).collect::<Vec<_>>()
    };
    let fields = |name: &str| MonitorRequest {
        fields: Some(vec![name.into()]),
        ..MonitorRequest::default()
    };
    assert_eq!(noted(fields("pid")), ["of all", "of processes"]);
    assert_eq!(noted(fields("rss")), ["of all", "of processes", "of resident sizes"]);
    assert_eq!(noted(fields("read_bytes_per_s")), ["of all", "of processes", "of reads"]);
    let condition = MonitorRequest { filter: Some("read_bytes > 1".into()), ..fields("pid") };
    assert_eq!(noted(condition), ["of all", "of processes", "of reads"]);
    let switches = vec!["write-back".into(), "exact-cpu".into()];
    let switched = MonitorRequest { capabilities: switches, ..fields("pid") };
    let all = ["of all", "of processes", "of block", "no exact-cpu: given up"];
    assert_eq!(noted(switched), all);
    assert_eq!(noted(MonitorRequest { part: "node".into(), ..fields("load1") }), ["of all"]);
}
