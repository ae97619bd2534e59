//! Control groups of the tests.

use crate::deadline;
use std::path::PathBuf;

/// A control group of our own, where groups of version 2 are and we may make one.
pub struct Group(pub PathBuf);

impl Group {
    pub fn new(name: &str) -> Option<Self> {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        let line = mounts.lines().find(|line| line.split(' ').nth(2) == Some("cgroup2"))?;
        let folder =
            PathBuf::from(line.split(' ').nth(1)?).join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir(&folder).ok()?;
        folder.join("cgroup.freeze").exists().then_some(Self(folder))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        deadline::until(|| std::fs::remove_dir(&self.0).ok());
    }
}
