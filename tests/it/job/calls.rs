//! `job calls`: counts, times and bytes of a program with known calls, and what is left of the
//! probes.

use super::{Noticed, OPEN_MPI, failed};
use crate::deadline;
use crate::probe::mpi::{self, Library, Ranks};
use crate::root::harmless::changed_code;
use crate::root::privilege::granted;
use crate::served::monitor;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::Read as _;

/// Messages in each direction.
const MESSAGES: u64 = 200;

/// A measurement that has begun.
struct Measurement(Noticed);

impl Measurement {
    /// Begins to measure the ranks, until [`Measurement::end`].
    fn begin(ranks: &Ranks, words: &[&str]) -> Self {
        let mut command = monitor();
        command.args(["job", "calls", &ranks.starter_pid().0.to_string(), "--for", "1h"]);
        command.args(["--format", "json"]).args(words);
        let mut command = Noticed::run(&mut command);
        let line = command.notice();
        assert!(line.starts_with("monitor: measuring "), "{line}");
        Self(command)
    }

    /// Ends it; the profile, and the exit code.
    fn end(mut self) -> (Value, Option<i32>) {
        let child = &mut self.0.command.0;
        kill_process(Pid::from_child(child), Signal::INT).unwrap();
        let mut text = String::new();
        let _bytes = child.stdout.as_mut().unwrap().read_to_string(&mut text).unwrap();
        let (notices, code) = self.0.end();
        assert_eq!(notices, "");
        (serde_json::from_str(&text).unwrap(), code)
    }
}

/// The row of a function.
fn row<'p>(profile: &'p Value, rows: &str, function: &str) -> &'p Value {
    let rows = profile[rows].as_array().unwrap();
    rows.iter().find(|it| it["function"] == function).unwrap_or_else(|| panic!("{profile:#}"))
}

/// The code of each rank that differs from its file: Open MPI changes functions of the C library.
fn changed(ranks: &Ranks) -> Vec<Vec<(String, u64)>> {
    ranks.pids.iter().map(|pid| changed_code(pid.0)).collect()
}

/// Rank 0 sends messages of 10, 11, 12… numbers to rank 1, which answers each with one number.
#[track_caller]
fn check_exact(test: &str, library: &Library) {
    let Some(mut ranks) = Ranks::start(test, library) else { return };
    let before = changed(&ranks);
    let measurement = Measurement::begin(&ranks, &["--max-overhead", "none"]);
    ranks.run(&format!("go {MESSAGES}"));
    let (profile, code) = measurement.end();
    assert_eq!(code, Some(0), "{profile:#}");
    let of = |function| row(&profile, "functions", function);
    let [send, receive, broadcast] = ["MPI_Send", "MPI_Recv", "MPI_Bcast"].map(of);
    assert_eq!((&send["calls"], &receive["calls"]), (&(2 * MESSAGES).into(), &send["calls"]));
    assert_eq!((&send["timed"], &receive["timed"]), (&send["calls"], &send["calls"]));
    let numbers: u64 = (0..MESSAGES).map(|it| 10 + it + 1).sum();
    assert_eq!((&send["bytes"], &receive["bytes"]), (&(8 * numbers).into(), &0.into()));
    // The compiler may have put `go` into `main`.
    let place = row(&profile, "places", "MPI_Send");
    assert!(place["place"] == "go" || place["place"] == "main", "{place}");
    // Also of calls that had begun before.
    let places = profile["places"].as_array().unwrap();
    assert!(
        places.iter().all(|it| !it["place"].as_str().unwrap().starts_with("0x")),
        "{profile:#}"
    );
    for it in [send, receive] {
        let [time, mean, max] = ["time_ns", "mean_ns", "max_ns"].map(|name| it[name].as_u64());
        assert!(time >= max && max >= mean && it["left"] == 0, "{it}");
    }
    // Rank 1 was in a broadcast before, which has ended, and is in another one; so is rank 0, or it
    // reads its next command first.
    let [calls, timed, open] = ["calls", "timed", "open"].map(|it| broadcast[it].as_u64().unwrap());
    assert_eq!((calls, timed + open), (2, 3), "{broadcast}");
    let rank = &profile["ranks"][1];
    assert!(rank["mpi_percent"].as_f64().unwrap() > 50.0, "it waits for rank 0: {rank}");
    assert_eq!(changed(&ranks), before);
    ranks.run("go 3");
    ranks.end();
}

#[test]
fn root_calls_times_and_bytes_of_a_job_are_exact() {
    const TEST: &str = "root_calls_times_and_bytes_of_a_job_are_exact";
    if !granted(TEST) {
        return;
    }
    check_exact(TEST, &mpi::OPEN_MPI);
    check_exact(TEST, &mpi::MPICH);
}

#[test]
fn root_what_costs_too_much_is_no_longer_timed_and_that_is_said() {
    const TEST: &str = "root_what_costs_too_much_is_no_longer_timed_and_that_is_said";
    if !granted(TEST) {
        return;
    }
    let Some(mut ranks) = Ranks::start(TEST, &mpi::OPEN_MPI) else { return };
    let before = changed(&ranks);
    let measurement = Measurement::begin(&ranks, &["--max-overhead", "0.1%"]);
    let all = changed(&ranks)[0].len();
    deadline::until(|| {
        ranks.run(&format!("go {MESSAGES}"));
        (changed(&ranks)[0].len() < all).then_some(())
    });
    let (profile, code) = measurement.end();
    let notes = profile["notes"].to_string();
    assert!(notes.contains("is not timed after ") && notes.contains("(--max-overhead)"), "{notes}");
    assert_eq!(code, Some(4));
    assert_eq!(changed(&ranks), before);
    ranks.end();
}

#[test]
fn root_a_measurement_that_is_killed_leaves_no_probe() {
    const TEST: &str = "root_a_measurement_that_is_killed_leaves_no_probe";
    if !granted(TEST) {
        return;
    }
    let Some(mut ranks) = Ranks::start(TEST, &mpi::OPEN_MPI) else { return };
    let before = changed(&ranks);
    let mut measurement = Measurement::begin(&ranks, &["--counts"]);
    ranks.begin(&format!("go {MESSAGES}"));
    assert_ne!(changed(&ranks), before);
    measurement.0.command.0.kill().unwrap();
    let _killed = measurement.0.command.0.wait().unwrap();
    deadline::until(|| (changed(&ranks) == before).then_some(()));
    // The line of the command before, too.
    ranks.run("go 3");
    ranks.end();
}

#[test]
fn root_a_job_without_mpi_is_refused() {
    const TEST: &str = "root_a_job_without_mpi_is_refused";
    let Some(job) = OPEN_MPI.start(TEST, 2, "exec sleep 1000") else { return };
    if !granted(TEST) {
        return;
    }
    let (code, message) = failed(monitor().args(["job", "calls", &job.pid(), "--for", "10ms"]));
    assert_eq!(code, Some(8), "{message}");
    assert!(message.contains("it has loaded no function of MPI"), "{message}");
}

#[test]
fn an_overhead_is_a_share() {
    let (code, message) = failed(monitor().args(["job", "calls", "1", "--max-overhead", "200%"]));
    assert_eq!(code, Some(2));
    assert!(message.contains("\"200%\" is no share: write 0.1% to 100%, or none"), "{message}");
}
