//! Owners of sockets: the links in `/proc/<pid>/fd`. Sockets of other network namespaces are not
//! listed, so neither are the links of processes in these.
//!
//! In: processes and sockets. Out: the oldest process that has an inode open. The links of a
//! process are read when it is new, and those of all when a socket has no known owner, or some
//! seconds have passed: a socket may have been passed on. What is unreadable is recorded.

use super::dump::Socket;
use monitor_model::{Identity, Ns, Process};
use std::collections::{HashMap, HashSet};
use std::os::unix::fs::MetadataExt as _;
use std::{io::ErrorKind, path::PathBuf};

/// Maximum interval between two scans of all processes.
const MAX_INTERVAL: Ns = Ns(10_000_000_000);

/// Which descriptors of a process were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FdAccess {
    /// All.
    Full,
    /// None: it belongs to another user.
    Denied,
    /// None: it ended before.
    Ended,
    /// All, and it has ended since.
    FullUntilExit,
    /// None: its network namespace is another one.
    OtherNetwork,
}

/// The known owners.
#[derive(Debug)]
pub struct SocketOwners {
    proc: PathBuf,
    scanned: Option<Ns>,
    by_inode: HashMap<u32, Identity>,
    /// Processes of the last reading.
    seen: HashMap<Identity, FdAccess>,
    /// Inodes that the last scan found in no readable process.
    unowned: HashSet<u32>,
}

impl SocketOwners {
    /// No owner is known yet.
    pub fn new(proc: PathBuf) -> Self {
        let (by_inode, seen, unowned) = (HashMap::new(), HashMap::new(), HashSet::new());
        Self { proc, scanned: None, by_inode, seen, unowned }
    }

    /// Finds the owners of these sockets among these processes.
    pub fn update(&mut self, processes: &[Process], sockets: &[Socket], now: Ns) {
        let new = self.update_seen(processes);
        self.read_links(new);
        self.recheck_networks(processes, now);
        let inodes: HashSet<u32> =
            sockets.iter().map(|it| it.inode).filter(|it| *it != 0).collect();
        self.unowned.retain(|inode| inodes.contains(inode));
        let is_due = self.scanned.is_none_or(|scanned| now.since(scanned) >= MAX_INTERVAL);
        if is_due || inodes.iter().any(|inode| !self.is_settled(*inode)) {
            self.scanned = Some(now);
            self.by_inode.clear();
            self.read_links(processes.iter().filter(|it| !it.ended()).map(|it| it.id).collect());
            let unowned = inodes.into_iter().filter(|inode| !self.by_inode.contains_key(inode));
            self.unowned = unowned.collect();
        }
    }

    /// Finds young processes that have changed their network since: the first process of a
    /// container does so after it was forked. Later changes are found by the next scan.
    fn recheck_networks(&mut self, processes: &[Process], now: Ns) {
        let is_young = |it: &&Process| !it.ended() && now.since(it.id.start) < MAX_INTERVAL;
        for process in processes.iter().filter(is_young) {
            if self.lives(process.id) && self.is_elsewhere(process.id) {
                let _ = self.seen.insert(process.id, FdAccess::OtherNetwork);
            }
        }
    }

    /// Whether the network namespace of a process is not that of the monitor, as far as it may be
    /// read.
    fn is_elsewhere(&self, id: Identity) -> bool {
        let network = |pid: &str| {
            std::fs::metadata(self.proc.join(pid).join("ns/net")).ok().map(|it| it.ino())
        };
        match (network("self"), network(&id.pid.0.to_string())) {
            (Some(own), Some(other)) => own != other,
            _ => false,
        }
    }

    /// Keeps what is known of these processes; returns the new ones.
    fn update_seen(&mut self, processes: &[Process]) -> Vec<Identity> {
        let before = std::mem::take(&mut self.seen);
        let mut new = Vec::new();
        for process in processes {
            let access = match (before.get(&process.id), process.ended()) {
                (None, false) => {
                    new.push(process.id);
                    continue;
                }
                (None, true) => FdAccess::Ended,
                (Some(FdAccess::Full), true) => FdAccess::FullUntilExit,
                (Some(access), _) => *access,
            };
            let _ = self.seen.insert(process.id, access);
        }
        new
    }

    /// The owner of an inode.
    pub fn owner(&self, inode: u32) -> Option<Identity> {
        self.by_inode.get(&inode).copied()
    }

    /// Which descriptors of a process were read.
    pub fn access(&self, id: Identity) -> FdAccess {
        self.seen.get(&id).copied().unwrap_or(FdAccess::Ended)
    }

    /// Whether a readable process was alive at the last reading.
    pub fn lives(&self, id: Identity) -> bool {
        self.access(id) == FdAccess::Full
    }

    /// Whether another scan would find nothing new about an inode.
    fn is_settled(&self, inode: u32) -> bool {
        match self.by_inode.get(&inode) {
            Some(owner) => self.lives(*owner),
            None => self.unowned.contains(&inode),
        }
    }

    /// Reads the links of processes, the oldest first.
    fn read_links(&mut self, mut processes: Vec<Identity>) {
        processes.sort_by_key(|id| (id.start, id.pid));
        for id in processes {
            let access = self.read_links_of(id);
            let _ = self.seen.insert(id, access);
        }
    }

    fn read_links_of(&mut self, id: Identity) -> FdAccess {
        if self.is_elsewhere(id) {
            return FdAccess::OtherNetwork;
        }
        let links = match std::fs::read_dir(self.proc.join(format!("{}/fd", id.pid.0))) {
            Ok(links) => links,
            Err(error) if error.kind() == ErrorKind::PermissionDenied => return FdAccess::Denied,
            Err(_) => return FdAccess::Ended,
        };
        for link in links.flatten() {
            let target = std::fs::read_link(link.path()).unwrap_or_default();
            if let Some(inode) = target.to_str().and_then(inode) {
                let _ = self.by_inode.entry(inode).or_insert(id);
            }
        }
        FdAccess::Full
    }
}

/// The inode of `socket:[inode]`.
fn inode(target: &str) -> Option<u32> {
    target.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_to_a_socket_names_its_inode() {
        assert_eq!(inode("socket:[4711]"), Some(4711));
        assert_eq!(inode("pipe:[4711]"), None);
        assert_eq!(inode("below/socket:[1]"), None);
    }
}
