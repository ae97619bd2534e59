//! The rendezvous file of a PMIx server: how a tool finds it.
//!
//! In: the folder of a server, which its ranks have in `PMIX_SERVER_TMPDIR`, and its process. Out:
//! the URI of the server; or why the file is not to be believed. Only this file is read: nothing
//! walks through folders. It has five lines: URI, version of the library, pid, `uid:gid` and date
//! (`ptl_base_listener.c`, `pmix_base_write_rndz_file`).

use monitor_model::Pid;
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The variable of a rank with the folder of its server.
pub const FOLDER: &str = "PMIX_SERVER_TMPDIR";
/// Longest file that is read, bytes.
const LONGEST: u64 = 4096;
/// Permissions to write for others than the owner.
const WRITABLE: u32 = 0o022;
/// The sticky bit of a folder.
const STICKY: u32 = 0o1000;

/// How a server is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendezvous {
    /// Its URI, `NAMESPACE.RANK;tcp4://ADDRESS:PORT`.
    pub uri: String,
    /// The version of its library, such as `5.0.11`.
    pub version: String,
    /// Its process.
    pub server: Pid,
    /// The folder of the file, which is that of the server.
    pub folder: PathBuf,
}

/// Why a server is not connected to.
#[derive(Debug, Error)]
pub enum RendezvousError {
    /// There is none, or it cannot be read.
    #[error("{}: {error}; the server accepts no tools, or belongs to another user", path.display())]
    NotRead {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Its content or its permissions are not those of this server.
    #[error("{} is not believed: {why}", path.display())]
    NotBelieved {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
}

/// The rendezvous of a server by its process, on a node of this name; the folder and the file
/// belong to this user or to root.
///
/// # Errors
/// If there is none; if it is a symbolic link, another user could have written it, or it is that of
/// a server that has ended.
pub fn read(
    folder: &Path,
    host: &str,
    server: Pid,
    owner: u32,
) -> Result<Rendezvous, RendezvousError> {
    let path = folder.join(format!("pmix.{host}.tool.{}", server.0));
    let found = read_file(&path, owner)?;
    if found.server == server {
        return Ok(found);
    }
    let why =
        format!("it is of process {}, and the server is process {}", found.server.0, server.0);
    Err(RendezvousError::NotBelieved { path, why })
}

/// The path of the rendezvous file of the system server: that of the node, if it has one.
pub fn system_path(host: &str) -> PathBuf {
    let folder = std::env::var_os("PMIX_SYSTEM_TMPDIR").map(PathBuf::from);
    folder.unwrap_or_else(std::env::temp_dir).join(format!("pmix.sys.{host}"))
}

/// The path of the rendezvous file of a server of the session, in the folder that ranks and their
/// scripts have in [`FOLDER`].
pub fn session_path(folder: &Path, host: &str) -> PathBuf {
    folder.join(format!("pmix.{host}.tool"))
}

/// The folders in which the file of a server may be, below the one for temporary files: itself, and
/// those that `prte` and `mpirun` of Open MPI 5 make for their process.
pub fn folders_of_process(temporary: &Path, server: Pid) -> [PathBuf; 3] {
    let below = |name: &str| temporary.join(format!("{name}.{}", server.0));
    [below("prte"), below("ompi"), temporary.to_owned()]
}

/// The rendezvous in a file; the file belongs to this user or to root.
///
/// # Errors
/// As [`read`].
pub fn read_file(path: &Path, owner: u32) -> Result<Rendezvous, RendezvousError> {
    let folder = path.parent().filter(|it| *it != Path::new("")).unwrap_or(Path::new("."));
    let doubt = |why: String| RendezvousError::NotBelieved { path: path.to_owned(), why };
    let not_read = |error| RendezvousError::NotRead { path: path.to_owned(), error };
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let opened = |flags: OFlags, path: &Path| openat(CWD, path, flags, Mode::empty());
    let directory = opened(flags | OFlags::DIRECTORY, folder).map_err(|it| not_read(it.into()))?;
    // A link, which this flag refuses, and a pipe, at which open(2) would wait, are no such files.
    let file = match opened(flags | OFlags::NONBLOCK, path) {
        Err(rustix::io::Errno::LOOP) => return Err(doubt("it is a symbolic link".to_owned())),
        other => other.map_err(|it| not_read(it.into()))?,
    };
    for (what, opened, kind) in [
        ("its folder", &directory, FileType::Directory),
        ("the file", &file, FileType::RegularFile),
    ] {
        let stat = fstat(opened).map_err(|it| not_read(it.into()))?;
        if FileType::from_raw_mode(stat.st_mode) != kind {
            return Err(doubt(format!("{what} is of another kind")));
        }
        if stat.st_uid != owner && stat.st_uid != 0 {
            return Err(doubt(format!("{what} belongs to user {}", stat.st_uid)));
        }
        // A folder such as /tmp, in which each user replaces the own files only.
        let is_sticky = kind == FileType::Directory && stat.st_mode & STICKY != 0;
        if stat.st_mode & WRITABLE != 0 && !is_sticky {
            return Err(doubt(format!("others than its owner may write {what}")));
        }
    }
    let mut text = String::new();
    std::fs::File::from(file).take(LONGEST).read_to_string(&mut text).map_err(not_read)?;
    parse(&text, folder).map_err(doubt)
}

fn parse(text: &str, folder: &Path) -> Result<Rendezvous, String> {
    let mut lines = text.lines();
    let mut next = || lines.next().unwrap_or_default().to_owned();
    let [uri, version, pid] = [next(), next(), next()];
    if !uri.contains(";tcp4://") && !uri.contains(";tcp6://") {
        return Err("its first line is no URI of a server".to_owned());
    }
    let Some(server) = pid.parse().ok().map(Pid) else {
        return Err("its third line is no process".to_owned());
    };
    let major = version.trim_start_matches('v').split('.').next().and_then(|it| it.parse().ok());
    match major {
        Some(4u32..) => Ok(Rendezvous { uri, version, server, folder: folder.to_owned() }),
        _ => Err(format!("PMIx {version} of the server does not survive tools")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    const SERVER: Pid = Pid(7);
    const TEXT: &str = "a.0;tcp4://127.0.0.1:9\n5.0.11\n7\n0:0\nSat Nov 28 07:19:21 2026\n\n";

    /// A folder with the text in a file, and the path of that.
    fn with_file(name: &str, text: &str) -> (PathBuf, PathBuf) {
        let folder = std::env::temp_dir().join(format!("rendezvous.{name}.{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(0o700)).unwrap();
        let file = folder.join("pmix.node0.tool.7");
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        (folder, file)
    }

    fn found(folder: &Path) -> Result<Rendezvous, String> {
        let owner = rustix::process::geteuid().as_raw();
        read(folder, "node0", SERVER, owner).map_err(|error| error.to_string())
    }

    #[track_caller]
    fn check_refused(name: &str, text: &str, change: impl FnOnce(&Path, &Path), want: &str) {
        let (folder, file) = with_file(name, text);
        change(&folder, &file);
        let why = found(&folder).expect_err("it is refused");
        assert!(why.contains(want), "{why}");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_file_of_the_server_has_its_uri() {
        let (folder, _) = with_file("uri", TEXT);
        let rendezvous = found(&folder).unwrap();
        assert_eq!(
            (rendezvous.uri.as_str(), rendezvous.version.as_str()),
            ("a.0;tcp4://127.0.0.1:9", "5.0.11")
        );
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_file_that_others_may_have_written_is_refused() {
        let mode = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode));
        let writable = "others than its owner may write";
        check_refused("file", TEXT, |_, file| mode(file, 0o666).unwrap(), writable);
        check_refused("folder", TEXT, |folder, _| mode(folder, 0o777).unwrap(), writable);
        let link = |folder: &Path, file: &Path| {
            fs::rename(file, folder.join("other")).unwrap();
            symlink("other", file).unwrap();
        };
        check_refused("link", TEXT, link, "it is a symbolic link");
        let gone = |_: &Path, file: &Path| fs::remove_file(file).unwrap();
        check_refused("gone", TEXT, gone, "the server accepts no tools");
    }

    #[test]
    fn a_file_of_another_server_is_refused() {
        let none = |_: &Path, _: &Path| {};
        let of_other = TEXT.replace("\n7\n", "\n8\n");
        check_refused("stale", &of_other, none, "it is of process 8, and the server is process 7");
        check_refused("forged", "x\n5.0.11\n7\n", none, "no URI of a server");
        let of_old = TEXT.replace("5.0.11", "3.2.4");
        check_refused("old", &of_old, none, "PMIx 3.2.4 of the server does not survive tools");
        check_refused("empty", "", none, "no URI of a server");
    }
}
