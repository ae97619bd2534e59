//! Requests for events of kernel rules: a tool receives exactly what happened, in that order.

mod breakpoints;
mod instrument;
mod kernel;
mod loss;
mod unseen;
mod visibility;

use super::LIBRARY;
use crate::deadline;
use crate::root::actor::Actor;
use crate::root::privilege::granted;
use crate::root::workload::Guarded;
use crate::served::Folder;
use monitor_backend::BackendChoice;
use monitor_event::right::{SessionId, Tool};
use monitor_loader::select;
use monitor_omis::{Dialect, Node};
use monitor_platform::EventSource as _;
use monitor_platform::linux::{Linux, recorder::ServiceConfig};
use monitor_services::context::ClusterMember;
use monitor_services::requests::{EngineInput, EngineOutput, RequestEngine, RequestLimits};
use monitor_sys::clock;
use std::process::Command;
use std::sync::{Arc, mpsc::TryRecvError};

/// The service that the platform believes to serve: its files are read by the program.
fn service() -> ServiceConfig {
    ServiceConfig {
        socket: None,
        is_recording: Arc::default(),
        dump_folder: std::env::temp_dir(),
        undo_folder: None,
        worker_program: env!("CARGO_BIN_EXE_monitor").into(),
    }
}

/// A tool, and a process for it to observe.
struct Tooled {
    machine: RequestEngine,
    platform: Linux,
    target: Actor,
    lines: Vec<String>,
    /// Lines that another tool received, on connection 2.
    others: Vec<String>,
}

impl Tooled {
    /// Attached to a process that has loaded the C library.
    fn new() -> Self {
        let mut it = Self::alone();
        it.says(&format!("1 [0] attach([{}])", it.pid()), "1 [0] attach(0)");
        it
    }

    /// Attached to no process.
    fn alone() -> Self {
        let own = ClusterMember { node: Node(0), name: "node0".into() };
        let mut target = Actor::new();
        let _ = target.run(LIBRARY);
        let (machine, platform) = (
            RequestEngine::new(own, RequestLimits::default()),
            Linux::for_service(select::opener(BackendChoice::Ebpf), service()),
        );
        let (lines, others) = (Vec::new(), Vec::new());
        let mut it = Self { machine, platform, target, lines, others };
        let session = SessionId { entry: 0, conn: 1 };
        it.input(EngineInput::Opened(Tool::root(session, 1), Dialect::Extended));
        it
    }

    fn pid(&self) -> u32 {
        self.target.pid().0
    }

    /// Sends a line, and expects this reply.
    #[track_caller]
    fn says(&mut self, line: &str, want: &str) {
        assert_eq!(self.asks(line), want);
    }

    /// Stores and enables a request.
    #[track_caller]
    fn waits(&mut self, id: u32, event: &str, actions: &str) {
        let name = event.split('(').next().unwrap();
        self.says(&format!("{id} [0] {event}: {actions}"), &format!("{id} [0] {name}(0)"));
        self.says(&format!("9 [0] enable({id})"), "9 [0] enable(0)");
    }

    /// Waits for at least `n` lines, and takes all of them.
    #[track_caller]
    fn next_lines(&mut self, n: usize) -> Vec<String> {
        deadline::until(|| {
            let happened = self.platform.poll_events(clock::boot());
            self.input(EngineInput::Events(happened));
            (self.lines.len() >= n).then_some(())
        });
        std::mem::take(&mut self.lines)
    }

    /// Handles what has happened.
    fn poll(&mut self) {
        let happened = self.platform.poll_events(clock::boot());
        self.input(EngineInput::Events(happened));
    }

    fn input(&mut self, input: EngineInput) {
        for output in self.machine.input(clock::boot(), input, &mut self.platform) {
            match output {
                EngineOutput::Reply(2, line) | EngineOutput::Notice(2, line) => {
                    self.others.push(line)
                }
                EngineOutput::Reply(_, line) | EngineOutput::Notice(_, line) => {
                    self.lines.push(line)
                }
                other => panic!("for another node: {other:?}"),
            }
        }
    }
}

#[test]
fn root_a_tool_receives_23_children_and_how_each_ended() {
    if !granted("root_a_tool_receives_23_children_and_how_each_ended") {
        return;
    }
    let mut tool = Tooled::new();
    tool.waits(10, "new_process()", "11 [0] print([$1])");
    tool.waits(20, "process_terminated([])", "21 [0] print([$1,$2])");
    let _ = tool.target.run("pids = []");
    let _ = tool
        .target
        .run("for n in range(23): pids.append(os.fork() or os._exit(n)), os.waitpid(pids[-1], 0)");
    let pids: Vec<u64> = (0..23).map(|n| tool.target.run(&format!("it = pids[{n}]"))).collect();
    let lines = (0..).zip(pids).flat_map(|(n, pid): (u64, u64)| {
        [format!("11 [0] print(0,[{pid}])"), format!("21 [0] print(0,[{pid},{n}])")]
    });
    assert_eq!(tool.next_lines(46), lines.collect::<Vec<_>>());
}

#[test]
fn root_a_tool_receives_23_signals_by_their_numbers() {
    if !granted("root_a_tool_receives_23_signals_by_their_numbers") {
        return;
    }
    let mut tool = Tooled::new();
    let pid = tool.pid();
    tool.waits(10, &format!("process_signal([{pid}],[])"), "11 [0] print([$1,$2])");
    tool.waits(20, "process_signal([],[40])", "21 [0] print([$2])");
    let _ = tool.target.run("for n in range(34, 57): signal.signal(n, lambda *_: None)");
    let _ = tool.target.run("for n in range(34, 57): os.kill(os.getpid(), n)");
    let lines = tool.next_lines(24);
    let all = lines.iter().filter(|line| line.starts_with("11 ")).cloned().collect::<Vec<_>>();
    let want: Vec<_> = (34..57).map(|n| format!("11 [0] print(0,[{pid},{n}])")).collect();
    assert_eq!(all, want);
    assert_eq!(lines.iter().filter(|line| *line == "21 [0] print(0,[40])").count(), 1);
}

#[test]
fn root_a_tool_receives_which_process_executes_a_program() {
    if !granted("root_a_tool_receives_which_process_executes_a_program") {
        return;
    }
    let mut tool = Tooled::new();
    tool.waits(10, "process_exec([])", "11 [0] print([$1])");
    tool.waits(20, "process_terminated([])", "21 [0] print([$1,$2])");
    // It is not attached.
    assert!(Command::new("/bin/true").status().unwrap().success());
    // Both programs are executed by the child, which joins when it is made.
    let script = "exec sh -c \\'exit 3\\'";
    let pid =
        tool.target.run(&format!("p = subprocess.Popen(['sh', '-c', '{script}']); it = p.pid"));
    let _ = tool.target.run("p.wait()");
    let executed = format!("11 [0] print(0,[{pid}])");
    let want = [executed.clone(), executed, format!("21 [0] print(0,[{pid},3])")];
    assert_eq!(tool.next_lines(3), want);
}

#[test]
fn root_processes_that_start_while_a_name_is_attached_join() {
    if !granted("root_processes_that_start_while_a_name_is_attached_join") {
        return;
    }
    let mut tool = Tooled::alone();
    let folder = Folder::new();
    let name = format!("comes-{}", std::process::id());
    let path = folder.join(&name);
    std::os::unix::fs::symlink("/bin/sleep", &path).unwrap();
    // From before it is asked for until after it is answered.
    let (done, is_done) = std::sync::mpsc::channel::<()>();
    let coming = std::thread::spawn(move || {
        let mut all = Vec::new();
        while is_done.try_recv() != Err(TryRecvError::Disconnected) || all.is_empty() {
            all.push(Guarded::run(Command::new(&path).arg("999")));
        }
        all
    });
    tool.waits(10, "new_process()", "11 [0] print([$1])");
    tool.input(EngineInput::ClientLine(
        1,
        format!("1 [0] attach_command(\"{name}\")").into_bytes(),
    ));
    drop(done);
    let all = coming.join().unwrap();
    let mut pids: Vec<u32> = all.iter().map(|it| it.pid().0).collect();
    pids.sort_unstable();
    // The answer names those that are there, and each that comes later is an event.
    let named = |line: &String| -> Vec<u32> {
        let (_, list) = line.trim_end_matches("])").rsplit_once('[').unwrap();
        list.split(',').filter_map(|it| it.parse().ok()).collect()
    };
    let joined = deadline::until(|| {
        let happened = tool.platform.poll_events(clock::boot());
        tool.input(EngineInput::Events(happened));
        let mut joined: Vec<u32> = tool.lines.iter().flat_map(named).collect();
        joined.sort_unstable();
        (joined.len() >= pids.len()).then_some(joined)
    });
    assert!(joined == pids, "{} joined of {}", joined.len(), pids.len());
}

#[test]
fn root_a_process_joins_by_the_name_of_the_program_that_it_executes() {
    if !granted("root_a_process_joins_by_the_name_of_the_program_that_it_executes") {
        return;
    }
    let mut tool = Tooled::alone();
    let folder = Folder::new();
    let name = format!("joins-{}", std::process::id());
    let path = folder.join(&name);
    std::os::unix::fs::symlink("/bin/sleep", &path).unwrap();
    tool.says(&format!("1 [0] attach_command(\"{name}\")"), "1 [0] attach_command(0,[])");
    tool.waits(10, "new_process()", "11 [0] print([$1])");
    tool.waits(20, "process_terminated([])", "21 [0] print([$1,$2])");
    let begin = format!("p = subprocess.Popen([{path:?}, '999']); it = p.pid");
    let pid = tool.target.run(&begin);
    assert_eq!(tool.next_lines(1), [format!("11 [0] print(0,[{pid}])")]);
    let _ = tool.target.run("p.kill(); p.wait()");
    assert_eq!(tool.next_lines(1), [format!("21 [0] print(0,[{pid},137])")]);
}

#[test]
fn root_a_rank_that_starts_later_joins_as_it_begins_its_program() {
    if !granted("root_a_rank_that_starts_later_joins_as_it_begins_its_program") {
        return;
    }
    let mut tool = Tooled::alone();
    let (job, uid) = (format!("it-late-{}", std::process::id()), rustix::process::getuid());
    let attach = format!("1 [0] attach_job_id(\"{job}\",{})", uid.as_raw());
    tool.says(&attach, "1 [0] attach_job_id(0,[])");
    tool.waits(10, "new_process()", "11 [0] print([$1])");
    tool.waits(20, "process_terminated([])", "21 [0] print([$1,$2])");
    tool.waits(30, "process_signal([],[15])", "31 [0] print([$1,$2])");
    let begin = |job: &str, rank: u32| {
        let environ = format!("{{'PMIX_NAMESPACE': '{job}', 'PMIX_RANK': '{rank}'}}");
        format!("p = subprocess.Popen(['/bin/sleep', '999'], env={environ}); it = p.pid")
    };
    let _ = tool.target.run(&begin(&format!("{job}-other"), 0));
    let _ = tool.target.run("p.kill(); p.wait()");
    // The second one is the same rank, started again.
    for is_first in [true, false] {
        let pid = tool.target.run(&begin(&job, 3));
        let mut lines = tool.next_lines(if is_first { 2 } else { 1 });
        if is_first {
            let what = format!("rank 3 of job {job} (process {pid}) joined ");
            let notice = format!("30 [0] process_signal(407,-1,\"{what}");
            assert!(lines.remove(0).starts_with(&notice), "not {notice}: {lines:?}");
        }
        assert_eq!(lines, [format!("11 [0] print(0,[{pid}])")]);
        let _ = tool.target.run("p.terminate(); p.wait()");
        let (taken, ended) = (format!("[{pid},15]"), format!("[{pid},143]"));
        let want = [format!("31 [0] print(0,{taken})"), format!("21 [0] print(0,{ended})")];
        assert_eq!(tool.next_lines(2), want);
    }
}

#[test]
fn root_a_tool_receives_which_process_waits_and_which_has_the_processor() {
    if !granted("root_a_tool_receives_which_process_waits_and_which_has_the_processor") {
        return;
    }
    let mut tool = Tooled::new();
    let pid = tool.pid();
    tool.waits(10, "process_blocked([])", "11 [0] print($1)");
    tool.waits(20, "process_unblocked([])", "21 [0] print($1)");
    tool.waits(30, "scheduling()", "31 [0] print([$1,$2])");
    // Some hosts run no program while their first process is current: a few may be hidden.
    let _ = tool.target.run("it = sum(l.usleep(1000) for n in range(40))");
    let mut lines = Vec::new();
    let count = |lines: &[String], line: &str| lines.iter().filter(|it| *it == line).count();
    let (blocked, woken) = (format!("11 [0] print(0,[{pid}])"), format!("21 [0] print(0,[{pid}])"));
    deadline::until(|| {
        lines.extend(tool.next_lines(0));
        (count(&lines, &blocked) >= 23 && count(&lines, &woken) >= 23).then_some(())
    });
    let off = count(&lines, &format!("31 [0] print(0,[{pid},-1])"));
    let on = count(&lines, &format!("31 [0] print(0,[-1,{pid}])"));
    assert!(off >= 23 && on >= 23, "{off} times off a processor, {on} times on one");
}
