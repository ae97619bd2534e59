//! Follows a child: a task with one connection to it.
//!
//! In: its `pull` at each interval and at each round, its `push` and `event` while a reader of the
//! aggregator wants them, as the user `none`; lines for its `ctl`, as the user of this service.
//! Out: its last record, lines for readers, events. What waits for one of these files holds up
//! none of the others, and no other child.

use super::super::event_feed::unix_ns;
use super::super::nodes::DownReason;
use super::child::{Child, ChildKind, ChildRecord, Missing};
use super::record::{MAX_RECORD, RecordFault, check, passed_on, path};
use super::settings::{PushMode, ReadSettings};
use super::stream::{LineSplitter, StreamLine};
use super::table::{Aggregator, ReaderInterest, Signals};
use bytes::Bytes;
use monitor_remote::{Connector, Remote, RemoteError, RemoteFile, RemoteMode};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

/// How long a child may take to answer.
const ANSWER_TIME: Duration = Duration::from_secs(10);
/// How long events are followed when the last file was closed: a shell opens it again.
const CLOSE_DELAY: Duration = Duration::from_secs(60);
/// How often the description of an aggregator is read again: it has children of its own.
const DESCRIPTION_TIME: Duration = Duration::from_secs(30);
/// How long a file that a child refuses is not asked for again.
const REFUSED_PAUSE: Duration = Duration::from_secs(10);
/// The user that observes what any may.
const USER: &str = "none";

/// Why a connection cannot be used any longer.
enum ChildFailure {
    Connect(RemoteError),
    Read(RemoteError),
    /// The aggregator has ended.
    Ended,
}

impl From<RemoteError> for ChildFailure {
    fn from(error: RemoteError) -> Self {
        Self::Read(error)
    }
}

/// What never succeeds: it ends with its failure.
enum Never {}

/// Starts the task of a child.
pub fn start(aggregator: &Arc<Aggregator>, child: &Arc<Child>) -> AbortHandle {
    let to_child = (Arc::clone(child), aggregator.connector.clone());
    let task = follow(Arc::downgrade(aggregator), to_child, aggregator.signals());
    tokio::spawn(task).abort_handle()
}

/// Follows a child until the task is ended.
async fn follow(
    aggregator: Weak<Aggregator>,
    (child, connector): (Arc<Child>, Connector),
    mut signals: Signals,
) {
    loop {
        let Err(failure) =
            Follower::serve(&aggregator, (&child, &connector), signals.clone()).await;
        let reason = match failure {
            ChildFailure::Connect(why) => DownReason::of_connect(&why),
            ChildFailure::Read(why) => DownReason::of_read(&why),
            ChildFailure::Ended => return,
        };
        let Some(aggregator) = aggregator.upgrade() else { return };
        // A round that was asked for meanwhile has its answer: there is none.
        let round = *signals.rounds.borrow_and_update();
        child.set(|state| {
            state.record = Err(Missing::Down(reason));
            state.round = round;
            state.passed = "pending".to_owned();
        });
        aggregator.answered();
        drop(aggregator);
        let pause = signals.settings.borrow_and_update().interval;
        tokio::select! {
            () = sleep(pause) => {}
            _ = signals.settings.changed() => {}
            _ = signals.rounds.changed() => {}
        }
    }
}

/// One connection to a child.
struct Follower<'c> {
    aggregator: &'c Weak<Aggregator>,
    child: &'c Child,
    remote: Remote,
    kind: ChildKind,
    signals: Signals,
}

impl<'c> Follower<'c> {
    async fn serve(
        aggregator: &'c Weak<Aggregator>,
        (child, connector): (&'c Child, &Connector),
        signals: Signals,
    ) -> Result<Never, ChildFailure> {
        let connected = connector.connect(&child.address.at.address, USER, ANSWER_TIME).await;
        let remote = connected.map_err(ChildFailure::Connect)?;
        let kind = match child.address.kind {
            Some(kind) => kind,
            None => match remote.walk("agg/pull").await {
                Ok(_) => ChildKind::Aggregator,
                Err(RemoteError::NotFound) => ChildKind::Node,
                Err(why) => return Err(why.into()),
            },
        };
        child.set(|it| it.kind = Some(kind));
        let it = Self { aggregator, child, remote, kind, signals };
        let ended = tokio::try_join!(it.rounds(), it.samples(), it.events(), it.commands());
        ended.map(|it| it.0)
    }

    fn aggregator(&self) -> Result<Arc<Aggregator>, ChildFailure> {
        self.aggregator.upgrade().ok_or(ChildFailure::Ended)
    }

    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.kind.directory())
    }

    /// Reads `pull` again and again, and `desc`.
    async fn rounds(&self) -> Result<Never, ChildFailure> {
        let mut signals = self.signals.clone();
        let file = self.remote.open(&self.path("pull"), RemoteMode::Read).await?;
        let mut described: Option<Instant> = None;
        loop {
            let settings = *signals.settings.borrow_and_update();
            let round = *signals.rounds.borrow_and_update();
            let began = Instant::now();
            let read = within_time(file.read_to_end(MAX_RECORD)).await;
            self.record_read(read, (round, began), &settings)?;
            let is_old = |it: &Instant| {
                self.kind == ChildKind::Aggregator && it.elapsed() > DESCRIPTION_TIME
            };
            if described.as_ref().is_none_or(is_old) {
                described = Some(Instant::now());
                self.describe().await?;
            }
            tokio::select! {
                () = sleep(settings.interval.saturating_sub(began.elapsed())) => {}
                _ = signals.settings.changed() => {}
                _ = signals.rounds.changed() => {}
            }
        }
    }

    /// Keeps what was read, or why nothing was.
    fn record_read(
        &self,
        read: Result<Vec<u8>, RemoteError>,
        (round, began): (u64, Instant),
        settings: &ReadSettings,
    ) -> Result<(), ChildFailure> {
        let aggregator = self.aggregator()?;
        let record = match read {
            Ok(text) => {
                let text = Bytes::from(text.trim_ascii_end().to_vec());
                let room = aggregator.room(text.len()).ok_or(RecordFault::TooLarge);
                let checked = check(&text, (&aggregator.name, settings.depth));
                let at = Instant::now();
                checked.and(room).map(|room| ChildRecord { text, at, round, room })
            }
            Err(RemoteError::TooLarge { .. }) => Err(RecordFault::TooLarge),
            // A limit of the child, such as one on samples: there may be one the next time.
            Err(RemoteError::Refused { .. }) => {
                let reason = Missing::Down(DownReason::ReadFailed);
                self.child.set(|it| (it.record, it.round) = (Err(reason), round));
                aggregator.answered();
                return Ok(());
            }
            Err(why) => return Err(why.into()),
        };
        if settings.mode == PushMode::Pull
            && let Ok(record) = &record
            && aggregator.has_readers()
        {
            self.pass_on(&aggregator, &record.text);
        }
        let lag_us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.child.set(|state| {
            state.record = record.map_err(Missing::Refused);
            state.round = round;
            state.lag_us = Some(lag_us);
        });
        aggregator.answered();
        Ok(())
    }

    fn pass_on(&self, aggregator: &Aggregator, record: &[u8]) {
        let record = String::from_utf8_lossy(record);
        let line = passed_on(&aggregator.name, (&self.child.name, &record), unix_ns());
        aggregator.push(self.child, line.into());
    }

    async fn describe(&self) -> Result<(), ChildFailure> {
        let name = self.path("desc");
        match within_time(self.remote.read(&name, MAX_RECORD)).await {
            Ok(text) => {
                let text = text.trim_ascii_end().to_vec();
                let is_list = path(&text, "").is_ok();
                let text = if is_list { Bytes::from(text) } else { Bytes::new() };
                self.child.set(|it| it.description = text);
                Ok(())
            }
            Err(why) if why.leaves_connection() => Ok(()),
            Err(why) => Err(why.into()),
        }
    }

    /// Follows `push` while a reader wants it.
    async fn samples(&self) -> Result<Never, ChildFailure> {
        self.stream("push", |it| it.samples, Duration::ZERO).await
    }

    /// Follows `event` while a reader wants it, and for a while after.
    async fn events(&self) -> Result<Never, ChildFailure> {
        self.stream("event", |it| it.events, CLOSE_DELAY).await
    }

    /// Follows a file that waits for what is next, while it is wanted.
    async fn stream(
        &self,
        name: &str,
        wanted: fn(&ReaderInterest) -> bool,
        close_delay: Duration,
    ) -> Result<Never, ChildFailure> {
        let mut interest = self.signals.interest.clone();
        loop {
            let is_wanted = interest.wait_for(wanted).await.map(|_| ());
            is_wanted.map_err(|_| ChildFailure::Ended)?;
            let opened = self.remote.open(&self.path(name), RemoteMode::Read).await;
            let file = match opened {
                Ok(file) => file,
                Err(why) if why.leaves_connection() => {
                    sleep(REFUSED_PAUSE).await;
                    continue;
                }
                Err(why) => return Err(why.into()),
            };
            let read = tokio::select! {
                read = self.lines(&file, name) => read,
                () = unwanted(&mut interest, wanted, close_delay) => continue,
            };
            match read {
                // A stream that ends, or that the child refuses for now.
                Ok(()) => sleep(REFUSED_PAUSE).await,
                Err(ChildFailure::Read(why)) if why.leaves_connection() => {
                    sleep(REFUSED_PAUSE).await
                }
                Err(why) => return Err(why),
            }
        }
    }

    /// Passes on the lines of a file until its end.
    async fn lines(&self, file: &RemoteFile, name: &str) -> Result<(), ChildFailure> {
        let mut splitter = LineSplitter::default();
        loop {
            // From 0: `event` has the next ones then, and a stream has no offsets.
            let part = file.read(0, file.read_bytes()).await?;
            if part.is_empty() {
                return Ok(());
            }
            let aggregator = self.aggregator()?;
            for line in splitter.lines(&part) {
                match line {
                    StreamLine::Whole(line) => self.line(&aggregator, &line, name),
                    StreamLine::TooLong => aggregator.lose(self.child, 1),
                }
            }
        }
    }

    /// Passes on a line, unless it has passed this aggregator before.
    fn line(&self, aggregator: &Aggregator, line: &[u8], name: &str) {
        let depth = aggregator.settings().depth;
        let is_passed = path(line, &aggregator.name);
        if is_passed.is_ok_and(|it| !it.has_own && it.depth < depth) {
            if name == "event" {
                let (own, line) = (&aggregator.name, String::from_utf8_lossy(line));
                let line = passed_on(own, (&self.child.name, &line), unix_ns());
                aggregator.events.add_line(|_| line);
            } else {
                self.pass_on(aggregator, line);
            }
        } else {
            self.child.set(|it| it.lost += 1);
        }
    }

    /// Writes the lines that pass down to `ctl`.
    async fn commands(&self) -> Result<Never, ChildFailure> {
        let mut passed = self.signals.passed.clone();
        let mut last = 0;
        let control = self.path("ctl");
        loop {
            passed.borrow_and_update();
            let lines = self.aggregator()?.passed_after(last);
            let mut outcome = "applied".to_owned();
            if let Some(line) = lines.last() {
                last = line.number;
                let uid = monitor_sys::fsuid::effective_uid();
                // A write that the connection does not survive ends the others, too.
                let written = async {
                    let admin = self.remote.attach(&format!("#{uid}")).await?;
                    for line in &lines {
                        let text = format!("{}\n", line.text);
                        let write = admin.write(&control, text.as_bytes());
                        let written = within_time(write).await;
                        if let Err(why) = written.as_ref()
                            && !(line.is_clear() && why.leaves_connection())
                        {
                            outcome = format!("{}: {why}", line.text);
                            written?;
                        }
                    }
                    Ok::<(), RemoteError>(())
                };
                match written.await {
                    Err(why) if !why.leaves_connection() => return Err(why.into()),
                    Err(why) if outcome == "applied" => outcome = why.to_string(),
                    Err(_) | Ok(()) => {}
                }
            }
            self.child.set(|it| it.passed = outcome);
            passed.changed().await.map_err(|_| ChildFailure::Ended)?;
        }
    }
}

/// Ready when nothing has been wanted for a time.
async fn unwanted(
    interest: &mut watch::Receiver<ReaderInterest>,
    wanted: fn(&ReaderInterest) -> bool,
    close_delay: Duration,
) {
    loop {
        if interest.wait_for(|it| !wanted(it)).await.is_err() {
            return;
        }
        if timeout(close_delay, interest.wait_for(wanted)).await.is_err() {
            return;
        }
    }
}

/// The result of a call that must end within the time for an answer.
async fn within_time<T>(
    call: impl Future<Output = Result<T, RemoteError>>,
) -> Result<T, RemoteError> {
    let late = |_| Err(RemoteError::TimedOut { what: "a child".to_owned(), after: ANSWER_TIME });
    timeout(ANSWER_TIME, call).await.unwrap_or_else(late)
}
