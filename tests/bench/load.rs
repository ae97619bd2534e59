//! Processes that are there and do nothing, ended when dropped.

use std::process::{Child, Command, Stdio};

/// Sleeping processes.
pub struct Sleepers(Vec<Child>);

impl Sleepers {
    /// Starts so many that the node has at least `total` processes.
    pub fn up_to(total: usize) -> Self {
        let sleep = |_| Command::new("sleep").arg("infinity").stdin(Stdio::null()).spawn().unwrap();
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

/// How many processes the node has.
pub fn processes() -> usize {
    pids().count()
}

/// Ids of all processes.
pub fn pids() -> impl Iterator<Item = u32> {
    std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}
