//! What the host of `job launch -n` answers: the output of its ranks, queries, events; and which
//! processes it lets connect.

use super::launch_native::{able, client, native};
use super::{HYDRA, Launcher, Noticed, OPEN_MPI, has_ended, listed, printed, ranks_of};
use crate::deadline;
use crate::root::privilege::{self, USER};
use crate::root::workload::Guarded;
use crate::served::{Folder, monitor};
use monitor_model::id::Pid;
use rustix::process::{Signal, kill_process};
use serde_json::Value;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Output, Stdio};

/// A job in the background, which is ended with the test.
struct Background {
    id: String,
    folder: Folder,
    host: Pid,
}

impl Background {
    /// Starts it, and waits until its ranks are listed.
    #[track_caller]
    fn start(n: usize, options: &[&str], program: &[&str]) -> Self {
        let ranks = n.to_string();
        let options = [&["-n", ranks.as_str(), "--background"], options].concat();
        let (mut command, folder) = native(&options, program);
        let got = command.output().unwrap();
        let text = String::from_utf8(got.stdout).unwrap();
        assert!(got.status.success(), "{}", String::from_utf8_lossy(&got.stderr));
        let id = text.split(' ').nth(1).unwrap().to_owned();
        let want = format!("job {id} runs; its output: monitor job output {id}\n");
        assert_eq!(text, want);
        let lock = folder.join(&format!("monitor-pmix.{id}")).join("lock");
        let holder = deadline::until(|| lock_holder(&lock));
        Self { id, folder, host: holder }
    }

    fn run(&self, words: &[&str]) -> Output {
        let mut command = monitor();
        command.env("TMPDIR", self.folder.join(""));
        command.arg("job").args(words).output().unwrap()
    }

    /// What a command prints on standard output, on standard error, and its exit code.
    fn got(&self, words: &[&str]) -> (String, String, Option<i32>) {
        let got = self.run(words);
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (text(got.stdout), text(got.stderr), got.status.code())
    }

    fn listed(&self) -> Option<Value> {
        listed(|it| it["id"] == *self.id)
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        super::kill(self.host);
    }
}

/// The process that has a lock of flock(2) on a file.
fn lock_holder(path: &std::path::Path) -> Option<Pid> {
    use std::os::unix::fs::MetadataExt as _;
    let inode = std::fs::metadata(path).ok()?.ino();
    let locks = procfs::locks().ok()?;
    let pid = locks.iter().find(|it| it.inode == inode)?.pid?;
    Some(Pid(pid.cast_unsigned()))
}

#[test]
fn the_output_of_a_job_is_kept_for_each_reader_also_after_its_end() {
    if !able("the_output_of_a_job_is_kept_for_each_reader_also_after_its_end") {
        return;
    }
    let script = "echo out $PMIX_RANK; echo error $PMIX_RANK >&2; printf half; exit $PMIX_RANK";
    let job = Background::start(2, &[], &["sh", "-c", script]);
    let id = job.id.as_str();
    let sorted = |text: &str| {
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        lines.join("\n")
    };
    for _ in 0..2 {
        let (out, errors, code) = job.got(&["output", id, "--tag"]);
        assert_eq!(sorted(&out), "[0] half\n[0] out 0\n[1] half\n[1] out 1");
        for line in [
            "[0] error 0",
            "[1] error 1",
            "monitor: rank 0 ended with exit code 0",
            "monitor: rank 1 ended with exit code 1",
        ] {
            assert!(errors.lines().any(|it| it == line), "{line}: {errors}");
        }
        assert_eq!(code, Some(0));
    }
    let (out, errors, _) = job.got(&["output", &format!("{id}:1")]);
    assert_eq!(out, "out 1\nhalf");
    assert_eq!(errors, "error 1\nmonitor: rank 1 ended with exit code 1\n");
    let (out, _, _) = job.got(&["output", id, "--format", "json"]);
    let last: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    assert_eq!(last["ended"][1]["code"], 1);
    // The host ends with a signal, and leaves nothing.
    super::kill(job.host);
    deadline::until(|| has_ended(job.host).then_some(()));
    let (_, errors, code) = job.got(&["output", id]);
    assert_eq!(code, Some(6), "{errors}");
}

/// More than the host keeps, from one rank: `seq` prints 68,888,896 bytes.
pub const MANY: &str = "seq 8888888";

#[test]
fn what_a_library_of_the_ranks_removes_at_its_end_is_not_the_folder_of_their_output() {
    let test = "what_a_library_of_the_ranks_removes_at_its_end_is_not_the_folder_of_their_output";
    let built = able(test).then(|| crate::probe::mpi::OPEN_MPI.build(test, "hosted.c"));
    let Some(program) = built.flatten() else { return };
    let job = Background::start(2, &[], &[program.to_str().unwrap(), "sum"]);
    let folder = job.folder.join(&format!("monitor-pmix.{}", job.id));
    let mode = std::fs::metadata(&folder).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700, "{mode:o}");
    deadline::until(|| job.listed().is_none().then_some(()));
    let (text, _, code) = job.got(&["output", &job.id]);
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    let want = ["rank 0 of 2 has the sum 1", "rank 1 of 2 has the sum 1"];
    assert_eq!((lines, code), (want.to_vec(), Some(0)));
}

#[test]
fn a_slow_reader_loses_nothing_and_without_one_the_oldest_output_goes() {
    if !able("a_slow_reader_loses_nothing_and_without_one_the_oldest_output_goes") {
        return;
    }
    let script = format!("until [ -e $TMPDIR/gate ]; do sleep 0.01; done; {MANY}");
    let job = Background::start(1, &[], &["sh", "-c", &script]);
    let mut command = monitor();
    command.env("TMPDIR", job.folder.join("")).args(["job", "output", &job.id]);
    let mut reader = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let rank = ranks_of(&job.id)[0];
    std::fs::write(job.folder.join("gate"), "").unwrap();
    // What is not read fills the pipe and the log; then the rank waits.
    let blocks = || {
        let it = procfs::process::Process::new(rank.0.cast_signed()).unwrap();
        let child = it.tasks().unwrap().flatten().flat_map(|it| it.children().unwrap()).next();
        let wchan = std::fs::read_to_string(format!("/proc/{}/wchan", child?)).ok()?;
        wchan.contains("pipe_write").then_some(())
    };
    deadline::until(blocks);
    let mut text = String::new();
    reader.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(reader.wait().unwrap().success());
    assert_eq!(text.lines().count(), 8_888_888);
    assert!(text.lines().zip(1..).all(|(line, number)| line.parse() == Ok(number)));

    let (rest, errors, code) = job.got(&["output", &job.id]);
    assert_eq!(code, Some(4), "{errors}");
    let lost = errors.lines().next().unwrap().split(' ').nth(1).unwrap();
    assert_eq!(lost.parse::<usize>().unwrap() + rest.len(), text.len());
    assert!(text.ends_with(&rest) && rest.len() > 8 << 20);
}

#[test]
fn a_reader_that_is_killed_holds_nothing_up() {
    if !able("a_reader_that_is_killed_holds_nothing_up") {
        return;
    }
    let script = format!("until [ -e $TMPDIR/gate ]; do sleep 0.01; done; {MANY}; echo end");
    let job = Background::start(1, &[], &["sh", "-c", &script]);
    let mut command = monitor();
    command.env("TMPDIR", job.folder.join("")).args(["job", "output", &job.id]);
    let mut reader = command.stdout(Stdio::piped()).spawn().unwrap();
    std::fs::write(job.folder.join("gate"), "").unwrap();
    let mut first = [0; 4];
    reader.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    reader.kill().unwrap();
    reader.wait().unwrap();
    let (text, _, _) = job.got(&["output", &job.id]);
    assert!(text.ends_with("8888888\nend\n"));
}

#[test]
fn ranks_wait_where_their_program_says_until_an_event_releases_them() {
    let test = "ranks_wait_where_their_program_says_until_an_event_releases_them";
    let Some(program) = client(test, "pmix_waits.c") else { return };
    let program = program.to_str().unwrap();
    let (mut command, _folder) = native(&["-n", "1"], &[program]);
    assert_eq!(command.output().unwrap().stdout, b"rank 0 does not wait\n");
    let job = Background::start(2, &["--stop", "app"], &[program]);
    let id = job.id.as_str();
    let output = || job.got(&["output", id, "--no-follow"]);
    let held = deadline::until(|| Some(output()).filter(|it| it.1.contains("2 ranks wait where")));
    assert_eq!(held.0.matches("waits").count(), 2);
    let release = ["notify", &format!("{id}:1"), "debugger-release", "--text", "a reason"];
    let (line, _, code) = job.got(&release);
    assert_eq!((line, code), (format!("job {id}: event -3 was raised\n"), Some(0)));
    let second = format!("{id}:1");
    let released = || job.got(&["output", &second, "--no-follow"]).0;
    deadline::until(|| (released() == "rank 1 waits\nevent -3 a reason\n").then_some(()));
    deadline::until(|| (job.listed()?["local_ranks"] == 1).then_some(()));
    assert_eq!(job.got(&["notify", id, "-3"]).2, Some(0));
    let (text, ..) = job.got(&["output", &format!("{id}:0")]);
    assert_eq!(text, "rank 0 waits\nevent -3\n");
}

#[test]
fn a_job_answers_queries_and_takes_lines_for_its_log() {
    if !able("a_job_answers_queries_and_takes_lines_for_its_log") {
        return;
    }
    let job = Background::start(2, &[], &["sleep", "1000"]);
    let id = job.id.as_str();
    let ranks = ranks_of(id);
    let (text, errors, code) = job.got(&["query", id, "namespaces", "proc-table", "nosuch"]);
    let node = rustix::system::uname().nodename().to_str().unwrap().to_owned();
    let row = |rank: usize| format!("proc-table\t{rank}\t{node}\tsleep\t{}\n", ranks[rank].0);
    assert_eq!(text, format!("namespaces\t{id}\n{}{}", row(0), row(1)));
    assert_eq!(errors, "monitor: nosuch: the server has no value\n");
    assert_eq!(code, Some(4));
    let (json, ..) = job.got(&["query", id, "job-size", "--format", "json"]);
    assert_eq!(serde_json::from_str::<Value>(&json).unwrap()["values"]["job-size"], 2);
    assert_eq!(job.got(&["log", id, "a note", "--to", "stdout"]).2, Some(0));
    assert_eq!(job.got(&["output", id, "--no-follow"]).0, "a note\n");
    assert!(printed(&["job", "end", id]).contains("has ended"));
}

#[test]
fn what_ranks_have_started_ends_when_a_host_in_the_background_is_killed() {
    if !able("what_ranks_have_started_ends_when_a_host_in_the_background_is_killed") {
        return;
    }
    // Neither the session nor the environment of the second process is that of its rank.
    let left = "echo $$ > $0/pid; exec sleep 1000";
    let script = format!("env -i setsid sh -c '{left}' $TMPDIR & sleep 1000 & exec sleep 1000");
    let job = Background::start(1, &[], &["sh", "-c", &script]);
    let path = job.folder.join("pid");
    let read = || std::fs::read_to_string(&path).ok()?.trim().parse().ok().map(Pid);
    let left: Pid = deadline::until(read);
    let all = [ranks_of(&job.id)[0], left];
    let killed = std::time::Instant::now();
    super::kill(job.host);
    all.into_iter().for_each(|it| deadline::until(|| has_ended(it).then_some(())));
    assert!(killed.elapsed() < std::time::Duration::from_secs(1), "{:?}", killed.elapsed());
    let folder = job.folder.join(&format!("monitor-pmix.{}", job.id));
    deadline::until(|| (!folder.exists()).then_some(()));
}

#[track_caller]
fn check_no_connection(test: &str, launcher: &Launcher, want: &str) {
    let Some(job) = launcher.start(test, 2, "exec sleep 1000") else { return };
    for words in [&["query", "namespaces"][..], &["notify", "debugger-release"]] {
        let mut command = monitor();
        command.args(["job", words[0], &job.pid(), words[1]]);
        let got = command.output().unwrap();
        let why = String::from_utf8(got.stderr).unwrap();
        assert!(got.status.code() == Some(2) && why.contains(want), "{why}");
    }
    assert_eq!(job.listed().unwrap()["state"], "running");
}

#[test]
fn no_tool_connects_to_a_runtime_that_does_not_survive_it() {
    let test = "no_tool_connects_to_a_runtime_that_does_not_survive_it";
    check_no_connection(test, &OPEN_MPI, "mpirun of Open MPI 4 crashes when a PMIx tool connects");
    check_no_connection(test, &HYDRA, "(MPICH Hydra) has no PMIx server for tools");
}

#[test]
fn root_a_process_of_another_user_cannot_connect_whatever_it_says_it_is() {
    let test = "root_a_process_of_another_user_cannot_connect_whatever_it_says_it_is";
    if !privilege::able(test) {
        return;
    }
    let Some(program) = client(test, "pmix_forged.c") else { return };
    let (mut command, _folder) = native(&["-n", "2"], &["sh", "-c", "env; exec sleep 1000"]);
    let mut job = Noticed::run(&mut command);
    let id = format!("monitor-{}", job.command.pid().0);
    let _listed = deadline::until(|| listed(|it| it["id"] == *id && it["local_ranks"] == 2));
    let rank = procfs::process::Process::new(ranks_of(&id)[1].0.cast_signed()).unwrap();
    let environment = rank.environ().unwrap();
    let uri = environment[std::ffi::OsStr::new("PMIX_SERVER_URI41")].to_str().unwrap();
    let run = |words: &[&str], user: u32| {
        let mut forged = Command::new(&program);
        // What the library keeps in shared memory is not readable for others.
        forged.env_clear().envs(&environment).env("PMIX_GDS_MODULE", "hash");
        forged.env("TMPDIR", "/tmp").args(words).uid(user).gid(user).current_dir("/");
        String::from_utf8(forged.stderr(Stdio::null()).output().unwrap().stdout).unwrap()
    };
    assert_eq!(run(&["tool", uri], USER), "refused\n");
    let want = format!("its socket belongs to user {USER}\n");
    let notice = job.notice();
    assert!(notice.ends_with(&want), "{notice}");
    assert_eq!(run(&["rank"], USER), "refused\n");
    // The same program is what it says, if it is.
    assert_eq!(run(&["tool", uri], 0), format!("{id}\n"));
    assert_eq!(listed(|it| it["id"] == *id).unwrap()["local_ranks"], 2);
    assert_eq!(run(&["rank"], 0), "rank 1\n");
    let notice = job.notice();
    assert_eq!(notice, "monitor: rank 1 ended the job with status 5: forged\n");
    assert_eq!(job.command.0.wait().unwrap().code(), Some(5));
}

#[test]
fn a_folder_for_temporary_files_may_have_a_long_name() {
    if !able("a_folder_for_temporary_files_may_have_a_long_name") {
        return;
    }
    let (mut command, folder) = native(&["-n", "1"], &["echo", "text"]);
    let long = folder.join(&"a".repeat(200));
    std::fs::create_dir(&long).unwrap();
    assert_eq!(command.env("TMPDIR", &long).output().unwrap().stdout, b"text\n");
    assert_eq!(std::fs::read_dir(&long).unwrap().count(), 0);
}

#[test]
fn root_a_folder_of_another_user_is_no_host() {
    let test = "root_a_folder_of_another_user_is_no_host";
    if !privilege::able(test) {
        return;
    }
    let folder = Folder::new();
    let planted = folder.join("monitor-pmix.monitor-7");
    std::fs::create_dir(&planted).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(planted.join("host")).unwrap();
    std::os::unix::fs::chown(&planted, Some(USER), Some(USER)).unwrap();
    let mut command = monitor();
    command.env("TMPDIR", folder.join("")).args(["job", "output", "monitor-7"]);
    let got = command.output().unwrap();
    let why = String::from_utf8(got.stderr).unwrap();
    assert!(got.status.code() == Some(6) && why.contains("no job \"monitor-7\""), "{why}");
}

#[test]
fn a_job_in_the_background_runs_on_without_its_terminal() {
    if !able("a_job_in_the_background_runs_on_without_its_terminal") {
        return;
    }
    let job = Background::start(1, &["--keep", "1ms"], &["sh", "-c", "cat; exec sleep 1000"]);
    let host = rustix::process::Pid::from_raw(job.host.0.cast_signed()).unwrap();
    kill_process(host, Signal::HUP).unwrap();
    // Its job ends as at a signal of a terminal, and nothing is left.
    deadline::until(|| has_ended(job.host).then_some(()));
    assert_eq!(std::fs::read_dir(job.folder.join("")).unwrap().count(), 0);
    let (mut command, _folder) = native(&["-n", "1", "--background"], &["./none"]);
    let mut none = Guarded::run(&mut command);
    assert_eq!(none.0.wait().unwrap().code(), Some(127));
}
