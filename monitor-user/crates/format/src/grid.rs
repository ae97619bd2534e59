//! Columns of text: collects and measures cells, then prints them left- or right-aligned.
//!
//! One string holds all cells and is reused. Widths are those of a terminal: wide characters count
//! two columns, combining ones none.

use std::ops::Range;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// For texts.
    Left,
    /// For numbers.
    Right,
}

/// A column of a grid.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its heading.
    pub title: &'static str,
    /// Minimum width, so that columns do not move between frames.
    pub min_width: usize,
    /// Its alignment.
    pub side: Side,
}

/// Cells, row by row.
#[derive(Default)]
pub struct Grid {
    columns: Vec<Column>,
    widths: Vec<usize>,
    text: String,
    cells: Vec<Range<usize>>,
}

impl Grid {
    /// Clears the cells and sets new columns.
    pub fn begin(&mut self, columns: impl Iterator<Item = Column>) {
        self.columns.clear();
        self.columns.extend(columns);
        self.widths.clear();
        self.widths.extend(self.columns.iter().map(|it| it.min_width.max(it.title.width())));
        self.text.clear();
        self.cells.clear();
    }

    /// Adds the next cell; `write` appends its text.
    pub fn cell(&mut self, write: impl FnOnce(&mut String)) {
        let (start, column) = (self.text.len(), self.cells.len() % self.columns.len().max(1));
        write(&mut self.text);
        if let Some(width) = self.widths.get_mut(column) {
            *width = (*width).max(self.text[start..].width());
        }
        self.cells.push(start..self.text.len());
    }

    /// Number of complete rows.
    pub fn rows(&self) -> usize {
        self.cells.len() / self.columns.len().max(1)
    }

    /// Appends the headings.
    pub fn titles(&self, room: usize, out: &mut String) {
        self.line(self.columns.iter().map(|column| column.title), room, out);
    }

    /// Appends a row.
    pub fn row(&self, row: usize, room: usize, out: &mut String) {
        let cells = &self.cells[row * self.columns.len()..][..self.columns.len()];
        self.line(cells.iter().map(|cell| &self.text[cell.clone()]), room, out);
    }

    /// Appends the headings and all rows, a line each.
    pub fn lines(&self, room: usize, out: &mut String) {
        self.titles(room, out);
        out.push('\n');
        for row in 0..self.rows() {
            self.row(row, room, out);
            out.push('\n');
        }
    }

    /// Pads each cell, except a left-aligned last one, which gets the rest of the width.
    fn line<'t>(&self, texts: impl Iterator<Item = &'t str>, room: usize, out: &mut String) {
        let (mut used, last) = (0, self.columns.len().saturating_sub(1));
        for (index, text) in texts.enumerate() {
            let (width, side) = (self.widths[index], self.columns[index].side);
            let gap = usize::from(index > 0);
            if index == last && side == Side::Left {
                spaces(gap, out);
                cut(text, room.saturating_sub(used + gap).max(MIN_LAST), out);
                break;
            }
            let pad = width.saturating_sub(text.width());
            spaces(gap + if side == Side::Right { pad } else { 0 }, out);
            out.push_str(text);
            spaces(if side == Side::Left { pad } else { 0 }, out);
            used += gap + width;
        }
    }
}

/// Minimum width of the last column, even if the line becomes too long.
const MIN_LAST: usize = 8;

fn spaces(count: usize, out: &mut String) {
    out.extend(std::iter::repeat_n(' ', count));
}

/// Appends a text, cut to a width; `…` marks the cut.
pub fn cut(text: &str, room: usize, out: &mut String) {
    if text.width() <= room {
        return out.push_str(text);
    }
    let mut left = room.saturating_sub(1);
    for letter in text.chars() {
        let Some(rest) = left.checked_sub(letter.width().unwrap_or(0)) else { break };
        left = rest;
        out.push(letter);
    }
    out.push('…');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(rows: &[[&str; 2]], room: usize, want: &str) {
        let mut grid = Grid::default();
        let column = |title, side| Column { title, min_width: 3, side };
        grid.begin([column("N", Side::Right), column("NAME", Side::Left)].into_iter());
        rows.iter().flatten().for_each(|text| grid.cell(|out| out.push_str(text)));
        let mut got = String::new();
        grid.titles(room, &mut got);
        for row in 0..grid.rows() {
            got.push('|');
            grid.row(row, room, &mut got);
        }
        assert_eq!(got, want);
    }

    #[test]
    fn numbers_are_right_aligned_and_the_last_text_is_not_padded() {
        check(&[["7", "x"], ["12345", "y"]], 80, "    N NAME|    7 x|12345 y");
    }

    #[test]
    fn a_long_last_text_is_cut_to_the_width() {
        check(&[["7", "abcdefghijklmnopqrstuvw"]], 22, "  N NAME|  7 abcdefghijklmnopq…");
    }

    #[test]
    fn a_wide_character_takes_two_columns() {
        let mut got = String::new();
        cut("日本語", 5, &mut got);
        assert_eq!(got, "日本…");
    }
}
