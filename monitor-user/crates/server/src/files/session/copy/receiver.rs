//! An open file `copy` of a node: a copy that comes in to a session here.
//!
//! In: a manifest, and the content of the files that it names, in one piece. Out: the session with
//! all of it, once each file has its SHA-256; then a report, also on what the session copies to
//! others. Closed before its end, it leaves the session as it was.

use super::super::{LiveSession, SessionTable};
use super::distribution::{COPY_TIME, distribute};
use super::key::{Digest, KeyUse};
use super::manifest::{CopiedEntry, CopyManifest};
use super::outcome::ReportLine;
use super::report::Report;
use super::source::CopySource;
use crate::lock::lock;
use crate::user_shares::UserShare;
use bytes::Bytes;
use monitor_control::session::{Refusal, SessionError, SessionHold};
use sha2::{Digest as _, Sha256};
use std::fs::File;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::mpsc::unbounded_channel;
use tokio::task::AbortHandle;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

/// How often a target says that it is still at work; less than the sender waits for it.
const WORKING_TIME: Duration = Duration::from_secs(2);

/// An open `copy`.
pub struct CopyReceiver {
    sessions: Arc<SessionTable>,
    /// Bytes that were written.
    at: u64,
    phase: Phase,
    /// The share of the user of the connection, and bytes of a manifest that count for it.
    share: Arc<UserShare>,
    counted: usize,
}

enum Phase {
    /// The beginning of a manifest.
    Manifest(Vec<u8>),
    /// Files come in.
    Files(Box<Incoming>),
    /// The same copy was there before: its bytes, which are not needed, and what follows them.
    Repeated(u64, Box<Incoming>),
    /// It is complete: what is reported.
    Reported { report: Arc<Report>, _relay: Option<RelayTask> },
    /// It was refused: why, also for the writes that follow, which are on their way.
    Refused(SessionError),
}

/// A copy that is not complete; dropped, it is undone.
struct Incoming {
    session: Arc<LiveSession>,
    hold: Option<SessionHold>,
    manifest: CopyManifest,
    digest: Digest,
    /// Its number in the session.
    number: u64,
    /// The next entry of the manifest.
    next: usize,
    file: Option<IncomingFile>,
    /// Ends it when its time is over.
    expiry: Option<AbortHandle>,
}

struct IncomingFile {
    file: File,
    at: u64,
    remaining: u64,
    hash: Sha256,
}

/// The task that copies to others; ended with the file.
struct RelayTask(AbortHandle);

impl Drop for RelayTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl CopyReceiver {
    /// Opened on a node with these sessions.
    pub fn new(sessions: &Arc<SessionTable>, share: Arc<UserShare>) -> Self {
        let (sessions, phase) = (Arc::clone(sessions), Phase::Manifest(Vec::new()));
        Self { sessions, at: 0, phase, share, counted: 0 }
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    ///
    /// When the key does not permit it, a file is another one than its SHA-256 says, or a limit of
    /// the session is reached. The copy has failed then.
    pub fn write(&mut self, offset: u64, content: &[u8]) -> Result<(), SessionError> {
        let is_next = offset == self.at;
        self.at = offset.saturating_add(u64::try_from(content.len()).unwrap_or(u64::MAX));
        let taken = match &self.phase {
            Phase::Refused(why) => Err(why.clone()),
            _ if !is_next => Err(invalid("a copy is written in one piece, from its beginning")),
            _ => self.take(content),
        };
        taken.inspect_err(|why| self.phase = Phase::Refused(why.clone()))
    }

    fn take(&mut self, written: &[u8]) -> Result<(), SessionError> {
        let begun;
        let mut content = written;
        if let Phase::Manifest(bytes) = &mut self.phase {
            if self.share.is_over() {
                return Err(SessionError::new(Refusal::TryAgain, self.share.refusal()));
            }
            self.share.add(content.len());
            self.counted += content.len();
            bytes.extend_from_slice(content);
            let Some((manifest, length)) = CopyManifest::decode(bytes)? else { return Ok(()) };
            begun = bytes.split_off(length);
            self.phase = Incoming::begin(&self.sessions, manifest)?;
            content = &begun;
        }
        match &mut self.phase {
            Phase::Files(incoming) => {
                if incoming.take(content)? {
                    self.complete();
                }
                Ok(())
            }
            Phase::Repeated(remaining, _) => {
                let length = u64::try_from(content.len()).unwrap_or(u64::MAX);
                *remaining = remaining.checked_sub(length).ok_or_else(too_much)?;
                if *remaining == 0 {
                    self.complete();
                }
                Ok(())
            }
            Phase::Reported { .. } => Err(too_much()),
            Phase::Refused(why) => Err(why.clone()),
            Phase::Manifest(_) => Ok(()),
        }
    }

    /// All is there: the session is as the copy says, and is copied to others.
    fn complete(&mut self) {
        let phase = std::mem::replace(&mut self.phase, Phase::Manifest(Vec::new()));
        let (mut incoming, is_new) = match phase {
            Phase::Files(incoming) => (incoming, true),
            Phase::Repeated(_, incoming) => (incoming, false),
            other => {
                self.phase = other;
                return;
            }
        };
        if is_new {
            incoming.complete();
        }
        let report = Arc::new(Report::default());
        report.add(&ReportLine::Copied);
        let relay = incoming.relay(&report);
        if relay.is_none() {
            report.end();
        }
        self.phase = Phase::Reported { report, _relay: relay };
    }

    /// The next lines of the report.
    ///
    /// # Errors
    ///
    /// Before the copy is complete.
    pub fn poll_read(
        &self,
        most: usize,
        context: &Context<'_>,
    ) -> Poll<Result<Bytes, SessionError>> {
        match &self.phase {
            Phase::Reported { report, .. } => report.poll_read(most, context).map(Ok),
            _ => Poll::Ready(Err(invalid("the copy is not complete: write all of it first"))),
        }
    }
}

impl Drop for CopyReceiver {
    fn drop(&mut self) {
        self.share.remove(self.counted);
    }
}

impl Incoming {
    fn begin(sessions: &SessionTable, manifest: CopyManifest) -> Result<Phase, SessionError> {
        let digest = manifest.content.digest();
        let session = sessions.get(manifest.session);
        let session = session.ok_or_else(|| {
            // As with another key: numbers of sessions are not to be found out here.
            SessionError::new(
                Refusal::Denied,
                "the key is not that of the session: read its file key",
            )
        })?;
        let mut incoming = lock(&session.incoming);
        let key_use = incoming.key.check(&manifest.key, &digest, Instant::now().into_std())?;
        let id = session.context.session_id(session.record.number);
        if manifest.through.contains(&id) {
            let why = "a loop: the copy has come through this session before";
            return Err(invalid(why));
        }
        let hold = Some(session.record.hold()?);
        let is_first = key_use == KeyUse::First;
        let of = (&*session.record, &session.stored);
        let number = if is_first { incoming.begin(of)? } else { 0 };
        drop(incoming);
        let expiry = is_first.then(|| expire(&session, number, manifest.time_ms));
        let bytes = manifest.content.file_bytes();
        let it =
            Box::new(Self { session, hold, manifest, digest, number, next: 0, file: None, expiry });
        Ok(if is_first { Phase::Files(it) } else { Phase::Repeated(bytes, it) })
    }

    /// Takes content of files; true when all is there.
    fn take(&mut self, mut content: &[u8]) -> Result<bool, SessionError> {
        let session = Arc::clone(&self.session);
        // Held while files change: a copy that takes the place of this one waits for that.
        let mut incoming = lock(&session.incoming);
        if !incoming.is_current(self.number) {
            let why = "the copy has taken too long, or another one has taken its place";
            return Err(SessionError::new(Refusal::Closed, why));
        }
        loop {
            if let Some(file) = &mut self.file {
                let count = usize::try_from(file.remaining).unwrap_or(usize::MAX);
                let (part, rest) = content.split_at(count.min(content.len()));
                session.stored.write(&file.file, file.at, part)?;
                file.add(part);
                content = rest;
                if file.remaining > 0 {
                    return Ok(false);
                }
                let entry = &self.manifest.content.entries[self.next - 1];
                let file = self.file.take();
                check_digest(entry, file)?;
                continue;
            }
            let Some(entry) = self.manifest.content.entries.get(self.next) else {
                return if content.is_empty() { Ok(true) } else { Err(too_much()) };
            };
            self.next += 1;
            match entry.file {
                None => session.stored.make_directory(&entry.path, entry.permissions)?,
                Some((length, _)) => {
                    let file = session.stored.create(&entry.path, entry.permissions)?;
                    let hash = Sha256::new();
                    self.file = Some(IncomingFile { file, at: 0, remaining: length, hash });
                }
            }
            incoming.add(entry.path.clone());
        }
    }

    fn complete(&mut self) {
        let content = &self.manifest.content;
        let texts = (content.argv.clone(), content.env.clone());
        lock(&self.session.incoming).complete(&self.session.record, texts, self.digest);
        let (number, bytes) = (self.session.record.number, content.file_bytes());
        tracing::info!(number, bytes, "a session has the copy of another");
    }

    /// Copies to others, if the manifest names some. The task keeps the session.
    fn relay(&mut self, report: &Arc<Report>) -> Option<RelayTask> {
        let (width, targets) = self.manifest.relay.take()?;
        let session = Arc::clone(&self.session);
        let mut through = std::mem::take(&mut self.manifest.through);
        through.push(session.context.session_id(session.record.number));
        let time = Duration::from_millis(self.manifest.time_ms).min(COPY_TIME);
        let source = Arc::new(CopySource {
            live: session,
            content: std::mem::take(&mut self.manifest.content),
            through,
            until: Instant::now() + time,
            width: usize::try_from(width).unwrap_or(0),
        });
        let (report, hold) = (Arc::clone(report), self.hold.take());
        let task = tokio::spawn(async move {
            let _hold = hold;
            let (to, mut outcomes) = unbounded_channel();
            let targets = targets.into_iter().enumerate().collect();
            let mut work = pin!(distribute(source, targets, to));
            let mut ticks = interval(WORKING_TIME);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let add = |(number, outcome)| report.add(&ReportLine::Outcome(number, outcome));
            loop {
                tokio::select! {
                    () = &mut work => break,
                    Some(outcome) = outcomes.recv() => add(outcome),
                    _ = ticks.tick() => report.add(&ReportLine::Working),
                }
            }
            while let Ok(outcome) = outcomes.try_recv() {
                add(outcome);
            }
            report.end();
        });
        Some(RelayTask(task.abort_handle()))
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        if let Some(expiry) = self.expiry.take() {
            expiry.abort();
        }
        let of = (&*self.session.record, &self.session.stored);
        lock(&self.session.incoming).cancel(self.number, of);
    }
}

impl IncomingFile {
    fn add(&mut self, part: &[u8]) {
        let length = u64::try_from(part.len()).unwrap_or(u64::MAX);
        self.hash.update(part);
        self.at += length;
        self.remaining -= length;
    }
}

/// Compares the SHA-256 of a file with that of the manifest.
fn check_digest(entry: &CopiedEntry, file: Option<IncomingFile>) -> Result<(), SessionError> {
    let got = file.map(|it| Digest::from(it.hash.finalize()));
    if entry.file.map(|it| it.1) == got {
        return Ok(());
    }
    let why = format!("fs/{} has another SHA-256 than the copy says: it has changed", entry.path);
    Err(SessionError::new(Refusal::Io, why))
}

/// Cancels a copy that is not complete when its time is over.
fn expire(session: &Arc<LiveSession>, number: u64, time_ms: u64) -> AbortHandle {
    let session = Arc::downgrade(session);
    let time = Duration::from_millis(time_ms).min(COPY_TIME);
    let expired = async move {
        sleep(time).await;
        if let Some(session) = session.upgrade() {
            lock(&session.incoming).cancel(number, (&session.record, &session.stored));
        }
    };
    tokio::spawn(expired).abort_handle()
}

fn invalid(why: &str) -> SessionError {
    SessionError::new(Refusal::Invalid, why)
}

fn too_much() -> SessionError {
    invalid("the copy has more bytes than its manifest says")
}
