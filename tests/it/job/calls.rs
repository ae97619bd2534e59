//! `job calls`: counts, times and bytes of a program with known calls, and what is left of the
//! probes.

use super::{Noticed, OPEN_MPI, failed};
use crate::deadline;
use crate::probe::mpi::{self, Library, Ranks};
use crate::root::harmless::changed_code;
use crate::root::privilege::{USER, granted};
use crate::root::workload::Guarded;
use crate::served::monitor;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::Read as _;
use std::process::Command;

/// Messages in each direction.
const MESSAGES: u64 = 200;

/// A measurement that has begun.
struct Measurement(Noticed);

impl Measurement {
    /// Begins to measure the ranks, until [`Measurement::end`].
    fn begin(ranks: &Ranks, words: &[&str]) -> Self {
        Self::begin_in(ranks.starter_pid().0, words)
    }

    /// The same of the job of a process.
    fn begin_in(pid: u32, words: &[&str]) -> Self {
        let mut command = monitor();
        command.args(["job", "calls", &pid.to_string(), "--for", "1h"]);
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
fn check_exact(test: &str, library: &Library, words: &[&str]) {
    let Some(mut ranks) = Ranks::start(test, library) else { return };
    let before = changed(&ranks);
    let words = [&["--max-overhead", "none"], words].concat();
    let measurement = Measurement::begin(&ranks, &words);
    ranks.run(&format!("go {MESSAGES}"));
    let (profile, code) = measurement.end();
    // An end that a trampoline would show is unseen of a call that had begun before.
    let is_seen = !words.contains(&"--trampoline");
    assert_eq!(code, Some(0), "{profile:#}");
    let of = |function| row(&profile, "functions", function);
    let [send, receive, broadcast] = ["MPI_Send", "MPI_Recv", "MPI_Bcast"].map(of);
    assert_eq!((&send["calls"], &receive["calls"]), (&(2 * MESSAGES).into(), &send["calls"]));
    assert_eq!((&send["timed"], &receive["timed"]), (&send["calls"], &send["calls"]));
    let numbers: u64 = (0..MESSAGES).map(|it| 10 + it + 1).sum();
    assert_eq!((&send["bytes"], &receive["bytes"]), (&(8 * numbers).into(), &0.into()));
    check_rows(&profile);
    // Rank 1 was in a broadcast before, which has ended, and is in another one; so is rank 0, or it
    // reads its next command first.
    let [calls, timed, open, left] =
        ["calls", "timed", "open", "left"].map(|it| broadcast[it].as_u64().unwrap());
    let unseen = u64::from(!is_seen);
    assert_eq!((calls, timed + open, left), (2, 3 - unseen, unseen), "{broadcast}");
    if is_seen {
        let rank = &profile["ranks"][1];
        assert!(rank["mpi_percent"].as_f64().unwrap() > 50.0, "it waits for rank 0: {rank}");
    }
    assert_eq!(changed(&ranks), before);
    ranks.run("go 3");
    ranks.end();
}

/// Places have names, and times are plausible.
#[track_caller]
fn check_rows(profile: &Value) {
    // The compiler may have put `go` into `main`.
    let place = row(profile, "places", "MPI_Send");
    assert!(place["place"] == "go" || place["place"] == "main", "{place}");
    // Also of calls that had begun before.
    let places = profile["places"].as_array().unwrap();
    assert!(
        places.iter().all(|it| !it["place"].as_str().unwrap().starts_with("0x")),
        "{profile:#}"
    );
    for it in ["MPI_Send", "MPI_Recv"].map(|name| row(profile, "functions", name)) {
        let [time, mean, max] = ["time_ns", "mean_ns", "max_ns"].map(|name| it[name].as_u64());
        assert!(time >= max && max >= mean && it["left"] == 0, "{it}");
    }
}

#[test]
fn root_calls_times_and_bytes_of_a_job_are_exact() {
    const TEST: &str = "root_calls_times_and_bytes_of_a_job_are_exact";
    if !granted(TEST) {
        return;
    }
    check_exact(TEST, &mpi::OPEN_MPI, &[]);
    check_exact(TEST, &mpi::MPICH, &[]);
}

#[test]
fn root_probes_that_are_set_one_by_one_see_the_same() {
    const TEST: &str = "root_probes_that_are_set_one_by_one_see_the_same";
    if !granted(TEST) {
        return;
    }
    check_exact(TEST, &mpi::OPEN_MPI, &["--one-by-one"]);
    check_exact(TEST, &mpi::MPICH, &["--one-by-one", "--trampoline"]);
}

#[test]
fn root_trampolines_see_the_same_but_for_ends_of_calls_of_before() {
    const TEST: &str = "root_trampolines_see_the_same_but_for_ends_of_calls_of_before";
    if !granted(TEST) {
        return;
    }
    check_exact(TEST, &mpi::OPEN_MPI, &["--trampoline"]);
    check_exact(TEST, &mpi::MPICH, &["--trampoline"]);
}

#[test]
fn root_a_function_that_ends_with_a_jump_is_timed_by_a_trampoline() {
    const TEST: &str = "root_a_function_that_ends_with_a_jump_is_timed_by_a_trampoline";
    if !granted(TEST) {
        return;
    }
    let program = mpi::compile("cc", TEST, "mpi_jump.c", &[]);
    let mut rank = Command::new(program);
    let _one = rank.env("PMIX_NAMESPACE", "jumps").env("PMIX_RANK", "0");
    let mut rank = Guarded::run(&mut rank);
    assert_eq!(rank.line(), "ready");
    let pid = rank.pid().0;
    let before = changed_code(pid);
    let mut measured = |words: &[&str]| {
        let words = [&["--max-overhead", "none"], words].concat();
        let measurement = Measurement::begin_in(pid, &words);
        rank.send_line("20");
        assert_eq!(rank.line(), "done");
        measurement.end().0
    };
    let profile = measured(&[]);
    let notes = profile["notes"].to_string();
    assert!(notes.contains("MPI_Barrier is counted, not timed: it always ends with"), "{notes}");
    assert_eq!(row(&profile, "functions", "MPI_Wait")["timed"], 20);
    let profile = measured(&["--trampoline"]);
    let barrier = row(&profile, "functions", "MPI_Barrier");
    assert_eq!((&barrier["calls"], &barrier["timed"]), (&20.into(), &20.into()), "{profile:#}");
    assert_eq!(profile["functions"].as_array().unwrap().len(), 1, "the jump is a part of the call");
    assert_eq!(profile["notes"], Value::Array(Vec::new()));
    assert_eq!(changed_code(pid), before);
}

#[test]
fn root_trampolines_are_set_in_processes_of_their_user_alone() {
    const TEST: &str = "root_trampolines_are_set_in_processes_of_their_user_alone";
    if !granted(TEST) {
        return;
    }
    let job = OPEN_MPI.start_as(USER, 1, "exec sleep 1000");
    let (code, message) =
        failed(monitor().args(["job", "calls", &job.pid(), "--trampoline", "--for", "10ms"]));
    assert_eq!(code, Some(5), "{message}");
    assert!(message.contains(&format!("belongs to user {USER}, and a return trampoline can")));
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
