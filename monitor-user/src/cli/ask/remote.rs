//! Asking the daemon: a connection, and a thread that reads it.

use super::super::exit::{Exit, Failure};
use super::{Came, Way};
use monitor_client::Error;
use monitor_sys::place;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::Sender;

/// A connection.
pub struct Remote(UnixStream);

/// Connects to the daemon at that path, or to the one that is found.
pub fn connect(named: Option<&Path>, sender: Sender<Came>) -> Result<Remote, Failure> {
    let tried = named.map_or_else(|| place::candidates(None), |path| vec![path.to_owned()]);
    let mut source = io::Error::from(io::ErrorKind::NotFound);
    for path in &tried {
        match UnixStream::connect(path).and_then(|stream| listen(stream, sender.clone())) {
            Ok(remote) => return Ok(remote),
            Err(why) => source = why,
        }
    }
    let absent = Failure::from(Error::Absent { tried, source });
    Err(Failure { message: format!("{}, or ask with --local", absent.message), ..absent })
}

fn listen(stream: UnixStream, sender: Sender<Came>) -> io::Result<Remote> {
    let reader = BufReader::new(stream.try_clone()?);
    let thread = std::thread::Builder::new().name("reader".into());
    let _ = thread.spawn(move || {
        for line in reader.lines().map_while(Result::ok) {
            if sender.send(Came::Heard(line)).is_err() {
                return;
            }
        }
        let _ = sender.send(Came::Gone);
    })?;
    Ok(Remote(stream))
}

impl Way for Remote {
    fn say(&mut self, line: &[u8]) -> Result<(), Failure> {
        let said = self.0.write_all(line).and_then(|()| self.0.write_all(b"\n"));
        said.map_err(|why| Failure {
            message: format!("cannot write to the daemon: {why}"),
            exit: Exit::NoDaemon,
        })
    }
}
