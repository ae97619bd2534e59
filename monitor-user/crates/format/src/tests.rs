//! Golden tests: every format prints the same two frames, compared with a golden file.
//!
//! `MONITOR_BLESS=1 cargo test` rewrites the files; review the diff.

use super::*;
use monitor_model::{
    Category, CpuField, Device, DiskField, FieldValue, Group, GroupBy, GroupField, Grouped,
    Identity, NetField, Node, NodeField, Note, Ns, Pid, Process, ProcessField, ProcessTexts,
    ProgramLoss, Rates, Sample, rates, sample,
};
use monitor_protocol::terminal::is_active;
use std::path::Path;

const ROOM: Viewport = Viewport { columns: 80, lines: None };

fn process(pid: u32, comm: &[u8], second: u64) -> Process {
    let id = Identity { pid: Pid(pid), start: Ns(u64::from(pid)) };
    let mut it = Process { id, ..Process::default() };
    it.comm[..comm.len()].copy_from_slice(comm);
    it.row.set(ProcessField::Pid, pid.into());
    it.row.set(ProcessField::State, u64::from(b'S'));
    it.row.set_signed(ProcessField::Nice, -5);
    it.row.set(ProcessField::CpuTime, u64::from(pid) * 123_456_789 * second);
    it.row.set(ProcessField::Rss, u64::from(pid) << 20);
    it.row.set(ProcessField::TcpSent, 1_000_000 * second);
    it
}

/// A shell with a thread, and an exited process with control characters in its name.
fn processes(second: u64) -> Vec<Process> {
    let mut shell = process(7, b"sh", second);
    shell.text = ProcessTexts { cmdline: Some("sh -c \"a, b\"".into()), ..ProcessTexts::default() };
    let mut thread = process(8, b"worker", second);
    thread.row.set(ProcessField::Tid, 8);
    shell.threads.push(thread);
    let mut ended = process(4_194_304, b"\x1b[2J\n\xff\"\\", second);
    ended.row.set(ProcessField::Ended, 1);
    ended.row.set(ProcessField::ExitCode, 139);
    vec![shell, ended]
}

fn node(second: u64) -> Node {
    let mut node = Node::default();
    node.row.set_float(NodeField::Load1, 0.123_456);
    node.row.set(NodeField::MemTotal, 16 << 30);
    node.row.set(NodeField::CpuUser, 500_000_000 * second);
    node.cpus.push((3, Default::default()));
    node.cpus[0].1.set(CpuField::User, 250_000_000 * second);
    node.disks.push(Device { name: "nvme0n1".into(), ..Device::default() });
    node.disks[0].row.set(DiskField::ReadBytes, 4096 * second);
    node.nets.push(Device { name: "eth0".into(), ..Device::default() });
    node.nets[0].row.set(NetField::SentBytes, 1500 * second);
    node
}

fn sample(second: u64) -> Sample {
    let at = sample::Instant { boot: Ns(second * 1_000_000_000), unix: Ns(second * 1_000_000_000) };
    Sample {
        at,
        node: "n1".into(),
        processes: processes(second),
        node_stats: Some(node(second)),
        notes: vec![Note::remark("no block: CAP_BPF is missing")],
        lost: vec![ProgramLoss { program: "life".into(), ring_full: 3, table_full: 0 }],
        ..Sample::default()
    }
}

fn layout(scope: Scope) -> Layout {
    let mut layout = Layout::all(scope);
    layout.processes = vec![
        ProcessField::Pid,
        ProcessField::Tid,
        ProcessField::State,
        ProcessField::Nice,
        ProcessField::Ended,
        ProcessField::ExitCode,
        ProcessField::CpuTime,
        ProcessField::CpuPercent,
        ProcessField::Rss,
        ProcessField::TcpSent,
        ProcessField::Comm,
        ProcessField::Cmdline,
    ];
    layout
}

/// Prints two samples in one format.
fn print(form: OutputFormat, layout: Layout) -> String {
    let mut writer = form.writer(layout, Paint::Plain);
    let first = rates::first(sample(1));
    let second = rates::rates(&first.sample, sample(2));
    let mut out = Vec::new();
    for rates in [&first, &second] {
        let processes = &rates.sample.processes;
        let frame =
            Frame { rates, processes, matched: processes.len(), events: &[], viewport: ROOM };
        writer.write(&frame, &mut out);
    }
    String::from_utf8(out).expect("every format is UTF-8")
}

/// Prints the groups of a sample in one format.
fn print_groups(form: OutputFormat) -> String {
    let group = |name: &str, processes: u64, cpu: u64| {
        let mut it = Group { by: GroupBy::Job, name: name.into(), ..Group::default() };
        it.head.set(GroupField::Processes, processes);
        it.head.set(GroupField::Ended, 23);
        it.row.set(ProcessField::CpuTime, cpu);
        it.row.set_float(ProcessField::CpuPercent, 150.25);
        it.row.set(ProcessField::Rss, 3 << 20);
        it
    };
    let rates = Rates {
        sample: Sample { processes: Vec::new(), node_stats: None, ..sample(1) },
        interval: Some(Ns(1_000_000_000)),
        groups: Some(Grouped {
            by: GroupBy::Job,
            groups: vec![
                group("slurm:7", 2, 5_000_000_000),
                group("a \"b\",\n\u{1b}\u{9b}\u{7f}\u{202e}", 0, 7),
            ],
            finished: vec![group("pbs:1.server", 0, 1_000_000_000)],
        }),
    };
    let frame = Frame { rates: &rates, processes: &[], matched: 2, events: &[], viewport: ROOM };
    let mut out = Vec::new();
    form.writer(layout(Scope::Processes), Paint::Plain).write(&frame, &mut out);
    String::from_utf8(out).expect("every format is UTF-8")
}

/// A frame with all processes of its sample.
fn whole_frame(rates: &Rates) -> Frame<'_> {
    let processes = &rates.sample.processes;
    Frame { rates, processes, matched: processes.len(), events: &[], viewport: ROOM }
}

/// Prints a sample of each of two nodes in one format.
fn print_nodes(form: OutputFormat, scope: Scope) -> String {
    let mut layout = Layout { names_nodes: true, ..layout(scope) };
    layout.node.truncate(3);
    layout.disks.truncate(2);
    layout.nets.truncate(2);
    layout.cpus.clear();
    let second = Sample { node: "login\u{1b}2".into(), ..sample(2) };
    let rates = [sample(1), second].map(rates::first);
    let mut out = Vec::new();
    let frames = rates.each_ref().map(whole_frame);
    form.writer(layout, Paint::Plain).write_nodes(&frames, &mut out);
    String::from_utf8(out).expect("every format is UTF-8")
}

#[track_caller]
fn check(got: &str, name: &str) {
    let raw = got.chars().find(|&it| it != '\n' && is_active(it));
    assert_eq!(raw, None, "{name} may be shown in a terminal");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/golden").join(name);
    if std::env::var_os("MONITOR_BLESS").is_some() {
        std::fs::write(&path, got).expect("the golden folder exists");
    }
    let want = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(got == want, "{} differs; actual output:\n{got}", path.display());
}

#[test]
fn the_table_matches_its_golden_file() {
    let mut layout = layout(Scope::All);
    layout.node.truncate(6);
    layout.disks.truncate(4);
    layout.nets.truncate(2);
    check(&print(OutputFormat::Table, layout), "sample.table");
}

#[test]
fn json_matches_its_golden_file() {
    check(&print(OutputFormat::Json, layout(Scope::All)), "sample.jsonl");
}

#[test]
fn csv_matches_its_golden_file() {
    check(&print(OutputFormat::Csv, layout(Scope::Processes)), "sample.csv");
}

#[test]
fn prometheus_matches_its_golden_file() {
    check(&print(OutputFormat::Prometheus, layout(Scope::All)), "sample.prom");
}

#[test]
fn pmix_matches_its_golden_file() {
    let mut layout = layout(Scope::All);
    layout.node.truncate(12);
    check(&print(OutputFormat::Pmix, layout), "sample.pmix.jsonl");
}

#[test]
fn groups_match_their_golden_file_in_every_format() {
    for (form, name) in [
        (OutputFormat::Table, "groups.table"),
        (OutputFormat::Json, "groups.jsonl"),
        (OutputFormat::Csv, "groups.csv"),
        (OutputFormat::Prometheus, "groups.prom"),
    ] {
        check(&print_groups(form), name);
    }
}

#[test]
fn rows_of_many_nodes_have_the_name_of_their_node_in_every_format() {
    check(&print_nodes(OutputFormat::Table, Scope::All), "nodes.table");
    check(&print_nodes(OutputFormat::Csv, Scope::Disks), "nodes.csv");
    check(&print_nodes(OutputFormat::Prometheus, Scope::Disks), "nodes.prom");
    let json = print_nodes(OutputFormat::Json, Scope::Disks);
    let named = |node| json.lines().any(|line| line.contains(&format!("\"node\":\"{node}\"")));
    assert!(named("n1") && named("login\\u001b2"), "{json}");
}

#[test]
fn every_field_with_a_value_is_in_json_by_name() {
    let mut process = Process::default();
    for field in
        ProcessField::all().filter(|it| it.field().kind != monitor_model::field::ValueKind::Text)
    {
        process.row.set(field, 1);
    }
    let rates = rates::first(Sample::default());
    let frame = Frame {
        rates: &rates,
        processes: &[process.clone()],
        matched: 1,
        events: &[],
        viewport: ROOM,
    };
    let mut out = Vec::new();
    OutputFormat::Json.writer(Layout::all(Scope::Processes), Paint::Plain).write(&frame, &mut out);
    let json: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
    for field in ProcessField::all() {
        let shown = !json["processes"][0][field.field().name].is_null();
        let there =
            matches!(process.value(field), Some(FieldValue::Number(_) | FieldValue::Signed(_)));
        assert!(shown || !there || field == ProcessField::Pss, "{}", field.field().name);
    }
}

#[test]
fn a_screen_shows_only_rows_that_fit_and_keeps_its_notes() {
    let rates = rates::first(sample(1));
    let many: Vec<_> = (1..100).map(|pid| process(pid, b"x", 1)).collect();
    let room = Viewport { columns: 80, lines: Some(12) };
    let frame = Frame { rates: &rates, processes: &many, matched: 99, events: &[], viewport: room };
    let mut out = Vec::new();
    OutputFormat::Table.writer(layout(Scope::Processes), Paint::Plain).write(&frame, &mut out);
    let text = String::from_utf8(out).expect("every format is UTF-8");
    assert_eq!(text.lines().count(), 12);
    assert!(text.ends_with("note: life lost 3 records (ring full), 0 keys (table full)\n"));
}
