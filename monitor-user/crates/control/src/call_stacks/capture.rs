//! Copies the stacks of threads, each of which is stopped as short as possible.
//!
//! ```text
//!  seize -> interrupt -> (stopped) registers, bytes of the stack -> detach
//! ```
//!
//! In: a process and the ends of its mappings, read before. Out: registers and stack of each
//! thread; names and frames are found when it runs again. A system call that waits begins again
//! after the stop, except for those of signal(7) that return `EINTR` after any stop. A stop by a
//! signal stays, and a signal that arrives meanwhile is delivered.
//!
//! The caller makes the calls on a thread of its own: when it ends, however it ends, the kernel
//! detaches what it still traces (ptrace(2)).

use crate::process_ref::{ProcessRef, tracing_process};
use crate::{ControlError, deadline::DeadlineWait, machine::Registers, memory};
use monitor_sys::ptrace;
use procfs::process::MemoryMap;
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// Most bytes that are copied of a stack.
pub const MAX_STACK: u64 = 1 << 20;
/// The red zone below the stack pointer (System V psABI, 3.2.2).
const RED_ZONE: u64 = 128;
/// How long a thread may take to stop: one in the kernel stops when it leaves it.
const MAX_STOP_WAIT: Duration = Duration::from_millis(50);
/// The same of a thread that is ready to run: it waits for a CPU, as it would without the stop.
const MAX_CPU_WAIT: Duration = Duration::from_secs(5);
/// How long to wait for the stop without a pause: a running thread stops within that.
const SPIN: Duration = Duration::from_micros(50);

/// A thread as it was when it was stopped.
pub struct CapturedThread {
    /// Its registers.
    pub registers: Registers,
    /// The address of the first byte of `stack`.
    pub start: u64,
    /// The bytes of its stack, innermost first; of a deep one the first [`MAX_STACK`].
    pub stack: Vec<u8>,
    /// How long it was stopped.
    pub stopped: StopTime,
}

/// How long a thread was stopped: from the request to stop until it ran again.
#[derive(Clone, Copy, Debug)]
pub struct StopTime {
    /// The time that went by, also while the one that stops waits for a CPU.
    pub wall: Duration,
    /// The CPU time of the one that stops.
    pub cpu: Duration,
}

impl StopTime {
    /// Since this moment of the clock, and of the CPU time of this thread.
    fn since((begun, cpu): (Instant, Duration)) -> Self {
        Self { wall: begun.elapsed(), cpu: own_cpu().saturating_sub(cpu) }
    }
}

/// The CPU time of this thread.
fn own_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// Captures a thread. `maps` is the memory map of the process.
///
/// # Errors
/// If it has ended, is traced, or the kernel denies it; `TimedOut` if it does not leave the kernel,
/// or is not stopped at `until`.
pub fn capture(
    process: &ProcessRef,
    tid: i32,
    maps: &[MemoryMap],
    until: Option<Instant>,
) -> Result<CapturedThread, ControlError> {
    let seized = ptrace::seize_alone(tid);
    seized.map_err(|error| tracer_as_process(process.seize_error(tid, &error)))?;
    // The id may have been reused since it was read; the end of this thread detaches that one.
    if process.pidfd.has_ended() || !process.has_thread(tid) {
        return Err(ControlError::Gone);
    }
    let moment @ (begun, _) = (Instant::now(), own_cpu());
    ptrace::interrupt(tid).map_err(|error| ControlError::from_io("PTRACE_INTERRUPT", &error))?;
    let signal = wait_for_stop(process, tid, last_moment(begun, until))?;
    let copied = copy(process, tid, maps);
    let detached = ptrace::detach(tid, signal);
    let stopped = StopTime::since(moment);
    let (registers, start, stack) = copied?;
    // It was ended while it was stopped.
    detached.map_err(|error| ControlError::from_io("PTRACE_DETACH", &error))?;
    Ok(CapturedThread { registers, start, stack, stopped })
}

/// An error that names the process of a tracer, and not its thread.
fn tracer_as_process(error: ControlError) -> ControlError {
    match error {
        ControlError::AlreadyTraced { tracer } => {
            ControlError::AlreadyTraced { tracer: tracing_process(tracer) }
        }
        other => other,
    }
}

/// When a thread must be stopped that is ready to run.
fn last_moment(begun: Instant, until: Option<Instant>) -> Instant {
    until.into_iter().chain([begun + MAX_CPU_WAIT]).min().unwrap_or(begun)
}

/// Waits until a thread is stopped; returns the signal to be delivered, or 0.
fn wait_for_stop(process: &ProcessRef, tid: i32, until: Instant) -> Result<i32, ControlError> {
    let begun = Instant::now();
    let mut deadline = DeadlineWait::new(MAX_STOP_WAIT, None);
    loop {
        let status = ptrace::wait_status(tid);
        match status.map_err(|error| ControlError::from_io("waitpid", &error))? {
            Some(status) if status & 0xff == 0x7f => {
                let (signal, event) = (status >> 8 & 0xff, status >> 16);
                return Ok(if event == ptrace::EVENT_STOP { 0 } else { signal });
            }
            Some(_) => return Err(ControlError::Gone),
            None if begun.elapsed() > SPIN => {
                if let Err(late) = deadline.wait("it does not leave the kernel") {
                    if Instant::now() > until || !is_ready(process, tid) {
                        return Err(late);
                    }
                    deadline = DeadlineWait::new(MAX_STOP_WAIT, None);
                }
            }
            None => std::hint::spin_loop(),
        }
    }
}

/// Whether a thread runs, or waits for a CPU.
fn is_ready(process: &ProcessRef, tid: i32) -> bool {
    let stat = process.procfs().ok().and_then(|it| it.task_from_tid(tid).ok()?.stat().ok());
    stat.is_some_and(|it| it.state == 'R')
}

type Copied = (Registers, u64, Vec<u8>);

fn copy(process: &ProcessRef, tid: i32, maps: &[MemoryMap]) -> Result<Copied, ControlError> {
    let registers = Registers::read(tid)?;
    let start = registers.sp().saturating_sub(RED_ZONE);
    // The stack of the first thread may have grown since; its end has not moved.
    let end = maps.iter().map(|map| map.address.1).find(|end| *end > registers.sp());
    let whole = end.unwrap_or(start).saturating_sub(start);
    let stack = match memory::read(process, start, whole.min(MAX_STACK)) {
        Ok(bytes) => bytes,
        Err(ControlError::Fault { done, .. }) => done,
        Err(other) => return Err(other),
    };
    Ok((registers, start, stack))
}
