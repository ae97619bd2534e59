//! `monitor hand`: acts on processes with the rights of one user; the service starts it.
//!
//! Its input is the socket. Whoever starts it by hand is told so: it does nothing by itself.

use super::args::Hand;
use super::exit::{Exit, Failure};
use monitor_control::hand::{User, serve};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;

/// Serves whoever is at the other end of the input.
pub fn hand(args: &Hand) -> Result<Exit, Failure> {
    let user =
        args.uid.map(|uid| User { uid, gid: args.gid.unwrap_or(uid), groups: args.groups.clone() });
    let input = std::io::stdin().as_fd().try_clone_to_owned();
    let socket = input.map(UnixStream::from).map_err(|error| failed(&error))?;
    if socket.peer_addr().is_err() {
        let why = "`hand` is started by the service, with a socket as its input";
        return Err(Failure::usage(why.to_owned()));
    }
    serve::serve(socket, user.as_ref()).map_err(|error| failed(&error))?;
    Ok(Exit::Ok)
}

fn failed(error: &std::io::Error) -> Failure {
    Failure::failed(format!("the hand cannot serve: {error}"))
}
