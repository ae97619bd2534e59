//! Everything that the screen shows, and how it changes: input in, state and perhaps an effect
//! out. Pure: it draws nothing, waits for nothing and touches no process.

mod ask;
mod choose;
mod cursor;
pub mod layout;
pub mod menu;
mod mouse;
mod press;
pub mod prompt;
pub mod row;
#[cfg(test)]
pub mod scene;
#[cfg(test)]
mod tests;
mod tree;
pub mod trend;
mod view;

pub use cursor::Cursor;
pub use layout::{Areas, areas};
pub use row::{Key, Mark, Of, Row};
pub use view::{Condition, Tab, View};

use super::act::Act;
use super::column;
use super::demand::{self, Demand};
use super::feed::{News, Told};
use super::look::Look;
use super::rule::{Order, Rules};
use crossterm::event::{KeyEvent, MouseEvent};
use menu::Menu;
use monitor_model::field::ProcessField;
use monitor_model::sample::{Note, Process};
use prompt::Prompt;
use ratatui::layout::Size;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use trend::Trends;

/// Rows that a daemon is asked for beyond those that can be seen.
const MORE_ROWS: usize = 256;
/// Most notes that are remembered as said.
const MOST_NOTES: usize = 256;
/// How often is read, at least and at most.
pub const PACE: [Duration; 2] = [Duration::from_millis(125), Duration::from_secs(64)];

/// What can happen.
#[derive(Clone, Debug)]
pub enum Input {
    /// A key was pressed.
    Key(KeyEvent),
    /// The mouse did something.
    Mouse(MouseEvent),
    /// The terminal has another size.
    Resize(Size),
    /// The feed told something.
    Told(Told),
    /// One sentence for people.
    Said(String),
}

/// What is to be done that the state cannot do itself.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// End.
    Quit,
    /// Give the terminal back for a while.
    Suspend,
    /// Draw everything anew.
    Redraw,
    /// Do something to a process.
    Act(Act),
    /// Go so many steps forward or back in a recording.
    Seek(i64),
    /// Start or remove a rule.
    Rule(Order),
}

/// What is over the table.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Panel {
    /// Nothing.
    #[default]
    None,
    /// The keys, from this line on.
    Help(u16),
    /// Health and cost, from this line on.
    Probes(u16),
    /// Something is being chosen.
    Menu(Menu),
    /// Something is being typed.
    Prompt(Prompt),
    /// A question before an act.
    Ask(Act),
}

/// Everything that the screen shows.
#[derive(Clone, Debug)]
pub struct State {
    /// Columns and lines of the terminal.
    pub size: Size,
    /// Colours and signs.
    pub look: Look,
    /// What the user chose.
    pub view: View,
    /// What was read last.
    pub news: Arc<News>,
    /// Whether anything was read yet.
    pub begun: bool,
    /// The rows of the table.
    pub rows: Vec<Row>,
    /// Where the bar is.
    pub cursor: Cursor,
    /// The rules that were started here.
    pub rules: Rules,
    /// What was, for plots.
    pub trends: Trends,
    /// What is over the table.
    pub panel: Panel,
    /// The open page of the details.
    pub tab: Option<Tab>,
    /// One sentence for people.
    pub said: Option<String>,
    /// The next reading is of a time that was asked for.
    sought: bool,
    /// Notes that were said already.
    told: HashSet<String>,
}

impl State {
    /// Before anything was read.
    pub fn new(size: Size, look: Look, view: View) -> Self {
        Self {
            size,
            look,
            view,
            news: Arc::default(),
            begun: false,
            rows: Vec::new(),
            cursor: Cursor::default(),
            rules: Rules::default(),
            trends: Trends::default(),
            panel: Panel::None,
            tab: None,
            said: None,
            sought: false,
            told: HashSet::new(),
        }
    }

    /// Takes in what happened.
    pub fn take(&mut self, input: Input) -> Option<Effect> {
        match input {
            Input::Key(event) => return self.press(event),
            Input::Mouse(event) => return self.point(event),
            Input::Resize(size) => {
                self.size = size;
                self.settle();
            }
            Input::Told(Told::News(news)) => self.learn(news),
            Input::Told(Told::Rules(rules)) => self.rules = rules,
            Input::Told(Told::Said(text) | Told::Ended(text)) | Input::Said(text) => {
                self.said = Some(text);
            }
        }
        None
    }

    /// Takes in a reading. What stands still keeps the one that it has, but may be told more of it.
    fn learn(&mut self, news: Arc<News>) {
        let is_again = self.begun && self.news.rates.sample.at == news.rates.sample.at;
        if self.view.frozen && self.begun && !std::mem::take(&mut self.sought) && !is_again {
            return;
        }
        self.news = news;
        self.begun = true;
        self.heed();
        self.arrange();
        if is_again {
            return;
        }
        let mut trends = std::mem::take(&mut self.trends);
        trends.learn(&self.news, self.seen());
        self.trends = trends;
    }

    /// Says aloud, once, what a reading has to tell: why it is not a better one, what is missing.
    /// All of it stands with the probes.
    fn heed(&mut self) {
        let words = |text: &str| text.split(|it: char| it.is_ascii_digit()).collect::<String>();
        let notes = &self.news.rates.sample.notes;
        let new: Vec<&Note> =
            notes.iter().filter(|it| !self.told.contains(&words(&it.text))).collect();
        let Some(first) = new.first() else { return };
        let more = if new.len() > 1 {
            format!("  (and {} more: p)", new.len() - 1)
        } else {
            String::new()
        };
        let said = format!("{}{more}", first.text);
        let told: Vec<String> = new.iter().map(|it| words(&it.text)).collect();
        // What counts differently each time would fill it: it begins anew then.
        if self.told.len() > MOST_NOTES {
            self.told.clear();
        }
        self.told.extend(told);
        self.said = Some(said);
    }

    /// Makes the rows anew, because a reading came or something else shall be shown.
    pub(super) fn arrange(&mut self) {
        self.rows = row::rows(&self.news.rates, &self.view);
        self.settle();
    }

    /// Puts the bar where it belongs.
    fn settle(&mut self) {
        let page = usize::from(self.areas().map_or(0, |areas| areas.rows.height));
        self.cursor.settle(&self.rows, &self.news.rates, page);
    }

    /// Where everything is; nothing, if the terminal is too small.
    pub fn areas(&self) -> Option<Areas> {
        areas(self)
    }

    /// The columns of the table.
    pub fn columns(&self) -> Vec<ProcessField> {
        self.view.columns.clone().unwrap_or_else(|| column::by_width(self.size.width))
    }

    /// The process under the bar.
    pub fn chosen(&self) -> Option<&Process> {
        match self.rows.get(self.cursor.at)?.of {
            Of::Process(place) => self.news.rates.sample.processes.get(place),
            Of::Group(_) => None,
        }
    }

    /// The processes that can be seen.
    fn seen(&self) -> impl Iterator<Item = &Process> {
        let page = usize::from(self.areas().map_or(0, |areas| areas.rows.height));
        self.rows.iter().skip(self.cursor.top).take(page).filter_map(|row| match row.of {
            Of::Process(place) => self.news.rates.sample.processes.get(place),
            Of::Group(_) => None,
        })
    }

    /// What must be read for what is shown.
    pub fn demand(&self) -> Demand {
        let view = &self.view;
        let condition = view.condition.as_ref().map(|it| &it.expression);
        // A tree and a condition look at everybody, groups too.
        let some = condition.is_none() && !view.tree && view.by.is_none();
        // In steps, so that not every line scrolled is another demand.
        let needed = (self.cursor.top + usize::from(self.size.height)) / MORE_ROWS + 2;
        let top = u32::try_from(needed * MORE_ROWS).unwrap_or(u32::MAX);
        let focus = self.tab.and_then(|tab| Some((self.chosen()?.id, tab)));
        Demand {
            every: view.every,
            fields: demand::fields(&self.columns(), view.order, condition),
            order: view.order,
            by: view.by,
            top: some.then_some(top),
            focus,
            frozen: view.frozen && self.begun,
        }
    }
}
