//! Memory that the kernel takes for a program: maps, programs and sockets, in a memory group of
//! their own.
//!
//! In: a command to start in the group, its process. Out: bytes; `None` where there are no memory
//! groups.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A memory group, removed on drop.
pub struct MemoryGroup(PathBuf);

impl MemoryGroup {
    /// A new group, of either version of the interface.
    pub fn new() -> Option<Self> {
        let name = format!("monitor-bench-{}", std::process::id());
        ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"].into_iter().find_map(|root| {
            let group = Self(Path::new(root).join(&name));
            fs::create_dir(&group.0).ok()?;
            group.kernel_bytes().is_some().then_some(group)
        })
    }

    /// A command that starts a program in the group.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("sh");
        let script = r#"echo $$ >"$0/cgroup.procs" && exec "$@""#;
        command.args(["-c", script]).arg(&self.0).arg(program);
        command
    }

    /// Kernel memory of the group.
    pub fn kernel_bytes(&self) -> Option<f64> {
        if let Ok(text) = fs::read_to_string(self.0.join("memory.kmem.usage_in_bytes")) {
            return text.trim().parse().ok();
        }
        let text = fs::read_to_string(self.0.join("memory.stat")).ok()?;
        let value = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key))?;
            line.trim().parse::<f64>().ok()
        };
        Some(value("kernel ")? + value("sock ").unwrap_or(0.0))
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// Memory of the BPF maps and programs that a process has open.
pub fn bpf_bytes(pid: u32) -> f64 {
    let files = fs::read_dir(format!("/proc/{pid}/fdinfo")).into_iter().flatten().flatten();
    let texts = files.filter_map(|it| fs::read_to_string(it.path()).ok());
    let bytes = texts.filter_map(|text| {
        let value = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key))?;
            line.trim().parse::<u64>().ok()
        };
        let id = value("map_id:").map(|id| ("map", id));
        Some((id.or_else(|| Some(("program", value("prog_id:")?)))?, value("memlock:")?))
    });
    bytes.collect::<HashMap<_, _>>().into_values().map(|it| it as f64).sum()
}
