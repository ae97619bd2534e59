//! The help: keys, marks, units and conditions.

use super::panel;
use crate::key::{BINDINGS, names};
use crate::state::ScreenState;
use crate::theme::Role;
use monitor_model::field::Category;
use monitor_sampling::expression::SHORT;
use ratatui::buffer::Buffer;

const WIDTH: u16 = 76;
const TITLE: &str = "Help: Up and Down scroll, other keys close it";

/// Draws the help from this line on.
pub fn draw(state: &ScreenState, from: u16, buffer: &mut Buffer) {
    panel::lines(state, (TITLE, WIDTH), (&lines(), from), buffer);
}

/// The lines of the help.
fn lines() -> Vec<(Role, String)> {
    let mut lines = vec![(Role::Title, "Keys".into())];
    lines.extend(BINDINGS.iter().map(|row| {
        let text = format!("  {:<14} {}", names(row), row.help);
        (Role::Text, text)
    }));
    lines.push((Role::Text, String::new()));
    for (role, text) in ABOUT {
        lines.push((*role, (*text).into()));
    }
    lines.extend(SHORT.iter().map(|(name, field)| {
        let field = field.field();
        (Role::Text, format!("  {name:<8} {:<22} {}", field.name, field.help))
    }));
    lines
}

const ABOUT: &[(Role, &str)] = &[
    (Role::Title, "Mouse"),
    (Role::Text, "  a click selects a row, a second one opens it; on a title it sorts;"),
    (Role::Text, "  the wheel moves the cursor; keys and pages can be clicked"),
    (Role::Text, ""),
    (Role::Title, "Marks and units"),
    (Role::Text, "  + started since the previous reading   - ended since then, final values"),
    (Role::Text, "  CPU% DLY% percent of one processor; DLY% runnable without a processor"),
    (Role::Text, "  K M G T of bytes are powers of 1,024; /s is per second; - is absent"),
    (Role::Text, "  stall: share of time in which some task waited for it (PSI)"),
    (Role::Text, ""),
    (Role::Title, "Conditions"),
    (Role::Text, "  cpu > 10 and comm ~ \"mpi\"    numbers: = != < <= > >=; texts: = != ~ !~"),
    (Role::Text, "  not user = root or rss > 1.5G  and, or, not, brackets; ~ contains, * any"),
    (Role::Text, "  solver                         a single word is searched in the name"),
    (Role::Text, "  `monitor fields` lists the names of all fields; short names:"),
];
