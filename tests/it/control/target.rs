//! The target program of the tests, and a worker that executes requests.

use crate::deadline;
use monitor_control::process_ref::{ProcessRef, raw_pid, thread_identity};
use monitor_control::{
    ControlError, Executor, ProbeUse, RequestTag, ToolId, UserWorker, WorkerEvent, WorkerEventKind,
    WorkerReply, WorkerRequest,
};
use monitor_event::thread::Target as ThreadTarget;
use monitor_model::id::{Identity, Pid};
use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

/// Two independent tools.
pub const ONE: ToolId = ToolId(1);
pub const OTHER: ToolId = ToolId(2);

/// The program, built once.
pub fn program() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| build("target"))
}

/// The program whose processes end in many ways, built once.
pub fn ends_program() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| build("ends"))
}

fn build(name: &str) -> PathBuf {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixture/control");
    let source = Path::new(folder).join(name).with_extension("c");
    let built = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("control-{name}"));
    // Another test process may be at it too: each builds its own and puts it there whole.
    let own = built.with_extension(std::process::id().to_string());
    // Frame pointers are what most programs do not have.
    let words = ["-O1", "-fomit-frame-pointer", "-pthread", "-o"];
    let done = Command::new("cc").args(words).arg(&own).arg(source).status();
    assert!(done.expect("a C compiler is there").success());
    std::fs::rename(&own, &built).expect("it is ours");
    built
}

/// Sends a process a signal as a shell would.
pub fn signal(pid: u32, name: &str) {
    assert!(Command::new("kill").args(["-s", name, &pid.to_string()]).status().unwrap().success());
}

/// A running target program.
pub struct Target {
    child: Child,
    places: HashMap<String, u64>,
}

impl Target {
    /// Runs the program in this mode with `threads` threads, and waits until all exist.
    pub fn new(mode: &str, threads: usize) -> Self {
        let it = Self::run(Command::new(program()).args([mode, &threads.to_string()]));
        deadline::until(|| (it.tids().len() == threads).then_some(()));
        it
    }

    /// Starts this command.
    pub fn run(command: &mut Command) -> Self {
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut it = Self { child, places: HashMap::new() };
        let mut line = String::new();
        let output = it.child.stdout.take().unwrap();
        let _bytes =
            std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line).unwrap();
        it.places = line.split_whitespace().map(symbol).collect();
        it
    }

    /// Its identity.
    pub fn id(&self) -> Identity {
        ProcessRef::open_current(Pid(self.child.id())).unwrap().id
    }

    /// The whole process as a target of requests.
    pub fn whole(&self) -> ThreadTarget {
        self.id().into()
    }

    /// One of its threads, the first being 0.
    pub fn thread(&self, index: usize) -> ThreadTarget {
        let tid = self.tids()[index];
        let thread = thread_identity(raw_pid(Pid(self.child.id())), raw_pid(Pid(tid)));
        ThreadTarget { process: self.id(), thread }
    }

    /// The thread ids, sorted.
    pub fn tids(&self) -> Vec<u32> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap().flatten();
        let mut tids: Vec<u32> =
            tasks.map(|it| it.file_name().to_str().unwrap().parse().unwrap()).collect();
        tids.sort_unstable();
        tids
    }

    /// The address of a symbol.
    pub fn at(&self, name: &str) -> u64 {
        self.places[name]
    }

    /// The 64-bit number at an address of its memory.
    pub fn number(&self, address: u64) -> u64 {
        self.number_unless_ended(address).unwrap()
    }

    /// The same; none, if it has ended.
    pub fn number_unless_ended(&self, address: u64) -> Option<u64> {
        use std::os::unix::fs::FileExt as _;
        let memory = std::fs::File::open(format!("/proc/{}/mem", self.child.id())).ok()?;
        let mut bytes = [0; 8];
        memory.read_exact_at(&mut bytes, address).ok()?;
        Some(u64::from_le_bytes(bytes))
    }

    /// Writes a 64-bit number to its memory.
    pub fn put(&self, address: u64, number: u64) {
        use std::os::unix::fs::FileExt as _;
        let memory = format!("/proc/{}/mem", self.child.id());
        let memory = std::fs::File::options().write(true).open(memory).unwrap();
        memory.write_all_at(&number.to_le_bytes(), address).unwrap();
    }

    /// The counter of a thread.
    pub fn count(&self, thread: u64) -> u64 {
        self.number(self.at("counters") + 8 * thread)
    }

    /// The counters of all threads.
    pub fn counts(&self) -> Vec<u64> {
        (0..32).map(|thread| self.count(thread)).collect()
    }

    /// Waits until a thread counts on.
    pub fn until_counts(&self, thread: u64) {
        let before = self.count(thread);
        deadline::until(|| (self.count(thread) > before).then_some(()));
    }

    /// The states of its threads.
    pub fn states(&self) -> String {
        let state = |tid: &u32| {
            let path = format!("/proc/{}/task/{tid}/stat", self.child.id());
            let text = std::fs::read_to_string(path).unwrap_or_default();
            text.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()).unwrap_or('X')
        };
        self.tids().iter().map(state).collect()
    }

    /// Whether all threads are stopped.
    pub fn is_stopped(&self) -> bool {
        self.states().chars().all(|state| matches!(state, 'T' | 't'))
    }

    /// Whether any of its threads is traced.
    pub fn is_traced(&self) -> bool {
        let traced = |tid: &u32| {
            let path = format!("/proc/{}/task/{tid}/status", self.child.id());
            std::fs::read_to_string(path).is_ok_and(|text| !text.contains("TracerPid:\t0\n"))
        };
        self.tids().iter().any(traced)
    }

    /// A sum over its code, as it is in memory.
    pub fn code_sum(&self) -> u64 {
        use std::hash::{DefaultHasher, Hasher as _};
        use std::os::unix::fs::FileExt as _;
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.child.id())).unwrap();
        let memory = std::fs::File::open(format!("/proc/{}/mem", self.child.id())).unwrap();
        let mut sum = DefaultHasher::new();
        for line in maps.lines().filter(|it| it.contains("r-xp") && it.contains('/')) {
            let (from, rest) = line.split_once('-').unwrap();
            let to = rest.split_once(' ').unwrap().0;
            let hex = |text| u64::from_str_radix(text, 16).unwrap();
            let mut bytes = vec![0; usize::try_from(hex(to) - hex(from)).unwrap()];
            memory.read_exact_at(&mut bytes, hex(from)).unwrap();
            sum.write(&bytes);
        }
        sum.finish()
    }

    /// Sends a signal as a shell would.
    pub fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }

    /// Ends it, and waits for that.
    pub fn end(&mut self) -> std::process::ExitStatus {
        let _ended = self.child.kill();
        self.child.wait().unwrap()
    }

    /// Ends it, without waiting: its tracer has to see that first.
    pub fn end_slowly(&mut self) {
        let _ended = self.child.kill();
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<std::process::ExitStatus> {
        self.child.try_wait().unwrap()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}

fn symbol(pair: &str) -> (String, u64) {
    let (name, address) = pair.split_once("=0x").unwrap();
    (name.to_owned(), u64::from_str_radix(address, 16).unwrap())
}

/// An executor with our own rights, on this thread.
pub fn worker() -> Executor {
    Executor::default()
}

/// A breakpoint by a byte: a probe is the daemon's.
pub fn byte_breakpoint(
    target: monitor_control::Target,
    address: u64,
    tag: RequestTag,
) -> WorkerRequest {
    WorkerRequest::SetBreakpoint(target, address, tag, ProbeUse::Refused, vec![])
}

/// Executes a request that must succeed.
#[track_caller]
pub fn does(worker: &mut dyn UserWorker, request: WorkerRequest) -> WorkerReply {
    worker.request(ONE, request).unwrap()
}

/// Executes a request that must fail, and returns its error.
#[track_caller]
pub fn refuses(worker: &mut dyn UserWorker, request: WorkerRequest) -> ControlError {
    worker.request(ONE, request).unwrap_err()
}

thread_local! {
    /// Events that no test has taken yet.
    static SEEN: RefCell<Vec<WorkerEvent>> = const { RefCell::new(Vec::new()) };
}

/// Waits for an event with this tag.
#[track_caller]
pub fn until(worker: &mut dyn UserWorker, mark: RequestTag) -> WorkerEvent {
    deadline::until(|| {
        SEEN.with_borrow_mut(|seen| {
            seen.extend(worker.poll_events());
            let place = seen.iter().position(|it| it.requester == Some((ONE, mark)))?;
            Some(seen.remove(place))
        })
    })
}

/// Polls the worker until the condition holds, and returns the events of that time.
#[track_caller]
pub fn meanwhile(
    worker: &mut dyn UserWorker,
    mut holds: impl FnMut() -> bool,
) -> Vec<WorkerEventKind> {
    let mut seen = Vec::new();
    deadline::until(|| {
        seen.extend(worker.poll_events().into_iter().map(|it| it.kind));
        holds().then_some(())
    });
    seen
}
