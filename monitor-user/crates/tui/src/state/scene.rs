//! A scene for tests of the screen: a world that a script describes, read as often as wanted.

use super::{Effect, Input, State, View};
use crate::feed::{Cost, News, Told};
use crate::look::Look;
use crate::reader::Reader;
use crate::rule::{Last, Rule, Rules, Standing};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use monitor_backend::Backend;
use monitor_backends::canned::Canned;
use monitor_model::id::{Identity, Ns, Pid};
use monitor_model::sample::Sample;
use monitor_model::want::Want;
use ratatui::layout::Size;
use std::sync::Arc;

/// A node with a job of three ranks, a service, a shell, and a helper that no reading meets alive.
const WORLD: &str = include_str!("../../../../../tests/fixture/screen/world.txt");

/// The first samples of it, with all there is to know.
pub fn samples(count: usize) -> Vec<Sample> {
    let want = Want { threads: true, ..Want::whole() };
    let mut backend = Canned::scripted(WORLD).expect("a script that makes sense");
    (0..count).map(|_| backend.read(&want).expect("the script can be read")).collect()
}

/// Rules as a monitor would tell of them: one that runs, one that cannot, one of somebody else.
pub fn rules() -> Rules {
    let of = |number, pid, (event, count)| Rule {
        number,
        id: Identity { pid: Pid(pid), start: Ns(0) },
        name: "mpi_solver".into(),
        event: String::from(event),
        count,
        per_s: None,
        times: None,
        lost: 0,
        last: Vec::new(),
        state: Standing::Runs,
    };
    let calls = Rule {
        per_s: Some(1234.5),
        times: Some([Ns(1_200), Ns(3_400_000)]),
        ..of(1, 302, ("call MPI_Send", 23_456))
    };
    let taken = vec![Last { at: Ns(0), text: "SIGUSR1".into() }];
    let signals = Rule { last: taken, ..of(4, 302, ("signal USR1", 1)) };
    let state = Standing::Over("cannot be had here".into());
    let refused = Rule { state, ..of(3, 302, ("call MPI_Nothing", 0)) };
    [calls, of(2, 301, ("signal", 2)), refused, signals].into()
}

/// A screen and what feeds it.
pub struct Scene {
    /// The state.
    pub state: State,
    reader: Reader<dyn Backend>,
}

impl Scene {
    /// Before the first reading.
    pub fn new(width: u16, height: u16) -> Self {
        let state = State::new(Size { width, height }, Look::default(), View::default());
        let backend = Canned::scripted(WORLD).expect("a script that makes sense");
        let reader = Reader::live((Box::new(backend), Vec::new()), &state.demand());
        Self { state, reader }
    }

    /// After so many readings.
    pub fn after(readings: usize, (width, height): (u16, u16)) -> Self {
        let mut it = Self::new(width, height);
        it.read(readings);
        it
    }

    /// Reads so many times. What the monitor costs is the same on every machine here.
    pub fn read(&mut self, times: usize) {
        for _ in 0..times {
            self.reader.demand(&self.state.demand());
            let news = self.reader.read().expect("the script can be read");
            let cost = Cost { who: "self", cpu_percent: Some(0.25), rss_bytes: Some(12 << 20) };
            let news = News { cost: vec![cost], ..(*news).clone() };
            let _ = self.state.take(Input::Told(Told::News(Arc::new(news))));
        }
    }

    /// Presses keys without modifiers; gives the effect of the last one.
    pub fn press(&mut self, keys: &[KeyCode]) -> Option<Effect> {
        let press =
            |key: &KeyCode| self.state.take(Input::Key(KeyEvent::new(*key, KeyModifiers::NONE)));
        keys.iter().map(press).last().flatten()
    }

    /// Types letters.
    pub fn types(&mut self, text: &str) -> Option<Effect> {
        let keys: Vec<_> = text.chars().map(KeyCode::Char).collect();
        self.press(&keys)
    }

    /// Clicks there.
    pub fn click(&mut self, column: u16, row: u16) -> Option<Effect> {
        let kind = MouseEventKind::Down(MouseButton::Left);
        let event = MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE };
        self.state.take(Input::Mouse(event))
    }

    /// The command names of the rows, from above.
    pub fn names(&self) -> String {
        let name = |row: &super::Row| match row.of {
            super::Of::Process(at) => {
                self.state.news.rates.sample.processes[at].comm().into_owned()
            }
            super::Of::Group(at) => {
                let groups = self.state.news.rates.groups.as_ref().expect("groups");
                groups.groups[at].name.to_string()
            }
        };
        self.state.rows.iter().map(name).collect::<Vec<_>>().join(" ")
    }
}
