//! `monitor run --nodes`: a command on several services, each as a node.

use super::files::{own, path};
use super::files_session::served;
use crate::deadline::until;
use crate::probe::fixture::{Build, folder};
use crate::served::{Folder, Served, monitor};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

/// A run that ends with the test.
struct Run(Child);

impl Drop for Run {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Run {
    /// Starts it with pipes for its streams.
    fn start(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(command.spawn().unwrap())
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    /// The next lines of its standard output, sorted: nodes write in any order.
    fn lines(&mut self, count: usize) -> Vec<String> {
        let mut lines = Vec::new();
        let stdout = BufReader::with_capacity(1, self.0.stdout.as_mut().unwrap());
        lines.extend(stdout.lines().take(count).map(Result::unwrap));
        lines.sort();
        lines
    }

    fn code(&mut self) -> Option<i32> {
        self.0.wait().unwrap().code()
    }
}

/// `monitor run` on these nodes, with the address of each service.
fn run(nodes: &str, services: &[(&str, &Served)], command: &[&str]) -> Command {
    let address = |(name, served): &(&str, &Served)| format!("{name}={}", path(served).display());
    let addresses: Vec<String> = services.iter().map(address).collect();
    let mut it = monitor();
    it.args(["run", "--nodes", nodes]).env("MONITOR_NODES", addresses.join(" "));
    it.args(command);
    it
}

fn shell(script: &str) -> [&str; 4] {
    ["--", "sh", "-c", script]
}

/// Runs it with this standard input.
fn with_input(command: Command, input: &str) -> Output {
    let mut run = Run::start(command);
    run.0.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let stdout = run.0.stdout.take().unwrap();
    let stderr = run.0.stderr.take().unwrap();
    let read = |mut it: Box<dyn std::io::Read + Send>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            it.read_to_end(&mut bytes).unwrap();
            bytes
        })
    };
    let (stdout, stderr) = (read(Box::new(stdout)), read(Box::new(stderr)));
    let status = run.0.wait().unwrap();
    Output { status, stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap() }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn sorted(bytes: &[u8]) -> Vec<String> {
    let mut lines: Vec<String> = text(bytes).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// Waits until a service has no session, and no process of one.
#[track_caller]
fn has_no_session(served: &Served) {
    let mut client = own(served);
    until(|| {
        let names = client.list("/").unwrap().into_iter().map(|it| it.name);
        { names }.all(|it| it.parse::<u32>().is_err()).then_some(())
    });
    // The launcher of a session ends when all its processes have.
    let service = served.pid().to_string();
    until(|| {
        let found = Command::new("pgrep").args(["-P", &service, "monitor-session"]).output();
        found.unwrap().stdout.is_empty().then_some(())
    });
}

#[test]
fn a_program_with_its_own_library_runs_on_all_nodes() {
    const TEST: &str = "run_nodes_library";
    std::fs::create_dir_all(folder(TEST).join("own")).unwrap();
    let words = ["-shared", "-fPIC", "-DLIBRARY"];
    let product = "own/libgreets.so";
    let library = Build { test: TEST, source: "greets.c", product, words: &words }.done();
    let Some(library) = library else { return };
    // Where it is here, and not on the node.
    let at = format!("-L{}", library.parent().unwrap().display());
    let words = [at.as_str(), "-Wl,--no-as-needed,-rpath,$ORIGIN/own", "-lgreets"];
    let program = Build { test: TEST, source: "greets.c", product: "greets", words: &words }.done();
    let program = program.unwrap();
    let (one, two) = (served(), served());
    let services = [("n1", &one), ("n2", &two)];
    let command = ["--", program.to_str().unwrap(), "3"];
    let done = with_input(run("n[1-2]", &services, &command), "hello\nthere\n");
    assert_eq!(
        sorted(&done.stdout),
        [
            "n1: the library says hello",
            "n1: the library says there",
            "n2: the library says hello",
            "n2: the library says there",
        ],
        "{}",
        text(&done.stderr)
    );
    assert_eq!(done.status.code(), Some(3));
    assert_eq!(text(&done.stderr), "monitor: n[1-2]: exit code 3\n");
    has_no_session(&one);
    has_no_session(&two);
}

#[test]
fn equal_output_is_folded_and_the_worst_code_counts() {
    let (one, two) = (served(), served());
    let services = [("n1", &one), ("n2", &two), ("m", &two)];
    let script = "at=${XCPUID#*/}; echo same \"$A\"; echo \"err $at\" >&2; exit $((at * 2))";
    let words = [&["--fold", "--env", "A=it's\na"][..], &shell(script)].concat();
    let done = run("n[1-2],m", &services, &words).output().unwrap();
    let rule = "---------------";
    assert_eq!(text(&done.stdout), format!("{rule}\nm,n[1-2] (3)\n{rule}\nsame it's\na\n"));
    let errors = sorted(&done.stderr);
    // Numbers are in the order of names.
    let want = ["m: err 0", "monitor: n1: exit code 2", "monitor: n2: exit code 4", "n1: err 1"];
    assert_eq!(errors, [&want[..], &["n2: err 2"]].concat());
    assert_eq!(done.status.code(), Some(4));
    // A process that the program leaves with its output open ends with the session.
    let left = "sleep 98761 & echo over; kill -KILL $$";
    let done = run("n1", &services, &shell(left)).output().unwrap();
    assert_eq!(text(&done.stdout), "n1: over\n");
    assert_eq!(done.status.code(), Some(137), "{}", text(&done.stderr));
    has_no_session(&one);
    has_no_session(&two);
}

#[test]
fn a_node_that_is_unknown_dead_or_refuses_is_named_and_the_rest_runs() {
    let (one, other) = (served(), Served::with(""));
    let folder = Folder::new();
    let dead = format!("dead={}", folder.join("none.9p").display());
    let options = ["--at", &dead, "--at", &format!("one={}", path(&one).display())];
    let refusing = format!("other={}", path(&other).display());
    let options = [&options[..], &["--at", &refusing]].concat();
    let words = [&options[..], &shell("echo runs")].concat();
    let done = run("one,unknown,dead,other", &[], &words).output().unwrap();
    assert_eq!(text(&done.stdout), "one: runs\n");
    let errors = text(&done.stderr);
    assert!(errors.contains("monitor: unknown: no address is known"), "{errors}");
    assert!(errors.contains("monitor: dead: cannot connect to"), "{errors}");
    assert!(errors.contains("monitor: other: not run: it executes no programs"), "{errors}");
    assert_eq!(done.status.code(), Some(255));
    let code = |words: &[&str]| {
        let done = run("one", &[("one", &one)], words).output().unwrap();
        (done.status.code(), text(&done.stderr))
    };
    assert_eq!(code(&["--", "monitor-none"]).0, Some(127));
    let (absent, errors) = code(&["--in-place", "--", "/none/monitor-none"]);
    assert_eq!(absent, Some(127), "{errors}");
    assert!(errors.contains("monitor: one: not executed: No such file or directory"), "{errors}");
    assert_eq!(code(&["--in-place", "--", "/etc/passwd"]).0, Some(126));
    assert_eq!(code(&["--in-place", "--", "true"]).0, Some(2));
    assert_eq!(run("n[1", &[], &shell("true")).output().unwrap().status.code(), Some(2));
    has_no_session(&one);
}

#[test]
fn signals_are_passed_on_and_a_second_one_ends_the_sessions() {
    let (one, two) = (served(), served());
    let services = [("a", &one), ("b", &two)];
    let script = "trap 'echo got; exit 7' TERM; echo ready; while :; do sleep 0.1; done";
    let mut it = Run::start(run("a,b", &services, &shell(script)));
    assert_eq!(it.lines(2), ["a: ready", "b: ready"]);
    it.signal(Signal::TERM);
    assert_eq!(it.lines(2), ["a: got", "b: got"]);
    assert_eq!(it.code(), Some(7));
    let script = "trap '' INT; echo ready; while :; do sleep 0.1; done";
    let mut it = Run::start(run("a,b", &services, &shell(script)));
    assert_eq!(it.lines(2), ["a: ready", "b: ready"]);
    it.signal(Signal::INT);
    // The first one may not be taken yet: two at once are one.
    let code = until(|| {
        it.signal(Signal::INT);
        it.0.try_wait().unwrap()
    });
    assert_eq!(code.code(), Some(130));
    has_no_session(&one);
    has_no_session(&two);
}

#[test]
fn files_are_copied_over_a_tree_and_from_here_where_that_fails() {
    let (one, two, three) = (served(), served(), served());
    let folder = Folder::new();
    // Its peers know it by another path.
    let moved = folder.join("moved.9p");
    std::fs::rename(path(&three), &moved).unwrap();
    let services = [("n1", &one), ("n2", &two), ("n3", &one), ("n4", &two), ("n5", &two)];
    let dead = format!("n6={}", folder.join("none.9p").display());
    let of_moved = format!("n7={}", moved.display());
    let pair = |(name, served): &(&str, &Served)| format!("{name}={}", path(served).display());
    let addresses = services.iter().map(pair).chain([dead, of_moved]);
    let addresses: Vec<String> = addresses.flat_map(|it| ["--at".to_owned(), it]).collect();
    let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
    let script = "echo $A ${XCPUID#*/} $0 && test -x $XCPUPATH/sh";
    let options = ["--tree", "2", "--env", "A=b"];
    let words = [&options[..], &addresses, &shell(script)].concat();
    let mut command = run("n[1-7]", &[], &words);
    let done = command.output().unwrap();
    let errors = text(&done.stderr);
    let line = |(name, number): (&str, usize)| format!("{name}: b {number} sh");
    let living = [("n1", 0), ("n2", 1), ("n3", 2), ("n4", 3), ("n5", 4), ("n7", 6)];
    assert_eq!(sorted(&done.stdout), living.map(line), "{errors}");
    let here = "monitor: n7: its files are copied from here: failed: cannot connect to ";
    let others: Vec<&str> = errors.lines().filter(|it| !it.starts_with(here)).collect();
    assert_eq!(others.len() + 1, errors.lines().count(), "{errors}");
    assert!(others.len() == 1 && others[0].starts_with("monitor: n6: cannot connect"), "{errors}");
    assert_eq!(done.status.code(), Some(255));
    // One of the five has its files from here.
    let copied = |served: &Served| served.log().matches("has the copy of another").count();
    assert_eq!(copied(&one) + copied(&two) + copied(&three), 4, "{errors}");
    has_no_session(&one);
    has_no_session(&two);
}

#[test]
fn a_killed_command_leaves_no_session() {
    let (one, two) = (served(), served());
    let services = [("a", &one), ("b", &two)];
    let mark = format!("98760.{}", std::process::id());
    let script = format!("(setsid sleep {mark} &); echo $XCPUPATH; trap '' TERM; sleep {mark}");
    let mut it = Run::start(run("a,b", &services, &shell(&script)));
    let lines = it.lines(2);
    let folders: Vec<PathBuf> = lines.iter().map(|it| it[3..].into()).collect();
    assert!(folders.iter().all(|it| it.is_dir()), "{folders:?}");
    it.0.kill().unwrap();
    let _killed = it.code();
    has_no_session(&one);
    has_no_session(&two);
    until(|| folders.iter().all(|it| !it.exists()).then_some(()));
    until(|| {
        let found = Command::new("pgrep").args(["-f", &format!("{mark}$")]).output().unwrap();
        found.stdout.is_empty().then_some(())
    });
}
