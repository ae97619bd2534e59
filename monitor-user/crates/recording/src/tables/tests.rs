//! Round trips of a sample with one of everything.

use crate::codec::{Decoder, Encoder};
use crate::{schema::current_schema, stream::Inputs};
use monitor_model::{
    BackendKind, BlockField, Category, Device, Histogram, Identity, Instant, Node, NodeField, Note,
    Ns, Pid, Process, ProcessField, ProcessParent, ProcessTexts, ProgramLoss, Sample, SampleEvent,
    SampleEventKind, Signal, SignalOutcome,
};

fn id(pid: u32) -> Identity {
    Identity { pid: Pid(pid), start: Ns(u64::from(pid) * 1_000) }
}

fn process(pid: u32) -> Process {
    let mut process =
        Process { id: id(pid), parent: Some(id(1)), readable_by_owner: true, ..Process::default() };
    process.row.set(ProcessField::Pid, pid.into());
    process.row.set(ProcessField::CpuTime, u64::MAX - 7);
    process.row.set_signed(ProcessField::Nice, -20);
    process.comm[..4].copy_from_slice(b"a\xffb ");
    process.text = ProcessTexts {
        cmdline: Some("a b".into()),
        path: Some("/bin/a".into()),
        cgroup: Some("/".into()),
        user: Some("root".into()),
        job: None,
        rank: None,
        origin: None,
    };
    process
}

fn everything() -> Sample {
    let mut first = process(7);
    first.threads = vec![process(7), process(9)];
    first.disks = vec![Device { name: "sdb".into(), row: Default::default() }; 2];
    first.disks[1].row.set(BlockField::Reads, 3);
    first.on_cpus = vec![(0, Ns(5)), (63, Ns(6))];
    let mut histogram = Histogram::default();
    for duration in [3, 5_000, 5_001, u64::MAX] {
        histogram.record(Ns(duration));
    }
    first.latencies.run_queue = Some(histogram);
    let mut node = Node::default();
    node.row.set_float(NodeField::Load1, 0.07);
    node.cpus = vec![(0, Default::default()), (3, Default::default())];
    node.disks = vec![Device { name: "sda".into(), row: Default::default() }];
    node.nets = vec![Device { name: "lo".into(), row: Default::default() }];
    let signal = Signal { number: 9, code: -6, thread: Some(Pid(9)) };
    let generated = SampleEventKind::SignalGenerated {
        signal,
        sender: Some(id(3)),
        outcome: SignalOutcome::Overflowed,
    };
    Sample {
        at: Instant { boot: Ns(5), unix: Ns(6) },
        backend: BackendKind::Ebpf,
        relayed: true,
        time_error: Ns(9),
        all_visible: true,
        node: "n1".into(),
        processes: vec![first, process(8)],
        dying: vec![
            ProcessParent { id: id(4), parent: None },
            ProcessParent { id: id(5), parent: Some(id(4)) },
        ],
        node_stats: Some(node),
        events: vec![
            SampleEvent { at: Ns(4), target: id(7), kind: generated },
            SampleEvent {
                at: Ns(5),
                target: id(7),
                kind: SampleEventKind::SignalDelivered { signal },
            },
        ],
        notes: vec![Note::missing("no disk sdz"), Note::remark("hm")],
        lost: vec![ProgramLoss { program: "life".into(), ring_full: 1, table_full: 0 }],
        ..Sample::default()
    }
}

/// Encodes and decodes samples one after another.
fn read_back(samples: &[Sample]) -> Vec<String> {
    let mut encoder = Encoder::default();
    let mut decoder = Decoder::new(&current_schema()).expect("the current schema");
    let back = |sample: &Sample| {
        let mut payload = Vec::new();
        encoder.encode(sample).expect("a small sample").write(&mut payload);
        let mut inputs = Inputs::new(payload, decoder.streams()).expect("as written");
        decoder.advance(&mut inputs).expect("as written");
        assert_eq!(decoder.at(), sample.at);
        format!("{:?}", decoder.sample())
    };
    samples.iter().map(back).collect()
}

#[test]
fn every_part_survives_encoding_and_decoding() {
    let mut later = everything();
    later.processes.remove(1);
    later.processes[0].text.job = Some("slurm 7".into());
    later.processes[0].latencies = Default::default();
    later.notes.clear();
    later.node_stats = None;
    let samples = [everything(), everything(), later, Sample::default(), everything()];
    let wanted: Vec<_> = samples.iter().map(|process| format!("{process:?}")).collect();
    assert_eq!(read_back(&samples), wanted);
}

#[test]
fn rates_are_not_stored() {
    let mut rated = everything();
    rated.processes[0].row.set_float(ProcessField::CpuPercent, 3.0);
    assert_eq!(read_back(&[rated]), [format!("{:?}", everything())]);
    assert!(ProcessField::CpuPercent.field().name == "cpu_percent");
}
