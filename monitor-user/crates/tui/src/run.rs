//! The event loop: keys, updates and signals change the state, which is drawn on the terminal.

use super::feed_source::{FeedEvent, FeedSource};
use super::state::{Effect, ScreenInput, ScreenState, View};
use super::terminal::{self, Screen};
use super::theme::Theme;
use crossterm::event::Event;
use ratatui::layout::Size;
use std::io;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::Receiver;

/// Why the loop ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The user quit.
    Quit,
    /// Interrupted (SIGINT).
    Interrupted,
    /// Terminated (SIGTERM), or the terminal was closed.
    Gone,
    /// The source ended, for this reason.
    Over(String),
}

/// A terminal with a state.
pub struct Top {
    screen: Screen,
    state: ScreenState,
    events: Receiver<Event>,
    signals: [Signal; 3],
}

impl Top {
    /// Opens the terminal. Needs a running event loop.
    ///
    /// # Errors
    ///
    /// When the terminal or the signal handlers cannot be set up.
    pub fn open(theme: Theme, view: View) -> io::Result<Self> {
        // Before the terminal is changed: the default actions would not restore it.
        let signals = [
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
        ];
        let screen = Screen::open()?;
        let state = ScreenState::new(screen.size()?, theme, view);
        Ok(Self { screen, state, events: terminal::events(), signals })
    }

    /// The state.
    pub const fn state(&self) -> &ScreenState {
        &self.state
    }

    /// Draws the state.
    ///
    /// # Errors
    ///
    /// When the terminal cannot be written to.
    pub fn draw(&mut self) -> io::Result<()> {
        let size = self.screen.size()?;
        if size != self.state.size {
            let _ = self.state.handle(ScreenInput::Resize(size));
        }
        self.screen.draw(&self.state)
    }

    /// Shows the updates of a source until the user quits or the source ends.
    ///
    /// # Errors
    ///
    /// When the terminal cannot be written to.
    pub async fn run(mut self, feed: &mut impl FeedSource) -> io::Result<Ended> {
        let mut query = self.state.view_query();
        loop {
            let [interrupt, terminate, hangup] = &mut self.signals;
            let effect = tokio::select! {
                biased;
                _ = interrupt.recv() => return Ok(Ended::Interrupted),
                _ = terminate.recv() => return Ok(Ended::Gone),
                _ = hangup.recv() => return Ok(Ended::Gone),
                event = self.events.recv() => match event {
                    None => return Ok(Ended::Gone),
                    Some(event) => self.handle(event),
                },
                event = feed.next() => match event {
                    FeedEvent::Ended(why) => return Ok(Ended::Over(why)),
                    event => self.state.handle(ScreenInput::Feed(event)),
                },
            };
            // Events that are waiting already are drawn once.
            let mut effects = vec![effect];
            while let Some(effect) = effects.pop() {
                if let Some(ended) = effect.and_then(|it| self.perform(it, feed).transpose()) {
                    return ended;
                }
                effects.extend(self.events.try_recv().ok().map(|event| self.handle(event)));
            }
            let needed = self.state.view_query();
            if needed != query {
                feed.set_query(&needed);
                query = needed;
            }
            if let Err(error) = self.draw() {
                return if is_gone(&error) { Ok(Ended::Gone) } else { Err(error) };
            }
        }
    }

    fn handle(&mut self, event: Event) -> Option<Effect> {
        let input = match event {
            Event::Key(key) => ScreenInput::Key(key),
            Event::Mouse(mouse) => ScreenInput::Mouse(mouse),
            Event::Resize(width, height) => ScreenInput::Resize(Size { width, height }),
            _ => return None,
        };
        self.state.handle(input)
    }

    /// Performs an effect; returns why the loop ends, if it does.
    fn perform(&mut self, effect: Effect, feed: &mut impl FeedSource) -> io::Result<Option<Ended>> {
        let message = match effect {
            Effect::Quit => return Ok(Some(Ended::Quit)),
            Effect::Suspend => return self.screen.suspend().map(|()| None),
            Effect::Redraw => return self.screen.clear().map(|()| None),
            Effect::Act(act) => Some(act.perform().unwrap_or_else(|why| why)),
            Effect::Seek(steps) => feed.seek(steps).err(),
            Effect::Rule(request) => feed.rule(request).err(),
        };
        let Some(message) = message else { return Ok(None) };
        let _ = self.state.handle(ScreenInput::Message(message));
        Ok(None)
    }
}

/// Whether the error means that the terminal was closed.
fn is_gone(error: &io::Error) -> bool {
    // A closed terminal returns EIO, which has no `ErrorKind`.
    error.kind() == io::ErrorKind::BrokenPipe || error.raw_os_error() == Some(5)
}
