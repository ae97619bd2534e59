//! `monitor gdb`: starts gdb on a process through the daemon, or serves gdb's remote protocol.
//!
//! In: a pid, and options of gdb. Out: gdb's own exit, since it replaces this program; with
//! `--serve`, packets on standard output. The daemon does everything to the process.

use super::args::daemon::GdbArgs;
use super::exit::{Exit, Failure};
use monitor_gdb::{CallError, ServeError};
use monitor_omis::Status;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

/// Seconds that gdb waits for a reply: threads may take some to stop.
const REPLY_TIMEOUT: &str = "set remotetimeout 30";

/// Debugs a process.
pub fn gdb(args: &GdbArgs) -> Result<Exit, Failure> {
    if args.serve {
        return match monitor_gdb::serve(args.daemon.socket.as_deref(), args.pid) {
            Ok(()) => Ok(Exit::Ok),
            Err(why) => Err(failure(args.pid, &why)),
        };
    }
    if !Path::new(&format!("/proc/{}", args.pid)).exists() {
        let message = format!("no process {}: it has ended, or never was", args.pid);
        return Err(Failure { message, exit: Exit::NoTarget });
    }
    let own = std::env::current_exe()
        .map_err(|error| Failure::failed(format!("finding this program: {error}")))?;
    let mut gdb = Command::new(&args.gdb);
    gdb.arg("-iex").arg(REPLY_TIMEOUT);
    gdb.arg("-iex").arg(sysroot(args.pid));
    gdb.arg("-ex").arg(remote(&own, args)).args(&args.options);
    let error = gdb.exec();
    let program = args.gdb.display();
    Err(Failure::failed(format!("starting {program}: {error}; install gdb, or name it by --gdb")))
}

/// Where gdb finds the files of the process: they are on this node, so that it need not read them
/// through the connection.
fn sysroot(pid: u32) -> String {
    let root = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
    match root(&pid.to_string()) == root("self") {
        true => "set sysroot /".to_owned(),
        false => format!("set sysroot /proc/{pid}/root"),
    }
}

/// `target remote | monitor gdb --serve PID`, which a shell reads.
fn remote(own: &Path, args: &GdbArgs) -> OsString {
    let mut line = OsString::from("target remote | exec ");
    line.push(quoted(own));
    line.push(" gdb --serve ");
    line.push(args.pid.to_string());
    if let Some(socket) = &args.daemon.socket {
        line.push(" --socket ");
        line.push(quoted(socket));
    }
    line
}

/// A path as one word of a shell.
fn quoted(path: &Path) -> OsString {
    use std::os::unix::ffi::OsStringExt as _;
    let mut word = vec![b'\''];
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'\'' => word.extend(b"'\\''"),
            other => word.push(*other),
        }
    }
    word.push(b'\'');
    OsString::from_vec(word)
}

fn failure(pid: u32, why: &ServeError) -> Failure {
    let exit = match why {
        ServeError::Session(CallError::Refused { status, .. }) => match *status {
            Status::NO_SUCH_OBJECT | Status::GONE => Exit::NoTarget,
            Status::PERMISSION => Exit::Denied,
            _ => Exit::Failed,
        },
        ServeError::Session(CallError::Lost(_)) => Exit::NoDaemon,
        ServeError::Connection(_) => Exit::Failed,
    };
    Failure { message: format!("process {pid}: {why}"), exit }
}

#[cfg(test)]
mod tests {
    use super::quoted;
    use std::path::Path;

    #[test]
    fn a_path_is_one_word_of_a_shell() {
        assert_eq!(quoted(Path::new("/a b/c'd")), r"'/a b/c'\''d'");
    }
}
