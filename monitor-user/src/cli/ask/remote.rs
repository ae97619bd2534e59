//! Requests to the daemon: a connection, and a thread that reads its replies.

use super::super::exit::{Exit, Failure};
use super::{Incoming, Transport};
use monitor_client::Error;
use monitor_client::socket_path;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::Sender;

/// A connection to the daemon.
pub struct DaemonTransport(UnixStream);

/// Connects to the daemon at this path, or at the first default path that answers.
pub fn connect(named: Option<&Path>, sender: Sender<Incoming>) -> Result<DaemonTransport, Failure> {
    let tried = named.map_or_else(|| socket_path::candidates(None), |path| vec![path.to_owned()]);
    let mut source = io::Error::from(io::ErrorKind::NotFound);
    for path in &tried {
        match UnixStream::connect(path).and_then(|stream| listen(stream, sender.clone())) {
            Ok(remote) => return Ok(remote),
            Err(why) => source = why,
        }
    }
    let absent = Failure::from(Error::Unreachable { tried, source });
    Err(Failure { message: format!("{}, or use --local", absent.message), ..absent })
}

fn listen(stream: UnixStream, sender: Sender<Incoming>) -> io::Result<DaemonTransport> {
    let reader = BufReader::new(stream.try_clone()?);
    let thread = std::thread::Builder::new().name("reader".into());
    let _ = thread.spawn(move || {
        for line in reader.lines().map_while(Result::ok) {
            if sender.send(Incoming::Reply(line)).is_err() {
                return;
            }
        }
        let _ = sender.send(Incoming::Disconnected);
    })?;
    Ok(DaemonTransport(stream))
}

impl Transport for DaemonTransport {
    fn send(&mut self, line: &[u8]) -> Result<(), Failure> {
        let written = self.0.write_all(line).and_then(|()| self.0.write_all(b"\n"));
        written.map_err(|why| Failure {
            message: format!("cannot write to the daemon: {why}"),
            exit: Exit::NoDaemon,
        })
    }
}
