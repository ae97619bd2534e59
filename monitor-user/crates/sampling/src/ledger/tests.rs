//! What a ledger tells of samples made by hand.

use super::*;
use monitor_model::id::Pid;

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

/// A solver that was there before, and a stage that comes, a helper nobody saw alive.
fn course() -> [Sample; 3] {
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

fn ledger(of: Of) -> Ledger {
    let mut it = Ledger::new(of, Filter::default());
    course().iter().for_each(|sample| it.see(sample));
    it
}

fn cpu(ledger: &Ledger) -> Vec<(String, u64)> {
    let cpu = |entry: &Entry| entry.used(ProcessField::CpuTime).unwrap_or(0) / SECOND;
    ledger.entries().iter().map(|(_, it)| (it.name.to_string(), cpu(it))).collect()
}

#[test]
fn only_what_was_used_since_the_first_sample_counts() {
    let wanted = [("solver", 15), ("stage", 4), ("true", 1)].map(|(n, s)| (n.to_owned(), s));
    assert_eq!(cpu(&ledger(Of::Process)), wanted);
    assert_eq!(cpu(&ledger(Of::Group(By::Comm))), wanted);
    assert_eq!(cpu(&ledger(Of::Group(By::User))), [("ann".to_owned(), 20)]);
    for of in [Of::Process, Of::Group(By::Comm)] {
        assert_eq!(ledger(of).total().used(ProcessField::CpuTime), Some(20 * SECOND));
    }
}

#[test]
fn use_is_spread_over_the_samples_in_which_it_was_there() {
    let ledger = ledger(Of::Process);
    let all = ledger.entries();
    let solver = all[0].1;
    // Half a processor, then a whole one.
    assert_eq!(solver.cpu.percentile(50.0).map(|it| it / 100), Some(50));
    assert_eq!(solver.cpu.largest(), Some(10_000));
    assert_eq!(solver.resident.largest(), Some(1 << 10));
    assert_eq!((solver.samples, solver.ended), (3, 0));
    assert_eq!((all[1].1.samples, all[1].1.ended), (2, 1));
}

#[test]
fn what_lived_between_two_samples_is_told_apart() {
    let ledger = ledger(Of::Process);
    let wanted = Brief { processes: 1, cpu: Ns(SECOND) };
    assert_eq!(ledger.briefly(), [(&Arc::from("true"), &wanted)]);
}

#[test]
fn a_course_is_the_mean_of_each_part() {
    let whole = ledger(Of::Process);
    let keys = whole.entries().into_iter().map(|(key, _)| key.clone()).take(1);
    let plot = Plot::new(keys, (Ns(100 * SECOND), Ns(120 * SECOND)), 3);
    let mut again = Ledger::new(Of::Process, Filter::default()).plotting(plot);
    course().iter().for_each(|sample| again.see(sample));
    let plot = again.plot().expect("it was asked for");
    assert_eq!(plot.cpu(0), [Some(50.0), Some(100.0)]);
    assert_eq!(plot.all_cpu(), [Some(90.0), Some(110.0)]);
}

#[test]
fn a_spread_knows_its_percentiles() {
    let mut spread = Spread::default();
    assert_eq!((spread.percentile(50.0), spread.largest()), (None, None));
    spread.note(7);
    assert_eq!((spread.percentile(50.0), spread.largest()), (Some(7), Some(7)));
    (1..=99).for_each(|it| spread.note(it));
    assert!(spread.percentile(50.0).is_some_and(|it| (48..=51).contains(&it)));
    assert_eq!(spread.largest(), Some(99));
}

#[test]
fn kinds_have_their_names() {
    for name in Of::NAMES {
        assert_eq!(name.parse::<Of>().map(Of::name), Ok(name));
    }
    assert!("jobs".parse::<Of>().is_err_and(|it| it.to_string().contains("\"job\"")));
}
