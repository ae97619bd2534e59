//! A session of the request language: lines out, reply lines in, each to whom it answers.
//!
//! In: requests as text. Out: their replies as text, to the caller who waits or to the function
//! that was given with the request, once for each reply. One connection is one session: stored
//! requests, definitions and scope are its own, and end with it.
//! Blocking, with one thread that reads: the two procedures of OMIS 1.0 (5.4) are just these. An
//! asynchronous program lets the function send into a channel.
//!
//! ```no_run
#![doc = include_str!("../../../../docs/examples/tool.rs")]
//! ```

use super::Error;
use super::hearers::{Hearer, Hearers};
use monitor_omis::parse;
use monitor_omis::{Dialect, RequestId};
use monitor_sys::place;
use std::io::{self, BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// A session with the monitor of this node.
pub struct Tool {
    /// Requests go out in the order in which their hearers are noted.
    writer: Mutex<UnixStream>,
    hearers: Arc<Mutex<Hearers>>,
    reader: Option<JoinHandle<()>>,
}

impl Tool {
    /// Connects to the daemon that `MONITOR_SOCKET` names, else to that of the system, else to
    /// the user's own.
    pub fn connect() -> Result<Self, Error> {
        Self::open(place::candidates(place::named().as_deref()))
    }

    /// Connects to the daemon at this path.
    pub fn connect_to(path: &Path) -> Result<Self, Error> {
        Self::open(vec![path.to_owned()])
    }

    fn open(paths: Vec<PathBuf>) -> Result<Self, Error> {
        let mut source = io::Error::from(io::ErrorKind::NotFound);
        for path in &paths {
            match UnixStream::connect(path).and_then(Self::over) {
                Ok(tool) => return Ok(tool),
                Err(error) => source = error,
            }
        }
        Err(Error::Absent { tried: paths, source })
    }

    fn over(writer: UnixStream) -> io::Result<Self> {
        let stream = writer.try_clone()?;
        let hearers = Arc::new(Mutex::new(Hearers::default()));
        let heard = Arc::clone(&hearers);
        let reader = std::thread::Builder::new()
            .name("omis".into())
            .spawn(move || listen(stream, &heard))?;
        Ok(Self { writer: Mutex::new(writer), hearers, reader: Some(reader) })
    }

    /// Sends a request and waits for its reply: `OMIS_request_block`. Of a request with an event
    /// that is the reply to its definition; what its actions answer later, is heard by nobody.
    pub fn request_block(&self, line: &str) -> Result<String, Error> {
        let (sender, receiver) = sync_channel(1);
        self.request(line, move |reply| {
            // Only the first has somebody who waits.
            let _ = sender.try_send(reply.to_owned());
        })?;
        receiver.recv().map_err(|_| Error::Lost)
    }

    /// Sends a request; each of its replies is given to the function: `OMIS_request`. It is called
    /// on a thread of its own, one reply at a time, and must not wait for another reply.
    pub fn request(
        &self,
        line: &str,
        hearer: impl FnMut(&str) + Send + 'static,
    ) -> Result<(), Error> {
        if line.contains('\n') {
            return Err(Error::garbled("a request is one line"));
        }
        let ids = ids(line);
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        // Noted before it is sent: the reply may come at once.
        if !held(&self.hearers).expect(ids, Hearer::new(hearer)) {
            return Err(Error::Lost);
        }
        writer.write_all(format!("{line}\n").as_bytes()).map_err(|_| Error::Lost)
    }

    /// Whether the daemon has gone; nothing is answered any more.
    pub fn is_closed(&self) -> bool {
        held(&self.hearers).is_closed()
    }
}

impl Drop for Tool {
    fn drop(&mut self) {
        let writer = self.writer.get_mut().unwrap_or_else(PoisonError::into_inner);
        // Wakes the thread. If the other end has closed already, it is awake.
        let _ = writer.shutdown(Shutdown::Both);
        if let Some(reader) = self.reader.take()
            && reader.thread().id() != std::thread::current().id()
        {
            let _ = reader.join();
        }
    }
}

/// The number that the first reply carries, and those that later ones may.
fn ids(line: &str) -> (Option<RequestId>, Vec<RequestId>) {
    match parse::request(line.as_bytes(), Dialect::Extended) {
        Ok(request) => {
            let later = request.event.iter().flat_map(|_| request.actions());
            (Some(request.id().unwrap_or_default()), later.filter_map(|it| it.id).collect())
        }
        Err(fault) => (fault.id, Vec::new()),
    }
}

/// Gives each line to whom it answers, until the connection ends.
fn listen(stream: UnixStream, hearers: &Mutex<Hearers>) {
    let mut lines = BufReader::new(stream).lines();
    while let Some(Ok(line)) = lines.next() {
        let id = parse::reply(line.as_bytes()).ok().and_then(|reply| Some(reply.0.first()?.id));
        let hearer = held(hearers).of(id.unwrap_or_default());
        // Not while they are held: the function may send another request.
        if let Some(hearer) = hearer {
            hearer.hear(&line);
        }
    }
    held(hearers).close();
}

fn held(hearers: &Mutex<Hearers>) -> MutexGuard<'_, Hearers> {
    hearers.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    /// A tool, and the other end of its connection.
    fn pair() -> (Tool, BufReader<UnixStream>) {
        let (ours, theirs) = UnixStream::pair().expect("two sockets");
        (Tool::over(ours).expect("a thread"), BufReader::new(theirs))
    }

    fn said(theirs: &mut BufReader<UnixStream>) -> String {
        let mut line = String::new();
        theirs.read_line(&mut line).expect("a line");
        line
    }

    fn say(theirs: &mut BufReader<UnixStream>, text: &str) {
        theirs.get_mut().write_all(text.as_bytes()).expect("it reads");
    }

    #[test]
    fn a_request_waits_for_its_own_reply() {
        let (tool, mut theirs) = pair();
        let (sender, replies) = channel();
        tool.request("1 [0] stop(7)", move |reply| sender.send(reply.to_owned()).unwrap()).unwrap();
        let other = std::thread::spawn(move || {
            let both = [said(&mut theirs), said(&mut theirs)];
            say(&mut theirs, "2 [0] print(0,[5])\n1 [0] stop(0)\n");
            both
        });
        assert_eq!(tool.request_block("2 [0] print(5)").unwrap(), "2 [0] print(0,[5])");
        assert_eq!(replies.recv().unwrap(), "1 [0] stop(0)");
        assert_eq!(other.join().unwrap(), ["1 [0] stop(7)\n", "2 [0] print(5)\n"]);
    }

    #[test]
    fn every_occurrence_is_heard() {
        let (tool, mut theirs) = pair();
        let (sender, replies) = channel();
        let line = "11 [0] process_terminated(7): 12 [$0] print($1)";
        tool.request(line, move |reply| sender.send(reply.to_owned()).unwrap()).unwrap();
        say(
            &mut theirs,
            "11 [0] process_terminated(0)\n12 [0] print(0,[7])\n12 [0] print(0,[8])\n",
        );
        let heard = [replies.recv().unwrap(), replies.recv().unwrap(), replies.recv().unwrap()];
        assert_eq!(heard[1..], ["12 [0] print(0,[7])", "12 [0] print(0,[8])"]);
    }

    #[test]
    fn a_line_that_is_none_is_answered_too() {
        let (tool, mut theirs) = pair();
        let answer = std::thread::spawn(move || {
            let line = said(&mut theirs);
            say(&mut theirs, "0 [] error(100,0,\"found `(`\")\n");
            line
        });
        assert!(tool.request_block("(").unwrap().contains("error(100"));
        assert_eq!(answer.join().unwrap(), "(\n");
        assert!(matches!(tool.request_block("1 [] a()\n2 [] b()"), Err(Error::Garbled { .. })));
    }

    #[test]
    fn whoever_waits_when_the_daemon_goes_is_told() {
        let (tool, mut theirs) = pair();
        let other = std::thread::spawn(move || said(&mut theirs));
        assert!(matches!(tool.request_block("1 [] print()"), Err(Error::Lost)));
        assert!(matches!(tool.request_block("1 [] print()"), Err(Error::Lost)));
        assert_eq!(other.join().unwrap(), "1 [] print()\n");
    }
}
