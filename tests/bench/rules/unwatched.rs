//! What the probes in one process cost another: its calls of the function that is watched there,
//! and its forks while probes are set and removed there.

use crate::measure::{median, thread_ns};
use crate::rules::target;
use crate::verdict::{Bar, line};
use monitor_backend::rule::insn::{Cell, CellKind, Insn, ProcessSetId};
use monitor_backend::rule::{Children, HookPoint, ProgramId, RuleProgram, Rules as _, Site};
use monitor_loader::rule::KernelRules;
use monitor_model::Pid;
use monitor_symbols::{function_spec::FunctionSpec, resolve};
use std::hint::black_box;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

/// Calls of `malloc` and `free` in a slice.
const CALLS: usize = 100_000;
/// Pairs of slices.
const PAIRS: usize = 41;
/// Windows of forks with and without, alternating.
const WINDOWS: usize = 3;
/// Prints the 99th percentile of 1,000 forks for each line.
const FORKER: &str = "import os, sys, time\n\
                      for line in sys.stdin:\n  \
                        taken = []\n  \
                        for n in range(1000):\n    \
                          start = time.perf_counter_ns()\n    \
                          pid = os.fork()\n    \
                          if pid == 0: os._exit(0)\n    \
                          taken.append(time.perf_counter_ns() - start)\n    \
                          os.waitpid(pid, 0)\n  \
                        print(sorted(taken)[990], flush=True)";
/// Functions of the C library that have probes.
const FUNCTIONS: [&str; 5] = ["malloc", "free", "getpid", "atoi", "labs"];

/// Prints both.
pub fn run() {
    let mut watched = Watched::start();
    watched.compare_calls();
    watched.compare_forks();
}

/// The process with probes, and its rules.
struct Watched {
    rules: KernelRules,
    set: ProcessSetId,
    sum: Cell,
    _process: Guarded,
    sites: Vec<Site>,
}

impl Watched {
    fn start() -> Self {
        let mut process = Guarded::start(&mut target::command(0));
        let _address = process.line();
        let pid = Pid(process.child.id());
        let site = |name: &str| {
            let spec = FunctionSpec::from_text(&format!("libc:{name}")).unwrap();
            let found = resolve::in_process(Path::new("/proc"), pid, &spec).unwrap().remove(0);
            Site { path: found.file.path.clone(), offset: found.offset }
        };
        let sites = FUNCTIONS.map(site).into();
        let mut rules = KernelRules::open().unwrap();
        let sum = rules.make_cell(CellKind::Sum).unwrap();
        let set = rules.make_set(Children::Included).unwrap();
        rules.include(set, pid).unwrap();
        Self { rules, set, sum, sites, _process: process }
    }

    /// Sets a probe; the functions take turns.
    fn add(&mut self, turn: usize) -> ProgramId {
        let hook = HookPoint::Entry(self.sites[turn % self.sites.len()].clone());
        let program = RuleProgram::new(hook, Some(self.set), vec![Insn::Count(self.sum)]);
        let id = self.rules.add(&program).unwrap();
        self.rules.enable(id);
        id
    }

    /// `malloc` and `free` of this process, while they are watched in the other one.
    fn compare_calls(&mut self) {
        let slices = || median((0..PAIRS).map(|_| call_ns()).collect());
        let (first, second) = (slices(), slices());
        let programs = [self.add(0), self.add(1)];
        let beside = slices();
        programs.into_iter().for_each(|id| self.rules.remove(id));
        line("malloc and free of another process", first, "ns", Bar::None);
        line("  again, by that (noise)", second / first, "x", Bar::None);
        line("  while both are watched, by that", beside / first, "x", Bar::AtMost(1.05));
    }

    /// Forks of a third process, while probes are set and removed as fast as the kernel does it.
    fn compare_forks(&mut self) {
        let mut forker = Guarded::start(Command::new("python3").args(["-c", FORKER]));
        let mut forks = || {
            forker.input.write_all(b"\n").unwrap();
            forker.line().parse::<f64>().unwrap() / 1e6
        };
        let (mut without, mut beside, mut n_set) = (Vec::new(), Vec::new(), 0);
        for _ in 0..WINDOWS {
            without.push(forks());
            let is_over = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let _ = scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        let id = self.add(n_set);
                        self.rules.remove(id);
                        n_set += 1;
                    }
                });
                beside.push(forks());
                is_over.store(true, Ordering::Relaxed);
            });
        }
        line("forks of another process: p99", median(without.clone()), "ms", Bar::None);
        let ratio = median(beside) / median(without);
        line("  while probes are set and removed, by that", ratio, "x", Bar::AtMost(2.0));
        line("  probes that were set", n_set as f64, "", Bar::None);
    }
}

/// A program that ends with this one.
struct Guarded {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Guarded {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, input, output: BufReader::new(output) }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        let _ = self.output.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Nanoseconds of an allocation and its release.
fn call_ns() -> f64 {
    let before = thread_ns();
    for n in 0..CALLS {
        drop(black_box(Box::new([n as u64; 4])));
    }
    (thread_ns() - before) / CALLS as f64
}
