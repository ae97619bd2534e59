//! What ties a process to others on its node, so that it cannot be taken away.
//!
//! In: a process. Out: the first tie that is found, in words; nothing, if there is none. What CRIU
//! cannot dump, it says itself; this is what it would dump and others would miss. What cannot be
//! read may be a tie, so it is an error.

use super::super::subject::{Subject, tell};
use super::super::trouble::Trouble;
use procfs::net::{TcpState, UnixState};
use procfs::process::{FDTarget, MMPermissions, MMapPath, MemoryMap, Process, Task, all_processes};
use procfs::{ProcError, ProcResult};
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// What comes of a peer.
const LOST: &str = "messages on their way are lost: no library lets others drain its connections";
const CONNECTIONS: &str = "reading its connections";
const PIPES: &str = "looking for who else has its pipes";

/// What it has open of a kind: inode, descriptor.
type Open = BTreeMap<u64, i32>;
type Tie = Result<Option<String>, Trouble>;

/// The first tie.
pub fn tie(subject: &Subject) -> Tie {
    let process = subject.proc()?;
    let (mut sockets, mut pipes) = (Open::new(), Open::new());
    let mut terminal = None;
    let open = tell("looking at what the process has open", process.fd())?;
    for it in open.filter_map(there) {
        let it = tell("looking at what the process has open", it)?;
        match it.target {
            FDTarget::Socket(inode) => _ = sockets.insert(inode, it.fd),
            FDTarget::Pipe(inode) => _ = pipes.insert(inode, it.fd),
            FDTarget::Path(path) if is_terminal(&path) => terminal = Some(it.fd),
            _ => {}
        }
    }
    let mut tie = terminal.map(|fd| format!("has a terminal open ({})", place(fd)));
    let others: [&dyn Fn() -> Tie; 4] = [
        &|| internet(&process, &sockets),
        &|| local(&process, &sockets),
        &|| piped(subject, &pipes),
        &|| shared(&process),
    ];
    for other in others {
        tie = if tie.is_some() { tie } else { other()? };
    }
    // Whatever was not there is no tie, if the process was.
    if subject.held.has_ended() { Err(Trouble::Gone) } else { Ok(named(subject, tie)) }
}

/// Its parent, which would be told that it ended, or a child, which would go with it.
pub fn kin(subject: &Subject) -> Tie {
    let parent = subject.stat()?.ppid;
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    if parent != 1 && parent != own {
        let why = "only who has process 1 for a parent, or was started by `start`, can leave";
        let why = format!("has a parent, process {parent}, which would see it end: {why}");
        return Ok(named(subject, Some(why)));
    }
    let tasks = tell("reading its threads", subject.proc()?.tasks())?;
    for task in tasks.filter_map(there) {
        let child = children(&tell("reading its threads", task)?)?.first().copied();
        if let Some(child) = child {
            let why = format!("has a child, process {child}, which would go with it");
            return Ok(named(subject, Some(why)));
        }
    }
    Ok(None)
}

fn named(subject: &Subject, tie: Option<String>) -> Option<String> {
    tie.map(|tie| format!("process {} {tie}", subject.pid()))
}

/// Of a thread; one that has ended has none.
fn children(task: &Task) -> Result<Vec<u32>, Trouble> {
    match task.children() {
        Err(ProcError::NotFound(_)) if task.stat().is_err() => Ok(Vec::new()),
        Err(ProcError::NotFound(_)) => Err(Trouble::Unsupported(
            "this kernel does not tell who the children of a process are; it needs \
             CONFIG_PROC_CHILDREN"
                .to_owned(),
        )),
        answer => tell("reading its children", answer),
    }
}

fn internet(process: &Process, sockets: &Open) -> Tie {
    if sockets.is_empty() {
        return Ok(None);
    }
    let (mut tcp, mut udp) = (table(process.tcp())?, table(process.udp())?);
    tcp.extend(table(process.tcp6())?);
    udp.extend(table(process.udp6())?);
    let tcp = tcp.into_iter().filter(|it| !matches!(it.state, TcpState::Listen | TcpState::Close));
    let tcp = tcp.map(|it| (it.inode, it.remote_address));
    let udp = udp.into_iter().filter(|it| it.remote_address.port() != 0);
    let udp = udp.map(|it| (it.inode, it.remote_address));
    let mut peers = tcp.chain(udp).filter_map(|(it, peer)| Some((sockets.get(&it)?, peer)));
    let peer = peers.next();
    Ok(peer.map(|(fd, peer)| format!("is connected to {peer} ({}): {LOST}", place(*fd))))
}

/// Who is at the other end is not asked: a pair within one process is a tie, too.
fn local(process: &Process, sockets: &Open) -> Tie {
    if sockets.is_empty() {
        return Ok(None);
    }
    let unix = table(process.unix())?.into_iter().filter(|it| it.state == UnixState::CONNECTED);
    let fd = unix.filter_map(|it| sockets.get(&it.inode)).next();
    Ok(fd.map(|fd| format!("is connected by a Unix socket ({}): {LOST}", place(*fd))))
}

/// A table of the kernel; one that is not there has nothing in it, such as those of IPv6.
fn table<T>(rows: ProcResult<Vec<T>>) -> Result<Vec<T>, Trouble> {
    match rows {
        Err(ProcError::NotFound(_)) => Ok(Vec::new()),
        rows => tell(CONNECTIONS, rows),
    }
}

fn piped(subject: &Subject, pipes: &Open) -> Tie {
    let Some((_, first)) = pipes.first_key_value() else { return Ok(None) };
    for other in tell(PIPES, all_processes())?.filter_map(there) {
        let other = tell(PIPES, other)?;
        if other.pid() == subject.pid() {
            continue;
        }
        match shares(&other, pipes) {
            Err(Trouble::Denied { .. }) => {
                let why =
                    format!("has a pipe ({}): who else has it, only root sees", place(*first));
                return Ok(Some(why));
            }
            Err(why) => return Err(why),
            Ok(None) => {}
            Ok(Some(fd)) => {
                let pid = other.pid();
                return Ok(Some(format!("has a pipe with process {pid} ({}): {LOST}", place(fd))));
            }
        }
    }
    Ok(None)
}

/// The descriptor of the pipe that another process has, too.
fn shares(other: &Process, pipes: &Open) -> Result<Option<i32>, Trouble> {
    let Some(open) = there(other.fd()) else { return Ok(None) };
    for it in tell(PIPES, open)?.filter_map(there) {
        if let FDTarget::Pipe(inode) = tell(PIPES, it)?.target
            && let Some(fd) = pipes.get(&inode)
        {
            return Ok(Some(*fd));
        }
    }
    Ok(None)
}

/// Memory that others may have too: message libraries on one node send through it.
fn shared(process: &Process) -> Tie {
    let maps = tell("reading its memory map", process.maps())?;
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

/// A file that is nowhere but in memory; the name of a memfd is one component with what it is.
fn is_memory(path: &Path) -> bool {
    path.starts_with("/dev/shm") || path.as_os_str().as_bytes().starts_with(b"/memfd:")
}

/// What was found and is there still: who has ended, or was closed, meanwhile is no tie.
fn there<T>(found: ProcResult<T>) -> Option<ProcResult<T>> {
    match found {
        Err(ProcError::NotFound(_)) => None,
        found => Some(found),
    }
}

fn is_terminal(path: &Path) -> bool {
    path.starts_with("/dev/pts") || path.to_string_lossy().starts_with("/dev/tty")
}

fn place(fd: i32) -> String {
    format!("descriptor {fd}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_model::id::Pid;
    use std::os::unix::net::UnixStream;

    #[test]
    fn memory_that_others_may_have_is_told_by_its_file() {
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
    fn a_table_that_is_not_there_is_empty_and_one_that_makes_no_sense_is_an_error() {
        assert_eq!(table::<u8>(Err(ProcError::NotFound(None))), Ok(Vec::new()));
        let malformed = table::<u8>(Err(ProcError::Other("no number".to_owned())));
        assert!(matches!(malformed, Err(Trouble::Failed { .. })), "{malformed:?}");
    }

    #[test]
    fn a_socket_with_a_peer_is_a_tie() {
        let (_one, _other) = UnixStream::pair().unwrap();
        let own = Subject::now(Pid(std::process::id())).unwrap();
        let process = own.proc().unwrap();
        let open = process.fd().unwrap().flatten().filter_map(|it| match it.target {
            FDTarget::Socket(inode) => Some((inode, it.fd)),
            _ => None,
        });
        let sockets: Open = open.collect();
        let tie = local(&process, &sockets).unwrap().unwrap();
        assert!(tie.starts_with("is connected by a Unix socket (descriptor "), "{tie}");
    }
}
