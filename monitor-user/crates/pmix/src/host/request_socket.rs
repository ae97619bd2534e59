//! The socket of a host for commands of its user.
//!
//! In: connections, each with one line. Out: requests for the host, and its answers; the output of
//! ranks, from the log. Each connection has a thread, at most sixteen at a time. The folder of the
//! socket is closed to other users.

use crate::libpmix::send;
use crate::upcall::Upcall;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use monitor_control::host_protocol::{HostAnswer, HostRequest, OutputSpan, SpanWait, socket_path};
use monitor_control::output_log::{OutputLog, OutputPart, OutputReader, OutputWait};
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// Most connections at a time.
const CONNECTIONS: usize = 16;
/// How long a command may take to send its request.
const REQUEST_TIME: Duration = Duration::from_secs(10);
/// How long to wait where no connection can be accepted.
const AGAIN: Duration = Duration::from_millis(100);
/// Longest time to wait for the first part of an output.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 3600);
/// Longest request, bytes.
const LONGEST: u64 = 1 << 20;

/// Listens in the folder of the job.
///
/// # Errors
/// If the socket cannot be made.
pub fn listen(folder: &Path, log: Arc<OutputLog>) -> io::Result<()> {
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
            let (log, slot) = (Arc::clone(&log), Arc::clone(&open));
            // Without a thread the connection is closed.
            let _detached = std::thread::Builder::new().spawn(move || {
                let _gone = serve(&stream, &log);
                drop(slot);
            });
        }
    })?;
    Ok(())
}

fn serve(stream: &UnixStream, log: &Arc<OutputLog>) -> io::Result<()> {
    let mut line = String::new();
    stream.set_read_timeout(Some(REQUEST_TIME))?;
    BufReader::new(stream).take(LONGEST).read_line(&mut line)?;
    stream.set_read_timeout(None)?;
    match serde_json::from_str(&line) {
        Ok(HostRequest::Output(span)) => {
            let reader = log.reader_from(span.from);
            let (end, watched) = (reader.end(), stream.try_clone()?);
            let _ends_with_the_connection = std::thread::Builder::new().spawn(move || {
                let _closed = (&watched).read(&mut [0]);
                end.end();
            })?;
            let done = write_output(stream, &reader, span);
            // The thread above ends.
            let _closed = stream.shutdown(Shutdown::Both);
            done
        }
        Ok(request) => write(stream, &ask(request)?),
        Err(error) => write(stream, &HostAnswer::Refused(format!("no request: {error}"))),
    }
}

fn write_output(stream: &UnixStream, reader: &OutputReader, span: OutputSpan) -> io::Result<()> {
    if reader.lost > 0 {
        write(stream, &HostAnswer::Lost(reader.lost))?;
    }
    let (mut wait, later) = match span.wait {
        SpanWait::ToTheEnd => (OutputWait::ToTheEnd, OutputWait::ToTheEnd),
        SpanWait::First(milliseconds) => {
            let within = LONGEST_WAIT.min(Duration::from_millis(milliseconds));
            (OutputWait::Until(Instant::now() + within), OutputWait::No)
        }
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
        write(stream, &output(&part))?;
        wait = later;
    }
    write(stream, &HostAnswer::Position(next))?;
    write(stream, &ask(HostRequest::Output(span))?)
}

/// The answer of the host.
fn ask(request: HostRequest) -> io::Result<HostAnswer> {
    let (answer, answered) = channel();
    send(Upcall::Request(request, answer));
    answered.recv().map_err(|_| io::ErrorKind::BrokenPipe.into())
}

fn output(part: &OutputPart) -> HostAnswer {
    HostAnswer::Output {
        namespace: part.source.group.to_string(),
        rank: part.source.rank,
        is_error: part.source.is_error,
        bytes: STANDARD.encode(&part.bytes),
    }
}

fn write(mut stream: &UnixStream, answer: &HostAnswer) -> io::Result<()> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    stream.write_all(&line)
}
