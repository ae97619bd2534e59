//! Who holds which socket: the links in `/proc/<pid>/fd`.
//!
//! In: processes and sockets. Out: the oldest process that holds an inode. Looks into a process
//! when it is new, and into all when a socket is nobody's yet, or some seconds have passed: one
//! may have been handed over. What we may not look into is remembered.

use super::dump::Socket;
use monitor_model::id::{Identity, Ns};
use monitor_model::sample::Process;
use std::collections::{HashMap, HashSet};
use std::io::ErrorKind;
use std::path::PathBuf;

/// Longest between two looks into all.
const AT_LEAST_EVERY: Ns = Ns(10_000_000_000);

/// What we see of what a process has open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FdAccess {
    /// All of it.
    Clear,
    /// Nothing: it is another user's.
    Denied,
    /// Nothing: it ended before we looked.
    Late,
    /// All of it, and now it has ended.
    Over,
}

/// What is known of holders.
#[derive(Debug)]
pub struct SocketOwners {
    proc: PathBuf,
    looked: Option<Ns>,
    by_inode: HashMap<u32, Identity>,
    /// Processes of the last reading.
    seen: HashMap<Identity, FdAccess>,
    /// Inodes of which a look has shown that nobody has them whom we may see.
    nobodys: HashSet<u32>,
}

impl SocketOwners {
    /// Nothing is known yet.
    pub fn new(proc: PathBuf) -> Self {
        let (by_inode, seen, nobodys) = (HashMap::new(), HashMap::new(), HashSet::new());
        Self { proc, looked: None, by_inode, seen, nobodys }
    }

    /// Finds the holders of these sockets among these processes.
    pub fn learn(&mut self, processes: &[Process], sockets: &[Socket], now: Ns) {
        let living = || processes.iter().filter(|it| !it.ended()).map(|it| it.id);
        let fresh = self.recognise(processes);
        self.look(fresh);
        let inodes: HashSet<u32> =
            sockets.iter().map(|it| it.inode).filter(|it| *it != 0).collect();
        self.nobodys.retain(|inode| inodes.contains(inode));
        let late = self.looked.is_none_or(|looked| now.since(looked) >= AT_LEAST_EVERY);
        if late || inodes.iter().any(|inode| !self.is_settled(*inode)) {
            self.looked = Some(now);
            self.by_inode.clear();
            self.look(living().collect());
            let unheld = inodes.iter().filter(|inode| !self.by_inode.contains_key(inode));
            self.nobodys = unheld.copied().collect();
        }
    }

    /// Remembers of these processes what is known; those of which nothing is.
    fn recognise(&mut self, processes: &[Process]) -> Vec<Identity> {
        let before = std::mem::take(&mut self.seen);
        let mut fresh = Vec::new();
        for process in processes {
            let sight = match (before.get(&process.id), process.ended()) {
                (None, false) => {
                    fresh.push(process.id);
                    continue;
                }
                (None, true) => FdAccess::Late,
                (Some(FdAccess::Clear), true) => FdAccess::Over,
                (Some(sight), _) => *sight,
            };
            let _ = self.seen.insert(process.id, sight);
        }
        fresh
    }

    /// Who holds an inode.
    pub fn owner(&self, inode: u32) -> Option<Identity> {
        self.by_inode.get(&inode).copied()
    }

    /// What we see of what a process has open.
    pub fn access(&self, id: Identity) -> FdAccess {
        self.seen.get(&id).copied().unwrap_or(FdAccess::Late)
    }

    /// Whether a process that we saw was alive at the last reading.
    pub fn lives(&self, id: Identity) -> bool {
        self.access(id) == FdAccess::Clear
    }

    /// Whether nothing new can be learned of an inode.
    fn is_settled(&self, inode: u32) -> bool {
        match self.by_inode.get(&inode) {
            Some(holder) => self.lives(*holder),
            None => self.nobodys.contains(&inode),
        }
    }

    /// Looks into processes, the oldest first.
    fn look(&mut self, mut processes: Vec<Identity>) {
        processes.sort_by_key(|id| (id.start, id.pid));
        for id in processes {
            let sight = self.look_into(id);
            let _ = self.seen.insert(id, sight);
        }
    }

    fn look_into(&mut self, id: Identity) -> FdAccess {
        let links = match std::fs::read_dir(self.proc.join(format!("{}/fd", id.pid.0))) {
            Ok(links) => links,
            Err(error) if error.kind() == ErrorKind::PermissionDenied => return FdAccess::Denied,
            Err(_) => return FdAccess::Late,
        };
        for link in links.flatten() {
            let target = std::fs::read_link(link.path()).unwrap_or_default();
            let inode = target.to_str().and_then(inode);
            if let Some(inode) = inode {
                let _ = self.by_inode.entry(inode).or_insert(id);
            }
        }
        FdAccess::Clear
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
