//! The copy to one target: its file `copy` is written, and what that reports is read.
//!
//! In: the source, a target, and what the target copies to. Out: lines of its report. A target that
//! does not answer has a deadline at each step.

use super::manifest::{CopiedEntry, CopyManifest};
use super::outcome::ReportLine;
use super::scan::CHUNK;
use super::source::CopySource;
use monitor_control::session::StoredAccess;
use monitor_control::session::copy_target::CopyTarget;
use monitor_remote::{Address, Remote, RemoteError, RemoteFile, RemoteMode};
use monitor_sys::{clock, fsuid};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::io;
use std::path::Path;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::time::{Instant, timeout, timeout_at};

/// How long a target may take to connect, to open a file, and to report that it works.
const STEP_TIME: Duration = Duration::from_secs(10);
/// How long it may take for a part of a file.
const PART_TIME: Duration = Duration::from_secs(30);
/// The user that is no user: the key permits the copy, not the name of a user.
const USER: &str = "none";
/// Most bytes of a report that wait for the end of their line.
const LINE_BYTES: usize = 1 << 10;

/// Copies to a target, which copies to others; `reported` gets the lines of its report.
///
/// # Errors
///
/// Why the target, or what it copies to, has not reported to the end.
pub async fn send(
    source: &CopySource,
    (target, relay): (&CopyTarget, &[CopyTarget]),
    mut reported: impl FnMut(ReportLine) -> Result<(), String>,
) -> Result<(), String> {
    let context = &source.live.context;
    let late = |_| Err("the time for all copies is over".to_owned());
    let written = async {
        let _permit = context.sent.acquire().await.map_err(|why| why.to_string())?;
        write(source, (target, relay)).await
    };
    // Without the permit: a target of this service may need it for its own copies.
    let (_remote, file) = timeout_at(source.until, written).await.unwrap_or_else(late)?;
    let mut rest = Vec::new();
    loop {
        let read = timeout(STEP_TIME, file.read(0, file.read_bytes())).await;
        let silent = |_| Err(RemoteError::TimedOut { what: "its report".into(), after: STEP_TIME });
        let part = read.unwrap_or_else(silent).map_err(|why| why.to_string())?;
        if part.is_empty() {
            return Ok(());
        }
        rest.extend_from_slice(&part);
        while let Some(end) = rest.iter().position(|it| *it == b'\n') {
            let line: Vec<u8> = rest.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line[..end]);
            let line = ReportLine::parse(&line);
            reported(line.ok_or_else(|| "it reports what is no report".to_owned())?)?;
        }
        if rest.len() > LINE_BYTES || Instant::now() >= source.until {
            return Err("it does not come to the end of its report in time".to_owned());
        }
    }
}

/// Writes the whole copy. The connection stays while its file is read.
async fn write(
    source: &CopySource,
    (target, relay): (&CopyTarget, &[CopyTarget]),
) -> Result<(Remote, RemoteFile), String> {
    let manifest = CopyManifest {
        session: target.session,
        key: target.key.clone(),
        through: source.through.clone(),
        time_ms: u64::try_from(source.until.duration_since(Instant::now()).as_millis())
            .unwrap_or(u64::MAX),
        content: source.content.clone(),
        relay: (!relay.is_empty())
            .then(|| (u32::try_from(source.width).unwrap_or(u32::MAX), relay.to_vec())),
    };
    let manifest = manifest.encode().map_err(|why| why.why)?;
    let address = target.address.parse::<Address>()?;
    let remote = connect(source, &address).await.map_err(|why| why.to_string())?;
    let opened = remote.open("copy", RemoteMode::ReadWrite).await;
    let file = match opened {
        Ok(file) => file,
        Err(RemoteError::NotFound) => {
            return Err("it executes no programs (files.execute in its configuration)".to_owned());
        }
        Err(why) => return Err(explained(&remote, why).await),
    };
    match write_all(source, &file, &manifest).await {
        Ok(()) => Ok((remote, file)),
        Err(why) => Err(explained(&remote, why).await),
    }
}

async fn write_all(
    source: &CopySource,
    file: &RemoteFile,
    manifest: &[u8],
) -> Result<(), RemoteError> {
    let mut at = 0;
    for part in manifest.chunks(CHUNK) {
        upload(file, &mut at, part).await?;
    }
    for entry in &source.content.entries {
        if let Some((length, _)) = entry.file {
            write_file(source, (file, &mut at), (entry, length)).await?;
        }
    }
    Ok(())
}

/// Writes a file, within the processor time of its user.
async fn write_file(
    source: &CopySource,
    (to, at): (&RemoteFile, &mut u64),
    (entry, length): (&CopiedEntry, u64),
) -> Result<(), RemoteError> {
    let (live, mut offset) = (&source.live, 0);
    let changed = || RemoteError::Lost { why: format!("fs/{} has changed meanwhile", entry.path) };
    let opened = live.stored.open_file(&entry.path, StoredAccess::Read);
    let file = opened.map_err(|_| changed())?;
    while offset < length {
        let permit = live.share.admit_line(|| false).await;
        let began = clock::thread_cpu();
        let most = usize::try_from(length - offset).unwrap_or(CHUNK).min(CHUNK);
        let part = live.stored.read(&file, offset, most).map_err(|_| changed())?;
        live.share.charge_socket(began);
        drop(permit);
        if part.is_empty() {
            return Err(changed());
        }
        upload(to, at, &part).await?;
        offset += u64::try_from(part.len()).unwrap_or(u64::MAX);
    }
    Ok(())
}

async fn upload(file: &RemoteFile, at: &mut u64, part: &[u8]) -> Result<(), RemoteError> {
    let late = |_| Err(RemoteError::TimedOut { what: "a part of it".into(), after: PART_TIME });
    timeout(PART_TIME, file.upload(*at, part)).await.unwrap_or_else(late)?;
    *at += u64::try_from(part.len()).unwrap_or(u64::MAX);
    Ok(())
}

/// Connects to a node, or to a service of this machine that the user of the session can reach.
async fn connect(source: &CopySource, address: &Address) -> Result<Remote, RemoteError> {
    let unreachable = |why: String| RemoteError::Unreachable { address: address.to_string(), why };
    match address {
        Address::Tls(_) => source.live.context.connector.connect(address, USER, STEP_TIME).await,
        Address::Tcp(_) => {
            let why = "TCP without TLS authenticates no node: use its address with tls!";
            Err(unreachable(why.to_owned()))
        }
        Address::Unix(path) => {
            let user = &source.live.record.user;
            let stream = fsuid::as_user(user.uid, user.gid, || socket(path));
            let stream = stream.and_then(|it| it).and_then(UnixStream::from_std);
            let stream = stream.map_err(|why| unreachable(why.to_string()))?;
            Remote::over(stream, USER, STEP_TIME).await
        }
    }
}

/// A socket that is connected at once or not at all: the file permissions of a user are those of
/// this call.
fn socket(path: &Path) -> io::Result<std::os::unix::net::UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket.into())
}

/// An error with the explanation that the target has for it.
async fn explained(remote: &Remote, why: RemoteError) -> String {
    if !why.leaves_connection() {
        return why.to_string();
    }
    let explanation = remote.explanation().await;
    if explanation.is_empty() { why.to_string() } else { explanation }
}
