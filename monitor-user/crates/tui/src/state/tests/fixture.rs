//! The fixture for tests of the screen: a canned backend with a scripted world.

use crate::feed_source::{FeedEvent, Update, Usage};
use crate::rule::{Rule, RuleOccurrence, RuleStatus, Rules};
use crate::state::{Effect, ScreenInput, ScreenState, View};
use crate::{reader::ViewReader, theme::Theme};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use monitor_backend::Backend;
use monitor_backends::canned::Canned;
use monitor_model::{Identity, Ns, Pid, ReadSpec, Sample};
use ratatui::layout::Size;
use std::sync::Arc;

/// A node with a job of three ranks, a service, a shell, and a helper that ends between readings.
const WORLD: &str = include_str!("../../../../../../tests/fixture/screen/world.txt");

/// The first samples of the world, with all fields.
pub fn samples(count: usize) -> Vec<Sample> {
    let spec = ReadSpec { threads: true, ..ReadSpec::everything() };
    let mut backend = Canned::scripted(WORLD).expect("a valid script");
    (0..count).map(|_| backend.read(&spec).expect("the script can be read")).collect()
}

/// Rules in different states: two active on one process, one failed, one on another process.
pub fn rules() -> Rules {
    let rule = |number, pid, (event, count)| Rule {
        number,
        id: Identity { pid: Pid(pid), start: Ns(0) },
        name: "mpi_solver".into(),
        event: String::from(event),
        count,
        per_s: None,
        times: None,
        lost: 0,
        last: Vec::new(),
        state: RuleStatus::Active,
    };
    let calls = Rule {
        per_s: Some(1234.5),
        times: Some([Ns(1_200), Ns(3_400_000)]),
        ..rule(1, 302, ("call MPI_Send", 23_456))
    };
    let taken = vec![RuleOccurrence { at: Ns(0), text: "SIGUSR1".into() }];
    let signals = Rule { last: taken, ..rule(4, 302, ("signal USR1", 1)) };
    let state = RuleStatus::Ended("cannot be had here".into());
    let refused = Rule { state, ..rule(3, 302, ("call MPI_Nothing", 0)) };
    [calls, rule(2, 301, ("signal", 2)), refused, signals].into()
}

/// A screen and its reader.
pub struct Fixture {
    /// The state.
    pub state: ScreenState,
    reader: ViewReader<dyn Backend>,
}

impl Fixture {
    /// The screen before the first reading.
    pub fn new(width: u16, height: u16) -> Self {
        let state = ScreenState::new(Size { width, height }, Theme::default(), View::default());
        let backend = Canned::scripted(WORLD).expect("a valid script");
        let reader = ViewReader::live((Box::new(backend), Vec::new()), &state.view_query());
        Self { state, reader }
    }

    /// The screen after a number of readings.
    pub fn after(readings: usize, (width, height): (u16, u16)) -> Self {
        let mut fixture = Self::new(width, height);
        fixture.read(readings);
        fixture
    }

    /// Reads a number of times. The usage of the monitor is replaced by constants.
    pub fn read(&mut self, times: usize) {
        for _ in 0..times {
            self.reader.set_query(&self.state.view_query());
            let update = self.reader.read().expect("the script can be read");
            let cost = Usage { part: "self", cpu_percent: Some(0.25), rss_bytes: Some(12 << 20) };
            let update = Update { cost: vec![cost], ..(*update).clone() };
            let _ = self.state.handle(ScreenInput::Feed(FeedEvent::Update(Arc::new(update))));
        }
    }

    /// Presses keys without modifiers, and returns the effect of the last one.
    pub fn press(&mut self, keys: &[KeyCode]) -> Option<Effect> {
        let press = |key: &KeyCode| {
            self.state.handle(ScreenInput::Key(KeyEvent::new(*key, KeyModifiers::NONE)))
        };
        keys.iter().map(press).last().flatten()
    }

    /// Types a text.
    pub fn types(&mut self, text: &str) -> Option<Effect> {
        let keys: Vec<_> = text.chars().map(KeyCode::Char).collect();
        self.press(&keys)
    }

    /// Clicks at a position.
    pub fn click(&mut self, column: u16, row: u16) -> Option<Effect> {
        let kind = MouseEventKind::Down(MouseButton::Left);
        let event = MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE };
        self.state.handle(ScreenInput::Mouse(event))
    }

    /// The command names of the rows, from above.
    pub fn names(&self) -> String {
        let name = |row: &super::ScreenRow| match row.source {
            super::RowSource::Process(at) => {
                self.state.update.rates.sample.processes[at].comm().into_owned()
            }
            super::RowSource::Group(at) => {
                let groups = self.state.update.rates.groups.as_ref().expect("groups");
                groups.groups[at].name.to_string()
            }
        };
        self.state.rows.iter().map(name).collect::<Vec<_>>().join(" ")
    }
}
