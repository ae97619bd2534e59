//! One question to the service of this node, and its answer.
//!
//! Blocking, and short: for commands that ask once. A service that was named must be there; one
//! that would only be tried first may be absent.

use super::exit::{Exit, Failure};
use crate::sys::place;
use crate::wire::call::{Call, Tag};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Longest that an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest answer.
const ANSWER_BYTES: u64 = 16 << 20;

#[derive(Deserialize)]
struct Reply<T> {
    result: Option<T>,
    error: Option<Error>,
}

#[derive(Deserialize)]
struct Error {
    message: String,
}

/// Asks; nothing, if no service was named and none is there.
pub fn ask<T: DeserializeOwned>(named: Option<&Path>, call: &Call) -> Result<Option<T>, Failure> {
    for path in place::candidates(named) {
        let no_daemon = |why: &dyn std::fmt::Display| Failure {
            message: format!("no service answers on {}: {why}", path.display()),
            exit: Exit::NoDaemon,
        };
        let stream = match UnixStream::connect(&path) {
            Ok(stream) => stream,
            Err(why) if named.is_some() => return Err(no_daemon(&why)),
            Err(_) => continue,
        };
        let line = exchange(stream, call).map_err(|why| match why.kind() {
            ErrorKind::WouldBlock => no_daemon(&"it is silent"),
            _ => no_daemon(&why),
        })?;
        let reply: Reply<T> = serde_json::from_slice(&line).map_err(|why| no_daemon(&why))?;
        return match (reply.result, reply.error) {
            (Some(result), _) => Ok(Some(result)),
            (None, Some(error)) => Err(Failure { message: error.message, exit: Exit::Failed }),
            (None, None) => Err(no_daemon(&"its answer is empty")),
        };
    }
    Ok(None)
}

fn exchange(mut stream: UnixStream, call: &Call) -> std::io::Result<Vec<u8>> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(&call.to_line(Some(&Tag::Number(1))))?;
    let mut line = Vec::new();
    let _bytes = BufReader::new(stream.take(ANSWER_BYTES)).read_until(b'\n', &mut line)?;
    Ok(line)
}
