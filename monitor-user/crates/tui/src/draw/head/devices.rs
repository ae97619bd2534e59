//! The busiest disks and interfaces, each with its history.

use super::value_text;
use crate::draw::line::LineWriter;
use crate::state::ScreenState;
use crate::state::trend::KEPT;
use crate::theme::Role;
use monitor_model::field::{Category, DiskField, NetField, Row};
use monitor_model::sample::{Device, Node};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// The width of a device with its history, in cells.
const DEVICE_CELLS: u16 = 40;

/// Draws as many devices as fit.
pub fn draw((state, node): (&ScreenState, &Node), area: Rect, buffer: &mut Buffer) {
    let beside = (area.width / DEVICE_CELLS).max(1);
    let cell = area.width / beside;
    let disks = busiest(&node.disks, [DiskField::ReadBytes, DiskField::WrittenBytes], is_whole);
    let nets = busiest(&node.nets, [NetField::ReceivedBytes, NetField::SentBytes], |all, it| {
        it != "lo" || all.len() == 1
    });
    let of_disks =
        usize::from(beside.div_ceil(2)).max(usize::from(beside).saturating_sub(nets.len()));
    let disks = disks.into_iter().take(of_disks).map(|disk| {
        let rates = [("r", DiskField::ReadRate), ("w", DiskField::WrittenRate)];
        let busy = format!(" {}%", value_text(&disk.row, DiskField::BusyPercent));
        (&disk.name, rates.map(|(name, field)| (name, value_text(&disk.row, field))), busy)
    });
    let nets = nets.into_iter().map(|net| {
        let rates = [("in", NetField::ReceivedRate), ("out", NetField::SentRate)];
        (&net.name, rates.map(|(name, field)| (name, value_text(&net.row, field))), String::new())
    });
    for ((name, rates, more), nth) in disks.chain(nets).zip(0..beside) {
        let width = cell.saturating_sub(1);
        let mut line = LineWriter::new(buffer, state.theme, Rect { x: nth * cell, width, ..area });
        line.text(Role::Accent, name);
        for (label, rate) in rates {
            line.text(Role::Dim, &format!(" {label} ")).text(Role::Text, &rate);
            line.text(Role::Dim, "/s");
        }
        line.text(Role::Text, &more).skip(1);
        if let Some(series) = state.trends.device(name) {
            let room = usize::from(line.left()).min(KEPT);
            line.spark(series.last(room), series.max(room));
        }
    }
}

/// Devices by the bytes since boot, so that their order is stable.
fn busiest<F: Category, const N: usize>(
    all: &[Device<Row<F, N>>],
    totals: [F; 2],
    is_shown: impl Fn(&[&str], &str) -> bool,
) -> Vec<&Device<Row<F, N>>> {
    let names: Vec<&str> = all.iter().map(|it| &*it.name).collect();
    let mut shown: Vec<_> = all.iter().filter(|it| is_shown(&names, &it.name)).collect();
    let total_bytes = |it: &&Device<Row<F, N>>| -> u64 {
        totals.iter().filter_map(|field| it.row.get(*field)).sum()
    };
    shown.sort_by_key(|it| std::cmp::Reverse(total_bytes(it)));
    shown
}

/// Whether a disk is not a partition of another.
fn is_whole(all: &[&str], name: &str) -> bool {
    let is_part = |disk: &&str| {
        let rest = name.strip_prefix(*disk).unwrap_or_default();
        let number = rest.strip_prefix('p').unwrap_or(rest);
        !number.is_empty() && number.bytes().all(|it| it.is_ascii_digit())
    };
    !all.iter().any(is_part)
}
