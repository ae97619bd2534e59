//! A connection with any number of concurrent calls.
//!
//! In: calls. Out: the result of each, and events by monitor name. One task writes calls, one reads
//! and routes replies and events. They end when the connection is dropped or closed: then
//! every pending call and every series gets an error.

use super::{Error, lock::lock, queue::EventQueue, queue::NoticeQueue};
use bytes::{Bytes, BytesMut};
use monitor_model::{Refusal, Status};
use monitor_protocol::call::{Call, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR, Tag};
use monitor_protocol::cluster::{FollowNotice, Followed};
use monitor_protocol::{event::Event, params::Cancel};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::sync::{Arc, Mutex};
use std::{collections::HashMap, io, path::Path};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio_util::codec::{AnyDelimiterCodec, Decoder};

/// Maximum length of a line: enough for 100,000 processes with all fields.
const LINE_BYTES: usize = 256 << 20;
/// Maximum number of calls waiting to be written.
const CALLS: usize = 64;

/// A connection; copies share it.
#[derive(Clone)]
pub struct Connection {
    shared: Arc<Shared>,
    lines: mpsc::Sender<Vec<u8>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<CallTable>,
}

#[derive(Default)]
struct CallTable {
    closed: bool,
    tag: i64,
    pending: HashMap<i64, PendingCall>,
    routes: HashMap<String, Arc<EventQueue>>,
    /// What is followed, by its number.
    follows: HashMap<u64, Arc<NoticeQueue>>,
}

/// The receiver of a pending reply.
enum PendingCall {
    Result(oneshot::Sender<Result<String, Error>>),
    Series(oneshot::Sender<Result<(String, Subscription), Error>>, Connection, OnDrop),
    Follow(oneshot::Sender<Result<FollowStart, Error>>),
}

/// The result of a call that follows nodes, and their notices.
type FollowStart = (Followed, Arc<NoticeQueue>);

/// What happens to a monitor when its series is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDrop {
    /// It is cancelled.
    Cancel,
    /// It continues on its lease.
    KeepLease,
}

/// The subscription to the events of one monitor.
pub struct Subscription {
    connection: Connection,
    id: String,
    queue: Arc<EventQueue>,
    on_drop: OnDrop,
}

impl Connection {
    /// Connects to a socket.
    ///
    /// # Errors
    ///
    /// Fails if no process listens on the socket.
    pub async fn open(path: &Path) -> io::Result<Self> {
        let (reader, writer) = UnixStream::connect(path).await?.into_split();
        let (lines, queue) = mpsc::channel(CALLS);
        let shared = Arc::new(Shared::default());
        tokio::spawn(write(writer, queue));
        tokio::spawn(read(reader, Arc::clone(&shared)));
        Ok(Self { shared, lines })
    }

    /// Whether the daemon has closed it.
    pub fn is_closed(&self) -> bool {
        lock(&self.shared.state).closed
    }

    /// Makes a call and waits for its result.
    ///
    /// # Errors
    ///
    /// Fails if the daemon refuses the call or closes the connection.
    pub async fn call(&self, call: &Call) -> Result<String, Error> {
        let (sender, result) = oneshot::channel();
        self.send(call, PendingCall::Result(sender)).await?;
        result.await.unwrap_or(Err(Error::Lost))
    }

    /// Makes a call that starts a series.
    ///
    /// # Errors
    ///
    /// Fails if the daemon refuses the call or closes the connection.
    pub async fn series(
        &self,
        call: &Call,
        on_drop: OnDrop,
    ) -> Result<(String, Subscription), Error> {
        let (sender, result) = oneshot::channel();
        self.send(call, PendingCall::Series(sender, self.clone(), on_drop)).await?;
        result.await.unwrap_or(Err(Error::Lost))
    }

    /// Makes a call that follows nodes.
    ///
    /// # Errors
    ///
    /// Fails if the daemon refuses the call or closes the connection.
    pub async fn follow(&self, call: &Call) -> Result<FollowStart, Error> {
        let (sender, result) = oneshot::channel();
        self.send(call, PendingCall::Follow(sender)).await?;
        result.await.unwrap_or(Err(Error::Lost))
    }

    async fn send(&self, call: &Call, pending: PendingCall) -> Result<(), Error> {
        let permit = self.lines.reserve().await.map_err(|_| Error::Lost)?;
        let tag = {
            let mut state = lock(&self.shared.state);
            if state.closed {
                return Err(Error::Lost);
            }
            state.tag += 1;
            let tag = state.tag;
            state.pending.insert(tag, pending);
            tag
        };
        permit.send(call.to_line(Some(&Tag::Number(tag))));
        Ok(())
    }
}

impl Subscription {
    /// The name of the monitor.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Waits for an event; `None` if the connection has closed.
    pub async fn next(&self) -> Option<Event> {
        self.queue.next().await
    }

    /// Notes that the monitor has ended, so that it is not cancelled.
    pub fn mark_ended(&mut self) {
        self.on_drop = OnDrop::KeepLease;
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut state = lock(&self.connection.shared.state);
        // Another series may have attached to the same monitor since.
        if state.routes.get(&self.id).is_none_or(|it| !Arc::ptr_eq(it, &self.queue)) {
            return;
        }
        state.routes.remove(&self.id);
        if self.on_drop == OnDrop::Cancel && !state.closed {
            let which = Cancel { id: Some(self.id.clone()), ..Cancel::default() };
            // If the queue is full the daemon does not read; it cancels when the connection ends.
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
                if let Err(error) = shared.dispatch(&line) {
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

/// A line from the daemon.
#[derive(Deserialize)]
struct IncomingLine<'a> {
    #[serde(default)]
    id: Option<Tag>,
    #[serde(default)]
    method: Option<String>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(default)]
    error: Option<ErrorObject>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ErrorObject {
    code: i32,
    message: String,
}

#[derive(Deserialize)]
struct MonitorId {
    id: String,
}

impl Shared {
    /// Routes a line to its receiver.
    ///
    /// # Errors
    /// Why the connection must end.
    fn dispatch(&self, line: &Bytes) -> Result<(), String> {
        let line: IncomingLine<'_> =
            serde_json::from_slice(line).map_err(|error| error.to_string())?;
        if let Some(params) = line.params {
            if line.method.as_deref() == Some("follow") {
                let notice: FollowNotice =
                    serde_json::from_str(params.get()).map_err(|error| error.to_string())?;
                if let Some(queue) = lock(&self.state).follows.get(&notice.follow) {
                    queue.push(notice);
                }
                return Ok(());
            }
            let event: Event =
                serde_json::from_str(params.get()).map_err(|error| error.to_string())?;
            if let Some(queue) = lock(&self.state).routes.get(&event.id) {
                queue.push(event);
            }
            return Ok(());
        }
        let result = match (line.result, line.error) {
            (_, Some(error)) => Err(refusal(error)),
            (Some(result), None) => Ok(result.get().to_owned()),
            (None, None) => return Err("a line is neither a result nor an event".into()),
        };
        match line.id {
            Some(Tag::Number(tag)) => self.answer(tag, result),
            // The daemon could not read the tag: one of the calls will get no reply.
            _ => return Err(result.err().map_or("no tag".into(), |error| error.to_string())),
        }
        Ok(())
    }

    fn answer(&self, tag: i64, result: Result<String, Error>) {
        let pending = lock(&self.state).pending.remove(&tag);
        match pending {
            // If the receiver is gone, the result is dropped and a series is cancelled.
            Some(PendingCall::Result(sender)) => drop(sender.send(result)),
            Some(PendingCall::Series(sender, connection, on_drop)) => {
                let started = result.and_then(|text| {
                    let subscription = self.subscribe(&text, connection, on_drop)?;
                    Ok((text, subscription))
                });
                drop(sender.send(started));
            }
            Some(PendingCall::Follow(sender)) => {
                let started = result.and_then(|text| self.follow(&text));
                drop(sender.send(started));
            }
            None => {}
        }
    }

    /// Follows before the next line is read, which may be a notice.
    fn follow(&self, text: &str) -> Result<FollowStart, Error> {
        let followed: Followed = serde_json::from_str(text).map_err(Error::protocol)?;
        let queue = Arc::new(NoticeQueue::default());
        lock(&self.state).follows.insert(followed.follow, Arc::clone(&queue));
        Ok((followed, queue))
    }

    /// Subscribes before the next line is read, which may be an event of this monitor.
    fn subscribe(
        &self,
        text: &str,
        connection: Connection,
        on_drop: OnDrop,
    ) -> Result<Subscription, Error> {
        let name: MonitorId = serde_json::from_str(text).map_err(Error::protocol)?;
        let queue = Arc::new(EventQueue::default());
        lock(&self.state).routes.insert(name.id.clone(), Arc::clone(&queue));
        Ok(Subscription { connection, id: name.id, queue, on_drop })
    }

    fn close(&self, why: Option<&str>) {
        let (calls, routes, follows) = {
            let mut state = lock(&self.state);
            state.closed = true;
            let calls = std::mem::take(&mut state.pending);
            let routes = std::mem::take(&mut state.routes);
            (calls, routes, std::mem::take(&mut state.follows))
        };
        let error = || why.map_or(Error::Lost, Error::protocol);
        for (_, call) in calls {
            match call {
                PendingCall::Result(sender) => drop(sender.send(Err(error()))),
                PendingCall::Series(sender, ..) => drop(sender.send(Err(error()))),
                PendingCall::Follow(sender) => drop(sender.send(Err(error()))),
            }
        }
        routes.values().for_each(|queue| queue.close());
        follows.values().for_each(|queue| queue.close());
    }
}

fn refusal(error: ErrorObject) -> Error {
    match (Status::from_number(error.code), error.code) {
        (Some(status), _) => Refusal::new(status, error.message).into(),
        (None, METHOD_NOT_FOUND) => Refusal::new(Status::NotSupported, error.message).into(),
        (None, PARSE_ERROR | INVALID_REQUEST) => Error::protocol(error.message),
        (None, _) => Refusal::new(Status::Error, error.message).into(),
    }
}
