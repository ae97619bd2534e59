//! What stands at a place of the screen: for the mouse.

use super::{foot, pane, panel, table};
use crate::key::Action;
use crate::state::layout::middle;
use crate::state::{Panel, State, Tab};
use monitor_model::field::ProcessField;
use ratatui::layout::{Position, Rect};

/// What can be clicked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hit {
    /// A row, by its place.
    Row(usize),
    /// The title of a column.
    Column(ProcessField),
    /// A page of the details.
    Tab(Tab),
    /// A key of the last line.
    Key(Action),
    /// An entry of a list, by its place.
    Entry(usize),
    /// Something beside the box that is open.
    Beside,
}

/// What stands there.
pub fn at(state: &State, x: u16, y: u16) -> Option<Hit> {
    let place = Position { x, y };
    match &state.panel {
        Panel::None => in_table(state, place),
        Panel::Menu(menu) => {
            let (inside, wanted, first) = panel::entries(state, menu);
            let entry = first + usize::from(y.saturating_sub(inside.y));
            match middle(state.size, wanted).contains(place) {
                true if inside.contains(place) && entry < menu.left().count() => {
                    Some(Hit::Entry(entry))
                }
                true => None,
                false => Some(Hit::Beside),
            }
        }
        Panel::Help(_) | Panel::Probes(_) | Panel::Ask(_) => Some(Hit::Beside),
        Panel::Prompt(_) => None,
    }
}

fn in_table(state: &State, place: Position) -> Option<Hit> {
    let areas = state.areas()?;
    let within = |x: u16, width: u16| (x..x + width).contains(&place.x);
    if areas.rows.contains(place) {
        let at = state.cursor.top + usize::from(place.y - areas.rows.y);
        return (at < state.rows.len()).then_some(Hit::Row(at));
    }
    if areas.titles.contains(place) {
        let columns = table::columns(state, areas.titles);
        let found = columns.into_iter().find(|(_, x, width)| within(*x, *width));
        return found.map(|(field, ..)| Hit::Column(field));
    }
    if areas.foot.contains(place) {
        let found = foot::places(areas.foot).into_iter().find(|(x, width, _)| within(*x, *width));
        return found.map(|(.., row)| Hit::Key(row.action));
    }
    let first_line = areas.pane.map(|pane| Rect { height: 1, ..pane })?;
    let tabs = pane::tabs(first_line);
    let found = tabs.into_iter().find(|(_, x, width)| within(*x, *width));
    found.filter(|_| first_line.contains(place)).map(|(tab, ..)| Hit::Tab(tab))
}
