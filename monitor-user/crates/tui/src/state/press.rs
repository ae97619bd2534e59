//! Keys and the mouse: the wheel moves the cursor; a click selects a row, a sort column, a page of
//! the details, a key in the last line, or an entry of a list.

use super::prompt::{self, Prompt};
use super::{Effect, PERIODS, Panel, ScreenState, menu::MenuResult};
use crate::draw::hit::{self, ClickTarget};
use crate::key::{self, Action};
use crossterm::event::{
    KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};
use monitor_model::ProcessField;
use monitor_sampling::order::{Direction, Order};

/// More lines than any panel has; drawing stops at the last line.
const LINES: u16 = 400;
/// Rows per step of the wheel.
const WHEEL: usize = 3;

impl ScreenState {
    /// Handles a key: of the open panel, else of the key bindings.
    pub(super) fn handle_key(&mut self, event: KeyEvent) -> Option<Effect> {
        if event.kind == KeyEventKind::Release {
            return None;
        }
        self.message = None;
        match std::mem::take(&mut self.panel) {
            Panel::None => self.perform(key::action(event)?),
            Panel::Help(line) => self.page_through(Panel::Help, line, event),
            Panel::Probes(line) => self.page_through(Panel::Probes, line, event),
            Panel::Menu(menu) => self.menu_key(menu, event),
            Panel::Prompt(prompt) => self.prompt_key(prompt, event),
            Panel::Confirm(act) => self.answer_confirm(act, event),
        }
    }

    /// Performs the action of a key.
    pub(super) fn perform(&mut self, action: Action) -> Option<Effect> {
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
            Action::Up => self.select(self.cursor.index.saturating_sub(1)),
            Action::Down => self.select(self.cursor.index + 1),
            Action::PageUp => self.select(self.cursor.index.saturating_sub(self.page())),
            Action::PageDown => self.select(self.cursor.index + self.page()),
            Action::First => {
                self.unfiltered = None;
                self.cursor.reset();
            }
            Action::Last => self.select(usize::MAX),
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
                self.view.tree = !self.view.tree && self.view.group_by.is_none();
                self.rebuild_rows();
            }
            Action::Freeze => self.view.frozen = !self.view.frozen,
            Action::Slower => self.view.period = (self.view.period * 2).min(PERIODS[1]),
            Action::Faster => self.view.period = (self.view.period / 2).max(PERIODS[0]),
            Action::Details => self.details(),
            Action::NextTab => self.change_tab(1),
            Action::PreviousTab => self.change_tab(-1),
            Action::Stop | Action::Continue | Action::Nice => self.confirm(action),
        }
        None
    }

    /// Seeks: drops the histories, and lets a frozen screen take the next update.
    fn seek(&mut self, steps: i64) -> Effect {
        if self.update.playback.is_some() {
            self.trends = Default::default();
            self.seek_pending = true;
        }
        Effect::Seek(steps)
    }

    /// Closes the details, else removes the condition, else the grouping.
    fn back(&mut self) {
        if self.tab.take().is_some() {
            self.place_cursor();
        } else if self.view.condition.take().is_some() {
            self.return_to_place();
            self.rebuild_rows();
        } else if self.view.group_by.take().is_some() {
            self.leave_groups();
        }
    }

    fn page(&self) -> usize {
        self.areas().map_or(1, |areas| areas.rows.height.into())
    }

    /// Selects a row.
    pub(super) fn select(&mut self, at: usize) {
        self.unfiltered = None;
        self.cursor.move_to(at, &self.rows, &self.update.rates);
        self.place_cursor();
    }

    fn ask_for_condition(&mut self) {
        let now = self.view.condition.clone();
        if now.is_none() {
            self.unfiltered = Some(self.cursor.clone());
        }
        let text = now.as_ref().map(|it| it.text.clone()).unwrap_or_default();
        self.panel = Panel::Prompt(Prompt::new(prompt::PromptPurpose::Filter(now), &text));
    }

    fn ask_for_event(&mut self) {
        if let Some((id, name)) = self.target() {
            let purpose = prompt::PromptPurpose::Watch(id, name);
            self.panel = Panel::Prompt(Prompt::new(purpose, ""));
        }
    }

    /// Sorts by a field; the same field again reverses the order.
    pub(super) fn sort_by(&mut self, field: ProcessField) {
        if self.view.order.field == field {
            return self.reverse();
        }
        let by_name = field == ProcessField::Comm;
        let direction = if by_name { Direction::Ascending } else { Direction::Descending };
        self.view.order = Order { field, direction };
        self.rebuild_rows();
    }

    fn reverse(&mut self) {
        let order = &mut self.view.order;
        order.direction = match order.direction {
            Direction::Ascending => Direction::Descending,
            Direction::Descending => Direction::Ascending,
        };
        self.rebuild_rows();
    }

    fn sort_beside(&mut self, step: isize) {
        let columns: Vec<_> =
            self.columns().into_iter().filter(|it| Order::is_sortable(*it)).collect();
        let now = columns.iter().position(|it| *it == self.view.order.field).unwrap_or(0);
        let next = now.saturating_add_signed(step).min(columns.len().saturating_sub(1));
        if next != now {
            self.sort_by(columns[next]);
        }
    }

    /// Opens or closes the details, or shows the processes of a group.
    fn details(&mut self) {
        if self.view.group_by.is_some() {
            return self.enter_group();
        }
        let opens = self.tab.is_none() && !self.rows.is_empty();
        if opens {
            // Select the process, so that the details stay on it when the order changes.
            self.select(self.cursor.index);
        }
        self.tab = opens.then_some(super::Tab::Overview);
        self.place_cursor();
    }

    fn change_tab(&mut self, step: isize) {
        match self.tab {
            Some(tab) => self.tab = Some(tab.beside(step)),
            None if self.view.group_by.is_none() => self.details(),
            None => {}
        }
    }

    /// Scrolls a panel of lines, or closes it.
    fn page_through(&mut self, of: fn(u16) -> Panel, line: u16, event: KeyEvent) -> Option<Effect> {
        let page = self.size.height / 2;
        let line = match event.code {
            KeyCode::Up => line.saturating_sub(1),
            KeyCode::Down => line + 1,
            KeyCode::PageUp => line.saturating_sub(page),
            KeyCode::PageDown | KeyCode::Char(' ') => line + page,
            KeyCode::Home => 0,
            // Other keys close the panel; Ctrl-C quits.
            code => {
                let is_ctrl = event.modifiers.contains(KeyModifiers::CONTROL);
                return (code == KeyCode::Char('c') && is_ctrl).then_some(Effect::Quit);
            }
        };
        self.panel = of(line.min(LINES));
        None
    }
}

impl ScreenState {
    /// Handles a mouse event.
    pub(super) fn handle_mouse(&mut self, event: MouseEvent) -> Option<Effect> {
        match event.kind {
            MouseEventKind::ScrollDown => self.scroll(true),
            MouseEventKind::ScrollUp => self.scroll(false),
            MouseEventKind::Down(MouseButton::Left) => {
                return self.click(hit::click_target(self, event.column, event.row)?);
            }
            _ => {}
        }
        None
    }

    fn scroll(&mut self, down: bool) {
        match &mut self.panel {
            Panel::None => {
                let at = self.cursor.index;
                self.select(if down { at + WHEEL } else { at.saturating_sub(WHEEL) });
            }
            Panel::Menu(menu) => {
                let last = menu.matching().count().saturating_sub(1);
                menu.selected_index = if down {
                    (menu.selected_index + 1).min(last)
                } else {
                    menu.selected_index.saturating_sub(1)
                };
            }
            Panel::Help(line) | Panel::Probes(line) => {
                *line = if down { line.saturating_add(1) } else { line.saturating_sub(1) };
            }
            Panel::Prompt(_) | Panel::Confirm(_) => {}
        }
    }

    fn click(&mut self, hit: ClickTarget) -> Option<Effect> {
        match hit {
            ClickTarget::Row(at) => {
                // A second click on the same row opens the details.
                let again = at == self.cursor.index && self.cursor.row.is_some();
                self.select(at);
                if again {
                    return self.perform(crate::key::Action::Details);
                }
            }
            ClickTarget::Column(field) if Order::is_sortable(field) => self.sort_by(field),
            ClickTarget::Column(_) => {
                self.message = Some("rows cannot be sorted by this column".into())
            }
            ClickTarget::Tab(tab) => self.tab = Some(tab),
            ClickTarget::Key(action) => return self.perform(action),
            ClickTarget::Entry(at) => {
                if let Panel::Menu(mut menu) = std::mem::take(&mut self.panel) {
                    menu.selected_index = at;
                    match menu.selected() {
                        MenuResult::Choice(choice) => return self.apply_choice(menu, choice),
                        MenuResult::Moved | MenuResult::Closed => self.panel = Panel::Menu(menu),
                    }
                }
            }
            ClickTarget::Beside => self.panel = Panel::None,
        }
        None
    }
}
