//! `job launch --background` of a launcher: what is kept of it, and that it runs on whichever
//! process is killed.

use super::launch::launch;
use super::native_host::MANY;
use super::{HYDRA, Launcher, OPEN_MPI, has_ended, kill, listed};
use crate::control::target::signal;
use crate::deadline;
use crate::root::privilege::skip;
use crate::served::{Folder, monitor};
use monitor_model::id::Pid;
use procfs::process::{FDTarget, Process};
use serde_json::Value;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// A launch in the background, which is ended with the test.
struct Launched {
    id: String,
    folder: Folder,
    host: Pid,
    launcher: Pid,
}

impl Launched {
    #[track_caller]
    fn start(options: &[&str], words: &[&str]) -> Self {
        let folder = Folder::new();
        let options = [&["--background", "--format", "json"], options].concat();
        let mut command = launch(&options, words);
        let got = command.env("TMPDIR", folder.join("")).output().unwrap();
        let answer: Value = serde_json::from_slice(&got.stdout)
            .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&got.stderr)));
        let pid = |name: &str| Pid(u32::try_from(answer[name].as_u64().unwrap()).unwrap());
        let (host, launcher) = (pid("host_pid"), pid("launcher_pid"));
        Self { id: answer["job"].as_str().unwrap().to_owned(), folder, host, launcher }
    }

    /// Starts ranks of a script.
    fn ranks(test: &str, launcher: &Launcher, options: &[&str], script: &str) -> Option<Self> {
        if !Path::new(launcher.starter).exists() {
            skip(test, &format!("needs {}", launcher.packages));
            return None;
        }
        let script = script.replace("$RANK", &format!("${}", launcher.rank));
        let words = ["-n", "2", "sh", "-c", &script];
        Some(Self::start(options, &[&[launcher.starter], launcher.words, &words].concat()))
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = monitor();
        command.env("TMPDIR", self.folder.join("")).arg("job").args(words);
        command
    }

    /// What a command prints on standard output, on standard error, and its exit code.
    fn got(&self, words: &[&str]) -> (String, String, Option<i32>) {
        let got = self.command(words).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (text(got.stdout), text(got.stderr), got.status.code())
    }

    /// The process that reads what the launcher writes.
    fn keeper(&self) -> Pid {
        let host = Process::new(self.host.0.cast_signed()).unwrap();
        let children = || host.tasks().unwrap().flatten().flat_map(|it| it.children().unwrap());
        // One that was killed may not have its successor yet.
        Pid(deadline::until(|| children().find(|it| *it != self.launcher.0)))
    }

    /// How many processes the keeper holds by a pidfd: the launcher, and ranks that it has found.
    fn watched(&self) -> usize {
        let keeper = Process::new(self.keeper().0.cast_signed()).unwrap();
        let is_pidfd = |of: &FDTarget| matches!(of, FDTarget::AnonInode(it) if it == "[pidfd]");
        keeper.fd().unwrap().flatten().filter(|it| is_pidfd(&it.target)).count()
    }

    /// The gate of a script is opened.
    fn open_gate(&self) {
        std::fs::write(self.folder.join("gate"), "").unwrap();
    }
}

impl Drop for Launched {
    fn drop(&mut self) {
        // The host ends with what it keeps; the launcher may be stopped.
        kill(self.launcher);
        let keeper = (!has_ended(self.host)).then(|| self.keeper());
        kill(self.host);
        keeper.into_iter().for_each(kill);
        let all = [self.launcher, self.host].into_iter().chain(keeper);
        all.for_each(|it| deadline::until(|| has_ended(it).then_some(())));
    }
}

/// What a script does until its gate is open.
const GATE: &str = "until [ -e $TMPDIR/gate ]; do sleep 0.01; done";

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn the_output_of_a_launcher_is_kept_with_its_status_and_those_of_its_ranks() {
    const TEST: &str = "the_output_of_a_launcher_is_kept_with_its_status_and_those_of_its_ranks";
    let script = format!("echo out; {GATE}; exit $((4 * $RANK))");
    let Some(it) = Launched::ranks(TEST, &OPEN_MPI, &[], &script) else { return };
    let pid = it.launcher.0.to_string();
    let job = deadline::until(|| listed(|job| job["launcher_pid"] == it.launcher.0));
    let job = job["id"].as_str().unwrap().to_owned();
    let names = it.folder.join(&format!("monitor-pmix.{}", it.id)).join("names");
    deadline::until(|| std::fs::read_to_string(&names).ok().filter(|it| it.contains(&job)));
    // The ends of ranks that the keeper has found are known: it may find one before the other.
    deadline::until(|| (it.watched() == 3).then_some(()));
    let (out, ..) = deadline::until(|| {
        Some(it.got(&["output", &job, "--no-follow", "--tag"]))
            .filter(|it| it.0.lines().count() == 2)
    });
    assert_eq!(out, "[launcher] out\n[launcher] out\n");
    let (_, why, code) = it.got(&["output", &format!("{job}:0")]);
    assert!(code == Some(1) && why.contains("start it with `launch --tag`"), "{why}");
    it.open_gate();
    // By the id of the launch; also by the pid of the launcher and the id of the job.
    for name in [it.id.as_str(), &pid, &job] {
        let (out, errors, code) = it.got(&["output", name]);
        assert_eq!((out.as_str(), code), ("out\nout\n", Some(0)), "{errors}");
        let ends: Vec<&str> = errors.lines().rev().take(3).collect();
        let want = [
            "monitor: rank 1 ended with exit code 4",
            "monitor: rank 0 ended with exit code 0",
            "monitor: the launcher ended with exit code 4",
        ];
        assert_eq!(ends, want, "{errors}");
    }
    signal(it.host.0, "TERM");
    deadline::until(|| has_ended(it.host).then_some(()));
    assert_eq!(it.got(&["output", &it.id]).2, Some(6));
    let left = std::fs::read_dir(it.folder.join("")).unwrap().flatten();
    let left: Vec<_> = left.map(|it| it.file_name().into_string().unwrap()).collect();
    assert!(left.iter().all(|it| !it.contains("monitor-pmix")), "{left:?}");
}

#[track_caller]
fn check_labels(test: &str, launcher: &Launcher) {
    let script = "echo out $RANK; echo error $RANK >&2";
    let Some(it) = Launched::ranks(test, launcher, &["--tag"], script) else { return };
    let (out, errors, _) = it.got(&["output", &it.id, "--tag"]);
    assert_eq!(sorted(&out), ["[0] out 0", "[1] out 1"]);
    for line in ["[0] error 0", "[1] error 1", "monitor: the launcher ended with exit code 0"] {
        assert!(errors.contains(line), "{line}: {errors}");
    }
    assert_eq!(it.got(&["output", &format!("{}:1", it.id)]).0, "out 1\n");
}

#[test]
fn labels_of_a_launcher_name_the_rank_of_a_line() {
    const TEST: &str = "labels_of_a_launcher_name_the_rank_of_a_line";
    check_labels(TEST, &OPEN_MPI);
    check_labels(TEST, &HYDRA);
    // Without an option for labels, what looks like one is none.
    let it = Launched::start(&[], &["sh", "-c", "echo '[0] a'"]);
    assert_eq!(it.got(&["output", &it.id, "--tag"]).0, "[launcher] [0] a\n");
    let mut none = launch(&["--background", "--tag"], &["sh", "-c", "true"]);
    let why = String::from_utf8(none.output().unwrap().stderr).unwrap();
    assert!(why.contains("write its own option in its command line"), "{why}");
}

#[test]
fn a_launcher_runs_on_when_the_process_that_reads_its_output_is_killed() {
    const TEST: &str = "a_launcher_runs_on_when_the_process_that_reads_its_output_is_killed";
    let script = format!("echo before; {GATE}; echo after; exit 3");
    let Some(it) = Launched::ranks(TEST, &OPEN_MPI, &["--tag"], &script) else { return };
    let before = || it.got(&["output", &it.id, "--no-follow"]).0.matches("before").count();
    deadline::until(|| (before() == 2).then_some(()));
    let keeper = it.keeper();
    kill(keeper);
    deadline::until(|| (it.keeper() != keeper).then_some(()));
    it.open_gate();
    let ended = || Some(it.got(&["output", &it.id])).filter(|it| it.2 != Some(6));
    let (out, errors, code) = deadline::until(ended);
    // What the first one kept is lost, and counted. Open MPI ends a rank when another one fails.
    assert!(out.starts_with("after\n") && code == Some(4), "{out}{errors}");
    assert!(errors.starts_with("monitor: 14 bytes of older output are not kept\n"), "{errors}");
    assert!(errors.contains("monitor: the launcher ended with exit code 3"), "{errors}");
}

#[test]
fn a_launcher_runs_on_when_the_process_that_has_started_it_is_killed() {
    const TEST: &str = "a_launcher_runs_on_when_the_process_that_has_started_it_is_killed";
    let script = format!("echo before; {GATE}; echo after; echo end > $TMPDIR/end.$RANK; exit 3");
    let Some(it) = Launched::ranks(TEST, &OPEN_MPI, &[], &script) else { return };
    let keeper = it.keeper();
    kill(it.host);
    deadline::until(|| has_ended(it.host).then_some(()));
    it.open_gate();
    let (out, errors, code) = it.got(&["output", &it.id]);
    assert!(out.contains("before\n") && out.contains("after\n"), "{out}");
    assert_eq!(code, Some(0), "{errors}");
    // Since Linux 6.15 the kernel knows it.
    let known = ["ended with exit code 3", "ended with an unknown status"];
    assert!(known.iter().any(|it| errors.contains(&format!("the launcher {it}"))), "{errors}");
    let ends = (0..2).filter(|rank| it.folder.join(&format!("end.{rank}")).exists());
    assert!(ends.count() > 0);
    kill(keeper);
    deadline::until(|| has_ended(keeper).then_some(()));
}

#[test]
fn a_launcher_waits_for_a_slow_reader_and_drops_the_oldest_output_without_one() {
    let script = format!("{GATE}; {MANY}");
    let it = Launched::start(&[], &["sh", "-c", &script]);
    let mut command = it.command(&["output", &it.id]);
    let mut reader = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut text = String::new();
    it.open_gate();
    // What is not read fills the pipes and the log; then the program waits.
    let launcher = Process::new(it.launcher.0.cast_signed()).unwrap();
    let blocks = || {
        let mut tasks = launcher.tasks().unwrap().flatten();
        let child = tasks.find_map(|it| it.children().ok()?.first().copied())?;
        let wchan = std::fs::read_to_string(format!("/proc/{child}/wchan")).ok()?;
        wchan.contains("pipe_write").then_some(())
    };
    deadline::until(blocks);
    reader.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(reader.wait().unwrap().success());
    assert!(text.lines().zip(1..).all(|(line, number)| line.parse() == Ok(number)));
    assert_eq!(text.lines().count(), 8_888_888);
    let (rest, errors, code) = it.got(&["output", &it.id]);
    assert_eq!(code, Some(4), "{errors}");
    let lost = errors.lines().next().unwrap().split(' ').nth(1).unwrap();
    assert_eq!(lost.parse::<usize>().unwrap() + rest.len(), text.len());
}

#[test]
fn ranks_of_a_launcher_in_the_background_are_held() {
    const TEST: &str = "ranks_of_a_launcher_in_the_background_are_held";
    let Some(it) = Launched::ranks(TEST, &OPEN_MPI, &["--stop", "exec"], "echo ran") else {
        return;
    };
    let held = || Some(it.got(&["output", &it.id, "--no-follow"]).1).filter(|it| !it.is_empty());
    let notice = deadline::until(held);
    let release = notice.trim_end().rsplit(' ').next().unwrap();
    assert!(notice.contains("held ranks 0-1"), "{notice}");
    let (_, errors, code) = it.got(&["release", release]);
    assert_eq!(code, Some(0), "{errors}");
    let (out, errors, _) = it.got(&["output", &it.id]);
    assert_eq!(out, "ran\nran\n");
    assert!(errors.contains("monitor: the launcher ended with exit code 0"), "{errors}");
}

#[test]
fn a_launcher_that_does_not_start_is_reported_at_once() {
    let folder = Folder::new();
    let mut command = launch(&["--background"], &["./none"]);
    let got = command.env("TMPDIR", folder.join("")).output().unwrap();
    assert_eq!(got.status.code(), Some(127));
    assert_eq!(std::fs::read_dir(folder.join("")).unwrap().count(), 0);
}
