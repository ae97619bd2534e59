//! The target of a mouse click.

use super::{foot, pane, panel, table};
use crate::state::{Panel, ScreenState, Tab};
use crate::{key::Action, state::layout::centered};
use monitor_model::ProcessField;
use ratatui::layout::{Position, Rect};

/// What can be clicked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClickTarget {
    /// A row, by index.
    Row(usize),
    /// The title of a column.
    Column(ProcessField),
    /// A page of the details.
    Tab(Tab),
    /// A key of the last line.
    Key(Action),
    /// An entry of a list, by index.
    Entry(usize),
    /// Outside the open box.
    Beside,
}

/// What is drawn at a position.
pub fn click_target(state: &ScreenState, x: u16, y: u16) -> Option<ClickTarget> {
    let position = Position { x, y };
    match &state.panel {
        Panel::None => in_table(state, position),
        Panel::Menu(menu) => {
            let (inside, wanted, first) = panel::entries(state, menu);
            let entry = first + usize::from(y.saturating_sub(inside.y));
            match centered(state.size, wanted).contains(position) {
                true if inside.contains(position) && entry < menu.matching().count() => {
                    Some(ClickTarget::Entry(entry))
                }
                true => None,
                false => Some(ClickTarget::Beside),
            }
        }
        Panel::Help(_) | Panel::Probes(_) | Panel::Confirm(_) => Some(ClickTarget::Beside),
        Panel::Prompt(_) => None,
    }
}

fn in_table(state: &ScreenState, position: Position) -> Option<ClickTarget> {
    let areas = state.areas()?;
    let within = |x: u16, width: u16| (x..x + width).contains(&position.x);
    if areas.rows.contains(position) {
        let at = state.cursor.top + usize::from(position.y - areas.rows.y);
        return (at < state.rows.len()).then_some(ClickTarget::Row(at));
    }
    if areas.titles.contains(position) {
        let columns = table::columns(state, areas.titles);
        let found = columns.into_iter().find(|(_, x, width)| within(*x, *width));
        return found.map(|(field, ..)| ClickTarget::Column(field));
    }
    if areas.foot.contains(position) {
        let found = foot::key_positions(state, areas.foot)
            .into_iter()
            .find(|(x, width, _)| within(*x, *width));
        return found.map(|(.., row)| ClickTarget::Key(row.action));
    }
    let first_line = areas.pane.map(|pane| Rect { height: 1, ..pane })?;
    let tabs = pane::tabs(first_line);
    let found = tabs.into_iter().find(|(_, x, width)| within(*x, *width));
    found.filter(|_| first_line.contains(position)).map(|(tab, ..)| ClickTarget::Tab(tab))
}
