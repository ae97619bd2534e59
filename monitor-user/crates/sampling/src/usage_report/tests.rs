//! Usage reports of constructed samples.

use super::*;
use monitor_model::Pid;

const SECOND: u64 = 1_000_000_000;

fn process(pid: u32, start: u64, comm: &str, cpu: u64) -> Process {
    let id = Identity { pid: Pid(pid), start: Ns(start * SECOND) };
    let mut it = Process { id, ..Process::default() };
    it.row.set(ProcessField::Pid, pid.into());
    it.row.set(ProcessField::CpuTime, cpu * SECOND);
    it.row.set(ProcessField::Rss, u64::from(pid) << 20);
    it.comm[..comm.len()].copy_from_slice(comm.as_bytes());
    it.text.user = Some("ann".into());
    it
}

fn ended(mut process: Process) -> Process {
    process.row.set(ProcessField::Ended, 1);
    process
}

fn sample(at: u64, processes: Vec<Process>) -> Sample {
    let at = Instant { boot: Ns(at * SECOND), unix: Ns(at * SECOND) };
    Sample { at, processes, ..Sample::default() }
}

/// A solver from before the report, a stage that starts and ends during it, and a helper that lives
/// between two samples.
fn samples() -> [Sample; 3] {
    [
        sample(100, vec![process(1, 5, "solver", 40)]),
        sample(
            110,
            vec![
                process(1, 5, "solver", 45),
                process(2, 103, "stage", 3),
                ended(process(3, 104, "true", 1)),
            ],
        ),
        sample(120, vec![process(1, 5, "solver", 55), ended(process(2, 103, "stage", 4))]),
    ]
}

fn report(by: ReportBy) -> UsageReport {
    let mut report = UsageReport::new(by, Filter::default());
    samples().iter().for_each(|sample| report.add_sample(sample));
    report
}

fn cpu(report: &UsageReport) -> Vec<(String, u64)> {
    let cpu = |entry: &UsageEntry| entry.used(ProcessField::CpuTime).unwrap_or(0) / SECOND;
    report.entries().iter().map(|(_, it)| (it.name.to_string(), cpu(it))).collect()
}

#[test]
fn only_usage_since_the_first_sample_counts() {
    let wanted = [("solver", 15), ("stage", 4), ("true", 1)].map(|(n, s)| (n.to_owned(), s));
    assert_eq!(cpu(&report(ReportBy::Process)), wanted);
    assert_eq!(cpu(&report(ReportBy::Group(GroupBy::Comm))), wanted);
    assert_eq!(cpu(&report(ReportBy::Group(GroupBy::User))), [("ann".to_owned(), 20)]);
    for by in [ReportBy::Process, ReportBy::Group(GroupBy::Comm)] {
        assert_eq!(report(by).total().used(ProcessField::CpuTime), Some(20 * SECOND));
    }
}

#[test]
fn quantiles_cover_the_samples_that_an_entry_is_in() {
    let report = report(ReportBy::Process);
    let all = report.entries();
    let solver = all[0].1;
    // Half a processor, then a whole one.
    assert_eq!(solver.cpu.percentile(50.0).map(|it| it / 100), Some(50));
    assert_eq!(solver.cpu.largest(), Some(10_000));
    assert_eq!(solver.resident.largest(), Some(1 << 10));
    assert_eq!((solver.samples, solver.ended), (3, 0));
    assert_eq!((all[1].1.samples, all[1].1.ended), (2, 1));
}

#[test]
fn processes_between_two_samples_are_listed_separately() {
    let report = report(ReportBy::Process);
    let wanted = ShortLived { processes: 1, cpu: Ns(SECOND) };
    assert_eq!(report.short_lived(), [(&Arc::from("true"), &wanted)]);
}

#[test]
fn a_plot_has_memory_in_each_bucket_though_readings_are_late() {
    use monitor_model::{Node, NodeField};
    // Four intervals, and no sample in the second quarter of the time.
    let plot = UsagePlot::new(std::iter::empty(), (Ns(100 * SECOND), Ns(140 * SECOND)), 5);
    let mut report = UsageReport::new(ReportBy::Process, Filter::default()).plotting(plot);
    for (at, used) in [(100, 1), (110, 2), (121, 4), (130, 6), (140, 8)] {
        let mut node = Node::default();
        node.row.set(NodeField::MemTotal, 100);
        node.row.set(NodeField::MemAvailable, 100 - used);
        report.add_sample(&Sample { node_stats: Some(node), ..sample(at, Vec::new()) });
    }
    let used = report.plot().expect("the report has a plot").memory_used();
    let used: Vec<_> = used.into_iter().map(|it| it.map(|it| (it * 10.0).round())).collect();
    assert_eq!(used, [20.0, 40.0, 58.0, 80.0].map(Some));
}

#[test]
fn a_plot_has_the_mean_of_each_bucket() {
    let whole = report(ReportBy::Process);
    let keys = whole.entries().into_iter().map(|(key, _)| key.clone()).take(1);
    let plot = UsagePlot::new(keys, (Ns(100 * SECOND), Ns(120 * SECOND)), 3);
    let mut again = UsageReport::new(ReportBy::Process, Filter::default()).plotting(plot);
    samples().iter().for_each(|sample| again.add_sample(sample));
    let plot = again.plot().expect("the report has a plot");
    assert_eq!(plot.cpu(0), [Some(50.0), Some(100.0)]);
    assert_eq!(plot.all_cpu(), [Some(90.0), Some(110.0)]);
}

#[test]
fn quantiles_of_one_and_of_many_values() {
    let mut quantiles = UsageQuantiles::default();
    assert_eq!((quantiles.percentile(50.0), quantiles.largest()), (None, None));
    quantiles.record(7);
    assert_eq!((quantiles.percentile(50.0), quantiles.largest()), (Some(7), Some(7)));
    (1..=99).for_each(|it| quantiles.record(it));
    assert!(quantiles.percentile(50.0).is_some_and(|it| (48..=51).contains(&it)));
    assert_eq!(quantiles.largest(), Some(99));
}

#[test]
fn each_kind_has_a_name() {
    for name in ReportBy::NAMES {
        assert_eq!(name.parse::<ReportBy>().map(ReportBy::name), Ok(name));
    }
    assert!("jobs".parse::<ReportBy>().is_err_and(|it| it.to_string().contains("\"job\"")));
}
