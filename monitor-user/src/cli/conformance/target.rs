//! The processes of the cases: this program again, as a process that sleeps and has memory to
//! write to.
//!
//! They are killed when their case is over, and by the kernel when the command ends, however it
//! ends.

use crate::cli::exit::{Exit, Failure};
use crate::cli::output;
use monitor_conformance::run::{CaseProcess, CaseProcesses};
use monitor_sys::spawn;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The name of the command that such a process executes.
const COMMAND: &str = "conformance-target";
/// How long it sleeps at a time: short, because a single step ends when it wakes.
const NAP: Duration = Duration::from_millis(1);
/// Size of the memory that a case may write to.
const DATA_BYTES: usize = 4096;

/// Prints the addresses of its memory and of a procedure, and sleeps until it is killed.
pub fn main() -> Result<Exit, Failure> {
    let data = vec![0_u8; DATA_BYTES];
    let code = (nap as fn() -> u64 as *const ()).addr();
    let _exit = output::print(format!("{} {code}\n", data.as_ptr().addr()).as_bytes())?;
    loop {
        let _result = std::hint::black_box(nap());
    }
}

/// The procedure that cases call and set breakpoints in.
#[inline(never)]
fn nap() -> u64 {
    std::thread::sleep(NAP);
    std::hint::black_box(7)
}

/// The processes of one case.
#[derive(Default)]
pub struct OwnProcesses(Vec<Child>);

impl CaseProcesses for OwnProcesses {
    fn start(&mut self) -> Result<CaseProcess, String> {
        let program = std::env::current_exe().map_err(|why| why.to_string())?;
        let mut command = Command::new(program);
        command.arg(COMMAND).stdin(Stdio::null()).stdout(Stdio::piped());
        spawn::default_signals(&mut command);
        spawn::end_with_parent(&mut command);
        let mut child = command.spawn().map_err(|why| why.to_string())?;
        let output = child.stdout.take();
        let pid = child.id();
        self.0.push(child);
        let mut line = String::new();
        let read = output.map(|output| BufReader::new(output).read_line(&mut line));
        let numbers: Vec<u64> = line.split_whitespace().flat_map(str::parse).collect();
        match (read, &numbers[..]) {
            (Some(Ok(_)), &[data, code]) => Ok(CaseProcess { pid, data, code }),
            _ => Err(format!("process {pid} printed {line:?} instead of two addresses")),
        }
    }

    fn end(&mut self, number: usize) {
        if let Some(child) = self.child(number) {
            // Both fail only if it has ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn signal(&mut self, number: usize, signal: i32) {
        let named = Signal::from_named_raw(signal);
        if let (Some(child), Some(signal)) = (self.child(number), named) {
            // Fails only if it has ended: the case then gets no event.
            let _ = kill_process(Pid::from_child(child), signal);
        }
    }
}

impl OwnProcesses {
    fn child(&mut self, number: usize) -> Option<&mut Child> {
        self.0.get_mut(number.checked_sub(1)?)
    }
}

impl Drop for OwnProcesses {
    fn drop(&mut self) {
        (1..=self.0.len()).for_each(|number| self.end(number));
    }
}
