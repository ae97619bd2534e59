//! The state of the screen of a cluster: which list, which row, which job is open.
//!
//! In: keys, sizes, roll-ups (live, or of recordings), messages. Out: the state to draw, and
//! effects for the caller.

use super::key::{ClusterAction, action};
use super::list::{ListRow, RowKey, Title, rows, titles};
use super::selection::{ClusterList, ClusterOrder, OpenJob, PlaybackSpeed};
use crate::feed_source::PlaybackPos;
use crate::state::PERIODS;
use crate::state::layout::MIN_SIZE;
use crate::theme::Theme;
use crossterm::event::{KeyEvent, KeyEventKind};
use monitor_protocol::rollup::ClusterRollup;
use ratatui::layout::Size;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Lines that are no rows: totals, lists, titles, message and keys.
pub const OTHER_LINES: u16 = 6;

/// What changes the state.
#[derive(Clone, Debug)]
pub enum ClusterInput {
    /// A key.
    Key(KeyEvent),
    /// The size of the terminal.
    Resize(Size),
    /// A roll-up.
    Rollup(Arc<ClusterRollup>),
    /// A roll-up of recordings, and where they are.
    Recorded(Arc<ClusterRollup>, PlaybackPos),
    /// A message for the user.
    Message(String),
}

/// What the caller has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterEffect {
    /// End.
    Quit,
    /// Show the screen of this node.
    OpenNode(String),
    /// Read the rows of this job, or of none.
    Job(Option<OpenJob>),
    /// Seek this number of steps in recordings.
    Seek(i64),
    /// Play recordings like this.
    Speed(PlaybackSpeed),
    /// Draw the whole screen again.
    Redraw,
    /// Suspend to the shell.
    Suspend,
}

/// The state.
#[derive(Clone, Debug)]
pub struct ClusterState {
    /// The size of the terminal.
    pub size: Size,
    /// Colours and symbols.
    pub theme: Theme,
    /// The list that is shown.
    pub list: ClusterList,
    /// Its order: of jobs and users, and of nodes.
    order: [ClusterOrder; 2],
    /// The job whose nodes are shown.
    pub job: Option<OpenJob>,
    /// The last roll-up.
    pub rollup: Option<Arc<ClusterRollup>>,
    /// The nodes that are listed; all, if absent.
    shown: Option<BTreeSet<String>>,
    /// The rows of the list.
    pub rows: Vec<ListRow>,
    /// The selected row.
    pub cursor: usize,
    /// The first row on the screen.
    pub first: usize,
    /// Whether roll-ups are ignored.
    pub is_frozen: bool,
    /// Time between two roll-ups of recordings; absent for those of a gateway.
    period: Option<Duration>,
    /// Where the recordings are.
    pub playback: Option<PlaybackPos>,
    /// Whether the next roll-up is shown also if the screen is frozen.
    is_awaited: bool,
    /// Whether the help is open.
    pub has_help: bool,
    /// The message.
    pub message: Option<String>,
}

impl ClusterState {
    /// Without a roll-up; only these nodes are listed, if given.
    pub const fn new(size: Size, theme: Theme, shown: Option<BTreeSet<String>>) -> Self {
        Self {
            size,
            theme,
            list: ClusterList::Nodes,
            order: [ClusterOrder::Name, ClusterOrder::Cpu],
            job: None,
            rollup: None,
            shown,
            rows: Vec::new(),
            cursor: 0,
            first: 0,
            is_frozen: false,
            period: None,
            playback: None,
            is_awaited: false,
            has_help: false,
            message: None,
        }
    }

    /// Without a roll-up, for recordings that are played with this period.
    pub fn recorded(size: Size, theme: Theme, period: Duration) -> Self {
        Self { period: Some(period), ..Self::new(size, theme, None) }
    }

    /// The order of the list that is shown.
    pub fn order(&self) -> ClusterOrder {
        self.order[usize::from(self.list != ClusterList::Nodes)]
    }

    /// The titles of the list that is shown.
    pub fn titles(&self) -> Vec<Title> {
        titles(self.list, self.job.as_ref())
    }

    /// Number of rows that the screen has room for; none if it is too small.
    pub fn page(&self) -> usize {
        match self.size.width < MIN_SIZE.width || self.size.height < MIN_SIZE.height {
            true => 0,
            false => usize::from(self.size.height - OTHER_LINES),
        }
    }

    /// Handles an input.
    pub fn handle(&mut self, input: ClusterInput) -> Option<ClusterEffect> {
        match input {
            ClusterInput::Key(key) if key.kind == KeyEventKind::Release => return None,
            ClusterInput::Key(key) => return action(key).and_then(|action| self.press(action)),
            ClusterInput::Resize(size) => self.size = size,
            ClusterInput::Rollup(rollup) => self.take(rollup, None),
            ClusterInput::Recorded(rollup, at) => self.take(rollup, Some(at)),
            ClusterInput::Message(text) => self.message = Some(text),
        }
        self.scroll();
        None
    }

    /// Takes a roll-up. A frozen screen takes one of recordings after a seek.
    fn take(&mut self, rollup: Arc<ClusterRollup>, playback: Option<PlaybackPos>) {
        let is_awaited = std::mem::take(&mut self.is_awaited);
        if self.is_frozen && !is_awaited {
            return;
        }
        // What recordings lack is said once, and stays until a key.
        if playback.is_none() {
            self.message = None;
        }
        (self.rollup, self.playback) = (Some(rollup), playback);
        self.rebuild();
    }

    fn press(&mut self, action: ClusterAction) -> Option<ClusterEffect> {
        if self.has_help && action != ClusterAction::Quit {
            self.has_help = false;
            return None;
        }
        self.message = None;
        let last = self.rows.len().saturating_sub(1);
        let page = self.page().max(1);
        let mut effect = None;
        match action {
            ClusterAction::Help => self.has_help = true,
            ClusterAction::Quit => return Some(ClusterEffect::Quit),
            ClusterAction::Redraw => return Some(ClusterEffect::Redraw),
            ClusterAction::Suspend => return Some(ClusterEffect::Suspend),
            ClusterAction::Up => self.cursor = self.cursor.saturating_sub(1),
            ClusterAction::Down => self.cursor = (self.cursor + 1).min(last),
            ClusterAction::PageUp => self.cursor = self.cursor.saturating_sub(page),
            ClusterAction::PageDown => self.cursor = (self.cursor + page).min(last),
            ClusterAction::First => self.cursor = 0,
            ClusterAction::Last => self.cursor = last,
            ClusterAction::Freeze => {
                self.is_frozen = !self.is_frozen;
                effect = self.speed();
            }
            ClusterAction::Slower => effect = self.change_period(|it| it * 2),
            ClusterAction::Faster => effect = self.change_period(|it| it / 2),
            ClusterAction::SeekBack => effect = self.seek(-1),
            ClusterAction::SeekForward => effect = self.seek(1),
            ClusterAction::LeapBack => effect = self.seek(-10),
            ClusterAction::LeapForward => effect = self.seek(10),
            ClusterAction::Open => effect = self.open(),
            ClusterAction::Back => {
                if let Some(job) = self.job.take() {
                    self.change_list(ClusterList::Jobs);
                    self.select(&RowKey::Job(job));
                    effect = Some(ClusterEffect::Job(None));
                }
            }
            ClusterAction::NextList => effect = self.next_list(1),
            ClusterAction::PreviousList => effect = self.next_list(2),
            ClusterAction::Sort => {
                let order = &mut self.order[usize::from(self.list != ClusterList::Nodes)];
                *order = order.next();
                self.rebuild();
            }
        }
        self.scroll();
        effect
    }

    /// Lets a frozen screen of recordings take where they have come to meanwhile.
    pub const fn await_recorded(&mut self) {
        self.is_awaited = self.period.is_some();
    }

    fn speed(&self) -> Option<ClusterEffect> {
        let speed = |every| PlaybackSpeed { every, is_frozen: self.is_frozen };
        self.period.map(|every| ClusterEffect::Speed(speed(every)))
    }

    fn change_period(&mut self, change: fn(Duration) -> Duration) -> Option<ClusterEffect> {
        match &mut self.period {
            Some(period) => *period = change(*period).clamp(PERIODS[0], PERIODS[1]),
            None => self.message = Some("a roll-up comes each second: no recording plays".into()),
        }
        self.speed()
    }

    /// Seeks, and lets a frozen screen take what is there.
    fn seek(&mut self, steps: i64) -> Option<ClusterEffect> {
        if self.period.is_none() {
            let why = "no recording plays: monitor top --replay FILE --nodes SET plays those of \
                       monitor record";
            self.message = Some(why.into());
            return None;
        }
        self.is_awaited = true;
        Some(ClusterEffect::Seek(steps))
    }

    fn open(&mut self) -> Option<ClusterEffect> {
        match self.rows.get(self.cursor)?.key.clone() {
            RowKey::Node(node) => Some(ClusterEffect::OpenNode(node)),
            RowKey::Job(job) => {
                self.job = Some(job.clone());
                self.change_list(ClusterList::Jobs);
                // A frozen screen has no rows of this job: those of recordings come at once.
                self.is_frozen &= self.period.is_some();
                self.is_awaited = self.is_frozen;
                Some(ClusterEffect::Job(Some(job)))
            }
            RowKey::User(_) => {
                self.message = Some("open a node or a job: a user has no screen".into());
                None
            }
        }
    }

    /// Shows the list that is this number further, from the last one to the first.
    fn next_list(&mut self, steps: usize) -> Option<ClusterEffect> {
        let at = ClusterList::ALL.iter().position(|it| *it == self.list).unwrap_or(0);
        let closed = self.job.take();
        self.change_list(ClusterList::ALL[(at + steps) % ClusterList::ALL.len()]);
        closed.map(|_| ClusterEffect::Job(None))
    }

    fn change_list(&mut self, list: ClusterList) {
        (self.list, self.cursor, self.first) = (list, 0, 0);
        self.rows = Vec::new();
        self.rebuild();
    }

    /// Makes the rows again; what was selected remains so.
    fn rebuild(&mut self) {
        let Some(rollup) = &self.rollup else { return };
        let selected = self.rows.get(self.cursor).map(|row| row.key.clone());
        let what = (self.list, self.job.as_ref(), self.shown.as_ref());
        self.rows = rows(rollup, what, self.order());
        self.cursor = self.cursor.min(self.rows.len().saturating_sub(1));
        if let Some(key) = selected {
            self.select(&key);
        }
    }

    fn select(&mut self, key: &RowKey) {
        if let Some(at) = self.rows.iter().position(|row| row.key == *key) {
            self.cursor = at;
        }
    }

    /// Moves the rows so that the selected one is on the screen.
    fn scroll(&mut self) {
        let page = self.page().max(1);
        self.first = self.first.clamp(self.cursor.saturating_sub(page - 1), self.cursor);
    }
}
