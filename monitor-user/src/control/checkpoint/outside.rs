//! What ties a process to others on its node, so that it cannot be taken away.
//!
//! In: a process. Out: the first tie that is found, in words; nothing, if there is none. What CRIU
//! cannot dump, it says itself; this is what it would dump and others would miss.

use super::super::subject::Subject;
use super::super::trouble::Trouble;
use procfs::net::{TcpState, UnixState};
use procfs::process::{FDTarget, MMPermissions, MMapPath, Process, all_processes};
use std::collections::BTreeMap;
use std::path::Path;

/// What comes of a peer.
const LOST: &str = "messages on their way are lost: no library lets others drain its connections";

/// What it has open of a kind: inode, descriptor.
type Open = BTreeMap<u64, i32>;

/// The first tie.
pub fn tie(subject: &Subject) -> Result<Option<String>, Trouble> {
    let process = subject.proc()?;
    let open = process.fd().map_err(|_| unreadable())?;
    let (mut sockets, mut pipes) = (Open::new(), Open::new());
    let mut terminal = None;
    for it in open.flatten() {
        match it.target {
            FDTarget::Socket(inode) => _ = sockets.insert(inode, it.fd),
            FDTarget::Pipe(inode) => _ = pipes.insert(inode, it.fd),
            FDTarget::Path(path) if is_terminal(&path) => terminal = Some(it.fd),
            _ => {}
        }
    }
    let tie = terminal
        .map(|fd| format!("has a terminal open ({})", place(fd)))
        .or_else(|| internet(&process, &sockets))
        .or_else(|| local(&process, &sockets))
        .or_else(|| piped(subject, &pipes))
        .or_else(|| shared(&process));
    Ok(tie.map(|tie| named(subject, &tie)))
}

/// Its parent, which would be told that it ended, or a child, which would go with it.
pub fn kin(subject: &Subject) -> Result<Option<String>, Trouble> {
    let kin = relatives(subject, &subject.proc()?)?;
    Ok(kin.map(|kin| named(subject, &kin)))
}

fn named(subject: &Subject, tie: &str) -> String {
    format!("process {} {tie}", subject.pid())
}

fn relatives(subject: &Subject, process: &Process) -> Result<Option<String>, Trouble> {
    let parent = subject.stat()?.ppid;
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    if parent != 1 && parent != own {
        let why = "only who has process 1 for a parent, or was started by `start`, can leave";
        return Ok(Some(format!("has a parent, process {parent}, which would see it end: {why}")));
    }
    let Ok(tasks) = process.tasks() else { return Ok(None) };
    let child = tasks.flatten().filter_map(|it| it.children().ok()).flatten().next();
    Ok(child.map(|child| format!("has a child, process {child}, which would go with it")))
}

fn internet(process: &Process, sockets: &Open) -> Option<String> {
    if sockets.is_empty() {
        return None;
    }
    let tcp = [process.tcp(), process.tcp6()].into_iter().flatten().flatten();
    let tcp = tcp.filter(|it| !matches!(it.state, TcpState::Listen | TcpState::Close));
    let tcp = tcp.map(|it| (it.inode, it.remote_address));
    let udp = [process.udp(), process.udp6()].into_iter().flatten().flatten();
    let udp = udp.filter(|it| it.remote_address.port() != 0);
    let udp = udp.map(|it| (it.inode, it.remote_address));
    let mut peers = tcp.chain(udp).filter_map(|(it, peer)| Some((sockets.get(&it)?, peer)));
    peers.next().map(|(fd, peer)| format!("is connected to {peer} ({}): {LOST}", place(*fd)))
}

/// Who is at the other end is not asked: a pair within one process is a tie, too.
fn local(process: &Process, sockets: &Open) -> Option<String> {
    if sockets.is_empty() {
        return None;
    }
    let table = process.unix().ok()?.into_iter().filter(|it| it.state == UnixState::CONNECTED);
    let fd = table.filter_map(|it| sockets.get(&it.inode)).next()?;
    Some(format!("is connected by a Unix socket ({}): {LOST}", place(*fd)))
}

fn piped(subject: &Subject, pipes: &Open) -> Option<String> {
    if pipes.is_empty() {
        return None;
    }
    // Who cannot be read by its user is not seen; root sees all.
    let others = all_processes().ok()?.flatten().filter(|it| it.pid() != subject.pid());
    for other in others {
        let Ok(open) = other.fd() else { continue };
        for it in open.flatten() {
            let FDTarget::Pipe(inode) = it.target else { continue };
            if let Some(fd) = pipes.get(&inode) {
                let pid = other.pid();
                return Some(format!("has a pipe with process {pid} ({}): {LOST}", place(*fd)));
            }
        }
    }
    None
}

/// Memory that others may have too: message libraries on one node send through it.
fn shared(process: &Process) -> Option<String> {
    let maps = process.maps().ok()?;
    let is_shared = MMPermissions::SHARED | MMPermissions::WRITE;
    maps.iter().filter(|map| map.perms.contains(is_shared)).find_map(|map| match &map.pathname {
        MMapPath::Vsys(key) => Some(format!("shares memory, the segment of key {key:#x}")),
        MMapPath::Path(path) if path.starts_with("/dev/shm") || path.starts_with("/memfd:") => {
            Some(format!("shares memory, {}", path.display()))
        }
        _ => None,
    })
}

fn is_terminal(path: &Path) -> bool {
    path.starts_with("/dev/pts") || path.to_string_lossy().starts_with("/dev/tty")
}

fn place(fd: i32) -> String {
    format!("descriptor {fd}")
}

fn unreadable() -> Trouble {
    Trouble::denied("looking at what the process has open", "the rights of its user")
}
