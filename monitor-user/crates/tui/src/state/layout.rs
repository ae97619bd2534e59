//! Where everything is on the screen: the same for who draws and for who is clicked on.

use super::{Panel, State};
use ratatui::layout::{Rect, Size};

/// The smallest terminal that anything useful fits in.
pub const LEAST: Size = Size { width: 40, height: 10 };
/// Cells of the bar of one processor with its number and percentage.
const CPU_CELLS: u16 = 19;

/// The parts of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Areas {
    /// The node.
    pub head: Rect,
    /// Names of the columns.
    pub titles: Rect,
    /// The table.
    pub rows: Rect,
    /// The details.
    pub pane: Option<Rect>,
    /// What there is to say.
    pub says: Option<Rect>,
    /// Keys, or what is being typed.
    pub foot: Rect,
}

/// How processors are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpus {
    /// Lines that they take.
    pub lines: u16,
    /// How many stand on a line.
    pub beside: u16,
    /// Whether each is a sign alone, because there are many.
    pub dense: bool,
}

/// How so many processors are shown.
pub fn cpus(n_cpus: usize, size: Size) -> Cpus {
    let most = if size.height < 30 { 2 } else { 4 };
    let n_cpus = u16::try_from(n_cpus).unwrap_or(u16::MAX).max(1);
    let beside = (size.width / CPU_CELLS).max(1);
    if n_cpus.div_ceil(beside) <= most {
        let lines = n_cpus.div_ceil(beside);
        return Cpus { lines, beside: n_cpus.div_ceil(lines), dense: false };
    }
    // "cpu " before, and the mean behind.
    let beside = size.width.saturating_sub(12).max(1);
    Cpus { lines: n_cpus.div_ceil(beside).min(most), beside, dense: true }
}

/// The parts; nothing, if the terminal is too small.
pub fn areas(state: &State) -> Option<Areas> {
    let Size { width, height } = state.size;
    if width < LEAST.width || height < LEAST.height {
        return None;
    }
    let node = state.news.rates.sample.node_stats.as_ref();
    let n_cpus = node.map_or(1, |node| node.cpus.len());
    // On a low screen the devices are left out.
    let head = 2 + cpus(n_cpus, state.size).lines + u16::from(height >= 16);
    let typed = matches!(&state.panel, Panel::Prompt(prompt) if prompt.fault().is_some());
    let says = u16::from(state.said.is_some() || typed);
    let left = height - head - 2 - says;
    let pane =
        if state.tab.is_some() { (left / 2).max(left.saturating_sub(30)).min(left - 1) } else { 0 };
    let at = |y, height| Rect { x: 0, y, width, height };
    Some(Areas {
        head: at(0, head),
        titles: at(head, 1),
        rows: at(head + 1, left - pane),
        pane: (pane > 0).then(|| at(head + 1 + left - pane, pane)),
        says: (says > 0).then(|| at(height - 2, 1)),
        foot: at(height - 1, 1),
    })
}

/// A box of this size in the middle of the screen, as far as it fits.
pub fn middle(screen: Size, wanted: Size) -> Rect {
    let (width, height) = (wanted.width.min(screen.width), wanted.height.min(screen.height));
    Rect { x: (screen.width - width) / 2, y: (screen.height - height) / 2, width, height }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(n_cpus: usize, width: u16, height: u16, lines: u16, dense: bool) {
        let got = cpus(n_cpus, Size { width, height });
        assert_eq!((got.lines, got.dense), (lines, dense));
    }

    #[test]
    fn few_processors_have_bars_and_many_have_a_sign() {
        check(2, 80, 24, 1, false);
        check(8, 80, 24, 2, false);
        check(16, 80, 24, 1, true);
        check(16, 80, 40, 4, false);
        check(256, 80, 24, 2, true);
        check(256, 120, 40, 3, true);
    }

    #[test]
    fn a_box_is_never_larger_than_the_screen() {
        let screen = Size { width: 40, height: 10 };
        assert_eq!(middle(screen, Size { width: 100, height: 4 }), Rect::new(0, 3, 40, 4));
    }
}
