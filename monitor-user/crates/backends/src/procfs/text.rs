//! Cache of process texts that need an extra look-up: command line, cgroup path and user name.
//!
//! In: an identity, and what shows that the text is unchanged: the exec generation or the cgroup
//! id. Out: a shared text, or none if the process ended. Texts are unchanged, including control
//! characters; the formats escape them. Used by both backends that read real processes.

use super::job_origin::{Origins, PATHS_VALID_FOR, SeenProcess};
use crate::user::Users;
use monitor_model::{Identity, Ns, Origin, Pid, Process, ProcessField};
use monitor_proc::stat::{self, Stat};
use monitor_proc::{cgroup, smaps, status};
use monitor_sys::clock;
use std::{collections::HashMap, fs::File, io::Read, path::PathBuf, sync::Arc};

/// Maximum number of cached command lines; others are read each time.
pub const MAX_CMDLINES: usize = 65_536;
/// Maximum number of cached cgroup paths; beyond, the cache is cleared.
pub const MAX_CGROUPS: usize = 16_384;
/// Maximum number of processes whose path is cached where no id determines it.
pub const MAX_PATHS: usize = 65_536;
/// Maximum length of a command line; a longer one is truncated and ends with three dots.
pub const LONGEST_CMDLINE: usize = 4096;

/// Cached texts.
#[derive(Debug)]
pub struct TextCache {
    proc: PathBuf,
    tick_ns: u64,
    cmdlines: HashMap<Identity, Cmdline>,
    cgroups: HashMap<u64, UnifiedCgroup>,
    paths: HashMap<Identity, CgroupPath>,
    origins: Origins,
    users: Users,
}

#[derive(Debug)]
struct Cmdline {
    generation: u32,
    /// Absent for kernel threads.
    text: Option<Arc<str>>,
}

/// A cgroup of the unified hierarchy.
#[derive(Debug)]
struct UnifiedCgroup {
    path: Arc<str>,
    /// Whether there is no other hierarchy, which could name another one for some of its processes.
    is_alone: bool,
}

/// The cgroup of a process that no id determines.
#[derive(Debug)]
struct CgroupPath {
    generation: u32,
    /// In the unified hierarchy: one that was moved there is read again.
    cgroup_id: Option<u64>,
    at: Ns,
    path: Arc<str>,
}

impl TextCache {
    /// An empty cache for the processes below that `/proc`.
    pub fn new(proc: PathBuf) -> Self {
        Self {
            proc,
            tick_ns: clock::tick_ns(),
            cmdlines: HashMap::new(),
            cgroups: HashMap::new(),
            paths: HashMap::new(),
            origins: Origins::default(),
            users: Users::default(),
        }
    }

    /// Control groups and job variables: read again after an exec, and when it may have been moved.
    pub fn origin(&mut self, seen: SeenProcess) -> Option<Arc<Origin>> {
        let mut origins = std::mem::take(&mut self.origins);
        let read = |name: &str, longest| self.file_of(seen.id, name, longest);
        let origin = origins.origin(seen, clock::boot(), read);
        self.origins = origins;
        origin
    }

    /// Name of the user of a process, or the uid if it has no name.
    pub fn user(&mut self, process: &Process) -> Option<Arc<str>> {
        let uid = process.row.get(ProcessField::Uid)?;
        Some(self.users.name(u32::try_from(uid).ok()?))
    }

    /// The arguments, joined by spaces. `generation` changes with each exec.
    pub fn cmdline(&mut self, id: Identity, generation: u32) -> Option<Arc<str>> {
        if let Some(known) = self.cmdlines.get(&id).filter(|it| it.generation == generation) {
            return known.text.clone();
        }
        let bytes = self.file_of(id, "cmdline", LONGEST_CMDLINE + 1)?;
        let text = joined(bytes).map(Arc::from);
        if self.cmdlines.len() < MAX_CMDLINES || self.cmdlines.contains_key(&id) {
            self.cmdlines.insert(id, Cmdline { generation, text: text.clone() });
        }
        text
    }

    /// The path of the cgroup of a process. In the unified hierarchy alone the id determines it;
    /// elsewhere it is read again after an exec, and when the process may have been moved.
    pub fn cgroup(&mut self, seen: SeenProcess) -> Option<Arc<str>> {
        let now = clock::boot();
        if let Some(known) = self.cgroup_known(seen, now) {
            return Some(known);
        }
        let bytes = self.file_of(seen.id, "cgroup", usize::MAX)?;
        let path = text(cgroup::path(&bytes)?);
        let is_alone = cgroup::is_unified(&bytes);
        if let Some(id) = seen.cgroup_id.filter(|_| cgroup::is_in_unified(&bytes, path.as_bytes()))
        {
            if self.cgroups.len() >= MAX_CGROUPS {
                self.cgroups.clear();
            }
            let _before = self.cgroups.insert(id, UnifiedCgroup { path: path.clone(), is_alone });
        }
        if !is_alone && self.paths.len() < MAX_PATHS {
            let SeenProcess { id, generation, cgroup_id } = seen;
            let known = CgroupPath { generation, cgroup_id, at: now, path: Arc::clone(&path) };
            let _before = self.paths.insert(id, known);
        }
        Some(path)
    }

    /// The path of the cgroup that a process is in now.
    pub fn cgroup_now(&self, id: Identity) -> Option<Arc<str>> {
        let bytes = self.file_of(id, "cgroup", usize::MAX)?;
        cgroup::path(&bytes).map(text)
    }

    /// The same if it is cached.
    fn cgroup_known(&self, seen: SeenProcess, now: Ns) -> Option<Arc<str>> {
        let by_id = seen.cgroup_id.and_then(|cgroup_id| self.cgroups.get(&cgroup_id));
        if let Some(cgroup) = by_id.filter(|it| it.is_alone) {
            return Some(Arc::clone(&cgroup.path));
        }
        let known = self.paths.get(&seen.id)?;
        let is_valid = (known.generation, known.cgroup_id) == (seen.generation, seen.cgroup_id)
            && now.since(known.at) < PATHS_VALID_FOR;
        is_valid.then(|| Arc::clone(&known.path))
    }

    /// The last known path of the cgroup of a process that has ended; if it was not read, the one
    /// that the unified hierarchy names.
    pub fn cgroup_last(&self, id: Identity, cgroup_id: u64) -> Option<Arc<str>> {
        let own = self.paths.get(&id).filter(|it| it.cgroup_id == Some(cgroup_id));
        let own = own.map(|it| &it.path);
        own.or_else(|| Some(&self.cgroups.get(&cgroup_id)?.path)).cloned()
    }

    /// The PSS in bytes, for backends that read the other fields elsewhere.
    pub fn pss(&self, id: Identity) -> Option<u64> {
        smaps::parse(&self.file_of(id, "smaps_rollup", LONGEST_CMDLINE)?).ok()
    }

    /// What this `/proc` contains on the process with this pid.
    pub fn namespace_view(&self, pid: Pid) -> Option<NamespaceView> {
        let dir = self.proc.join(pid.0.to_string());
        let status = status::parse(&std::fs::read(dir.join("status")).ok()?).ok()?;
        let stat = stat::parse(&std::fs::read(dir.join("stat")).ok()?).ok()?;
        let innermost = status.ns_pid.map_or(Some(pid.0), |pid| pid.try_into().ok())?;
        let Stat { start_ticks, comm, .. } = stat;
        Some(NamespaceView { ns_pid: Pid(innermost), start_ticks, comm })
    }

    /// Removes processes that are not in this list, which is in the order of identities.
    pub fn keep_only(&mut self, processes: &[Process]) {
        let is_live = |id: &Identity| processes.binary_search_by_key(id, |it| it.id).is_ok();
        self.cmdlines.retain(|id, _| is_live(id));
        self.paths.retain(|id, _| is_live(id));
        self.origins.keep_only(is_live);
    }

    /// A file of a process, if its pid was not reused.
    fn file_of(&self, id: Identity, name: &str, longest: usize) -> Option<Vec<u8>> {
        let dir = self.proc.join(id.pid.0.to_string());
        let mut bytes = Vec::new();
        let file = File::open(dir.join(name)).ok()?;
        let limit = u64::try_from(longest).unwrap_or(u64::MAX);
        let _len = file.take(limit).read_to_end(&mut bytes).ok()?;
        // The pid may have been reused before the file was opened; `stat` shows the current
        // process.
        let stat = stat::parse(&std::fs::read(dir.join("stat")).ok()?).ok()?;
        (stat.start_ticks == id.start.0 / self.tick_ns).then_some(bytes)
    }
}

/// A process as `/proc` shows it in the pid namespace that it is mounted in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceView {
    /// Its pid in its innermost namespace.
    pub ns_pid: Pid,
    /// When it started, in ticks since boot.
    pub start_ticks: u64,
    /// Its command name, NUL-padded.
    pub comm: [u8; 16],
}

/// Joins arguments, each terminated by NUL. A program that overwrote them may have left no NUL.
fn joined(mut bytes: Vec<u8>) -> Option<String> {
    let cut = bytes.len() > LONGEST_CMDLINE;
    bytes.truncate(LONGEST_CMDLINE);
    let end = bytes.iter().rposition(|&byte| byte != 0)? + 1;
    bytes.truncate(end);
    for byte in &mut bytes {
        if *byte == 0 {
            *byte = b' ';
        }
    }
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    if cut {
        text.push_str("...");
    }
    Some(text)
}

fn text(bytes: &[u8]) -> Arc<str> {
    String::from_utf8_lossy(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_joined(bytes: &[u8], want: Option<&str>) {
        assert_eq!(joined(bytes.to_vec()).as_deref(), want);
    }

    #[test]
    fn arguments_are_joined_by_spaces() {
        check_joined(b"sh\0-c\0echo a\0", Some("sh -c echo a"));
        check_joined(b"a\0\0b\0", Some("a  b"));
        check_joined(b"nginx: worker process", Some("nginx: worker process"));
        check_joined(b"tab\there\x1b[1m\0", Some("tab\there\x1b[1m"));
        check_joined(b"", None);
        check_joined(b"\0\0", None);
    }

    #[test]
    fn a_truncated_command_line_ends_with_dots() {
        let text = joined(vec![b'x'; LONGEST_CMDLINE + 1]).unwrap();
        assert!(text.ends_with("x...") && text.len() == LONGEST_CMDLINE + 3);
    }
}
