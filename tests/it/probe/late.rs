//! Calls to a library that a program opens by `dlopen` while a request waits for them: each is
//! reported from the first one on, or the gap is.

use super::fixture::Build;
use crate::deadline;
use crate::root::privilege::granted;
use crate::root::workload::Guarded;
use crate::served::Served;
use crate::socket_session::SocketSession;
use monitor_control::{Executor, RequestTag, ToolId, UserWorker as _, WorkerRequest};
use monitor_model::Identity;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Calls of the constructor of the library, and of the program at once after it.
const N: usize = 23;

const MUSL: &str = "-specs=/usr/lib/x86_64-linux-musl/musl-gcc.specs";

/// The library and the program that opens it.
fn built(test: &str, words: &[&str]) -> Option<(PathBuf, PathBuf)> {
    let library = [&["-shared", "-fPIC", "-O1"], words].concat();
    let early =
        Build { test, source: "early.c", product: "libearly.so", words: &library }.done()?;
    let program = [&["-O1", "-pthread"], words].concat();
    let opens = Build { test, source: "opens.c", product: "opens", words: &program }.done()?;
    Some((early, opens))
}

fn started(program: &Path) -> Guarded {
    let mut program = Guarded::run(&mut Command::new(program));
    assert_eq!(program.line(), "ready");
    program
}

fn status(program: &Guarded, field: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{}/status", program.pid().0)).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.trim_start_matches(':').trim().to_owned()
}

fn is_traced(program: &Guarded) -> bool {
    status(program, "TracerPid") != "0"
}

fn runs(program: &Guarded) -> bool {
    !status(program, "State").starts_with(['T', 't'])
}

/// A tool that waits for calls of a function of a program.
struct Waiting {
    session: SocketSession,
    n_prints: u32,
    lines: Vec<String>,
}

impl Waiting {
    #[track_caller]
    fn new(mut session: SocketSession, program: &Guarded, function: &str) -> Self {
        let pid = program.pid().0;
        assert_eq!(session.request(&format!("1 [0] attach([{pid}])")), "1 [0] attach(0)");
        let event = format!("start_lib_call([{pid}],\"{function}\")");
        let stored = session.request(&format!("10 [0] {event}: 11 [0] print([$1])"));
        assert_eq!(stored, "10 [0] start_lib_call(0)");
        assert_eq!(session.request("12 [0] enable(10)"), "12 [0] enable(0)");
        Self { session, n_prints: 0, lines: Vec::new() }
    }

    /// The same, once the threads of the program can be held.
    #[track_caller]
    fn holding(served: &Served, program: &Guarded, function: &str) -> Self {
        let it = Self::new(served.connect(), program, function);
        let held = format!("held while it loads a library pid={}", program.pid().0);
        deadline::until(|| served.log().contains(&held).then_some(()));
        assert!(is_traced(program));
        it
    }

    /// Reads the lines that have come.
    #[track_caller]
    fn read(&mut self) {
        self.n_prints += 1;
        let last = format!("20 [0] print(0,[{}])", self.n_prints);
        let mut line = self.session.request(&format!("20 [0] print({})", self.n_prints));
        while line != last {
            self.lines.push(line);
            line = self.session.line().unwrap();
        }
    }

    /// The number of calls that were reported, and the other lines.
    fn calls(&self) -> (usize, Vec<&str>) {
        let is_call = |line: &&str| line.starts_with("11 [0] print(0,[");
        let (calls, others): (Vec<&str>, Vec<&str>) =
            self.lines.iter().map(String::as_str).partition(is_call);
        (calls.len(), others)
    }

    /// Waits for exactly this number of calls, and nothing else.
    #[track_caller]
    fn reports(&mut self, n: usize) {
        deadline::until(|| {
            self.read();
            let (n_calls, others) = self.calls();
            assert!(others.is_empty(), "{others:?} after {n_calls} calls");
            println!("{n_calls} of {n}");
            (n_calls >= n).then_some(())
        });
        self.read();
        assert_eq!(self.calls().0, n);
        self.lines.clear();
    }
}

#[track_caller]
fn opens(program: &mut Guarded, how: &str, library: &Path, n: usize) {
    program.send_line(&format!("{how} {} early_call {n}", library.display()));
    assert_eq!(program.line(), "done");
}

#[test]
fn root_calls_to_an_opened_library_are_reported_from_the_first_one_on() {
    const TEST: &str = "root_calls_to_an_opened_library_are_reported_from_the_first_one_on";
    if !granted(TEST) {
        return;
    }
    let Some((library, program)) = built(TEST, &[]) else { return };
    let served = Served::start("ebpf");
    // In a thread, in a namespace of the linker, in several threads.
    for (how, n_calls) in [("close", 2 * N), ("open", 2 * N), ("space", 2 * N), ("threads", 5 * N)]
    {
        println!("{how}");
        let mut program = started(&program);
        let mut waiting = Waiting::holding(&served, &program, "libearly:early_call");
        opens(&mut program, how, &library, N);
        waiting.reports(n_calls);
        if how != "close" {
            // Nothing is missing any more.
            deadline::until(|| (!is_traced(&program)).then_some(()));
        }
        opens(&mut program, how, &library, N);
        // Opened again, it has its probes: those of the kernel stay with the file.
        let again = if matches!(how, "close" | "space") { 2 * N } else { n_calls - N };
        waiting.reports(again);
        assert!(runs(&program));
    }
}

#[test]
fn root_calls_to_a_library_that_a_program_of_musl_opens_are_reported_from_the_first_one_on() {
    const TEST: &str =
        "root_calls_to_a_library_that_a_program_of_musl_opens_are_reported_from_the_first_one_on";
    if !granted(TEST) {
        return;
    }
    let Some((library, program)) = built(TEST, &[MUSL]) else { return };
    let served = Served::start("ebpf");
    let mut program = started(&program);
    let mut waiting = Waiting::holding(&served, &program, "libearly:early_call");
    opens(&mut program, "open", &library, N);
    waiting.reports(2 * N);
}

#[test]
fn root_the_last_of_50_libraries_that_are_opened_in_a_row_has_its_probes_in_time() {
    const TEST: &str =
        "root_the_last_of_50_libraries_that_are_opened_in_a_row_has_its_probes_in_time";
    if !granted(TEST) {
        return;
    }
    let Some((library, program)) = built(TEST, &[]) else { return };
    let all = copies(&library, 50);
    let served = Served::start("ebpf");
    let mut program = started(&program);
    let mut waiting = Waiting::holding(&served, &program, "libnumber49:early_call");
    opens(&mut program, "many", &all, 50);
    waiting.reports(N + 1);
}

/// Copies a library to files with a number; returns what precedes it.
fn copies(library: &Path, n: usize) -> PathBuf {
    let all = library.with_file_name("libnumber");
    for i in 0..n {
        let _length = std::fs::copy(library, format!("{}{i}.so", all.display())).unwrap();
    }
    all
}

/// Another tracer of a program, which lets it run; until it is dropped.
struct Tracer {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Tracer {
    fn attached_to(program: &Guarded) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let (should_end, pid) = (Arc::clone(&ends), program.pid());
        let id = Identity { pid, start: monitor_backends::procfs::start_time(pid).unwrap() };
        let thread = std::thread::spawn(move || {
            let mut worker = Executor::default();
            let trace = WorkerRequest::WatchRules(id.into(), RequestTag(9));
            let _done = worker.request(ToolId(9), trace).unwrap();
            deadline::until(|| {
                let _happened = worker.poll_events();
                should_end.load(Ordering::Relaxed).then_some(())
            });
        });
        deadline::until(|| is_traced(program).then_some(()));
        Self { ends, thread: Some(thread) }
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        let _ended = self.thread.take().map(JoinHandle::join);
    }
}

#[test]
fn root_the_time_without_probes_is_reported_for_a_program_that_cannot_be_held() {
    const TEST: &str = "root_the_time_without_probes_is_reported_for_a_program_that_cannot_be_held";
    if !granted(TEST) {
        return;
    }
    let Some((library, program)) = built(TEST, &[]) else { return };
    let served = Served::start("ebpf");
    let mut program = started(&program);
    let debugger = Tracer::attached_to(&program);
    let mut waiting = Waiting::new(served.connect(), &program, "libearly:early_call");
    opens(&mut program, "open", &library, N);
    let pid = program.pid().0;
    let begin = format!(
        "10 [0] start_lib_call(407,-1,\"calls of process {pid} to code that it loaded were not \
         seen for "
    );
    deadline::until(|| {
        waiting.read();
        waiting.calls().1.first().map(|line| assert!(line.starts_with(&begin), "{line}"))
    });
    drop(debugger);
    waiting.lines.clear();
    opens(&mut program, "open", &library, N);
    waiting.reports(N);
}

#[test]
fn root_programs_that_open_libraries_run_on_when_the_service_is_killed() {
    const TEST: &str = "root_programs_that_open_libraries_run_on_when_the_service_is_killed";
    if !granted(TEST) {
        return;
    }
    let Some((library, program)) = built(TEST, &[]) else { return };
    let all = copies(&library, 200);
    for round in 0..5 {
        let mut served = Served::start("ebpf");
        let mut program = started(&program);
        let _waiting = Waiting::holding(&served, &program, "libother:early_call");
        program.send_line(&format!("many {} early_call 200", all.display()));
        // In the middle of them.
        let maps = format!("/proc/{}/maps", program.pid().0);
        let opened = format!("{}{}.so", all.display(), 10 * (round + 1));
        deadline::until(|| std::fs::read_to_string(&maps).unwrap().contains(&opened).then_some(()));
        served.kill();
        assert_eq!(program.line(), "done");
        deadline::until(|| (runs(&program) && !is_traced(&program)).then_some(()));
    }
}
