//! Two almost empty functions as targets of probes. Both should begin with an instruction that the
//! kernel emulates; the bench checks this.

use crate::measure::thread_ns;
use monitor_backend::rule::insn::Insn;
use monitor_backend::rule::{HookPoint, RuleProgram, Site};
use monitor_model::Pid;
use std::hint::black_box;
use std::io::{BufRead as _, Write as _};

/// Environment variable that makes this program a ptrace target: the number of calls.
const VARIABLE: &str = "MONITOR_BENCH_CALLS";

/// The measured function.
#[inline(never)]
pub extern "C" fn probed(first: u64, second: u64) -> u64 {
    add(black_box(first), black_box(second)) + 1
}

/// The function it is compared with.
#[inline(never)]
pub extern "C" fn compared(first: u64, second: u64) -> u64 {
    add(black_box(first), black_box(second)) + 2
}

/// Called by both: a function with a call must align the stack, and so begins with a push.
#[inline(never)]
extern "C" fn add(first: u64, second: u64) -> u64 {
    black_box(first) + second
}

/// Type of the functions.
pub type Function = extern "C" fn(u64, u64) -> u64;

/// Calls a function `times` times.
pub fn call(function: Function, times: usize) {
    for n in 0..times {
        let _ = black_box(function(n as u64, 3));
    }
}

/// Address of a function of this program.
pub fn address(function: Function) -> u64 {
    function as usize as u64
}

/// File and offset of a function of this program.
pub fn site(function: Function) -> Site {
    site_of(std::process::id(), address(function))
}

/// File and offset of an address in a process.
pub fn site_of(pid: u32, address: u64) -> Site {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let number = |text: &str| u64::from_str_radix(text, 16).unwrap();
    let found = maps.lines().find_map(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        let (from, to) = words[0].split_once('-')?;
        let is_it = (number(from)..number(to)).contains(&address);
        is_it.then(|| Site {
            path: words[5].into(),
            offset: address - number(from) + number(words[2]),
        })
    });
    found.unwrap()
}

/// A rule program at a probe in this process.
pub fn own_program(hook: HookPoint, insns: Vec<Insn>) -> RuleProgram {
    let process = Some(Pid(std::process::id()));
    RuleProgram { process, ..RuleProgram::new(hook, None, insns) }
}

/// Whether it begins with `push` of one of the first eight registers.
pub fn begins_with_push(function: Function) -> bool {
    use std::os::unix::fs::FileExt as _;
    let mut first = [0];
    let memory = std::fs::File::open("/proc/self/mem").unwrap();
    memory.read_exact_at(&mut first, address(function)).unwrap();
    (0x50..0x58).contains(&first[0])
}

/// The command that starts this program as a target.
pub fn command(calls: usize) -> std::process::Command {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.env(VARIABLE, calls.to_string());
    command
}

/// If this program was started as a target: prints the address of `probed`, waits for a line, calls
/// it, and prints the nanoseconds of CPU time per call.
pub fn serve_as_target() -> bool {
    let Some(calls) = std::env::var(VARIABLE).ok().and_then(|text| text.parse().ok()) else {
        return false;
    };
    println!("{}", address(probed));
    std::io::stdout().flush().unwrap();
    let _ = std::io::stdin().lock().read_line(&mut String::new());
    let before = thread_ns();
    call(probed, calls);
    println!("{}", (thread_ns() - before) / calls as f64);
    true
}
