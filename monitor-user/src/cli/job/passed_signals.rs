//! A program that runs in place of this command, and gets the signals that this command gets.
//!
//! In: what starts the program and waits for it. Out: how it ended. SIGTERM and SIGHUP go to it;
//! those of the terminal it has anyway.

use crate::cli::client::runtime;
use crate::cli::exit::Failure;
use crate::cli::forwarded_signals::{ForwardedSignals, HANG_UP, TERMINATE};
use monitor_control::ControlError;
use monitor_control::held_launch::LaunchError;
use monitor_model::Pid;
use monitor_sys::pidfd::PidFd;
use std::process::{Child, Command, ExitStatus};
use tokio::sync::oneshot;

/// Runs this on a thread, which sends the process of the program when it has started it; the
/// status of the program.
///
/// # Errors
/// If there is no event loop.
pub fn run_passing_signals(
    work: impl FnOnce(oneshot::Sender<Pid>) -> Result<ExitStatus, LaunchError> + Send + 'static,
) -> Result<Result<ExitStatus, LaunchError>, Failure> {
    Ok(runtime()?.block_on(run(work)))
}

async fn run(
    work: impl FnOnce(oneshot::Sender<Pid>) -> Result<ExitStatus, LaunchError> + Send + 'static,
) -> Result<ExitStatus, LaunchError> {
    let mut signals = ForwardedSignals::install().map_err(LaunchError::NotStarted)?;
    let (started, program) = oneshot::channel();
    let (ended, mut end) = oneshot::channel();
    let _waiter = std::thread::spawn(move || {
        // The receiver waits for it.
        let _sent = ended.send(work(started));
    });
    let program = program.await.ok().and_then(|pid: Pid| PidFd::open(pid).ok());
    loop {
        let number = tokio::select! {
            status = &mut end => {
                return status.unwrap_or_else(|_| Err(ControlError::Gone.into()));
            }
            number = signals.next() => number,
        };
        // The program has the others from the terminal, too.
        if let (HANG_UP | TERMINATE, Some(program)) = (number, &program) {
            // It has ended if this fails.
            let _ended = program.signal(number);
        }
    }
}

/// Starts a program, and waits for its end.
///
/// # Errors
/// If it cannot be executed.
pub fn start_and_wait(
    mut command: Command,
    started: oneshot::Sender<Pid>,
) -> Result<ExitStatus, LaunchError> {
    let mut child = command.spawn().map_err(LaunchError::NotStarted)?;
    let _waits = started.send(Pid(child.id()));
    wait_for_child(&mut child)
}

/// Waits for the end of a program.
///
/// # Errors
/// If the kernel refuses it.
pub fn wait_for_child(child: &mut Child) -> Result<ExitStatus, LaunchError> {
    let waited = child.wait();
    waited.map_err(|error| ControlError::from_io("waiting for the program", &error).into())
}
