//! Load: idle processes and threads, ended on drop, and busy loops.

use monitor_sys::fd_limit;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread::{Builder, JoinHandle, scope};

/// Sleeping processes.
pub struct Sleepers(Vec<Child>);

impl Sleepers {
    /// Starts sleeping processes until the node has `total` processes.
    pub fn up_to(total: usize) -> Self {
        let sleep = |_| {
            // They must not outlive a bench that is killed.
            let mut command = Command::new("setpriv");
            command.args(["--pdeathsig", "KILL", "sleep", "infinity"]);
            fd_limit::restore_in(command.stdin(Stdio::null()));
            command.spawn().unwrap()
        };
        Self((processes()..total).map(sleep).collect())
    }
}

impl Drop for Sleepers {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
        }
        for child in &mut self.0 {
            let _ = child.wait();
        }
    }
}

/// Sleeping threads of this process.
pub struct Threads {
    threads: Vec<JoinHandle<()>>,
    end: Arc<Barrier>,
}

impl Threads {
    /// Starts `total` threads.
    pub fn start(total: usize) -> Self {
        let end = Arc::new(Barrier::new(total + 1));
        let sleep = |_| {
            let end = Arc::clone(&end);
            // One call needs little stack.
            let small = Builder::new().stack_size(64 << 10);
            let sleep = move || {
                let _ = end.wait();
            };
            small.spawn(sleep).unwrap()
        };
        Self { threads: (0..total).map(sleep).collect(), end }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        let _ = self.end.wait();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Number of processes on the node.
pub fn processes() -> usize {
    pids().count()
}

/// Ids of all processes.
pub fn pids() -> impl Iterator<Item = u32> {
    ids("/proc")
}

/// The numbers in a directory of `/proc`; none if the process has exited.
pub fn ids(directory: &str) -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// Runs something beside this number of busy loops.
pub fn beside(n_busy: usize, run: impl FnOnce()) {
    let over = AtomicBool::new(false);
    scope(|scope| {
        for _ in 0..n_busy {
            let _busy = scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        run();
        over.store(true, Ordering::Relaxed);
    });
}
