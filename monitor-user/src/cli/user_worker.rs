//! `monitor user-worker`: acts on processes with the rights of one user. The daemon starts it.
//!
//! Standard input is the socket to the daemon. Without a socket it fails: it is not for users.

use super::args::UserWorkerArgs;
use super::exit::{Exit, Failure};
use monitor_control::user_worker::{User, main};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;

/// Executes the requests that arrive on standard input.
pub fn user_worker(args: &UserWorkerArgs) -> Result<Exit, Failure> {
    let user =
        args.uid.map(|uid| User { uid, gid: args.gid.unwrap_or(uid), groups: args.groups.clone() });
    let input = std::io::stdin().as_fd().try_clone_to_owned();
    let socket = input.map(UnixStream::from).map_err(|error| failed(&error))?;
    if socket.peer_addr().is_err() {
        let why = "`user-worker` is started by the daemon, with a socket as its standard input";
        return Err(Failure::usage(why.to_owned()));
    }
    main::run(socket, user.as_ref()).map_err(|error| failed(&error))?;
    Ok(Exit::Ok)
}

fn failed(error: &std::io::Error) -> Failure {
    Failure::failed(format!("the user worker failed: {error}"))
}
