//! `monitor job rendezvous`: the PMIx server of the node, which tools find without a name.
//!
//! In: a folder for its rendezvous file, a socket for hosts, a user. Out: the file, while the
//! command runs. Three kinds of processes: this command, which has made the file and the socket and
//! waits; the front, and workers, which run as the user without rights and talk to clients.

use super::args::JobRendezvousArgs;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output;
use monitor_control::user_worker::SELF_EXE;
use monitor_model::Pid;
use monitor_pmix::registration;
use monitor_pmix::rendezvous::read_file;
use monitor_pmix::system_server::{rendezvous_text, serve, work};
use monitor_sys::pending_signals::PendingSignals;
use monitor_sys::pidfd::PidFd;
use monitor_sys::{spawn, users};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::Mode;
use rustix::process::{geteuid, umask};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{
    FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The user that the processes which talk to clients run as, unless another one is named.
const USER: &str = "nobody";
/// Where tools of PMIx look, if the variable names no other folder (`ptl_base_frame.c`).
const FOLDER_VARIABLE: &str = "PMIX_SYSTEM_TMPDIR";

/// Serves until it is interrupted.
///
/// # Errors
/// If PMIx is not installed, another server of the node runs, or a file or socket cannot be made.
pub fn rendezvous(args: &JobRendezvousArgs) -> Result<Exit, Failure> {
    match args.part.as_deref() {
        Some("front") => front(),
        Some("worker") => worker(),
        _ => run(args),
    }
}

fn run(args: &JobRendezvousArgs) -> Result<Exit, Failure> {
    let signals = PendingSignals::keep().map_err(Failure::failed)?;
    let user = user(args)?;
    let folder = args.folder.clone().or_else(|| std::env::var_os(FOLDER_VARIABLE).map(Into::into));
    let folder = folder.unwrap_or_else(std::env::temp_dir);
    let node = rustix::system::uname();
    let path = folder.join(format!("pmix.sys.{}", node.nodename().to_string_lossy()));
    let socket = args.hosts.clone().unwrap_or_else(registration::socket);
    if args.hosts.is_none() && geteuid().is_root() {
        make_folder(&socket)?;
    }
    let bound = Removed::socket(&socket)?;
    let (mut front, port) = start_front(&bound.1, user)?;
    let _file = match Removed::file(&path, port, user.unwrap_or_else(|| geteuid().as_raw())) {
        Ok(file) => file,
        Err(why) => {
            let _ended = front.kill();
            return Err(why);
        }
    };
    output::notice(&format!(
        "the PMIx server of this node is {}; hosts of jobs register at {}",
        path.display(),
        socket.display()
    ));
    let pidfd = PidFd::open(Pid(front.id())).map_err(Failure::failed)?;
    let mut ends =
        [signals.as_fd(), pidfd.as_fd()].map(|it| PollFd::from_borrowed_fd(it, PollFlags::IN));
    while let Err(error) = poll(&mut ends, None) {
        if error != rustix::io::Errno::INTR {
            return Err(Failure::failed(error));
        }
    }
    let is_interrupted = !ends[0].revents().is_empty();
    // It has ended, if this fails.
    let _ended = front.kill();
    let status = front.wait().map_err(Failure::failed)?;
    if is_interrupted {
        return Ok(Exit::Ok);
    }
    Err(Failure::failed(format!("the PMIx server of the node ended with {status}")))
}

/// Makes the folder of a socket, for hosts of all users, if it is not there.
fn make_folder(socket: &Path) -> Result<(), Failure> {
    let Some(folder) = socket.parent().filter(|it| !it.exists()) else { return Ok(()) };
    let failed = |error: io::Error| Failure::failed(format!("{}: {error}", folder.display()));
    fs::create_dir(folder).map_err(failed)?;
    fs::set_permissions(folder, Permissions::from_mode(0o755)).map_err(failed)
}

/// The user of the processes that talk to clients; none, if this one is not root.
fn user(args: &JobRendezvousArgs) -> Result<Option<u32>, Failure> {
    if !geteuid().is_root() {
        return match args.user {
            None => Ok(None),
            Some(_) => Err(Failure::usage("--user needs root")),
        };
    }
    let name = args.user.as_deref().unwrap_or(USER);
    match users::uid(name).map_err(Failure::usage)? {
        0 => Err(Failure::usage("--user is to be one without rights, and not root")),
        uid => Ok(Some(uid)),
    }
}

/// This program, as a part of the server.
fn part(name: &str) -> Command {
    let mut command = Command::new(SELF_EXE);
    command.arg0("monitor").args(["job", "rendezvous", "--part", name]).current_dir("/");
    command.env_clear();
    // Where the library is, and its files.
    let kept = ["LD_LIBRARY_PATH", "OPAL_PREFIX", "PMIX_PREFIX", "PATH", "RUST_LOG"];
    command.envs(kept.into_iter().filter_map(|it| Some((it, std::env::var_os(it)?))));
    // PMIx ends by a signal without it, if the user has no entry in passwd(5).
    command.env("HOME", "/");
    spawn::default_signals(&mut command);
    command
}

/// Starts the front; the port at which it accepts tools.
fn start_front(hosts: &UnixListener, user: Option<u32>) -> Result<(Child, u16), Failure> {
    let mut command = part("front");
    // Its workers end with it, because it is at the other end of their standard input.
    spawn::end_with_parent(&mut command);
    if let Some(uid) = user {
        // Groups are left, too, as the standard library does for root.
        command.uid(uid).gid(users::primary_group(uid).unwrap_or(uid));
    }
    let hosts = hosts.try_clone().map_err(Failure::failed)?;
    command.stdin(OwnedFd::from(hosts)).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(Failure::failed)?;
    let mut line = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout).read_line(&mut line).map_err(Failure::failed)?;
    }
    match line.trim_end().parse() {
        Ok(port) => Ok((child, port)),
        Err(_) => {
            let _ended = child.kill();
            Err(Failure::failed("the PMIx server of the node has not begun"))
        }
    }
}

/// The front: its standard input is the socket for hosts.
fn front() -> Result<Exit, Failure> {
    let tools = TcpListener::bind("127.0.0.1:0").map_err(Failure::failed)?;
    let port = tools.local_addr().map_err(Failure::failed)?.port();
    output::print(format!("{port}\n").as_bytes())?;
    let hosts = io::stdin().as_fd().try_clone_to_owned().map_err(Failure::failed)?;
    serve(&tools, UnixListener::from(hosts), |_| part("worker")).map_err(Failure::failed)?;
    Ok(Exit::Ok)
}

fn worker() -> Result<Exit, Failure> {
    let node = rustix::system::uname();
    let host = node.nodename().to_string_lossy();
    work(&std::env::temp_dir(), &host).map_err(Failure::failed)?;
    Ok(Exit::Ok)
}

/// A file or socket of the server, which ends with it.
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        // Another one may have replaced it.
        let _left = fs::remove_file(&self.0);
    }
}

impl Removed {
    /// Binds the socket for hosts of all users.
    fn socket(path: &Path) -> Result<(Self, UnixListener), Failure> {
        let failed = |error: io::Error| Failure::failed(format!("{}: {error}", path.display()));
        let is_socket = fs::symlink_metadata(path).is_ok_and(|it| it.file_type().is_socket());
        if is_socket {
            if UnixStream::connect(path).is_ok() {
                let why = format!("{}: a PMIx server of the node runs already", path.display());
                return Err(Failure::failed(why));
            }
            fs::remove_file(path).map_err(failed)?;
        }
        // Not by its path later, which another user may have made a link by then.
        let before = umask(Mode::XUSR | Mode::XGRP | Mode::XOTH);
        let bound = UnixListener::bind(path);
        umask(before);
        Ok((Self(path.to_owned()), bound.map_err(failed)?))
    }

    /// Writes the rendezvous file, which all users may read: beside it, and then under its name,
    /// because another user may have made one of this name.
    fn file(path: &Path, port: u16, owner: u32) -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure::failed(format!("{}: {error}", path.display()));
        if let Some(pid) = living_server(path) {
            let why = format!("{}: process {pid} is the PMIx server of this node", path.display());
            return Err(Failure::failed(why));
        }
        let text = rendezvous_text(port, std::process::id(), owner).map_err(failed)?;
        let new = path.with_extension(format!("new.{}", std::process::id()));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o644);
        let mut file: File = options.open(&new).map_err(failed)?;
        let _guard = Self(new.clone());
        file.set_permissions(Permissions::from_mode(0o644)).map_err(failed)?;
        file.write_all(text.as_bytes()).map_err(failed)?;
        // A folder of another user would keep the name.
        let _none = fs::remove_dir(path);
        fs::rename(&new, path).map_err(failed)?;
        Ok(Self(path.to_owned()))
    }
}

/// The process of the rendezvous file that is there, if it lives: the library of it has written it.
fn living_server(path: &Path) -> Option<u32> {
    let owner = fs::symlink_metadata(path).ok()?.uid();
    // A user cannot keep the name from root, nor with a file that names a process of others.
    if geteuid().is_root() && owner != 0 {
        return None;
    }
    let Pid(pid) = read_file(path, owner).ok()?.server;
    let process = procfs::process::Process::new(pid.cast_signed()).ok()?;
    (process.uid().ok()? == owner).then_some(pid)
}
