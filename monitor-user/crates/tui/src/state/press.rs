//! What a key does.

use super::menu::Menu;
use super::prompt::{self, Prompt};
use super::{Effect, PACE, Panel, State};
use crate::key;
use crate::key::Action;
use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use monitor_sampling::order::{Direction, Order};

/// More lines than any box has: who draws it stops at its last.
const LINES: u16 = 400;
/// Lines that the wheel moves.
const WHEEL: usize = 3;

impl State {
    /// Takes a key: of what is open, else of the table of keys.
    pub(super) fn press(&mut self, event: KeyEvent) -> Option<Effect> {
        if event.kind == KeyEventKind::Release {
            return None;
        }
        self.said = None;
        match std::mem::take(&mut self.panel) {
            Panel::None => self.act(key::action(event)?),
            Panel::Help(line) => self.page_through(Panel::Help, line, event),
            Panel::Probes(line) => self.page_through(Panel::Probes, line, event),
            Panel::Menu(menu) => self.choose(menu, event),
            Panel::Prompt(prompt) => self.type_in(prompt, event),
            Panel::Ask(act) => self.answer(act, event),
        }
    }

    /// Does what a key asks for.
    pub(super) fn act(&mut self, action: Action) -> Option<Effect> {
        match action {
            Action::Quit => return Some(Effect::Quit),
            Action::Suspend => return Some(Effect::Suspend),
            Action::Redraw => return Some(Effect::Redraw),
            Action::SeekBack => return Some(self.seek(-1)),
            Action::SeekForward => return Some(self.seek(1)),
            Action::LeapBack => return Some(self.seek(-10)),
            Action::LeapForward => return Some(self.seek(10)),
            Action::Help => self.panel = Panel::Help(0),
            Action::Probes => self.panel = Panel::Probes(0),
            Action::Back => self.back(),
            Action::Up => self.go(self.cursor.at.saturating_sub(1)),
            Action::Down => self.go(self.cursor.at + 1),
            Action::PageUp => self.go(self.cursor.at.saturating_sub(self.page())),
            Action::PageDown => self.go(self.cursor.at + self.page()),
            Action::First => self.cursor.release(),
            Action::Last => self.go(usize::MAX),
            Action::Left => self.view.left = self.view.left.saturating_sub(1),
            Action::Right => {
                self.view.left = (self.view.left + 1).min(self.columns().len().saturating_sub(1));
            }
            Action::Filter => self.ask_for_condition(),
            Action::Watch => self.ask_for_event(),
            Action::Sort | Action::Group | Action::Columns | Action::Signal | Action::Unwatch => {
                self.panel = self.menu(action).map_or(Panel::None, Panel::Menu);
            }
            Action::SortLeft => self.sort_beside(-1),
            Action::SortRight => self.sort_beside(1),
            Action::Reverse => self.reverse(),
            Action::Tree => {
                self.view.tree = !self.view.tree && self.view.by.is_none();
                self.arrange();
            }
            Action::Freeze => self.view.frozen = !self.view.frozen,
            Action::Slower => self.view.every = (self.view.every * 2).min(PACE[1]),
            Action::Faster => self.view.every = (self.view.every / 2).max(PACE[0]),
            Action::Details => self.details(),
            Action::NextTab => self.turn(1),
            Action::PreviousTab => self.turn(-1),
            Action::Stop | Action::Continue | Action::Nice => self.ask(action),
        }
        None
    }

    /// Another time: what was before it is no history of it, and is shown though all stands still.
    fn seek(&mut self, steps: i64) -> Effect {
        if self.news.place.is_some() {
            self.trends = Default::default();
            self.sought = true;
        }
        Effect::Seek(steps)
    }

    /// Closes what is open, the last thing first.
    fn back(&mut self) {
        if self.tab.take().is_some() {
            self.settle();
        } else if self.view.condition.take().is_some() {
            self.arrange();
        } else if self.view.by.take().is_some() {
            self.leave_groups();
        }
    }

    fn page(&self) -> usize {
        self.areas().map_or(1, |areas| areas.rows.height.into())
    }

    /// Puts the bar on a row.
    pub(super) fn go(&mut self, at: usize) {
        self.cursor.put(at, &self.rows, &self.news.rates);
        self.settle();
    }

    /// Moves the bar by the wheel.
    pub(super) fn wheel(&mut self, down: bool) {
        let at = self.cursor.at;
        self.go(if down { at + WHEEL } else { at.saturating_sub(WHEEL) });
    }

    fn ask_for_condition(&mut self) {
        let now = self.view.condition.clone();
        let text = now.as_ref().map(|it| it.text.clone()).unwrap_or_default();
        self.panel = Panel::Prompt(Prompt::new(prompt::Purpose::Filter(now), &text));
    }

    fn ask_for_event(&mut self) {
        if let Some((id, name)) = self.target() {
            let purpose = prompt::Purpose::Watch(id, name);
            self.panel = Panel::Prompt(Prompt::new(purpose, "call "));
        }
    }

    /// Sorts by a field; once more by the same turns the order round.
    pub(super) fn sort_by(&mut self, field: monitor_model::field::ProcessField) {
        if self.view.order.field == field {
            return self.reverse();
        }
        let direction = match field {
            monitor_model::field::ProcessField::Comm => Direction::Ascending,
            _ => Direction::Descending,
        };
        self.view.order = Order { field, direction };
        self.arrange();
    }

    fn reverse(&mut self) {
        let order = &mut self.view.order;
        order.direction = match order.direction {
            Direction::Ascending => Direction::Descending,
            Direction::Descending => Direction::Ascending,
        };
        self.arrange();
    }

    fn sort_beside(&mut self, step: isize) {
        let columns: Vec<_> =
            self.columns().into_iter().filter(|it| Order::possible(*it)).collect();
        let now = columns.iter().position(|it| *it == self.view.order.field).unwrap_or(0);
        let next = now.saturating_add_signed(step).min(columns.len().saturating_sub(1));
        if next != now {
            self.sort_by(columns[next]);
        }
    }

    /// Opens or closes the details. Those of a group are its processes.
    fn details(&mut self) {
        if self.view.by.is_some() {
            return self.enter_group();
        }
        self.tab = match self.tab {
            Some(_) => None,
            None if self.rows.is_empty() => None,
            None => {
                // From now on it is this process, whatever becomes the first row.
                self.go(self.cursor.at);
                Some(super::Tab::Overview)
            }
        };
        self.settle();
    }

    fn turn(&mut self, step: isize) {
        match self.tab {
            Some(tab) => self.tab = Some(tab.beside(step)),
            None if self.view.by.is_none() => self.details(),
            None => {}
        }
    }

    /// Scrolls a box of lines, or closes it.
    fn page_through(&mut self, of: fn(u16) -> Panel, line: u16, event: KeyEvent) -> Option<Effect> {
        let page = self.size.height / 2;
        let line = match event.code {
            KeyCode::Up => line.saturating_sub(1),
            KeyCode::Down => line + 1,
            KeyCode::PageUp => line.saturating_sub(page),
            KeyCode::PageDown | KeyCode::Char(' ') => line + page,
            KeyCode::Home => 0,
            _ => return self.close_on(event),
        };
        self.panel = of(line.min(LINES));
        None
    }

    /// Any key closes it; the one that ends all ends all.
    fn close_on(&mut self, event: KeyEvent) -> Option<Effect> {
        let ends =
            event.code == KeyCode::Char('c') && event.modifiers.contains(KeyModifiers::CONTROL);
        ends.then_some(Effect::Quit)
    }

    pub(super) fn open(&mut self, menu: Menu) {
        self.panel = Panel::Menu(menu);
    }
}
