//! The help: every key, the marks, the units, the conditions.

use super::panel;
use crate::key::{BINDINGS, names};
use crate::look::Role;
use crate::state::State;
use monitor_model::field::Category;
use monitor_sampling::expression::SHORT;
use ratatui::buffer::Buffer;

const WIDTH: u16 = 76;
const TITLE: &str = "Help: Up and Down scroll, other keys close it";

/// Draws it from this line on.
pub fn draw(state: &State, from: u16, buffer: &mut Buffer) {
    panel::lines(state, (TITLE, WIDTH), (&lines(), from), buffer);
}

/// Its lines.
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
    (Role::Text, "  a click chooses a row, once more opens it; on a title it sorts;"),
    (Role::Text, "  the wheel moves the bar; keys and pages can be clicked"),
    (Role::Text, ""),
    (Role::Title, "Marks and units"),
    (Role::Text, "  + came since the reading before   - ended since then, its last numbers"),
    (Role::Text, "  CPU% DLY% hundredths of one processor; DLY% ready to run without a CPU"),
    (Role::Text, "  K M G T of bytes are powers of 1,024; /s is in each second; - is absent"),
    (Role::Text, "  stall: share of time in which some task waited for it (PSI)"),
    (Role::Text, ""),
    (Role::Title, "Conditions"),
    (Role::Text, "  cpu > 10 and comm ~ \"mpi\"    = != < <= > >= of numbers, = != ~ !~ of texts"),
    (Role::Text, "  not user = root or rss > 1.5G  and, or, not, brackets; ~ is part of, * any"),
    (Role::Text, "  solver                         a word alone is looked for in the name"),
    (Role::Text, "  every field has its name as monitor fields prints it; short ones:"),
];
