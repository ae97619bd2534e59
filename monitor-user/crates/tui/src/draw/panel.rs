//! Boxes over the table: lists, confirmations, the help, and the state of the probes.

use super::line::LineWriter;
use crate::key::{BINDINGS, names};
use crate::state::menu::{Menu, MenuEntry, MenuPurpose};
use crate::{
    feed_source::Usage, process_action::ProcessAction, state::ScreenState, state::layout::centered,
    theme::Role,
};
use monitor_format::{human, wrap::wrap};
use monitor_model::Category;
use monitor_protocol::doctor::CapabilityReport;
use monitor_sampling::expression::SHORT;
use ratatui::layout::{Margin, Rect, Size};
use ratatui::widgets::{Block, Clear, Widget};
use ratatui::{buffer::Buffer, symbols::border};
use unicode_width::UnicodeWidthStr;

/// The narrowest list, in cells.
const NARROWEST: u16 = 34;

/// The width of a box whose content has this width: all of it, if the screen has room.
fn box_width(state: &ScreenState, content: usize) -> u16 {
    let wanted = u16::try_from(content).unwrap_or(u16::MAX).saturating_add(2);
    wanted.clamp(NARROWEST, state.size.width.saturating_sub(2).max(NARROWEST))
}

/// Draws an empty box in the middle, and returns its inner area.
pub fn frame(state: &ScreenState, title: &str, size: Size, buffer: &mut Buffer) -> Rect {
    let area = centered(state.size, size);
    Clear.render(area, buffer);
    let signs = if state.theme.ascii { ASCII } else { border::PLAIN };
    let block = Block::bordered().border_set(signs).border_style(state.theme.style(Role::Accent));
    let inside = block.inner(area);
    block.title(format!(" {title} ")).render(area, buffer);
    inside
}

/// Draws a box with lines of text in the middle, scrolled to a line.
pub fn lines(
    state: &ScreenState,
    title: &str,
    (lines, from): (&[(Role, String)], u16),
    buffer: &mut Buffer,
) {
    let content = lines.iter().map(|(_, text)| text.width()).max().unwrap_or(0);
    let width = box_width(state, content.max(title.width() + 2));
    let height = u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_add(2);
    let inside = frame(state, title, Size { width, height }, buffer);
    let last = lines.len().saturating_sub(inside.height.into());
    let shown = lines.iter().skip(usize::from(from).min(last));
    for ((role, text), area) in shown.zip(inside.rows()) {
        LineWriter::new(buffer, state.theme, area).text(*role, text);
    }
}

pub const ASCII: border::Set<'static> = border::Set {
    top_left: "+",
    top_right: "+",
    bottom_left: "+",
    bottom_right: "+",
    vertical_left: "|",
    vertical_right: "|",
    horizontal_top: "-",
    horizontal_bottom: "-",
};

/// The area of the entries of a list, the size of its box, and the first visible entry.
pub fn entries(state: &ScreenState, menu: &Menu) -> (Rect, Size, usize) {
    let n_entries = u16::try_from(menu.entries.len()).unwrap_or(u16::MAX);
    let content = menu.entries.iter().map(entry_width).max().unwrap_or(0);
    let width = box_width(state, content.max(menu.title().width() + 2));
    let size = Size { width, height: n_entries.saturating_add(2) };
    let size = Size { height: size.height.min(state.size.height.saturating_sub(2)), ..size };
    let area = centered(state.size, size);
    let inside = area.inner(Margin::new(1, 1));
    let first = (menu.selected_index + 1).saturating_sub(inside.height.into());
    (inside, size, first)
}

/// The cells of an entry: mark, label, gap and note.
fn entry_width(entry: &MenuEntry) -> usize {
    const MARK: usize = 4;
    const GAP: usize = 2;
    MARK + entry.label.width() + GAP + entry.note.width()
}

/// Draws a list.
pub fn menu(state: &ScreenState, menu: &Menu, buffer: &mut Buffer) {
    let (_, size, first) = entries(state, menu);
    let mut title = menu.title();
    if !menu.typed.is_empty() {
        title += &format!(": {}", menu.typed);
    }
    let inside = frame(state, &title, size, buffer);
    let shown = menu.matching().enumerate().skip(first);
    for ((at, entry), area) in shown.zip(inside.rows()) {
        let mut line = LineWriter::new(buffer, state.theme, area);
        if menu.purpose == MenuPurpose::Columns {
            line.text(Role::Accent, if entry.is_on { "[x] " } else { "[ ] " });
        } else {
            line.text(Role::Accent, if entry.is_on { "* " } else { "  " });
        }
        line.text(Role::Text, &entry.label).skip(2).text(Role::Dim, entry.note);
        if at == menu.selected_index {
            buffer.set_style(area, state.theme.style(Role::Chosen));
        }
    }
}

/// Draws the confirmation of an action.
pub fn confirm(state: &ScreenState, action: &ProcessAction, buffer: &mut Buffer) {
    let question = format!("{}?", action.question());
    let width = u16::try_from(question.width()).unwrap_or(u16::MAX).saturating_add(4).max(34);
    let inside = frame(state, "Are you sure", Size { width, height: 4 }, buffer);
    let texts = [(Role::Title, question.as_str()), (Role::Text, "y yes    any other key no")];
    for ((role, text), area) in texts.into_iter().zip(inside.rows()) {
        LineWriter::new(buffer, state.theme, area).skip(1).text(role, text);
    }
}

const HELP_TITLE: &str = "Help: Up and Down scroll, other keys close it";

/// Draws the help from this line on.
pub fn help(state: &ScreenState, from: u16, buffer: &mut Buffer) {
    lines(state, HELP_TITLE, (&help_lines(), from), buffer);
}

/// The lines of the help.
fn help_lines() -> Vec<(Role, String)> {
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

/// Draws the panel from this line on.
pub fn probes(state: &ScreenState, from: u16, buffer: &mut Buffer) {
    lines(state, "Probes and cost", (&probe_lines(state), from), buffer);
}

fn probe_lines(state: &ScreenState) -> Vec<(Role, String)> {
    let mut lines: Vec<_> = state.update.cost.iter().map(|it| (Role::Text, cost(it))).collect();
    let title =
        format!("{:<14} {:<9} {:>10} {:>6} {:>7}", "PROBE", "STATE", "EVENTS", "LOST", "MAPS");
    lines.push((Role::Title, title));
    for it in state.update.probes.iter() {
        lines.push(probe(it));
        lines.extend(it.why.iter().chain(&it.fix).flat_map(|why| sentence(state, why)));
    }
    let notes = &state.update.rates.sample.notes;
    lines.extend(notes.iter().flat_map(|note| sentence(state, &note.text)));
    lines
}

/// The usage of a part of the monitor.
fn cost(it: &Usage) -> String {
    let mut text = format!("{:<8}", it.part);
    if let Some(percent) = it.cpu_percent {
        text += &format!(" {percent:.2}% of one processor");
    }
    if let Some(bytes) = it.rss_bytes {
        text += &format!("  resident {}", human::scaled_text(bytes as f64, 1024.0));
    }
    text
}

fn probe(it: &CapabilityReport) -> (Role, String) {
    let (events, lost) = (count(it.events, 1000.0), count(it.lost, 1000.0));
    let maps = count(it.map_bytes, 1024.0);
    let text = format!("{:<14} {:<9} {events:>10} {lost:>6} {maps:>7}", it.name, it.state);
    let role = match &*it.state {
        "no" | "failed" => Role::Full,
        "off" => Role::Dim,
        _ => Role::Text,
    };
    (role, text)
}

fn count(number: Option<u64>, base: f64) -> String {
    number.map_or_else(|| "-".into(), |number| human::scaled_text(number as f64, base))
}

/// An explanation below a line, indented and wrapped to the width of the widest box.
fn sentence(state: &ScreenState, text: &str) -> Vec<(Role, String)> {
    const INDENT: usize = 2;
    let mut out = " ".repeat(INDENT);
    let room = box_width(state, usize::from(u16::MAX)).saturating_sub(4);
    wrap(text, INDENT, room.into(), &mut out);
    out.lines().map(|line| (Role::High, line.to_owned())).collect()
}
