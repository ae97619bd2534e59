//! The host of the job that a session is: `job output` and `job log` find it as they find the host
//! of any job.
//!
//! In: connections at the socket of the session, of its user or of root, each with one line. Out:
//! what the program has written, from the streams that `stdout` and `stderr` read, and how it has
//! ended. A connection is a task, keeps the session as an open file does, and what its answers cost
//! is charged to the user.

use super::LiveSession;
use crate::socket::peer_of;
use crate::user_shares::{HeldBytes, UserShare};
use monitor_control::host_protocol::{
    EndedRank, HostAnswer, HostRequest, OutputSpan, REQUEST_TIME, SpanWait, log_line,
};
use monitor_control::output_log::{MergedPart, MergedReader};
use monitor_control::session::{JobSocket, Phase, ProcessEnd, SessionRecord};
use monitor_sys::clock;
use rustix::net::{SendFlags, send};
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::os::unix::net::UnixListener as StdListener;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::unix::WriteHalf;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};

/// Most connections of a session at a time.
const CONNECTIONS: usize = 4;
/// Longest request, in bytes.
const LONGEST: u64 = 64 << 10;
/// How long a command that reads what a session has left may read nothing.
const LEFT_TIME: Duration = Duration::from_secs(5);
/// Pause after a connection that could not be accepted, or was refused.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A socket and its listener, and the share of its user.
pub type HostParts = (JobSocket, StdListener, Arc<UserShare>);

/// Serves the job of a session until that has ended, on a task.
///
/// # Errors
///
/// When the socket cannot be registered.
pub fn start(live: &Arc<LiveSession>, parts: HostParts) -> io::Result<JoinHandle<()>> {
    let (socket, listener, share) = parts;
    let (listener, live) = (UnixListener::from_std(listener)?, Arc::clone(live));
    Ok(tokio::spawn(async move {
        let open = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            tokio::select! {
                () = live.record.gone() => break,
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        let began = clock::thread_cpu();
                        let is_accepted = accept(stream, (&live, &open, &share));
                        share.charge_socket(began);
                        if !is_accepted {
                            sleep(ACCEPT_PAUSE).await;
                        }
                    }
                    // No descriptor is free.
                    Err(_) => sleep(ACCEPT_PAUSE).await,
                }
            }
        }
        drop(socket);
    }))
}

/// Begins to answer a connection; whether it is not refused.
fn accept(
    stream: UnixStream,
    (live, open, share): (&Arc<LiveSession>, &Arc<Semaphore>, &Arc<UserShare>),
) -> bool {
    // The folder is closed to others, unless its user has opened it.
    let uid = peer_of(&stream).map(|it| it.uid);
    if !uid.is_some_and(|uid| uid == 0 || uid == live.record.user.uid) {
        return false;
    }
    let permit = Arc::clone(open).try_acquire_owned();
    let hold = live.record.hold();
    let (Ok(permit), Ok(hold)) = (permit, hold) else {
        let why = "too many commands or files of the session are open".to_owned();
        if let Ok(line) = HostAnswer::Refused(why).line() {
            // The command has gone, if this fails. A stream of tokio writes only when the event
            // loop has reported that there is room.
            let _gone = send(&stream, &line, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        }
        return false;
    };
    let (live, share) = (Arc::clone(live), Arc::clone(share));
    let _detached = tokio::spawn(async move {
        let _gone = answer(stream, &live, &share).await;
        drop((hold, permit));
    });
    true
}

/// Reads the request, and answers it until the command has gone.
async fn answer(
    mut stream: UnixStream,
    live: &LiveSession,
    share: &Arc<UserShare>,
) -> io::Result<()> {
    let (reader, writer) = stream.split();
    let mut reader = BufReader::new(reader).take(LONGEST);
    let mut line = String::new();
    timeout(REQUEST_TIME, reader.read_line(&mut line)).await??;
    let mut answers = Answers { writer, share, record: &live.record };
    let permit = share.admit_line(|| false).await;
    let began = clock::thread_cpu();
    let request = serde_json::from_str(&line);
    let logged = match &request {
        Ok(HostRequest::Log { text, is_error }) => log(&live.record, text, *is_error),
        _ => HostAnswer::Done,
    };
    share.charge_socket(began);
    drop(permit);
    match request {
        Ok(HostRequest::Output(span)) => {
            let mut rest = [0];
            tokio::select! {
                sent = answers.output(span) => sent,
                // A command sends one line, and closes the connection when it has read enough.
                _ = reader.read(&mut rest) => Ok(()),
            }
        }
        Ok(HostRequest::Log { .. }) => answers.send(&logged).await,
        Ok(HostRequest::Query { .. } | HostRequest::Notify { .. }) => {
            let why = "a session has no PMIx server".to_owned();
            answers.send(&HostAnswer::Refused(why)).await
        }
        Err(error) => answers.send(&HostAnswer::Refused(format!("no request: {error}"))).await,
    }
}

/// Adds a line to the output of the program.
fn log(record: &SessionRecord, text: &str, is_error: bool) -> HostAnswer {
    if matches!(record.phase(), Phase::Ended(_)) {
        return HostAnswer::Refused("its program has ended".to_owned());
    }
    let line = log_line(text);
    let log = if is_error { &record.errors } else { &record.output };
    let context = Context::from_waker(Waker::noop());
    let source = record.output_source(is_error);
    match log.poll_append((&source, line.as_bytes()), &log.wait_place(), &context) {
        std::task::Poll::Ready(()) => HostAnswer::Done,
        std::task::Poll::Pending => {
            HostAnswer::Refused("its output is full, and no reader has had it".to_owned())
        }
    }
}

/// The answers on a connection.
struct Answers<'a> {
    writer: WriteHalf<'a>,
    share: &'a Arc<UserShare>,
    record: &'a Arc<SessionRecord>,
}

impl Answers<'_> {
    async fn output(&mut self, span: OutputSpan) -> io::Result<()> {
        let logs = [&self.record.output, &self.record.errors];
        let mut reader = MergedReader::new(logs, span.from);
        let mut until = span.wait.first_within().map(|within| Instant::now() + within);
        let (mut sent, mut has_ended) = (0, false);
        while sent < span.most {
            let next = poll_fn(|context| reader.poll_next(context));
            let next = match until {
                None => Ok(next.await),
                Some(until) => timeout_at(until, next).await,
            };
            let Ok(next) = next else { break };
            let Some(MergedPart { part, lost }) = next else {
                has_ended = true;
                break;
            };
            if lost > 0 {
                self.send(&HostAnswer::Lost(lost)).await?;
            }
            sent = sent.saturating_add(u64::try_from(part.bytes.len()).unwrap_or(u64::MAX));
            self.send(&HostAnswer::from(&part)).await?;
            // What is there, after the first part.
            until = until.map(|_| Instant::now());
        }
        self.send(&HostAnswer::Position(reader.position())).await?;
        // The log does not wait for this reader any longer.
        drop(reader);
        if has_ended && span.wait == SpanWait::ToTheEnd {
            let _end = self.record.wait().await;
        }
        let ends = has_ended.then(|| end(self.record)).flatten();
        self.send(&HostAnswer::Ended(ends.into_iter().collect())).await
    }

    /// Sends an answer, in the turn of the user.
    async fn send(&mut self, answer: &HostAnswer) -> io::Result<()> {
        self.share.wait_for_room().await;
        let permit = self.share.admit_line(|| false).await;
        let began = clock::thread_cpu();
        let line = answer.line()?;
        self.share.charge_socket(began);
        drop(permit);
        let mut waiting = HeldBytes::new(self.share);
        waiting.set(line.len());
        let written = self.writer.write_all(&line);
        tokio::select! {
            written = written => written,
            () = gone(self.record) => Err(ErrorKind::TimedOut.into()),
        }
    }
}

/// Ready when a session has ended, and a command has had time to read what it has left.
async fn gone(record: &SessionRecord) {
    record.gone().await;
    sleep(LEFT_TIME).await;
}

/// How the program has ended, if it has.
fn end(record: &SessionRecord) -> Option<EndedRank> {
    let Phase::Ended(end) = record.phase() else { return None };
    let ending = match end {
        ProcessEnd::Ended(it) => Some(it),
        ProcessEnd::Wiped(it) => it,
    };
    let (code, signal) = ending.map_or((None, None), |it| (it.code, it.signal));
    Some(EndedRank { namespace: record.job_id().to_owned(), rank: Some(0), code, signal })
}
