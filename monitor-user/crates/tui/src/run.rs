//! The event loop: keys, updates and signals change the state, which is drawn on the terminal.

use super::draw::draw;
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

/// A terminal with its keys, and the signals that end a screen; several screens use it, one after
/// the other.
pub struct TerminalSession {
    pub(crate) screen: Screen,
    pub(crate) events: Receiver<Event>,
    pub(crate) signals: EndSignals,
}

/// The signals that end a screen.
pub(crate) struct EndSignals([Signal; 3]);

impl TerminalSession {
    /// Opens the terminal. Needs a running event loop.
    ///
    /// # Errors
    ///
    /// When the terminal or the signal handlers cannot be set up.
    pub fn open() -> io::Result<Self> {
        // Before the terminal is changed: the default actions would not restore it.
        let signals = EndSignals([
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
        ]);
        Ok(Self { screen: Screen::open()?, events: terminal::events(), signals })
    }
}

impl EndSignals {
    /// Waits for a signal; how a screen ends by it. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Ended {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            biased;
            _ = interrupt.recv() => Ended::Interrupted,
            _ = terminate.recv() => Ended::Gone,
            _ = hangup.recv() => Ended::Gone,
        }
    }
}

/// A screen of processes on a terminal.
pub struct Top<'a> {
    session: &'a mut TerminalSession,
    state: ScreenState,
}

impl<'a> Top<'a> {
    /// A screen without a reading.
    ///
    /// # Errors
    ///
    /// When the size of the terminal cannot be read.
    pub fn new(session: &'a mut TerminalSession, theme: Theme, view: View) -> io::Result<Self> {
        let state = ScreenState::new(session.screen.size()?, theme, view);
        Ok(Self { session, state })
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
        let size = self.session.screen.size()?;
        if size != self.state.size {
            let _ = self.state.handle(ScreenInput::Resize(size));
        }
        self.session.screen.draw(|buffer| draw(&self.state, buffer))
    }

    /// Shows the updates of a source until the user quits or the source ends.
    ///
    /// # Errors
    ///
    /// When the terminal cannot be written to.
    pub async fn run(mut self, feed: &mut impl FeedSource) -> io::Result<Ended> {
        let mut query = self.state.view_query();
        loop {
            let TerminalSession { events, signals, .. } = &mut *self.session;
            let effect = tokio::select! {
                biased;
                ended = signals.next() => return Ok(ended),
                event = events.recv() => match event {
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
                effects.extend(self.session.events.try_recv().ok().map(|event| self.handle(event)));
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
            Effect::Suspend => return self.session.screen.suspend().map(|()| None),
            Effect::Redraw => return self.session.screen.clear().map(|()| None),
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
pub(crate) fn is_gone(error: &io::Error) -> bool {
    // A closed terminal returns EIO, which has no `ErrorKind`.
    error.kind() == io::ErrorKind::BrokenPipe || error.raw_os_error() == Some(5)
}
