//! Follows the events of a session, or of the node for one user, and keeps them.
//!
//! In: replies at events, of requests on a connection inside the daemon, which has the rights and
//! limits of a tool of the user. Out: lines of an [`EventLog`]. A session is followed from the
//! first open of a file that needs it until its end, the node while such a connection is there.

use super::event_log::EventLog;
use super::followed_event::FollowedEvent;
use super::node_sample::{parsed, refusal};
use super::session_processes::{SessionLauncher, SessionProcesses};
use crate::http::message::{Message, lines};
use crate::http::{DaemonRequest, LoopbackClient};
use crate::lock::lock;
use crate::policy::Peer;
use crate::user_shares::UserShare;
use bytes::Bytes;
use monitor_model::Ns;
use monitor_ninep::{Errno, FileError, User};
use monitor_omis::{Answer, Status, parse};
use monitor_sys::clock;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::OnceCell;
use tokio::sync::mpsc::Sender;
use tokio::task::{AbortHandle, yield_now};
use tokio::time::sleep;

/// How often processes of a session that were started meanwhile are looked for.
const ROUNDS: usize = 8;
/// Processes of a request.
const PROCESSES: usize = 512;
/// Lines that are kept while answers are awaited.
const WAITING_LINES: usize = 8192;
/// The number of the request of the first followed event; that of its action is one more.
const FIRST_ID: usize = 100;
/// The pause after an event that occurred so often that its request was disabled.
const STORM_PAUSE: Duration = Duration::from_secs(1);

/// Where events come from, and for which user.
pub struct FeedSource {
    /// Where requests go.
    pub requests: Sender<DaemonRequest>,
    /// The number of this node.
    pub node: u32,
    /// The user.
    pub peer: Peer,
    /// What is charged for it.
    pub share: Arc<UserShare>,
    /// The events.
    pub events: &'static [FollowedEvent],
    /// The launcher of the session whose processes are followed; none for the node.
    pub launcher: Option<u32>,
}

/// Events that are followed until it is dropped.
pub struct EventFeed {
    /// What is kept of them.
    pub log: Arc<EventLog>,
    task: AbortHandle,
}

impl Drop for EventFeed {
    fn drop(&mut self) {
        self.end();
    }
}

impl EventFeed {
    /// Begins to follow: what occurs after the return is in the log.
    ///
    /// # Errors
    ///
    /// When the user may not observe, has too many connections, or no event can be followed.
    pub async fn start(source: FeedSource) -> Result<Self, FileError> {
        let denied = |why| FileError::new(Errno::Denied, why);
        let FeedSource { requests, peer, node, share, events, launcher } = source;
        let client = LoopbackClient::connect_user(&requests, peer).await.map_err(denied)?;
        let log = Arc::new(EventLog::default());
        let (tool, waiting) = (Tool { client, node }, VecDeque::new());
        let kept = Arc::clone(&log);
        let mut follower = Follower { tool, waiting, lost: 0, share, events, launcher, log: kept };
        follower.begin().await?;
        let task = tokio::spawn(follower.run()).abort_handle();
        Ok(Self { log, task })
    }

    /// Follows no longer.
    pub fn end(&self) {
        self.task.abort();
        self.log.close();
    }

    /// Whether nothing follows.
    pub fn has_ended(&self) -> bool {
        self.task.is_finished()
    }
}

/// What is followed of the node for a user: begun with the first open of a file that needs it.
pub type NodeFeed = OnceCell<EventFeed>;

/// Uid, gid and groups: what a user may see can follow from each.
type FeedKey = (u32, u32, Vec<u32>);

/// What is followed of the node, by user, while a connection has it.
#[derive(Default)]
pub struct NodeFeeds(Mutex<BTreeMap<FeedKey, Weak<NodeFeed>>>);

impl NodeFeeds {
    /// That of a user.
    pub fn feed(&self, user: &User) -> Arc<NodeFeed> {
        let mut all = lock(&self.0);
        all.retain(|_, it| it.strong_count() > 0);
        let key = (user.uid, user.gid, user.groups.clone());
        if let Some(feed) = all.get(&key).and_then(Weak::upgrade) {
            return feed;
        }
        let feed = Arc::new(OnceCell::new());
        all.insert(key, Arc::downgrade(&feed));
        feed
    }

    /// Reports an event that each user may see.
    pub fn report(&self, content: &str) {
        // Without the lock: the last connection may leave here.
        let all: Vec<_> = lock(&self.0).values().filter_map(Weak::upgrade).collect();
        for feed in all {
            if let Some(feed) = feed.get() {
                feed.log.add(unix_ns(), content);
            }
        }
    }
}

/// The time now, in nanoseconds since 1970.
pub fn unix_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

/// A tool of the user.
struct Tool {
    client: LoopbackClient,
    node: u32,
}

/// What follows events.
struct Follower {
    tool: Tool,
    /// Lines that arrived while an answer was awaited.
    waiting: VecDeque<Bytes>,
    /// How many of them had no room.
    lost: u64,
    share: Arc<UserShare>,
    events: &'static [FollowedEvent],
    launcher: Option<u32>,
    log: Arc<EventLog>,
}

#[derive(Deserialize)]
struct Sample {
    #[serde(default)]
    processes: Vec<Map<String, Value>>,
}

/// What goes on after a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Follow,
    /// The session has ended.
    End,
    /// The event with this number occurs too often.
    Storm(usize),
}

impl Follower {
    async fn begin(&mut self) -> Result<(), FileError> {
        let mut attached = BTreeSet::new();
        if let Some(launcher) = self.launcher {
            self.ask(1, &format!("attach([{launcher}])")).await.and_then(|it| checked(&it))?;
            attached.insert(u64::from(launcher));
        }
        let mut missing = Vec::new();
        for (at, it) in self.events.iter().enumerate() {
            let id = FIRST_ID + 2 * at;
            let (node, action) = (self.tool.node, it.action());
            let line = format!("{}: {} [{node}] {action}", it.event, id + 1);
            let defined = self.ask(id, &line).await?;
            if let Err(why) = checked(&defined) {
                missing.push((it.kind, why));
                continue;
            }
            self.ask(2, &format!("enable({id})")).await.and_then(|it| checked(&it))?;
        }
        if missing.len() == self.events.len()
            && let Some((_, why)) = missing.pop()
        {
            return Err(why);
        }
        for (kind, _) in missing {
            self.log.add(unix_ns(), &format!("(missing {kind})"));
        }
        self.attach_descendants(attached).await
    }

    /// Adds what the session had started before.
    async fn attach_descendants(&mut self, mut attached: BTreeSet<u64>) -> Result<(), FileError> {
        let Some(pid) = self.launcher else { return Ok(()) };
        let launchers = [SessionLauncher { pid, number: 0, job: String::new() }];
        for _ in 0..ROUNDS {
            let processes = self.sample().await?;
            let found = SessionProcesses::find(&processes, &launchers);
            let own = processes.iter().filter(|it| found.session(it).is_some());
            let pids = own.filter_map(|it| it.get("pid")?.as_u64());
            let new: Vec<u64> = pids.filter(|it| attached.insert(*it)).collect();
            if new.is_empty() {
                break;
            }
            for pids in new.chunks(PROCESSES) {
                let pids: Vec<String> = pids.iter().map(u64::to_string).collect();
                // One that has ended meanwhile is no error.
                self.ask(3, &format!("attach([{}])", pids.join(","))).await?;
            }
        }
        Ok(())
    }

    /// Sends a request, and waits for its answer.
    async fn ask(&mut self, id: usize, request: &str) -> Result<Answer, FileError> {
        let line = format!("{id} [{}] {request}", self.tool.node);
        self.tool.client.request(line).await;
        while let Some(chunk) = self.tool.client.next_lines().await {
            let mut answer = None;
            for line in lines(&chunk) {
                let reply = parse::reply(line).ok();
                let first = reply.and_then(|it| it.0.into_iter().next());
                match first.filter(|it| answer.is_none() && it.id.0.get() == Some(id)) {
                    Some(first) => answer = Some(first),
                    None => self.keep(chunk.slice_ref(line)),
                }
            }
            if let Some(answer) = answer {
                return Ok(answer);
            }
        }
        Err(stopping())
    }

    /// All processes that the user may see.
    async fn sample(&mut self) -> Result<Vec<Map<String, Value>>, FileError> {
        let params = json!({"part": "proc", "fields": ["ppid"]});
        self.tool.client.call(0, "monitor", &params).await;
        while let Some(chunk) = self.tool.client.next_lines().await {
            let mut found = None;
            for line in lines(&chunk) {
                match Message::from_line(line).filter(|it| it.id == Some(0)) {
                    Some(answer) => found = Some(processes(&answer)),
                    None => self.keep(chunk.slice_ref(line)),
                }
            }
            if let Some(found) = found {
                return found;
            }
        }
        Err(stopping())
    }

    async fn run(mut self) {
        while let Some(chunk) = self.next().await {
            // What is followed costs its user as much as messages of its own.
            drop(self.share.admit_line(|| false).await);
            let began = clock::thread_cpu();
            let nexts: Vec<Next> = lines(&chunk).map(|it| self.receive(it)).collect();
            self.share.charge(Ns(clock::thread_cpu().since(began).0));
            if nexts.contains(&Next::End) {
                self.receive_rest().await;
                break;
            }
            for next in nexts {
                if let Next::Storm(id) = next {
                    sleep(STORM_PAUSE).await;
                    let line = format!("2 [{}] enable({id})", self.tool.node);
                    self.tool.client.request(line).await;
                }
            }
            yield_now().await;
        }
        self.log.close();
    }

    /// Keeps what is on its way: without eBPF one reading finds the end of the launcher and those
    /// of its processes, in any order. The answer to a request comes after all of them.
    async fn receive_rest(&mut self) {
        // Whatever the answer is.
        let _answer = self.ask(2, &format!("enable({FIRST_ID})")).await;
        while !self.waiting.is_empty() {
            let Some(line) = self.next().await else { break };
            let _next = self.receive(&line);
        }
        self.report_lost();
    }

    /// Keeps a line until the answer that is awaited has arrived.
    fn keep(&mut self, line: Bytes) {
        if self.waiting.len() < WAITING_LINES {
            self.waiting.push_back(line);
        } else {
            self.lost += 1;
        }
    }

    async fn next(&mut self) -> Option<Bytes> {
        if let Some(line) = self.waiting.pop_front() {
            return Some(line);
        }
        self.report_lost();
        self.tool.client.next_lines().await
    }

    fn report_lost(&mut self) {
        let lost = std::mem::take(&mut self.lost);
        if lost > 0 {
            self.log.add(unix_ns(), &format!("(lost {lost})"));
        }
    }

    /// Keeps what a line reports.
    fn receive(&self, line: &[u8]) -> Next {
        let Ok(reply) = parse::reply(line) else { return Next::Follow };
        let mut next = Next::Follow;
        for answer in &reply.0 {
            let Some(id) = answer.id.0.get::<usize>() else { continue };
            if answer.status == Status::LOST {
                let lost = answer.results.first().and_then(|it| it.integer::<u64>());
                self.log.add(unix_ns(), &format!("(lost {})", lost.unwrap_or(1)));
                continue;
            }
            let Some(at) = id.checked_sub(FIRST_ID) else { continue };
            let Some(followed) = self.events.get(at / 2) else { continue };
            if answer.status == Status::EVENT_STORM {
                self.log.add(unix_ns(), &format!("(storm {})", followed.kind));
                next = Next::Storm(FIRST_ID + at / 2 * 2);
                continue;
            }
            let Some(values) = answer.results.first().and_then(|it| it.list()) else { continue };
            let it = followed.occurrence(values);
            if it.pid.is_some() && it.pid == self.launcher {
                // The launcher is no process of its session.
                next = if followed.kind == "end" { Next::End } else { next };
                continue;
            }
            let age = it.boot_ns.map_or(0, |at| clock::boot().0.saturating_sub(at));
            let time = it.unix_ns.unwrap_or_else(|| unix_ns().saturating_sub(age));
            self.log.add(time, &it.content);
        }
        next
    }
}

/// The processes of a sample.
fn processes(answer: &Message<'_>) -> Result<Vec<Map<String, Value>>, FileError> {
    let refused = |why: String| FileError::new(Errno::TryAgain, why);
    if let Some(error) = answer.error {
        return Err(refused(refusal(error.get())));
    }
    let sample = answer.sample().and_then(|it| it.0);
    let sample = sample.ok_or_else(|| refused("nothing was read".to_owned()))?;
    Ok(parsed::<Sample>(sample.get())?.processes)
}

/// An answer that is no refusal.
fn checked(answer: &Answer) -> Result<(), FileError> {
    if answer.status.is_success() {
        return Ok(());
    }
    let reason = answer.results.iter().rev().find_map(|it| it.text());
    let reason = reason.map(|it| it.to_str_lossy().into_owned()).unwrap_or_default();
    let Status(number) = answer.status;
    let (service, errno) = (answer.service.as_str(), Errno::Io);
    let errno = if answer.status == Status::PERMISSION { Errno::Denied } else { errno };
    Err(FileError::new(errno, format!("{service} was refused with status {number}: {reason}")))
}

fn stopping() -> FileError {
    FileError::new(Errno::Io, "the daemon is stopping")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feed_is_shared_by_connections_with_the_same_rights_while_one_is_there() {
        let feeds = NodeFeeds::default();
        let user = |groups: &[u32]| {
            let groups = groups.to_vec();
            User { uid: 7, gid: 7, groups, name: "seven".to_owned() }
        };
        let first = feeds.feed(&user(&[7]));
        assert!(Arc::ptr_eq(&first, &feeds.feed(&user(&[7]))));
        assert!(!Arc::ptr_eq(&first, &feeds.feed(&user(&[7, 50]))));
        drop(first);
        let _next = feeds.feed(&user(&[]));
        assert_eq!(lock(&feeds.0).len(), 1);
    }
}
