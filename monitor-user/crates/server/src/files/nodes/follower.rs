//! Follows another node: a task with one connection to it, as the user `none`.
//!
//! In: its files `arch`, `state` and `ctl`, again after each interval. Out: what is known of the
//! node. A connection that ends is made again at once; one that cannot be made, after the interval.

use super::other_node::{NodeAnswer, OtherNode};
use super::status::{DownReason, one_word, sessions, state_word};
use monitor_remote::{Address, Connector, RemoteError, RemoteFile, RemoteMode};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// How long a node may take to answer.
const ANSWER_TIME: Duration = Duration::from_secs(10);
/// Most bytes of a file that are read.
const MOST: u32 = 8 << 10;
/// The user that observes what any may.
const USER: &str = "none";

/// Follows a node at its address until the task is ended.
pub async fn follow(
    (node, address, connector): (Arc<OtherNode>, Address, Connector),
    mut interval: watch::Receiver<Duration>,
) {
    loop {
        let mut has_answered = false;
        let failed = serve((&node, &address, &connector), &mut interval, &mut has_answered).await;
        if has_answered && matches!(failed, Err(Failure::Read(RemoteError::Lost { .. }))) {
            // It may have been started again.
            continue;
        }
        if let Err(why) = failed {
            node.set_word(why.reason().word());
        }
        wait(&mut interval).await;
    }
}

/// Why a connection cannot be used any longer.
enum Failure {
    Connect(RemoteError),
    Read(RemoteError),
}

impl Failure {
    const fn reason(&self) -> DownReason {
        match self {
            Self::Connect(error) => DownReason::of_connect(error),
            Self::Read(error) => DownReason::of_read(error),
        }
    }
}

/// Reads again and again over one connection.
async fn serve(
    (node, address, connector): (&OtherNode, &Address, &Connector),
    interval: &mut watch::Receiver<Duration>,
    has_answered: &mut bool,
) -> Result<(), Failure> {
    let remote = connector.connect(address, USER, ANSWER_TIME).await;
    let remote = remote.map_err(Failure::Connect)?;
    let open = async |path| remote.open(path, RemoteMode::Read).await.map_err(Failure::Read);
    let arch = read(&open("arch").await?).await?;
    node.set_arch(one_word(String::from_utf8_lossy(&arch).trim()));
    let state = open("state").await?;
    // A service of another version may not let any user read it.
    let control = open("ctl").await.ok();
    loop {
        let began = Instant::now();
        let word = state_word(&read(&state).await?);
        let rtt_us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        let jobs = match &control {
            Some(control) => sessions(&read(control).await?),
            None => None,
        };
        node.answered(NodeAnswer { word, jobs, rtt_us });
        *has_answered = true;
        wait(interval).await;
    }
}

/// The text of a file of a node.
async fn read(file: &RemoteFile) -> Result<bytes::Bytes, Failure> {
    match timeout(ANSWER_TIME, file.read(0, MOST)).await {
        Ok(content) => content.map_err(Failure::Read),
        Err(_) => {
            let what = "a read".to_owned();
            Err(Failure::Read(RemoteError::TimedOut { what, after: ANSWER_TIME }))
        }
    }
}

/// Waits for the interval, or for another one.
async fn wait(interval: &mut watch::Receiver<Duration>) {
    let pause = *interval.borrow_and_update();
    tokio::select! {
        () = sleep(pause) => {}
        // Without a sender, this task is about to be ended.
        _ = interval.changed() => {}
    }
}
