//! What a round has done so far, with times since it began.

use std::time::Instant;

/// The lines of one round. `MONITOR_SOAK_VERBOSE` prints each at once.
pub struct RoundLog {
    lines: Vec<String>,
    begin: Instant,
}

impl RoundLog {
    pub fn new() -> Self {
        Self { lines: Vec::new(), begin: Instant::now() }
    }

    pub fn add(&mut self, line: String) {
        let line = format!("{:>6} ms  {line}", self.begin.elapsed().as_millis());
        if std::env::var_os("MONITOR_SOAK_VERBOSE").is_some() {
            println!("{line}");
        }
        self.lines.push(line);
    }

    /// Prints the lines of a round that has failed.
    pub fn print(&self) {
        self.lines.iter().for_each(|line| println!("  {line}"));
    }
}
