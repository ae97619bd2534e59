//! Disks and interfaces that carry most, each with its history.

use super::shown;
use crate::draw::line::Line;
use crate::look::Role;
use crate::state::State;
use crate::state::trend::KEPT;
use monitor_model::field::{Category, DiskField, NetField, Row};
use monitor_model::sample::{Device, Node};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// Cells of a device with its history.
const DEVICE_CELLS: u16 = 40;

/// Draws as many as the line holds.
pub fn draw((state, node): (&State, &Node), area: Rect, buffer: &mut Buffer) {
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
        let busy = format!(" {}%", shown(&disk.row, DiskField::BusyPercent));
        (&disk.name, rates.map(|(name, field)| (name, shown(&disk.row, field))), busy)
    });
    let nets = nets.into_iter().map(|net| {
        let rates = [("in", NetField::ReceivedRate), ("out", NetField::SentRate)];
        (&net.name, rates.map(|(name, field)| (name, shown(&net.row, field))), String::new())
    });
    for ((name, rates, more), nth) in disks.chain(nets).zip(0..beside) {
        let width = cell.saturating_sub(1);
        let mut line = Line::new(buffer, state.look, Rect { x: nth * cell, width, ..area });
        line.text(Role::Accent, name);
        for (label, rate) in rates {
            line.text(Role::Dim, &format!(" {label} ")).text(Role::Text, &rate);
            line.text(Role::Dim, "/s");
        }
        line.text(Role::Text, &more).skip(1);
        if let Some(series) = state.trends.device(name) {
            let room = usize::from(line.left()).min(KEPT);
            line.spark(series.last(room), series.most(room));
        }
    }
}

/// Devices by what they carried since they are there, so that they keep their places.
fn busiest<F: Category, const N: usize>(
    all: &[Device<Row<F, N>>],
    totals: [F; 2],
    is_shown: impl Fn(&[&str], &str) -> bool,
) -> Vec<&Device<Row<F, N>>> {
    let names: Vec<&str> = all.iter().map(|it| &*it.name).collect();
    let mut shown: Vec<_> = all.iter().filter(|it| is_shown(&names, &it.name)).collect();
    let carried = |it: &&Device<Row<F, N>>| -> u64 {
        totals.iter().filter_map(|field| it.row.get(*field)).sum()
    };
    shown.sort_by_key(|it| std::cmp::Reverse(carried(it)));
    shown
}

/// Whether a disk is no partition of another.
fn is_whole(all: &[&str], name: &str) -> bool {
    let is_part = |disk: &&str| {
        let rest = name.strip_prefix(*disk).unwrap_or_default();
        let number = rest.strip_prefix('p').unwrap_or(rest);
        !number.is_empty() && number.bytes().all(|it| it.is_ascii_digit())
    };
    !all.iter().any(is_part)
}
