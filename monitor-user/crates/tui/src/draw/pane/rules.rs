//! The page of rules: counts, rates, durations and the last occurrences.

use super::lists::more;
use crate::rule::{Rule, RuleOccurrence, RuleStatus};
use crate::{draw::line::LineWriter, state::ScreenState, theme::Role};
use monitor_format::{human, wrap::wrap};
use monitor_model::{Ns, Process};
use ratatui::{buffer::Buffer, layout::Rect};

/// The widths of the process and of each number, in cells.
const PROCESS: u16 = 18;
const NUMBER: u16 = 8;
const NUMBERS: u16 = 4 * (NUMBER + 1) + 1;

/// A line of text with its role.
type Text = (Role, String);

/// Draws the page.
pub fn draw((state, process): (&ScreenState, &Process), area: Rect, buffer: &mut Buffer) {
    let mut lines = area.rows();
    let Some(first) = lines.next() else { return };
    if state.rules.is_empty() {
        let text = " nothing is watched: w starts a rule on the process under the bar";
        let _ = LineWriter::new(buffer, state.theme, first).text(Role::Dim, text);
        return;
    }
    let titles = ["COUNT", "RATE", "P50", "P99"].map(str::to_owned);
    row(state, (Role::Title, "RULE", "PROCESS", &titles), first, buffer);
    let mut below = Vec::new();
    for rule in state.rules.iter() {
        if let Some(line) = lines.next() {
            let role = if rule.id == process.id { Role::Text } else { Role::Dim };
            let process_text = format!("{} {}", rule.id.pid.0, rule.name);
            row(state, (role, &rule.event, &process_text, &numbers(rule)), line, buffer);
        }
        below.extend(about(rule, area.width));
    }
    below.extend(last(state, state.rules.iter().filter(|it| it.id == process.id)));
    let shown = usize::from(area.height).saturating_sub(1);
    let all = state.rules.len() + below.len();
    for ((role, text), line) in below.iter().zip(lines) {
        LineWriter::new(buffer, state.theme, line).text(*role, text);
    }
    more((state, all, shown), area, buffer);
}

/// Draws a line of the table.
fn row(
    state: &ScreenState,
    (role, event, process, numbers): (Role, &str, &str, &[String; 4]),
    area: Rect,
    buffer: &mut Buffer,
) {
    let at = area.right().saturating_sub(NUMBERS + PROCESS).max(area.x + 1);
    let event_area = Rect { width: at - area.x - 1, ..area };
    LineWriter::new(buffer, state.theme, event_area).skip(1).text(role, event);
    let process_area = Rect { x: at, width: PROCESS.min(area.right() - at), ..area };
    LineWriter::new(buffer, state.theme, process_area).text(role, process);
    let mut line = LineWriter::new(buffer, state.theme, area);
    line.to(at + PROCESS);
    for number in numbers {
        line.skip(1).right(role, number, NUMBER);
    }
}

fn numbers(rule: &Rule) -> [String; 4] {
    let absent = || "-".to_owned();
    let count = match rule.state {
        RuleStatus::Requested => absent(),
        _ => human::scaled_text(rule.count as f64, 1000.0),
    };
    let rate = rule.per_s.map_or_else(absent, |rate| human::scaled_text(rate, 1000.0) + "/s");
    let [half, most] = match rule.times {
        Some(times) => times.map(span),
        None => [absent(), absent()],
    };
    [count, rate, half, most]
}

/// Why a rule is not fully active, wrapped to the width of the page.
fn about(rule: &Rule, width: u16) -> Vec<Text> {
    const INDENT: usize = 3;
    let Some((role, text)) = remark(rule) else { return Vec::new() };
    let mut lines = String::from(" ");
    wrap(&text, INDENT, width.into(), &mut lines);
    lines.lines().map(|line| (role, line.to_owned())).collect()
}

fn remark(rule: &Rule) -> Option<Text> {
    let role = match rule.state {
        RuleStatus::Ended(_) => Role::Full,
        RuleStatus::Requested => Role::Dim,
        RuleStatus::Active | RuleStatus::Degraded(_) => Role::High,
    };
    if let Some(why) = rule.state.why() {
        return Some((role, format!("{}: {why}", rule.event)));
    }
    let lost = (rule.lost > 0).then(|| format!("{}: {} were lost", rule.event, rule.lost));
    lost.map(|text| (Role::High, text))
}

/// The last occurrences, the latest first.
fn last<'r>(
    state: &ScreenState,
    rules: impl Iterator<Item = &'r Rule>,
) -> impl Iterator<Item = Text> {
    let now = state.update.rates.sample.at.boot;
    let mut all: Vec<_> =
        rules.flat_map(|rule| rule.last.iter().map(move |it| (it, &rule.event))).collect();
    all.sort_by_key(|(it, _)| std::cmp::Reverse(it.at));
    let line = |(it, event): (&RuleOccurrence, &String)| {
        let ago = span(now.since(it.at));
        (Role::Text, format!(" {ago:>7} ago  {event}: {}", it.text))
    };
    all.into_iter().map(line).collect::<Vec<_>>().into_iter()
}

fn span(ns: Ns) -> String {
    human::duration_text(ns.0 as f64)
}
