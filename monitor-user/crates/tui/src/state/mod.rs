//! The state of the screen: inputs change it, and may cause an effect.
//!
//! Pure: it does not draw, wait or act on processes.

mod choose;
pub mod layout;
pub mod menu;
mod press;
pub mod prompt;
pub mod row;
#[cfg(test)]
pub mod tests;
mod tree;
pub mod trend;
mod view;

pub use layout::Areas;
pub use row::{Cursor, RowId, RowMark, RowSource, ScreenRow};
pub use view::{Condition, Tab, View};

use super::feed_source::{FeedEvent, Update};
use super::rule::{RuleRequest, Rules};
use super::view_query::{self, ViewQuery};
use super::{column, process_action::ProcessAction, theme::Theme};
use crossterm::event::{KeyEvent, MouseEvent};
use menu::Menu;
use monitor_model::{Note, Process, ProcessField};
use prompt::Prompt;
use ratatui::layout::Size;
use std::{collections::HashSet, sync::Arc, time::Duration};
use trend::Trends;

/// Rows that are requested from a daemon beyond the visible ones.
const MORE_ROWS: usize = 256;
/// Most notes that are remembered as shown.
const MOST_NOTES: usize = 256;
/// The shortest and the longest period.
pub const PERIODS: [Duration; 2] = [Duration::from_millis(125), Duration::from_secs(64)];

/// An input of the state.
#[derive(Clone, Debug)]
pub enum ScreenInput {
    /// A key was pressed.
    Key(KeyEvent),
    /// A mouse event.
    Mouse(MouseEvent),
    /// The terminal was resized.
    Resize(Size),
    /// An event of the source.
    Feed(FeedEvent),
    /// A message for the user.
    Message(String),
}

/// An effect, which the event loop performs.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Quit.
    Quit,
    /// Suspend to the shell.
    Suspend,
    /// Draw the whole screen again.
    Redraw,
    /// Act on a process.
    Act(ProcessAction),
    /// Seek this number of steps in a recording.
    Seek(i64),
    /// Start or remove a rule.
    Rule(RuleRequest),
}

/// What is open over the table.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Panel {
    /// Nothing.
    #[default]
    None,
    /// The help, from this line on.
    Help(u16),
    /// Probes and usage, from this line on.
    Probes(u16),
    /// A list.
    Menu(Menu),
    /// A prompt.
    Prompt(Prompt),
    /// The confirmation of an action.
    Confirm(ProcessAction),
}

/// The state of the screen.
#[derive(Clone, Debug)]
pub struct ScreenState {
    /// Columns and lines of the terminal.
    pub size: Size,
    /// Colours and symbols.
    pub theme: Theme,
    /// The settings of the user.
    pub view: View,
    /// The last update.
    pub update: Arc<Update>,
    /// Whether an update has arrived.
    pub has_data: bool,
    /// The rows of the table.
    pub rows: Vec<ScreenRow>,
    /// The selected row.
    pub cursor: Cursor,
    /// The selected row before a condition was typed; none after the cursor was moved.
    unfiltered: Option<Cursor>,
    /// The rules that were started from the screen.
    pub rules: Rules,
    /// Histories, for plots.
    pub trends: Trends,
    /// What is open over the table.
    pub panel: Panel,
    /// The open page of the details.
    pub tab: Option<Tab>,
    /// A message for the user.
    pub message: Option<String>,
    /// The next update follows a seek.
    seek_pending: bool,
    /// Notes that were shown already, without their numbers.
    shown_notes: HashSet<String>,
}

impl ScreenState {
    /// The state before the first update.
    pub fn new(size: Size, theme: Theme, view: View) -> Self {
        Self {
            size,
            theme,
            view,
            update: Arc::default(),
            has_data: false,
            rows: Vec::new(),
            cursor: Cursor::default(),
            unfiltered: None,
            rules: Rules::default(),
            trends: Trends::default(),
            panel: Panel::None,
            tab: None,
            message: None,
            seek_pending: false,
            shown_notes: HashSet::new(),
        }
    }

    /// Handles an input.
    pub fn handle(&mut self, input: ScreenInput) -> Option<Effect> {
        match input {
            ScreenInput::Key(event) => return self.handle_key(event),
            ScreenInput::Mouse(event) => return self.handle_mouse(event),
            ScreenInput::Resize(size) => {
                self.size = size;
                self.place_cursor();
            }
            ScreenInput::Feed(FeedEvent::Update(update)) => self.apply_update(update),
            ScreenInput::Feed(FeedEvent::Rules(rules)) => self.rules = rules,
            ScreenInput::Feed(FeedEvent::Message(text) | FeedEvent::Ended(text))
            | ScreenInput::Message(text) => {
                self.message = Some(text);
            }
        }
        None
    }

    /// Takes an update. A frozen screen takes only updates of the same sample and after a seek.
    fn apply_update(&mut self, update: Arc<Update>) {
        let is_again = self.has_data && self.update.rates.sample.at == update.rates.sample.at;
        if self.view.frozen && self.has_data && !std::mem::take(&mut self.seek_pending) && !is_again
        {
            return;
        }
        self.update = update;
        self.has_data = true;
        self.show_notes();
        self.rebuild_rows();
        if is_again {
            return;
        }
        let mut trends = std::mem::take(&mut self.trends);
        trends.record(&self.update, self.visible_processes());
        self.trends = trends;
    }

    /// Shows new notes of a sample as a message, each once. The panel of the probes lists all.
    fn show_notes(&mut self) {
        let without_digits =
            |text: &str| text.split(|it: char| it.is_ascii_digit()).collect::<String>();
        let is_new = |it: &&Note| !self.shown_notes.contains(&without_digits(&it.text));
        let new: Vec<&Note> = self.update.rates.sample.notes.iter().filter(is_new).collect();
        let Some(first) = new.first() else { return };
        let mut message = first.text.clone();
        if new.len() > 1 {
            message += &format!("  (and {} more: p)", new.len() - 1);
        }
        // Notes that differ each time would fill the set without limit.
        if self.shown_notes.len() > MOST_NOTES {
            self.shown_notes.clear();
        }
        self.shown_notes.extend(new.iter().map(|it| without_digits(&it.text)));
        self.message = Some(message);
    }

    /// Builds the rows again, after an update or a change of the view.
    pub(super) fn rebuild_rows(&mut self) {
        self.rows = row::rows(&self.update.rates, &self.view);
        self.place_cursor();
    }

    /// Without a condition, selects what was selected before it was typed.
    pub(super) fn return_to_place(&mut self) {
        if self.view.condition.is_none()
            && let Some(before) = self.unfiltered.take()
        {
            self.cursor = before;
        }
    }

    /// Updates the position of the selected row.
    fn place_cursor(&mut self) {
        let page = usize::from(self.areas().map_or(0, |areas| areas.rows.height));
        self.cursor.update(&self.rows, &self.update.rates, page);
    }

    /// The columns of the table.
    pub fn columns(&self) -> Vec<ProcessField> {
        self.view.columns.clone().unwrap_or_else(|| column::by_width(self.size.width))
    }

    /// The selected process.
    pub fn selected(&self) -> Option<&Process> {
        match self.rows.get(self.cursor.index)?.source {
            RowSource::Process(index) => self.update.rates.sample.processes.get(index),
            RowSource::Group(_) => None,
        }
    }

    /// The visible processes.
    fn visible_processes(&self) -> impl Iterator<Item = &Process> {
        let page = usize::from(self.areas().map_or(0, |areas| areas.rows.height));
        self.rows.iter().skip(self.cursor.top).take(page).filter_map(|row| match row.source {
            RowSource::Process(index) => self.update.rates.sample.processes.get(index),
            RowSource::Group(_) => None,
        })
    }

    /// What must be read for the current screen.
    pub fn view_query(&self) -> ViewQuery {
        let view = &self.view;
        let condition = view.condition.as_ref().map(|it| &it.expression);
        // Conditions, trees and groups need all processes.
        let is_plain = condition.is_none() && !view.tree && view.group_by.is_none();
        // In steps, so that not every scrolled line changes the query.
        let needed = (self.cursor.top + usize::from(self.size.height)) / MORE_ROWS + 2;
        let top = u32::try_from(needed * MORE_ROWS).unwrap_or(u32::MAX);
        let focus = self.tab.and_then(|tab| Some((self.selected()?.id, tab)));
        ViewQuery {
            every: view.period,
            fields: view_query::fields(&self.columns(), view.order, condition),
            order: view.order,
            group_by: view.group_by,
            top: is_plain.then_some(top),
            focus,
            frozen: view.frozen && self.has_data,
        }
    }
}
