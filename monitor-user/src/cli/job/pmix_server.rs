//! The PMIx server that a command uses as a tool, when it does not name a job.
//!
//! In: the text of `--server`, or nothing. Out: the rendezvous of the server. In the order in which
//! libpmix takes them (`ptl_base_connect.c`): the file that is named, the process, the job; then
//! the server of the session, and that of the node. Each is one file with a known name: where the
//! library walks through all folders below the one for temporary files, this does not.

use super::target::JobTarget;
use super::tool_connection::{executes_open_mpi_4, job_server};
use crate::cli::exit::Failure;
use monitor_model::Pid;
use monitor_pmix::rendezvous::{
    FOLDER, Rendezvous, RendezvousError, folders_of_process, read, read_file, session_path,
    system_path,
};
use procfs::process::Process;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// What to do if no server is there.
const START: &str = "start one, such as `prte --system-server`, or name one with --server";

/// The server that is named by a file, the pid of the server, or the id of one of its jobs;
/// without a name, that of the session or of the node.
///
/// # Errors
/// If there is none, its file is not to be believed, or it belongs to another user.
pub fn find(named: Option<&str>) -> Result<Rendezvous, Failure> {
    let Some(named) = named else { return unnamed() };
    if named.contains('/') || Path::new(named).is_file() {
        return of_file(Path::new(named)).map_err(|why| failed(&why));
    }
    if let Ok(pid) = named.parse() {
        return of_process(Pid(pid));
    }
    job_server(&JobTarget::find(named)?)
}

fn failed(why: &RendezvousError) -> Failure {
    Failure::failed(format!("no PMIx server: {why}"))
}

fn of_file(path: &Path) -> Result<Rendezvous, RendezvousError> {
    let found = read_file(path, own())?;
    check_server(found.server, path)?;
    Ok(found)
}

/// The server of a process: in its folder for temporary files, or one of its own there.
fn of_process(pid: Pid) -> Result<Rendezvous, Failure> {
    let refused = |why: &str| Failure::failed(format!("process {}: {why}", pid.0));
    let process = Process::new(pid.0.cast_signed()).map_err(|_| Failure {
        exit: crate::cli::exit::Exit::NoTarget,
        ..refused("there is no such process; name the PMIx server, its file, or a job")
    })?;
    let environ = process.environ().map_err(|_| refused("it belongs to another user"))?;
    let temporary = environ.get(std::ffi::OsStr::new("TMPDIR")).map(PathBuf::from);
    let mut missing = None;
    for folder in folders_of_process(&temporary.unwrap_or_else(|| "/tmp".into()), pid) {
        match read(&folder, &host(), pid, own()) {
            Ok(found) => {
                check_server(found.server, &folder).map_err(|why| failed(&why))?;
                return Ok(found);
            }
            Err(why) if is_missing(&why) => missing = Some(why),
            Err(why) => return Err(failed(&why)),
        }
    }
    let why = missing.map(|why| why.to_string()).unwrap_or_default();
    Err(refused(&format!("it is no PMIx server that accepts tools: {why}")))
}

fn unnamed() -> Result<Rendezvous, Failure> {
    if let Some(folder) = std::env::var_os(FOLDER) {
        match of_file(&session_path(Path::new(&folder), &host())) {
            Err(why) if is_missing(&why) => {}
            found => return found.map_err(|why| failed(&why)),
        }
    }
    of_file(&system_path(&host()))
        .map_err(|why| Failure::failed(format!("no PMIx server: {why}; {START}")))
}

fn is_missing(why: &RendezvousError) -> bool {
    matches!(why, RendezvousError::NotRead { error, .. }
        if matches!(error.kind(), ErrorKind::NotFound))
}

/// Refuses a server that has ended, one of another user, and one that a tool would crash.
fn check_server(pid: Pid, path: &Path) -> Result<(), RendezvousError> {
    let owner = Process::new(pid.0.cast_signed()).and_then(|it| it.uid()).ok();
    let why = match owner {
        None => format!("its server, process {}, has ended", pid.0),
        Some(uid) if uid != own() && uid != 0 => {
            format!("process {} belongs to user {uid}", pid.0)
        }
        Some(_) if executes_open_mpi_4(pid) => {
            "its server is orterun, which crashes when a PMIx tool connects".to_owned()
        }
        Some(_) => return Ok(()),
    };
    Err(RendezvousError::NotBelieved { path: path.to_owned(), why })
}

fn own() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
