//! `job hold`, `release`, `signal` and `end` on jobs of real launchers.

use super::{HYDRA, Launcher, OPEN_MPI, failed, listed, printed, state};
use crate::deadline;
use crate::probe::mpi::{self, Library, Ranks};
use crate::root::privilege::{USER, able};
use crate::root::workload::Guarded;
use crate::served::monitor;
use monitor_model::id::Pid;
use monitor_sys::ptrace;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

fn are(pids: &[Pid], letter: char) -> bool {
    pids.iter().all(|pid| state(*pid) == letter)
}

/// The job is stopped as a whole, and ends with its own status after that.
#[track_caller]
fn check_hold(test: &str, library: &Library) {
    let Some(mut ranks) = Ranks::start_many(test, library, 4) else { return };
    let job = ranks.starter_pid().0.to_string();
    for _ in 0..3 {
        let text = printed(&["job", "hold", &job]);
        let (first, rest) = text.split_once('\n').unwrap();
        assert!(
            first.contains(": held ranks 0-3 on ") && first.ends_with(" (4 processes)"),
            "{text}"
        );
        let release = format!("to continue: monitor job release {job}\n");
        assert!(rest.starts_with("all were stopped within ") && rest.ends_with(&release), "{text}");
        assert!(are(&ranks.pids, 'T'));
        assert_eq!(
            listed(|it| it["launcher_pid"] == ranks.starter_pid().0).unwrap()["state"],
            "stopped"
        );
        let text = printed(&["job", "release", &job]);
        assert!(
            text.contains(": released ranks 0-3 on ") && text.ends_with(" (4 processes)\n"),
            "{text}"
        );
        ranks.run("fill 3");
    }
    ranks.end();
}

#[test]
fn a_held_job_goes_on_when_it_is_released() {
    const TEST: &str = "a_held_job_goes_on_when_it_is_released";
    check_hold(TEST, &mpi::OPEN_MPI);
    check_hold(TEST, &mpi::MPICH);
}

#[test]
fn some_ranks_are_held_with_all_their_processes() {
    const TEST: &str = "some_ranks_are_held_with_all_their_processes";
    // A shell, and its child.
    let Some(job) = OPEN_MPI.start(TEST, 3, "sleep 1000; true") else { return };
    let ranks = job.ranks();
    let some = format!("{}:0,2", job.pid());
    let text = deadline::until(|| {
        let text = printed(&["job", "hold", &some]);
        let all = text.contains(": held ranks 0,2 on ") && text.contains(" (4 processes)\n");
        // The child of a rank may not be there yet.
        all.then_some(text)
    });
    assert_eq!(ranks.iter().map(|it| state(*it)).collect::<String>(), "TST");
    let text_again = printed(&["job", "hold", &some]);
    assert!(text_again.contains("4 of them were stopped before"), "{text}{text_again}");
    let text = printed(&["job", "release", &format!("{}:0", job.pid())]);
    assert!(text.contains(": released rank 0 on ") && text.contains(" (2 processes)\n"), "{text}");
    // A shell that continues runs for a moment.
    let states = || ranks.iter().map(|it| state(*it)).collect::<String>();
    deadline::until(|| (states() == "SST").then_some(()));
    let text = printed(&["job", "release", &job.pid()]);
    assert!(text.contains(": released rank 2 on "), "{text}");
    let text = printed(&["job", "release", &job.pid()]);
    assert!(text.ends_with(": no process of the ranks was stopped\n"), "{text}");
}

#[test]
fn a_rank_that_another_process_traces_is_left_alone_and_named() {
    const TEST: &str = "a_rank_that_another_process_traces_is_left_alone_and_named";
    let Some(job) = OPEN_MPI.start(TEST, 2, "exec sleep 1000") else { return };
    let ranks = job.ranks();
    // The kernel detaches it when this thread ends.
    ptrace::seize_alone(ranks[1].0.cast_signed()).unwrap();
    let got = monitor().args(["job", "hold", &job.pid()]).output().unwrap();
    let (own, traced) = (std::process::id(), ranks[1].0);
    let why = format!(
        "monitor: rank 1 (process {traced}): process {own} traces it already; detach that tracer \
         first\n"
    );
    assert_eq!((got.status.code(), String::from_utf8(got.stderr).unwrap()), (Some(4), why.clone()));
    assert_eq!((state(ranks[0]), state(ranks[1])), ('T', 'S'));
    let (code, message) = failed(monitor().args(["job", "hold", &format!("{}:1", job.pid())]));
    assert_eq!((code, message), (Some(1), why));
    let got = monitor().args(["job", "release", &job.pid()]).output().unwrap();
    assert_eq!((got.status.code(), state(ranks[0])), (Some(4), 'S'));
}

#[test]
fn a_signal_reaches_all_processes_of_the_ranks_or_the_first() {
    const TEST: &str = "a_signal_reaches_all_processes_of_the_ranks_or_the_first";
    // A shell, and its child: both are ready when the child is.
    let script = "trap 'echo outer' USR1; \
                  sh -c 'trap \"echo inner\" USR1; echo ready; while :; do :; done' & \
                  while :; do wait; done";
    let Some(mut job) = OPEN_MPI.start(TEST, 2, script) else { return };
    let pid = job.pid();
    let mut lines = |n: usize| {
        let mut lines: Vec<String> = (0..n).map(|_| job.launcher.line()).collect();
        lines.sort();
        lines.join(" ")
    };
    assert_eq!(lines(2), "ready ready");
    let text = printed(&["job", "signal", &pid, "USR1"]);
    assert!(
        text.contains(": sent SIGUSR1 to ranks 0-1 on ") && text.contains(" (4 processes)\n"),
        "{text}"
    );
    assert_eq!(lines(4), "inner inner outer outer");
    let text = printed(&["job", "signal", &format!("{pid}:1"), "SIGUSR1", "--first"]);
    assert!(
        text.contains(": sent SIGUSR1 to rank 1 on ") && text.contains(" (1 process)\n"),
        "{text}"
    );
    assert_eq!(lines(1), "outer");
    let (code, message) = failed(monitor().args(["job", "signal", &pid, "NONE"]));
    assert!(code == Some(2) && message.contains("unknown signal \"NONE\""), "{message}");
}

#[test]
fn root_a_job_of_another_user_is_not_touched() {
    const TEST: &str = "root_a_job_of_another_user_is_not_touched";
    if !able(TEST) {
        return;
    }
    let Some(job) = OPEN_MPI.start(TEST, 2, "exec sleep 1000") else { return };
    // The other user may not enter the folders of the build.
    let copy = std::env::temp_dir().join(format!("monitor-{}", std::process::id()));
    std::fs::copy(monitor().get_program(), &copy).unwrap();
    for words in [&["hold"][..], &["release"], &["signal"], &["end"]] {
        let mut command = Command::new(&copy);
        command.arg("job").args(words).arg(job.pid()).uid(USER).gid(USER);
        if words == ["signal"] {
            command.arg("TERM");
        }
        let (code, message) = failed(&mut command);
        assert_eq!(code, Some(5), "{message}");
        assert!(message.contains(" belongs to user root"), "{message}");
    }
    std::fs::remove_file(copy).unwrap();
    assert!(are(&job.ranks(), 'S'));
}

#[test]
fn a_command_that_is_a_process_of_the_job_is_refused() {
    let namespace = format!("inside-{}", std::process::id());
    let mut command = monitor();
    command.env("PMIX_NAMESPACE", &namespace).env("PMIX_RANK", "0");
    let (code, message) = failed(command.args(["job", "hold", &namespace]));
    let want = format!(
        "monitor: this command is itself a process of job {namespace}: run it outside of the job\n"
    );
    assert_eq!((code, message), (Some(2), want));
}

/// The launcher ends with its ranks.
#[track_caller]
fn check_end(test: &str, launcher: &Launcher, is_held: bool) {
    let Some(mut job) = launcher.start(test, 3, "exec sleep 1000") else { return };
    let ranks = job.ranks();
    if is_held {
        let _text = printed(&["job", "hold", &job.pid()]);
    }
    let text = printed(&["job", "end", &job.pid()]);
    assert!(text.contains(" has ended, after "), "{text}");
    // The status differs: Hydra reports success.
    let _status = job.launcher.0.wait().unwrap();
    deadline::until(|| ranks.iter().all(|it| has_ended(*it)).then_some(()));
}

fn has_ended(pid: Pid) -> bool {
    let process = procfs::process::Process::new(pid.0.cast_signed());
    process.and_then(|it| it.stat()).map_or(true, |it| it.state == 'Z')
}

#[test]
fn a_job_ends_also_if_it_is_held() {
    const TEST: &str = "a_job_ends_also_if_it_is_held";
    for is_held in [false, true] {
        check_end(TEST, &OPEN_MPI, is_held);
        check_end(TEST, &HYDRA, is_held);
    }
}

/// Ranks without a launcher, which ignore SIGTERM.
fn stubborn(namespace: &str) -> Guarded {
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' TERM; echo ready; while :; do sleep 1; done"]);
    command.env("PMIX_NAMESPACE", namespace).env("PMIX_RANK", "0");
    let mut rank = Guarded::run(&mut command);
    assert_eq!(rank.line(), "ready");
    rank
}

#[test]
fn ranks_that_ignore_sigterm_are_named_and_killed_on_demand() {
    let namespace = format!("stubborn-{}", std::process::id());
    let mut rank = stubborn(&namespace);
    deadline::until(|| listed(|it| it["id"] == *namespace));
    let (code, message) = failed(monitor().args(["job", "end", &namespace, "--for", "50ms"]));
    assert_eq!(code, Some(124));
    let want = format!(
        "monitor: job {namespace}: rank 0 did not end within 50ms after SIGTERM: --kill ends them\n"
    );
    assert_eq!(message, want);
    let text = printed(&["job", "end", &namespace, "--for", "50ms", "--kill"]);
    assert!(text.contains(" has ended, after "), "{text}");
    assert!(!rank.0.wait().unwrap().success());
}
