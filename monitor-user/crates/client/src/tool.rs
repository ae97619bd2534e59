//! A session of the request language OMIS.
//!
//! In: requests as text. Out: their replies as text, to the waiting caller or to the callback of
//! the request. One connection is one session: stored requests, definitions and scope end with it.
//! Blocking, with one reader thread: the two procedures of OMIS 1.0 (5.4). An asynchronous program
//! can send from the callback into a channel.
//!
//! ```no_run
#![doc = include_str!("../../../../docs/examples/tool.rs")]
//! ```

use super::reply_router::{ReplyHandler, ReplyRouter};
use super::{Error, lock::lock, socket_path};
use monitor_omis::{Dialect, RequestId, parse};
pub use monitor_omis::{Text, Value};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::{net::Shutdown, os::unix::net::UnixStream, sync::mpsc::sync_channel, thread::JoinHandle};

/// A session with the monitor of this node.
pub struct Tool {
    /// Locked during registration too, so that requests are sent in the order of their callbacks.
    writer: Mutex<UnixStream>,
    router: Arc<Mutex<ReplyRouter>>,
    reader: Option<JoinHandle<()>>,
}

impl Tool {
    /// Connects to the daemon that `MONITOR_SOCKET` names, else to the system's, else to the
    /// user's.
    ///
    /// # Errors
    ///
    /// Fails if no daemon answers.
    pub fn connect() -> Result<Self, Error> {
        Self::open(socket_path::candidates(socket_path::from_env().as_deref()))
    }

    /// Connects to the daemon at this path.
    ///
    /// # Errors
    ///
    /// Fails if no daemon answers there.
    pub fn connect_to(path: &Path) -> Result<Self, Error> {
        Self::open(vec![path.to_owned()])
    }

    fn open(paths: Vec<PathBuf>) -> Result<Self, Error> {
        let mut source = io::Error::from(io::ErrorKind::NotFound);
        for path in &paths {
            match UnixStream::connect(path).and_then(Self::from_stream) {
                Ok(tool) => return Ok(tool),
                Err(error) => source = error,
            }
        }
        Err(Error::Unreachable { tried: paths, source })
    }

    fn from_stream(writer: UnixStream) -> io::Result<Self> {
        let stream = writer.try_clone()?;
        let router = Arc::new(Mutex::new(ReplyRouter::default()));
        let shared = Arc::clone(&router);
        let reader = std::thread::Builder::new()
            .name("omis".into())
            .spawn(move || read_replies(stream, &shared))?;
        Ok(Self { writer: Mutex::new(writer), router, reader: Some(reader) })
    }

    /// Sends a request and waits for its reply: `OMIS_request_block`. For a request with an event
    /// that is the reply to its definition; later replies of its actions are dropped.
    ///
    /// # Errors
    ///
    /// Fails if `line` is empty or not one line, or the daemon has closed the session.
    pub fn request_block(&self, line: &str) -> Result<String, Error> {
        let (sender, receiver) = sync_channel(1);
        self.request(line, move |reply| {
            // Only the first reply has a receiver.
            let _ = sender.try_send(reply.to_owned());
        })?;
        receiver.recv().map_err(|_| Error::Lost)
    }

    /// Requests one service of this node, such as `job_list()`, and returns its results without the
    /// status.
    ///
    /// # Errors
    ///
    /// Fails as `request_block` does, and if the reply has a status of failure.
    pub fn results(&self, service: &str) -> Result<Vec<Value>, Error> {
        let line = self.request_block(&format!("1 [0] {service}"))?;
        let reply = parse::reply(line.as_bytes()).map_err(Error::protocol)?;
        if !reply.status().is_success() {
            return Err(Error::NotDone { reply: line });
        }
        Ok(reply.0.into_iter().flat_map(|answer| answer.results).collect())
    }

    /// Sends a request; the callback gets each of its replies: `OMIS_request`. It is called on the
    /// reader thread, one reply at a time, and must not wait for another reply.
    ///
    /// # Errors
    ///
    /// Fails if `line` is empty or not one line, or the daemon has closed the session.
    pub fn request(
        &self,
        line: &str,
        callback: impl FnMut(&str) + Send + 'static,
    ) -> Result<(), Error> {
        if line.contains('\n') {
            return Err(Error::InvalidRequest { why: "it is not one line" });
        }
        // The daemon skips such a line, so there would be no reply to wait for.
        if line.trim_ascii().is_empty() {
            return Err(Error::InvalidRequest { why: "it is empty" });
        }
        let ids = ids(line);
        let mut writer = lock(&self.writer);
        // Registered before sending: the reply may arrive at once.
        if !lock(&self.router).add_request(ids, ReplyHandler::new(callback)) {
            return Err(Error::Lost);
        }
        writer.write_all(format!("{line}\n").as_bytes()).map_err(|_| Error::Lost)
    }

    /// Sets the callback for replies whose number no request has; without one they are dropped.
    pub fn on_unrouted(&self, callback: impl FnMut(&str) + Send + 'static) {
        lock(&self.router).set_unrouted(ReplyHandler::new(callback));
    }

    /// Whether the daemon has closed the session.
    pub fn is_closed(&self) -> bool {
        lock(&self.router).is_closed()
    }
}

impl Drop for Tool {
    fn drop(&mut self) {
        let writer = self.writer.get_mut().unwrap_or_else(PoisonError::into_inner);
        // Wakes the reader thread; an error means that the daemon has closed the connection
        // already.
        let _ = writer.shutdown(Shutdown::Both);
        if let Some(reader) = self.reader.take()
            && reader.thread().id() != std::thread::current().id()
        {
            let _ = reader.join();
        }
    }
}

/// The number of the first reply, and those of later replies.
fn ids(line: &str) -> (Option<RequestId>, Vec<RequestId>) {
    match parse::request(line.as_bytes(), Dialect::Extended) {
        Ok(request) => {
            let later = request.event.iter().flat_map(|_| request.actions());
            (Some(request.id().unwrap_or_default()), later.filter_map(|it| it.id).collect())
        }
        Err(fault) => (fault.id, Vec::new()),
    }
}

/// Routes each reply to its callback, until the connection ends.
fn read_replies(stream: UnixStream, router: &Mutex<ReplyRouter>) {
    let mut lines = BufReader::new(stream).lines();
    while let Some(Ok(line)) = lines.next() {
        let id = parse::reply(line.as_bytes()).ok().and_then(|reply| Some(reply.0.first()?.id));
        let handler = lock(router).route(id.unwrap_or_default());
        // Without the lock: the callback may send another request.
        if let Some(handler) = handler {
            handler.handle(&line);
        }
    }
    lock(router).close();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    /// A tool, and the daemon's end of its connection.
    fn pair() -> (Tool, BufReader<UnixStream>) {
        let (ours, theirs) = UnixStream::pair().expect("two sockets");
        (Tool::from_stream(ours).expect("a thread"), BufReader::new(theirs))
    }

    fn receive(theirs: &mut BufReader<UnixStream>) -> String {
        let mut line = String::new();
        theirs.read_line(&mut line).expect("a line");
        line
    }

    fn send(theirs: &mut BufReader<UnixStream>, text: &str) {
        theirs.get_mut().write_all(text.as_bytes()).expect("the tool reads");
    }

    #[test]
    fn a_request_waits_for_its_own_reply() {
        let (tool, mut theirs) = pair();
        let (sender, replies) = channel();
        tool.request("1 [0] stop(7)", move |reply| sender.send(reply.to_owned()).unwrap()).unwrap();
        let other = std::thread::spawn(move || {
            let both = [receive(&mut theirs), receive(&mut theirs)];
            send(&mut theirs, "2 [0] print(0,[5])\n1 [0] stop(0)\n");
            both
        });
        assert_eq!(tool.request_block("2 [0] print(5)").unwrap(), "2 [0] print(0,[5])");
        assert_eq!(replies.recv().unwrap(), "1 [0] stop(0)");
        assert_eq!(other.join().unwrap(), ["1 [0] stop(7)\n", "2 [0] print(5)\n"]);
    }

    #[test]
    fn the_callback_gets_a_reply_for_every_event() {
        let (tool, mut theirs) = pair();
        let (sender, replies) = channel();
        let line = "11 [0] process_terminated(7): 12 [$0] print($1)";
        tool.request(line, move |reply| sender.send(reply.to_owned()).unwrap()).unwrap();
        send(
            &mut theirs,
            "11 [0] process_terminated(0)\n12 [0] print(0,[7])\n12 [0] print(0,[8])\n",
        );
        let lines = [replies.recv().unwrap(), replies.recv().unwrap(), replies.recv().unwrap()];
        assert_eq!(lines[1..], ["12 [0] print(0,[7])", "12 [0] print(0,[8])"]);
    }

    #[test]
    fn an_invalid_line_gets_a_reply() {
        let (tool, mut theirs) = pair();
        let answer = std::thread::spawn(move || {
            let line = receive(&mut theirs);
            send(&mut theirs, "0 [] error(100,0,\"found `(`\")\n");
            line
        });
        assert!(tool.request_block("(").unwrap().contains("error(100"));
        assert_eq!(answer.join().unwrap(), "(\n");
        assert!(matches!(
            tool.request_block("1 [] a()\n2 [] b()"),
            Err(Error::InvalidRequest { .. })
        ));
    }

    #[test]
    fn a_status_of_failure_is_an_error_with_the_reply() {
        let (tool, mut theirs) = pair();
        let daemon = std::thread::spawn(move || {
            let mut lines = Vec::new();
            for reply in ["1 [0] job_list(0,[\"77\"])\n", "1 [0] job_list(400,1,\"no\")\n"] {
                lines.push(receive(&mut theirs));
                send(&mut theirs, reply);
            }
            lines
        });
        let jobs = tool.results("job_list()").unwrap();
        assert_eq!(jobs, [Value::List(vec![Value::from("77")])]);
        let error = tool.results("job_list()").unwrap_err();
        assert_eq!(error.to_string(), "1 [0] job_list(400,1,\"no\")");
        assert_eq!(daemon.join().unwrap(), ["1 [0] job_list()\n"; 2]);
    }

    #[test]
    fn an_empty_request_is_refused_because_it_gets_no_reply() {
        let (tool, _theirs) = pair();
        for line in ["", " ", "\t\r", "\u{c}"] {
            assert!(
                matches!(tool.request_block(line), Err(Error::InvalidRequest { .. })),
                "{line:?}"
            );
        }
    }

    #[test]
    fn a_waiting_caller_gets_an_error_when_the_daemon_closes() {
        let (tool, mut theirs) = pair();
        let other = std::thread::spawn(move || receive(&mut theirs));
        assert!(matches!(tool.request_block("1 [] print()"), Err(Error::Lost)));
        assert!(matches!(tool.request_block("1 [] print()"), Err(Error::Lost)));
        assert_eq!(other.join().unwrap(), "1 [] print()\n");
    }
}
