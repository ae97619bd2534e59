//! Whether the first process has run, for what some hosts hide while it does.

/// Some hosts run no program while their first process is current, be it in an interrupt: what a
/// hook would have seen then is hidden. What is measured without that process is exact everywhere.
pub struct FirstProcess {
    /// None while it runs, which is no switch.
    switches: Option<u64>,
}

impl FirstProcess {
    /// Starts to watch now.
    pub fn watched() -> Self {
        Self { switches: switches_of_first() }
    }

    /// Whether it has run since then.
    pub fn has_run(&self) -> bool {
        self.switches.is_none() || switches_of_first() != self.switches
    }
}

/// Context switches of the first process, all its threads but those that vanish meanwhile; nothing
/// while one of them runs.
fn switches_of_first() -> Option<u64> {
    let threads = std::fs::read_dir("/proc/1/task").unwrap().flatten();
    let texts = threads.map(|it| std::fs::read_to_string(it.path().join("status")));
    let of = |text: String| -> Option<u64> {
        if text.contains("State:\tR") {
            return None;
        }
        let counts = text.lines().filter_map(|line| line.split_once("_ctxt_switches:"));
        Some(counts.map(|(_, count)| count.trim().parse::<u64>().unwrap()).sum())
    };
    texts.flatten().map(of).sum()
}
