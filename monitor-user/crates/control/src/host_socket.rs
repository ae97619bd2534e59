//! The socket of a host for commands of its user.
//!
//! In: connections, each with one line. Out: requests for the host, and its answers; the output of
//! processes, from the log. Each connection has a thread, at most sixteen at a time. The folder of
//! the socket is closed to other users.

use crate::host_protocol::{HostAnswer, HostRequest, OutputSpan, REQUEST_TIME, socket_path};
use crate::output_log::{OutputLog, OutputReader, OutputWait};
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Most connections at a time.
const CONNECTIONS: usize = 16;
/// How long to wait where no connection can be accepted.
const AGAIN: Duration = Duration::from_millis(100);
/// Longest request, bytes.
const LONGEST: u64 = 1 << 20;

/// What answers requests: of an output, before it is sent, whether it is refused, and after it, how
/// processes ended.
pub trait HostAnswers: Send + Sync + 'static {
    /// The answer to a request.
    ///
    /// # Errors
    /// If the host ends.
    fn answer(&self, request: HostRequest) -> io::Result<HostAnswer>;

    /// Why an output is not sent.
    fn refusal(&self, _: OutputSpan) -> Option<String> {
        None
    }
}

/// Listens in the folder of the job.
///
/// # Errors
/// If the socket cannot be made.
pub fn listen(folder: &Path, log: Arc<OutputLog>, host: Arc<impl HostAnswers>) -> io::Result<()> {
    let folder = File::open(folder)?;
    let listener = UnixListener::bind(socket_path(&folder))?;
    let open = Arc::new(());
    let _ends_with_the_process = std::thread::Builder::new().spawn(move || {
        loop {
            let Ok((stream, _)) = listener.accept() else {
                // No descriptor is free.
                std::thread::sleep(AGAIN);
                continue;
            };
            // Each thread has one of them, and this one the first.
            if Arc::strong_count(&open) > CONNECTIONS {
                let why = format!("{CONNECTIONS} commands are connected to the host already");
                // The command has gone, if this fails; here and below.
                let _gone = write(&stream, &HostAnswer::Refused(why));
                continue;
            }
            let (log, slot, host) = (Arc::clone(&log), Arc::clone(&open), Arc::clone(&host));
            // Without a thread the connection is closed.
            let _detached = std::thread::Builder::new().spawn(move || {
                let _gone = serve(&stream, &log, &*host);
                drop(slot);
            });
        }
    })?;
    Ok(())
}

fn serve(stream: &UnixStream, log: &Arc<OutputLog>, host: &impl HostAnswers) -> io::Result<()> {
    let mut line = String::new();
    stream.set_read_timeout(Some(REQUEST_TIME))?;
    BufReader::new(stream).take(LONGEST).read_line(&mut line)?;
    stream.set_read_timeout(None)?;
    match serde_json::from_str(&line) {
        Ok(HostRequest::Output(span)) => {
            if let Some(why) = host.refusal(span) {
                return write(stream, &HostAnswer::Refused(why));
            }
            let reader = log.reader_from(span.from);
            let (end, watched) = (reader.end(), stream.try_clone()?);
            let _ends_with_the_connection = std::thread::Builder::new().spawn(move || {
                let _closed = (&watched).read(&mut [0]);
                end.end();
            })?;
            let sent = write_output(stream, &reader, span);
            let ends = || write(stream, &host.answer(HostRequest::Output(span))?);
            let done = sent.and_then(|()| ends());
            // The thread above ends.
            let _closed = stream.shutdown(Shutdown::Both);
            done
        }
        Ok(request) => write(stream, &host.answer(request)?),
        Err(error) => write(stream, &HostAnswer::Refused(format!("no request: {error}"))),
    }
}

fn write_output(stream: &UnixStream, reader: &OutputReader, span: OutputSpan) -> io::Result<()> {
    if reader.lost > 0 {
        write(stream, &HostAnswer::Lost(reader.lost))?;
    }
    let (mut wait, later) = match span.wait.first_within() {
        None => (OutputWait::ToTheEnd, OutputWait::ToTheEnd),
        Some(within) => (OutputWait::Until(Instant::now() + within), OutputWait::No),
    };
    let (mut written, mut next) = (0, span.from + reader.lost);
    while written < span.most
        && let Some(part) = reader.next_part(wait)
    {
        next = part.end();
        // The mark of the end of a job.
        if part.bytes.is_empty() {
            continue;
        }
        written = written.saturating_add(u64::try_from(part.bytes.len()).unwrap_or(u64::MAX));
        write(stream, &HostAnswer::from(&part))?;
        wait = later;
    }
    write(stream, &HostAnswer::Position(next))
}

fn write(mut stream: &UnixStream, answer: &HostAnswer) -> io::Result<()> {
    stream.write_all(&answer.line()?)
}
