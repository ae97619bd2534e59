//! What the mouse does: the wheel moves the bar, a click chooses a row, a column to sort by, a
//! page of the details, a key in the last line, an entry of a list.

use super::menu::Picked;
use super::{Effect, Panel, State};
use crate::draw::hit;
use crate::draw::hit::Hit;
use crossterm::event::{MouseButton, MouseEvent, MouseEventKind};
use monitor_sampling::order::Order;

impl State {
    /// Takes what the mouse did.
    pub(super) fn point(&mut self, event: MouseEvent) -> Option<Effect> {
        match event.kind {
            MouseEventKind::ScrollDown => self.roll(true),
            MouseEventKind::ScrollUp => self.roll(false),
            MouseEventKind::Down(MouseButton::Left) => {
                return self.click(hit::at(self, event.column, event.row)?);
            }
            _ => {}
        }
        None
    }

    fn roll(&mut self, down: bool) {
        match &mut self.panel {
            Panel::None => self.wheel(down),
            Panel::Menu(menu) => {
                let last = menu.left().count().saturating_sub(1);
                menu.at = if down { (menu.at + 1).min(last) } else { menu.at.saturating_sub(1) };
            }
            Panel::Help(line) | Panel::Probes(line) => {
                *line = if down { line.saturating_add(1) } else { line.saturating_sub(1) };
            }
            Panel::Prompt(_) | Panel::Ask(_) => {}
        }
    }

    fn click(&mut self, hit: Hit) -> Option<Effect> {
        match hit {
            Hit::Row(at) => {
                // A second click on the same row opens it.
                let again = at == self.cursor.at && self.cursor.on.is_some();
                self.go(at);
                if again {
                    return self.act(crate::key::Action::Details);
                }
            }
            Hit::Column(field) if Order::possible(field) => self.sort_by(field),
            Hit::Column(_) => self.said = Some("rows cannot be sorted by this column".into()),
            Hit::Tab(tab) => self.tab = Some(tab),
            Hit::Key(action) => return self.act(action),
            Hit::Entry(at) => {
                if let Panel::Menu(mut menu) = std::mem::take(&mut self.panel) {
                    menu.at = at;
                    match menu.picked() {
                        Picked::Choice(choice) => return self.chose(menu, choice),
                        Picked::Moved | Picked::Closed => self.open(menu),
                    }
                }
            }
            Hit::Beside => self.panel = Panel::None,
        }
        None
    }
}
