//! The layout of the screen, for drawing and for mouse clicks.

use super::{Panel, ScreenState};
use ratatui::layout::{Rect, Size};

/// The smallest supported terminal.
pub const MIN_SIZE: Size = Size { width: 40, height: 10 };
/// Cells of one processor: number, bar and percentage.
const CPU_CELLS: u16 = 19;

/// The least height with a line of devices.
const WITH_DEVICES: u16 = 16;
/// The least height with a line of how CPU time is divided as well.
pub const WITH_DIVISION: u16 = 20;

/// The areas of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Areas {
    /// The node summary.
    pub head: Rect,
    /// The column titles.
    pub titles: Rect,
    /// The table.
    pub rows: Rect,
    /// The details.
    pub pane: Option<Rect>,
    /// The message.
    pub message: Option<Rect>,
    /// The keys, or the prompt.
    pub foot: Rect,
}

/// The layout of the processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpus {
    /// The number of lines.
    pub lines: u16,
    /// Processors per line.
    pub per_line: u16,
    /// Whether each is a single symbol, because there are many.
    pub dense: bool,
}

/// The layout of a number of processors.
pub fn cpus(n_cpus: usize, size: Size) -> Cpus {
    let most = if size.height < 30 { 2 } else { 4 };
    let n_cpus = u16::try_from(n_cpus).unwrap_or(u16::MAX).max(1);
    let beside = (size.width / CPU_CELLS).max(1);
    if n_cpus.div_ceil(beside) <= most {
        let lines = n_cpus.div_ceil(beside);
        return Cpus { lines, per_line: n_cpus.div_ceil(lines), dense: false };
    }
    // Room for "cpu " and the mean.
    let beside = size.width.saturating_sub(12).max(1);
    Cpus { lines: n_cpus.div_ceil(beside).min(most), per_line: beside, dense: true }
}

impl ScreenState {
    /// The areas; `None` if the terminal is too small.
    pub fn areas(&self) -> Option<Areas> {
        let Size { width, height } = self.size;
        if width < MIN_SIZE.width || height < MIN_SIZE.height {
            return None;
        }
        let node = self.update.rates.sample.node_stats.as_ref();
        let n_cpus = node.map_or(1, |node| node.cpus.len());
        // Devices, and how the processors' time is divided, are not shown on a low screen.
        let more = u16::from(height >= WITH_DEVICES) + u16::from(height >= WITH_DIVISION);
        let head = 2 + cpus(n_cpus, self.size).lines + more;
        let typed = matches!(&self.panel, Panel::Prompt(prompt) if prompt.fault().is_some());
        let says = u16::from(self.message.is_some() || typed);
        let left = height - head - 2 - says;
        let pane = if self.tab.is_some() {
            (left / 2).max(left.saturating_sub(30)).min(left - 1)
        } else {
            0
        };
        let at = |y, height| Rect { x: 0, y, width, height };
        Some(Areas {
            head: at(0, head),
            titles: at(head, 1),
            rows: at(head + 1, left - pane),
            pane: (pane > 0).then(|| at(head + 1 + left - pane, pane)),
            message: (says > 0).then(|| at(height - 2, 1)),
            foot: at(height - 1, 1),
        })
    }
}

/// A centred box of at most this size.
pub fn centered(screen: Size, wanted: Size) -> Rect {
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
    fn few_processors_have_bars_and_many_have_a_symbol() {
        check(2, 80, 24, 1, false);
        check(8, 80, 24, 2, false);
        check(16, 80, 24, 1, true);
        check(16, 80, 40, 4, false);
        check(256, 80, 24, 2, true);
        check(256, 120, 40, 3, true);
    }

    #[test]
    fn a_box_fits_on_the_screen() {
        let screen = Size { width: 40, height: 10 };
        assert_eq!(centered(screen, Size { width: 100, height: 4 }), Rect::new(0, 3, 40, 4));
    }
}
