//! One connection with any number of calls in flight.
//!
//! In: calls. Out: the result of each, and events by the name of their monitor. Two tasks: one
//! writes what is called, one reads and gives everybody what is his. It ends when nobody holds it
//! any more, or when the daemon closes it: then every call and every series is told.

use super::error::Error;
use super::queue::Queue;
use bytes::{Bytes, BytesMut};
use monitor_model::status::{Refusal, Status};
use monitor_protocol::call::{Call, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR, Tag};
use monitor_protocol::event::Event;
use monitor_protocol::params::Cancel;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio_util::codec::{AnyDelimiterCodec, Decoder};

/// Longest line that is read: a node with 100,000 processes and all their fields has room.
const LINE_BYTES: usize = 256 << 20;
/// Calls that wait to be written.
const CALLS: usize = 64;

/// A connection; copies share it.
#[derive(Clone)]
pub struct Connection {
    shared: Arc<Shared>,
    lines: mpsc::Sender<Vec<u8>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    closed: bool,
    tag: i64,
    waiting: HashMap<i64, Waiting>,
    routes: HashMap<String, Arc<Queue>>,
}

/// Who waits for a reply.
enum Waiting {
    Result(oneshot::Sender<Result<String, Error>>),
    Series(oneshot::Sender<Result<(String, Subscription), Error>>, Connection, Ends),
}

/// What becomes of a monitor whose series nobody reads any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// It is cancelled.
    WithSeries,
    /// It runs on, on its lease.
    WithLease,
}

/// The right to the events of one monitor.
pub struct Subscription {
    connection: Connection,
    id: String,
    queue: Arc<Queue>,
    ends: Ends,
}

impl Connection {
    /// Connects to a socket.
    pub async fn open(path: &Path) -> io::Result<Self> {
        let (reader, writer) = UnixStream::connect(path).await?.into_split();
        let (lines, queue) = mpsc::channel(CALLS);
        let shared = Arc::new(Shared::default());
        tokio::spawn(write(writer, queue));
        tokio::spawn(read(reader, Arc::clone(&shared)));
        Ok(Self { shared, lines })
    }

    /// Whether the daemon has closed it.
    pub fn closed(&self) -> bool {
        self.shared.lock().closed
    }

    /// Makes a call and waits for its result.
    pub async fn call(&self, call: &Call) -> Result<String, Error> {
        let (sender, result) = oneshot::channel();
        self.send(call, Waiting::Result(sender)).await?;
        result.await.unwrap_or(Err(Error::Lost))
    }

    /// Makes a call whose result is the beginning of a series.
    pub async fn series(&self, call: &Call, ends: Ends) -> Result<(String, Subscription), Error> {
        let (sender, result) = oneshot::channel();
        self.send(call, Waiting::Series(sender, self.clone(), ends)).await?;
        result.await.unwrap_or(Err(Error::Lost))
    }

    async fn send(&self, call: &Call, waiting: Waiting) -> Result<(), Error> {
        let place = self.lines.reserve().await.map_err(|_| Error::Lost)?;
        let tag = {
            let mut state = self.shared.lock();
            if state.closed {
                return Err(Error::Lost);
            }
            state.tag += 1;
            let tag = state.tag;
            state.waiting.insert(tag, waiting);
            tag
        };
        place.send(call.to_line(Some(&Tag::Number(tag))));
        Ok(())
    }
}

impl Subscription {
    /// The name of the monitor.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Waits for an event; nothing, if the connection has closed.
    pub async fn next(&self) -> Option<Event> {
        self.queue.next().await
    }

    /// The monitor has ended: there is nothing left to cancel.
    pub fn over(&mut self) {
        self.ends = Ends::WithLease;
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut state = self.connection.shared.lock();
        // Another may have attached to the same monitor since.
        if state.routes.get(&self.id).is_none_or(|it| !Arc::ptr_eq(it, &self.queue)) {
            return;
        }
        state.routes.remove(&self.id);
        if self.ends == Ends::WithSeries && !state.closed {
            let which = Cancel { id: Some(self.id.clone()), ..Cancel::default() };
            // Where no place is free the daemon does not read; it cancels as the connection ends.
            let _ = self.connection.lines.try_send(Call::Cancel(which).to_line(None));
        }
    }
}

async fn write(mut writer: OwnedWriteHalf, mut lines: mpsc::Receiver<Vec<u8>>) {
    while let Some(line) = lines.recv().await {
        if writer.write_all(&line).await.is_err() {
            return;
        }
    }
}

async fn read(mut reader: OwnedReadHalf, shared: Arc<Shared>) {
    let mut codec = AnyDelimiterCodec::new_with_max_length(b"\n".to_vec(), Vec::new(), LINE_BYTES);
    let mut buffer = BytesMut::new();
    let why = loop {
        match codec.decode(&mut buffer) {
            Ok(Some(line)) => {
                if let Err(error) = shared.hear(&line) {
                    break Some(error);
                }
            }
            Ok(None) => match reader.read_buf(&mut buffer).await {
                Ok(0) | Err(_) => break None,
                Ok(_) => {}
            },
            Err(_) => break Some(format!("a line is longer than {LINE_BYTES} bytes")),
        }
    };
    shared.close(why.as_deref());
}

/// A line of the daemon.
#[derive(Deserialize)]
struct Heard<'a> {
    #[serde(default)]
    id: Option<Tag>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(default)]
    error: Option<Bad>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Bad {
    code: i32,
    message: String,
}

#[derive(Deserialize)]
struct Name {
    id: String,
}

impl Shared {
    /// Gives a line to whom it is for; says why it ends the connection.
    fn hear(&self, line: &Bytes) -> Result<(), String> {
        let heard: Heard<'_> = serde_json::from_slice(line).map_err(|error| error.to_string())?;
        if let Some(params) = heard.params {
            let event: Event =
                serde_json::from_str(params.get()).map_err(|error| error.to_string())?;
            if let Some(queue) = self.lock().routes.get(&event.id) {
                queue.push(event);
            }
            return Ok(());
        }
        let result = match (heard.result, heard.error) {
            (_, Some(bad)) => Err(refusal(bad)),
            (Some(result), None) => Ok(result.get().to_owned()),
            (None, None) => return Err("a line is neither a result nor an event".into()),
        };
        match heard.id {
            Some(Tag::Number(tag)) => self.answer(tag, result),
            // It could not tell which call it means: none will have its reply.
            _ => return Err(result.err().map_or("no tag".into(), |error| error.to_string())),
        }
        Ok(())
    }

    fn answer(&self, tag: i64, result: Result<String, Error>) {
        let waiting = self.lock().waiting.remove(&tag);
        match waiting {
            // Whoever does not wait any more wants no result, and no series: that is cancelled.
            Some(Waiting::Result(sender)) => drop(sender.send(result)),
            Some(Waiting::Series(sender, connection, ends)) => {
                let begun = result.and_then(|text| {
                    let subscription = self.subscribe(&text, connection, ends)?;
                    Ok((text, subscription))
                });
                drop(sender.send(begun));
            }
            None => {}
        }
    }

    /// Before the next line is read: it may be an event of this monitor.
    fn subscribe(&self, text: &str, by: Connection, ends: Ends) -> Result<Subscription, Error> {
        let name: Name = serde_json::from_str(text).map_err(Error::garbled)?;
        let queue = Arc::new(Queue::default());
        self.lock().routes.insert(name.id.clone(), Arc::clone(&queue));
        Ok(Subscription { connection: by, id: name.id, queue, ends })
    }

    fn close(&self, why: Option<&str>) {
        let (waiting, routes) = {
            let mut state = self.lock();
            state.closed = true;
            (std::mem::take(&mut state.waiting), std::mem::take(&mut state.routes))
        };
        let error = || why.map_or(Error::Lost, Error::garbled);
        for (_, waiting) in waiting {
            match waiting {
                Waiting::Result(sender) => drop(sender.send(Err(error()))),
                Waiting::Series(sender, ..) => drop(sender.send(Err(error()))),
            }
        }
        routes.values().for_each(|queue| queue.close());
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // It is whole between two calls, whatever became of who held it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn refusal(bad: Bad) -> Error {
    match (Status::of(bad.code), bad.code) {
        (Some(status), _) => Refusal::new(status, bad.message).into(),
        (None, METHOD_NOT_FOUND) => Refusal::new(Status::NotSupported, bad.message).into(),
        (None, PARSE_ERROR | INVALID_REQUEST) => Error::garbled(bad.message),
        (None, _) => Refusal::new(Status::Error, bad.message).into(),
    }
}
