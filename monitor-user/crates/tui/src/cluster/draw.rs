//! Draws the screen of a cluster: totals, lists, rows, keys.
//!
//! In: the state. Out: a frame. A column is as wide as its widest cell on the screen; what has no
//! room at the right is left out, except that the last text is clipped.

use super::key::{BINDINGS, ClusterAction};
use super::list::{Cell, Title, cpu_share, memory_share};
use super::selection::ClusterList;
use super::state::ClusterState;
use crate::draw::head::playback;
use crate::draw::line::{LineWriter, width};
use crate::draw::too_small;
use crate::key;
use crate::state::layout::centered;
use crate::theme::Role;
use monitor_format::human;
use monitor_protocol::cluster::MemberState;
use monitor_protocol::rollup::{ClusterRollup, NodeTotals, RecordState};
use ratatui::layout::{Rect, Size};
use ratatui::symbols::border;
use ratatui::widgets::{Block, Clear, Widget};
use ratatui::{buffer::Buffer, style::Style};

/// Cells of a bar.
const BAR: u16 = 16;

/// Draws a frame into an empty buffer.
pub fn draw(state: &ClusterState, buffer: &mut Buffer) {
    if state.page() == 0 {
        return too_small((state.size, state.theme), buffer);
    }
    let Size { width, height } = state.size;
    let line = |y: u16| Rect { x: 0, y, width, height: 1 };
    summary(state, line(0), buffer);
    totals(state, line(1), buffer);
    lists(state, line(2), buffer);
    table(state, (line(3), Rect { y: 4, height: height - 6, ..line(0) }), buffer);
    if let Some(message) = &state.message {
        let text = human::escaped_text(message);
        let _ = LineWriter::new(buffer, state.theme, line(height - 2)).text(Role::High, &text);
    }
    foot(state, line(height - 1), buffer);
    if state.has_help {
        help(state, buffer);
    }
}

fn summary(state: &ClusterState, area: Rect, buffer: &mut Buffer) {
    let mut line = LineWriter::new(buffer, state.theme, area);
    line.text(Role::Title, "cluster").skip(1);
    let Some(rollup) = &state.rollup else {
        line.text(Role::Dim, "waiting for the first records ...");
        return;
    };
    match state.playback {
        Some(at) => playback(at, line.text(Role::Accent, "recorded")),
        None => {
            line.text(Role::Dim, "by ").text(Role::Accent, &human::escaped_text(&rollup.gateway));
        }
    }
    if state.is_frozen {
        line.skip(1).whole(&[(Role::Chosen, " FROZEN ")]);
    }
    line.skip(2).text(Role::Text, &rollup.nodes.len().to_string()).text(Role::Dim, " nodes");
    for (role, name, n) in counts(rollup) {
        line.whole(&[(Role::Dim, "  "), (role, &format!("{n} {name}"))]);
    }
    if rollup.is_limited {
        line.whole(&[(Role::Dim, "  "), (Role::High, "your own jobs only")]);
    }
    let mut time = String::new();
    human::timestamp(monitor_model::Ns(rollup.unix_ns), &mut time);
    if state.playback.is_none() && line.left() > width(&time) + 1 {
        line.at_end(Role::Dim, &time);
    }
}

/// How many nodes are in which state; those that are in none are left out.
fn counts(rollup: &ClusterRollup) -> Vec<(Role, &'static str, usize)> {
    let is_member = |it: MemberState| matches!(it, MemberState::Up | MemberState::Draining);
    let count = |record: RecordState| {
        let nodes = rollup.nodes.iter();
        nodes.filter(|it| is_member(it.state) && it.record == record).count()
    };
    let of = |state: MemberState| rollup.nodes.iter().filter(|it| it.state == state).count();
    let all = [
        (Role::Low, "current", count(RecordState::Current)),
        (Role::High, "late", count(RecordState::Late)),
        (Role::High, "without a record", count(RecordState::None)),
        (Role::Full, "unreadable", count(RecordState::Unreadable)),
        (Role::Full, "dead", of(MemberState::Dead)),
        (Role::Dim, "left", of(MemberState::Left)),
    ];
    all.into_iter().filter(|it| it.2 > 0).collect()
}

/// The sums of all nodes with a current record.
fn totals(state: &ClusterState, area: Rect, buffer: &mut Buffer) {
    let Some(rollup) = &state.rollup else { return };
    let current = rollup.nodes.iter().filter(|it| it.record == RecordState::Current);
    let mut sum = NodeTotals::default();
    let add = |sum: &mut Option<u64>, own: Option<u64>| {
        *sum = Some(sum.unwrap_or(0) + own.unwrap_or(0));
    };
    for own in current.filter_map(|it| it.totals) {
        add(&mut sum.online_cpus, own.online_cpus);
        add(&mut sum.mem_total_bytes, own.mem_total_bytes);
        add(&mut sum.mem_available_bytes, own.mem_available_bytes);
        let busy = sum.cpu_busy_percent.unwrap_or(0.0) + own.cpu_busy_percent.unwrap_or(0.0);
        sum.cpu_busy_percent = Some(busy);
        sum.load1 = Some(sum.load1.unwrap_or(0.0) + own.load1.unwrap_or(0.0));
        sum.processes += own.processes;
    }
    let bytes = |bytes: Option<u64>| human::scaled_text(bytes.unwrap_or(0) as f64, 1024.0);
    let mut line = LineWriter::new(buffer, state.theme, area);
    if let (Some(share), Some(cpus)) = (cpu_share(&sum), sum.online_cpus) {
        line.text(Role::Dim, "cpu ").bar(share, BAR);
        line.text(Role::Text, &format!(" {:.0}% of {cpus}", share * 100.0));
    }
    if let Some(share) = memory_share(&sum) {
        line.text(Role::Dim, "  mem ").bar(share, BAR);
        let total = bytes(sum.mem_total_bytes);
        line.text(Role::Text, &format!(" {:.0}% of {total}", share * 100.0));
    }
    if let Some(load) = sum.load1 {
        line.whole(&[(Role::Dim, "  load "), (Role::Text, &format!("{load:.1}"))]);
    }
    let processes = sum.processes.to_string();
    line.whole(&[(Role::Dim, "  "), (Role::Text, &processes), (Role::Dim, " processes")]);
}

/// The names of the lists, with the number of their rows.
fn lists(state: &ClusterState, area: Rect, buffer: &mut Buffer) {
    let mut line = LineWriter::new(buffer, state.theme, area);
    let rollup = state.rollup.as_deref();
    let count = |of: fn(&ClusterRollup) -> usize| rollup.map_or(0, of);
    let names = [
        (ClusterList::Nodes, "Nodes", count(|it| it.nodes.len())),
        (ClusterList::Jobs, "Jobs", count(|it| it.jobs.len())),
        (ClusterList::Users, "Users", count(|it| it.users.len())),
    ];
    for (list, name, n) in names {
        let role = if list == state.list { Role::Chosen } else { Role::Dim };
        line.text(role, &format!(" {name} {n} ")).skip(1);
    }
    if let Some(job) = &state.job {
        line.text(Role::Title, &human::escaped_text(&job.name)).text(Role::Dim, " on its nodes");
    }
    line.whole(&[(Role::Dim, "  by "), (Role::Text, state.order().name())]);
    let further = rollup.map_or(0, |it| match (state.list, &state.job) {
        (ClusterList::Nodes, _) | (ClusterList::Jobs, Some(_)) => 0,
        (ClusterList::Jobs, None) => it.other_jobs,
        (ClusterList::Users, _) => it.other_users,
    });
    if further > 0 {
        line.whole(&[(Role::Dim, "  "), (Role::High, &format!("{further} more left out"))]);
    }
}

fn table(state: &ClusterState, (titles, body): (Rect, Rect), buffer: &mut Buffer) {
    let columns = state.titles();
    let shown: Vec<_> = state.rows.iter().skip(state.first).take(body.height.into()).collect();
    let widths: Vec<u16> = columns
        .iter()
        .enumerate()
        .map(|(at, (title, _))| {
            let cells = shown.iter().filter_map(|row| row.cells.get(at));
            cells.map(|cell| width(&cell.1)).fold(width(title), u16::max)
        })
        .collect();
    let heads: Vec<Cell> =
        columns.iter().map(|(title, _)| (Role::Title, (*title).to_owned())).collect();
    let mut line = LineWriter::new(buffer, state.theme, titles);
    cells(&mut line, (&columns, &widths), &heads, None);
    for ((at, row), area) in shown.iter().enumerate().zip(body.rows()) {
        let is_chosen = state.first + at == state.cursor;
        let chosen = is_chosen.then(|| state.theme.style(Role::Chosen));
        if let Some(style) = chosen {
            buffer.set_style(area, style);
        }
        let mut line = LineWriter::new(buffer, state.theme, area);
        cells(&mut line, (&columns, &widths), &row.cells, chosen);
    }
    if shown.is_empty() && state.rollup.is_some() {
        let text = match (state.list, &state.job) {
            (ClusterList::Jobs, Some(_)) => "no current record has this job",
            (ClusterList::Jobs, None) => "no jobs",
            _ => "none",
        };
        let _ = LineWriter::new(buffer, state.theme, body).text(Role::Dim, text);
    }
}

/// Writes the cells of a row; numbers that have no room are left out.
fn cells(
    line: &mut LineWriter<'_>,
    (columns, widths): (&[Title], &[u16]),
    cells: &[Cell],
    style: Option<Style>,
) {
    for (at, ((role, text), width_of)) in cells.iter().zip(widths).enumerate() {
        let is_number = columns.get(at).is_some_and(|it| it.1);
        if is_number && line.left() < *width_of {
            return;
        }
        let next = line.x() + width_of + 1;
        if is_number {
            line.skip(width_of.saturating_sub(width(text)));
        }
        match style {
            Some(style) => line.styled(style, text),
            None => line.text(*role, text),
        };
        line.to(next);
    }
}

fn foot(state: &ClusterState, area: Rect, buffer: &mut Buffer) {
    let n = state.rows.len();
    let position = if n == 0 { String::new() } else { format!("{}/{n}", state.cursor + 1) };
    let room = area.width.saturating_sub(width(&position) + 1);
    let mut line = LineWriter::new(buffer, state.theme, Rect { width: room, ..area });
    for row in BINDINGS.iter().filter(|row| !row.label.is_empty()) {
        if row.action == ClusterAction::Back && state.job.is_none() {
            continue;
        }
        let first = row.chords.first().map_or_else(String::new, |chord| key::name(*chord));
        line.whole(&[(Role::Accent, &first), (Role::Text, " "), (Role::Text, row.label)]).skip(1);
    }
    LineWriter::new(buffer, state.theme, area).at_end(Role::Title, &position);
}

fn help(state: &ClusterState, buffer: &mut Buffer) {
    let line = |row: &key::Binding<ClusterAction>| format!(" {:<16} {}", key::names(row), row.help);
    let lines: Vec<String> = BINDINGS.iter().map(line).collect();
    let wide = lines.iter().map(|it| width(it)).max().unwrap_or(0) + 3;
    let height = u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_add(2);
    let area = centered(state.size, Size { width: wide, height });
    Clear.render(area, buffer);
    let signs = if state.theme.ascii { ASCII } else { border::PLAIN };
    let block = Block::bordered().border_set(signs).border_style(state.theme.style(Role::Accent));
    let inside = block.inner(area);
    block.title(" keys ").render(area, buffer);
    for (text, area) in lines.iter().zip(inside.rows()) {
        let _ = LineWriter::new(buffer, state.theme, area).text(Role::Text, text);
    }
}

const ASCII: border::Set<'static> = crate::draw::ASCII_BORDER;
