//! What a process shares with others on its node, which prevents moving it.
//!
//! In: a process. Out: the first blocker as text, or `None`. CRIU reports itself what it cannot
//! dump; these are things that it would dump and others would miss. What cannot be read may be a
//! blocker, so it is an error.

use crate::ControlError;
use crate::process_ref::{ProcessRef, proc_result};
use procfs::net::{TcpState, UnixState};
use procfs::process::{FDTarget, MMPermissions, MMapPath, MemoryMap, Process, Task, all_processes};
use procfs::{ProcError, ProcResult};
use std::{collections::BTreeMap, os::unix::ffi::OsStrExt as _, path::Path};

/// Why a connected process cannot be moved.
const MESSAGES_LOST: &str =
    "messages in transit would be lost, because no library lets others drain its connections";
const CONNECTIONS: &str = "reading its connections";
const PIPES: &str = "searching for other processes with its pipes";

/// Open files of one kind: inode to descriptor.
type Open = BTreeMap<u64, i32>;
type BlockerResult = Result<Option<String>, ControlError>;

/// The first connection, pipe, terminal or shared memory that would be lost.
pub fn first_blocker(process: &ProcessRef) -> BlockerResult {
    let procfs = process.procfs()?;
    let (mut sockets, mut pipes) = (Open::new(), Open::new());
    let mut terminal = None;
    let open = proc_result("listing open descriptors", procfs.fd())?;
    for it in open.filter_map(if_present) {
        let it = proc_result("listing open descriptors", it)?;
        match it.target {
            FDTarget::Socket(inode) => _ = sockets.insert(inode, it.fd),
            FDTarget::Pipe(inode) => _ = pipes.insert(inode, it.fd),
            FDTarget::Path(path) if is_terminal(&path) => terminal = Some(it.fd),
            _ => {}
        }
    }
    let mut blocker = terminal.map(|fd| format!("has a terminal open ({})", descriptor(fd)));
    let others: [&dyn Fn() -> BlockerResult; 4] = [
        &|| internet_peer(&procfs, &sockets),
        &|| unix_peer(&procfs, &sockets),
        &|| shared_pipe(process, &pipes),
        &|| shared_memory(&procfs),
    ];
    for other in others {
        blocker = if blocker.is_some() { blocker } else { other()? };
    }
    // Files that vanished during the check are no blockers, unless the process vanished.
    if process.pidfd.has_ended() { Err(ControlError::Gone) } else { Ok(with_pid(process, blocker)) }
}

/// The parent, which would see it exit, or a child, which would be moved too.
pub fn first_relative(process: &ProcessRef) -> BlockerResult {
    let parent = process.stat()?.ppid;
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    if parent != 1 && parent != own {
        let why = "only a process with parent 1, or one started by `start`, can be moved";
        let why = format!("has a parent, process {parent}, which would see it end: {why}");
        return Ok(with_pid(process, Some(why)));
    }
    let tasks = proc_result("reading its threads", process.procfs()?.tasks())?;
    for task in tasks.filter_map(if_present) {
        let child = children(&proc_result("reading its threads", task)?)?.first().copied();
        if let Some(child) = child {
            let why = format!("has a child, process {child}, which would be moved too");
            return Ok(with_pid(process, Some(why)));
        }
    }
    Ok(None)
}

fn with_pid(process: &ProcessRef, blocker: Option<String>) -> Option<String> {
    blocker.map(|blocker| format!("process {} {blocker}", process.pid()))
}

/// The children of a thread; none if it has ended.
fn children(task: &Task) -> Result<Vec<u32>, ControlError> {
    match task.children() {
        Err(ProcError::NotFound(_)) if task.stat().is_err() => Ok(Vec::new()),
        Err(ProcError::NotFound(_)) => Err(ControlError::Unsupported(
            "this kernel does not list the children of a process; it needs \
             CONFIG_PROC_CHILDREN"
                .to_owned(),
        )),
        answer => proc_result("reading its children", answer),
    }
}

fn internet_peer(procfs: &Process, sockets: &Open) -> BlockerResult {
    if sockets.is_empty() {
        return Ok(None);
    }
    let (mut tcp, mut udp) = (table(procfs.tcp())?, table(procfs.udp())?);
    tcp.extend(table(procfs.tcp6())?);
    udp.extend(table(procfs.udp6())?);
    let tcp = tcp.into_iter().filter(|it| !matches!(it.state, TcpState::Listen | TcpState::Close));
    let tcp = tcp.map(|it| (it.inode, it.remote_address));
    let udp = udp.into_iter().filter(|it| it.remote_address.port() != 0);
    let udp = udp.map(|it| (it.inode, it.remote_address));
    let mut peers = tcp.chain(udp).filter_map(|(it, peer)| Some((sockets.get(&it)?, peer)));
    let peer = peers.next();
    Ok(peer
        .map(|(fd, peer)| format!("is connected to {peer} ({}): {MESSAGES_LOST}", descriptor(*fd))))
}

/// A connected Unix socket. The peer is not identified: a pair within one process counts too.
fn unix_peer(procfs: &Process, sockets: &Open) -> BlockerResult {
    if sockets.is_empty() {
        return Ok(None);
    }
    let unix = table(procfs.unix())?.into_iter().filter(|it| it.state == UnixState::CONNECTED);
    let fd = unix.filter_map(|it| sockets.get(&it.inode)).next();
    Ok(fd.map(|fd| format!("is connected by a Unix socket ({}): {MESSAGES_LOST}", descriptor(*fd))))
}

/// A table of `/proc/net`; a missing one, such as those of IPv6, is empty.
fn table<T>(rows: ProcResult<Vec<T>>) -> Result<Vec<T>, ControlError> {
    match rows {
        Err(ProcError::NotFound(_)) => Ok(Vec::new()),
        rows => proc_result(CONNECTIONS, rows),
    }
}

fn shared_pipe(process: &ProcessRef, pipes: &Open) -> BlockerResult {
    let Some((_, first)) = pipes.first_key_value() else { return Ok(None) };
    for other in proc_result(PIPES, all_processes())?.filter_map(if_present) {
        let other = proc_result(PIPES, other)?;
        if other.pid() == process.pid() {
            continue;
        }
        match common_pipe(&other, pipes) {
            Err(ControlError::Denied { .. }) => {
                let why = format!(
                    "has a pipe ({}); only root can see which other process has it",
                    descriptor(*first)
                );
                return Ok(Some(why));
            }
            Err(why) => return Err(why),
            Ok(None) => {}
            Ok(Some(fd)) => {
                let pid = other.pid();
                return Ok(Some(format!(
                    "has a pipe with process {pid} ({}): {MESSAGES_LOST}",
                    descriptor(fd)
                )));
            }
        }
    }
    Ok(None)
}

/// The descriptor of a pipe that another process has too.
fn common_pipe(other: &Process, pipes: &Open) -> Result<Option<i32>, ControlError> {
    let Some(open) = if_present(other.fd()) else { return Ok(None) };
    for it in proc_result(PIPES, open)?.filter_map(if_present) {
        if let FDTarget::Pipe(inode) = proc_result(PIPES, it)?.target
            && let Some(fd) = pipes.get(&inode)
        {
            return Ok(Some(*fd));
        }
    }
    Ok(None)
}

/// Memory that others may share: message libraries send through it within a node.
fn shared_memory(procfs: &Process) -> BlockerResult {
    let maps = proc_result("reading its memory map", procfs.maps())?;
    Ok(maps.iter().find_map(with_others))
}

fn with_others(map: &MemoryMap) -> Option<String> {
    if !map.perms.contains(MMPermissions::SHARED | MMPermissions::WRITE) {
        return None;
    }
    match &map.pathname {
        MMapPath::Vsys(key) => Some(format!("shares memory, the segment of key {key:#x}")),
        MMapPath::Path(path) if is_memory(path) => {
            Some(format!("shares memory, {}", path.display()))
        }
        _ => None,
    }
}

/// Whether a file exists only in memory: POSIX shared memory or a memfd.
fn is_memory(path: &Path) -> bool {
    path.starts_with("/dev/shm") || path.as_os_str().as_bytes().starts_with(b"/memfd:")
}

/// `None` if the entry has vanished: what has exited or was closed is no blocker.
fn if_present<T>(found: ProcResult<T>) -> Option<ProcResult<T>> {
    match found {
        Err(ProcError::NotFound(_)) => None,
        found => Some(found),
    }
}

fn is_terminal(path: &Path) -> bool {
    path.starts_with("/dev/pts") || path.to_string_lossy().starts_with("/dev/tty")
}

fn descriptor(fd: i32) -> String {
    format!("descriptor {fd}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_model::id::Pid;
    use std::os::unix::net::UnixStream;

    #[test]
    fn shared_memory_is_recognised_by_its_file() {
        for (path, is_it) in [
            ("/memfd:queue (deleted)", true),
            ("/memfd: (deleted)", true),
            ("/dev/shm/queue", true),
            ("/dev/shmem/queue", false),
            ("/srv/memfd:queue", false),
        ] {
            assert_eq!(is_memory(Path::new(path)), is_it, "{path}");
        }
    }

    #[test]
    fn a_missing_table_is_empty_and_a_malformed_one_is_an_error() {
        assert_eq!(table::<u8>(Err(ProcError::NotFound(None))), Ok(Vec::new()));
        let malformed = table::<u8>(Err(ProcError::Other("no number".to_owned())));
        assert!(matches!(malformed, Err(ControlError::Failed { .. })), "{malformed:?}");
    }

    #[test]
    fn a_socket_with_a_peer_is_a_blocker() {
        let (_one, _other) = UnixStream::pair().unwrap();
        let own = ProcessRef::open_current(Pid(std::process::id())).unwrap();
        let procfs = own.procfs().unwrap();
        let open = procfs.fd().unwrap().flatten().filter_map(|it| match it.target {
            FDTarget::Socket(inode) => Some((inode, it.fd)),
            _ => None,
        });
        let sockets: Open = open.collect();
        let blocker = unix_peer(&procfs, &sockets).unwrap().unwrap();
        assert!(blocker.starts_with("is connected by a Unix socket (descriptor "), "{blocker}");
    }
}
