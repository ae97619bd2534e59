//! The loop: what comes first of keys, news and signals goes into the state, and the state onto
//! the terminal.

use super::feed::{Feed, Told};
use super::look::Look;
use super::state::{Effect, Input, State, View};
use super::terminal::{self, Screen};
use crossterm::event::Event;
use ratatui::layout::Size;
use std::io;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::Receiver;

/// Why it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The user had enough.
    Quit,
    /// Interrupted (SIGINT).
    Interrupted,
    /// Asked to end (SIGTERM), or the terminal is gone.
    Gone,
    /// There is nothing more to show, for this reason.
    Over(String),
}

/// A terminal with a state.
pub struct Top {
    screen: Screen,
    state: State,
    events: Receiver<Event>,
    signals: [Signal; 3],
}

/// What came first.
enum Came {
    Event(Option<Event>),
    Told(Told),
    Signal(Ended),
}

impl Top {
    /// Takes the terminal. Needs a running event loop.
    pub fn open(look: Look, view: View) -> io::Result<Self> {
        // Before the terminal is drawn on: they would leave it like that.
        let signals = [
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
        ];
        let screen = Screen::open()?;
        let state = State::new(screen.size()?, look, view);
        Ok(Self { screen, state, events: terminal::events(), signals })
    }

    /// The state, to ask what it needs.
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// Draws what there is.
    pub fn draw(&mut self) -> io::Result<()> {
        let size = self.screen.size()?;
        if size != self.state.size {
            let _ = self.state.take(Input::Resize(size));
        }
        self.screen.draw(&self.state)
    }

    /// Shows what a feed tells until somebody has enough.
    pub async fn run(mut self, feed: &mut impl Feed) -> io::Result<Ended> {
        let mut demand = self.state.demand();
        loop {
            let effect = match self.next(feed).await {
                Came::Signal(ended) => return Ok(ended),
                Came::Event(None) => return Ok(Ended::Gone),
                Came::Told(Told::Ended(why)) => return Ok(Ended::Over(why)),
                Came::Told(told) => self.state.take(Input::Told(told)),
                Came::Event(Some(event)) => self.take(event),
            };
            if let Some(ended) = effect.and_then(|it| self.perform(it, feed).transpose()) {
                return ended;
            }
            // What was typed in one go is drawn once.
            while let Ok(event) = self.events.try_recv() {
                let effect = self.take(event);
                if let Some(ended) = effect.and_then(|it| self.perform(it, feed).transpose()) {
                    return ended;
                }
            }
            let wanted = self.state.demand();
            if wanted != demand {
                feed.demand(&wanted);
                demand = wanted;
            }
            if let Err(error) = self.draw() {
                return if is_gone(&error) { Ok(Ended::Gone) } else { Err(error) };
            }
        }
    }

    async fn next(&mut self, feed: &mut impl Feed) -> Came {
        let [interrupt, terminate, hangup] = &mut self.signals;
        tokio::select! {
            biased;
            _ = interrupt.recv() => Came::Signal(Ended::Interrupted),
            _ = terminate.recv() => Came::Signal(Ended::Gone),
            _ = hangup.recv() => Came::Signal(Ended::Gone),
            event = self.events.recv() => Came::Event(event),
            told = feed.next() => Came::Told(told),
        }
    }

    fn take(&mut self, event: Event) -> Option<Effect> {
        let input = match event {
            Event::Key(key) => Input::Key(key),
            Event::Mouse(mouse) => Input::Mouse(mouse),
            Event::Resize(width, height) => Input::Resize(Size { width, height }),
            _ => return None,
        };
        self.state.take(input)
    }

    /// Does what the state cannot; the end, if it is that.
    fn perform(&mut self, effect: Effect, feed: &mut impl Feed) -> io::Result<Option<Ended>> {
        let said = match effect {
            Effect::Quit => return Ok(Some(Ended::Quit)),
            Effect::Suspend => return self.screen.suspend().map(|()| None),
            Effect::Redraw => return self.screen.clear().map(|()| None),
            Effect::Act(act) => act.perform().unwrap_or_else(|why| why),
            Effect::Seek(steps) => match feed.seek(steps) {
                Ok(()) => return Ok(None),
                Err(why) => why,
            },
            Effect::Rule(order) => match feed.rule(order) {
                Ok(()) => return Ok(None),
                Err(why) => why,
            },
        };
        let _ = self.state.take(Input::Said(said));
        Ok(None)
    }
}

/// Whether a terminal that cannot be written to is none any more.
fn is_gone(error: &io::Error) -> bool {
    // EIO is what a terminal answers that was closed (tty_ioctl(4)); it has no kind of its own.
    error.kind() == io::ErrorKind::BrokenPipe || error.raw_os_error() == Some(5)
}
