//! The event loop of the screen of a cluster.
//!
//! In: a terminal, roll-ups of a feed. Out: why the loop ended, which may be that the user has
//! opened a node: then the caller shows the screen of that node, and runs the loop again.

use super::draw::draw;
use super::selection::{OpenJob, PlaybackSpeed};
use super::state::{ClusterEffect, ClusterInput, ClusterState};
use crate::feed_source::PlaybackPos;
use crate::run::{Ended, TerminalSession, is_gone};
use crate::theme::Theme;
use crossterm::event::Event;
use monitor_protocol::rollup::ClusterRollup;
use ratatui::layout::Size;
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// An event of a feed.
#[derive(Clone, Debug)]
pub enum ClusterFeedEvent {
    /// A roll-up.
    Rollup(Arc<ClusterRollup>),
    /// A roll-up of recordings, and where they are.
    Recorded(Arc<ClusterRollup>, PlaybackPos),
    /// A message for the user.
    Message(String),
    /// The feed has ended, for this reason.
    Ended(String),
}

/// A source of roll-ups.
pub trait ClusterFeed {
    /// Sets the job whose usage on each node is read.
    fn set_job(&mut self, job: Option<&OpenJob>);

    /// Waits for the next event. Cancel-safe.
    fn next(&mut self) -> impl Future<Output = ClusterFeedEvent>;

    /// Seeks this number of steps in recordings; the screen asks only a source of these.
    ///
    /// # Errors
    ///
    /// When a recording cannot be read.
    fn seek(&mut self, _steps: i64) -> Result<(), String> {
        Ok(())
    }

    /// Sets how recordings are played.
    fn set_speed(&mut self, _speed: PlaybackSpeed) {}
}

/// Why the loop ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterEnded {
    /// For a reason of any screen.
    Ended(Ended),
    /// The user has opened this node.
    Node(String),
}

/// The screen of a cluster.
pub struct ClusterTop {
    state: ClusterState,
}

impl ClusterTop {
    /// Without a roll-up; only these nodes are listed, if given.
    pub const fn new(theme: Theme, shown: Option<BTreeSet<String>>) -> Self {
        let size = Size { width: 0, height: 0 };
        Self { state: ClusterState::new(size, theme, shown) }
    }

    /// Without a roll-up, for recordings that are played with this period.
    pub fn recorded(theme: Theme, period: Duration) -> Self {
        let size = Size { width: 0, height: 0 };
        Self { state: ClusterState::recorded(size, theme, period) }
    }

    /// Whether the screen is frozen.
    pub const fn is_frozen(&self) -> bool {
        self.state.is_frozen
    }

    /// Shows a message.
    pub fn say(&mut self, text: String) {
        let _ = self.state.handle(ClusterInput::Message(text));
    }

    /// Shows roll-ups until the user quits or opens a node, or the feed ends.
    ///
    /// # Errors
    ///
    /// When the terminal cannot be written to.
    pub async fn run(
        &mut self,
        session: &mut TerminalSession,
        feed: &mut impl ClusterFeed,
    ) -> io::Result<ClusterEnded> {
        // The terminal may have another size and content since the last time.
        session.screen.clear()?;
        self.state.await_recorded();
        loop {
            if let Err(error) = self.draw(session) {
                return gone_or(error);
            }
            let TerminalSession { events, signals, .. } = &mut *session;
            let event = tokio::select! {
                biased;
                ended = signals.next() => return Ok(ClusterEnded::Ended(ended)),
                event = events.recv() => match event {
                    None => return Ok(ClusterEnded::Ended(Ended::Gone)),
                    Some(event) => input(event),
                },
                event = feed.next() => Some(match event {
                    ClusterFeedEvent::Rollup(rollup) => ClusterInput::Rollup(rollup),
                    ClusterFeedEvent::Recorded(rollup, at) => ClusterInput::Recorded(rollup, at),
                    ClusterFeedEvent::Message(text) => ClusterInput::Message(text),
                    ClusterFeedEvent::Ended(why) => {
                        return Ok(ClusterEnded::Ended(Ended::Over(why)));
                    }
                }),
            };
            match event.and_then(|it| self.state.handle(it)) {
                None => {}
                Some(ClusterEffect::Quit) => return Ok(ClusterEnded::Ended(Ended::Quit)),
                Some(ClusterEffect::OpenNode(node)) => return Ok(ClusterEnded::Node(node)),
                Some(ClusterEffect::Job(job)) => feed.set_job(job.as_ref()),
                Some(ClusterEffect::Seek(steps)) => {
                    if let Err(why) = feed.seek(steps) {
                        self.say(why);
                    }
                }
                Some(ClusterEffect::Speed(speed)) => feed.set_speed(speed),
                Some(ClusterEffect::Redraw) => session.screen.clear()?,
                Some(ClusterEffect::Suspend) => session.screen.suspend()?,
            }
        }
    }

    fn draw(&mut self, session: &mut TerminalSession) -> io::Result<()> {
        let size = session.screen.size()?;
        if size != self.state.size {
            let _ = self.state.handle(ClusterInput::Resize(size));
        }
        session.screen.draw(|buffer| draw(&self.state, buffer))
    }
}

fn input(event: Event) -> Option<ClusterInput> {
    match event {
        Event::Key(key) => Some(ClusterInput::Key(key)),
        Event::Resize(width, height) => Some(ClusterInput::Resize(Size { width, height })),
        _ => None,
    }
}

fn gone_or(error: io::Error) -> io::Result<ClusterEnded> {
    if is_gone(&error) { Ok(ClusterEnded::Ended(Ended::Gone)) } else { Err(error) }
}
