//! The mouse: the wheel moves the cursor; a click selects a row, a sort column, a page of the
//! details, a key in the last line, or an entry of a list.

use super::menu::MenuResult;
use super::{Effect, Panel, ScreenState};
use crate::draw::hit;
use crate::draw::hit::ClickTarget;
use crossterm::event::{MouseButton, MouseEvent, MouseEventKind};
use monitor_sampling::order::Order;

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
            Panel::None => self.wheel(down),
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
                        MenuResult::Moved | MenuResult::Closed => self.open(menu),
                    }
                }
            }
            ClickTarget::Beside => self.panel = Panel::None,
        }
        None
    }
}
