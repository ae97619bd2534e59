//! The same event with a debugger: a breakpoint that is hit, removed, stepped over and set again.
//! Tracer and target share a processor, which is the cheapest case.

use crate::measure::{pin, thread_ns};
use crate::rules::target;
use crate::verdict::{Bar, line};
use nix::sys::ptrace::{self, Options};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use std::io::{BufReader, Write as _};
use std::process::Stdio;

/// Breakpoint hits: each takes tens of microseconds.
const HITS: usize = 5_000;
/// `int3`.
const BREAKPOINT: i64 = 0xcc;

/// Prints the cost of a hit for both sides, and the ratio to a counter in the kernel.
pub fn run(ours_ns: f64) {
    pin();
    let mut command = target::command(HITS);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let address: u64 = number(&mut output);
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
    ptrace::seize(pid, Options::empty()).unwrap();
    ptrace::interrupt(pid).unwrap();
    let _ = waitpid(pid, None).unwrap();
    let code = address as ptrace::AddressType;
    let original = ptrace::read(pid, code).unwrap();
    let broken = (original & !0xff) | BREAKPOINT;
    ptrace::write(pid, code, broken).unwrap();
    ptrace::cont(pid, None).unwrap();
    writeln!(child.stdin.as_mut().unwrap()).unwrap();
    let before = thread_ns();
    for _ in 0..HITS {
        hit(pid, code, address, [original, broken]);
    }
    let tracer_ns = (thread_ns() - before) / HITS as f64;
    let target_ns: f64 = number(&mut output);
    let _ = child.wait();
    line("a ptrace breakpoint: the target's part", target_ns, "ns", Bar::None);
    line("a ptrace breakpoint: the tracer's part", tracer_ns, "ns", Bar::None);
    let ratio = ours_ns / (target_ns + tracer_ns);
    line("a counter in the kernel, by a ptrace breakpoint", ratio, "x", Bar::AtMost(1.0 / 7.0));
}

/// Handles one hit, from the trap until the target continues.
fn hit(pid: Pid, code: ptrace::AddressType, address: u64, [original, broken]: [i64; 2]) {
    assert!(matches!(waitpid(pid, None), Ok(WaitStatus::Stopped(..))));
    let mut registers = ptrace::getregs(pid).unwrap();
    registers.rip = address;
    ptrace::setregs(pid, registers).unwrap();
    ptrace::write(pid, code, original).unwrap();
    ptrace::step(pid, None).unwrap();
    assert!(matches!(waitpid(pid, None), Ok(WaitStatus::Stopped(..))));
    ptrace::write(pid, code, broken).unwrap();
    ptrace::cont(pid, None).unwrap();
}

fn number<T: std::str::FromStr>(output: &mut impl std::io::BufRead) -> T {
    let mut text = String::new();
    let _ = output.read_line(&mut text).unwrap();
    text.trim().parse().unwrap_or_else(|_| panic!("{text} is no number"))
}
