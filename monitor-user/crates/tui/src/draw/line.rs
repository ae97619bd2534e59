//! One line of the screen, written from left to right until it is full.

use crate::look::{Look, Role};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use std::borrow::Cow;
use unicode_width::UnicodeWidthStr;

/// A line that is being written.
pub struct Line<'b> {
    buffer: &'b mut Buffer,
    look: Look,
    x: u16,
    y: u16,
    end: u16,
}

impl<'b> Line<'b> {
    /// The first line of an area.
    pub fn new(buffer: &'b mut Buffer, look: Look, area: Rect) -> Self {
        let area = area.intersection(buffer.area);
        // An empty area has no line: nothing is written then.
        let end = if area.height == 0 { area.x } else { area.right() };
        Self { buffer, look, x: area.x, y: area.y, end }
    }

    /// Writes a text, as far as it fits.
    pub fn text(&mut self, role: Role, text: &str) -> &mut Self {
        let style = self.look.style(role);
        self.styled(style, text)
    }

    /// The same in a style of its own.
    pub fn styled(&mut self, style: Style, text: &str) -> &mut Self {
        if self.left() > 0 {
            let most = self.left().into();
            let text = if self.look.ascii { letters(text) } else { Cow::Borrowed(text) };
            (self.x, _) = self.buffer.set_stringn(self.x, self.y, text, most, style);
        }
        self
    }

    /// Writes texts that belong together if all of them fit: half a number is another number.
    pub fn whole(&mut self, texts: &[(Role, &str)]) -> &mut Self {
        let cells: usize = texts.iter().map(|(_, text)| text.width()).sum();
        if cells <= usize::from(self.left()) {
            for (role, text) in texts {
                self.text(*role, text);
            }
        }
        self
    }

    /// Writes a text at the right end of so many cells.
    pub fn right(&mut self, role: Role, text: &str, cells: u16) -> &mut Self {
        let width = u16::try_from(text.width()).unwrap_or(u16::MAX);
        self.skip(cells.saturating_sub(width)).text(role, text)
    }

    /// Leaves so many cells as they are.
    pub fn skip(&mut self, cells: u16) -> &mut Self {
        self.x = self.x.saturating_add(cells).min(self.end);
        self
    }

    /// Goes on from that column.
    pub fn to(&mut self, x: u16) -> &mut Self {
        self.x = x.min(self.end);
        self
    }

    /// Where it goes on.
    pub const fn x(&self) -> u16 {
        self.x
    }

    /// Cells that are left.
    pub const fn left(&self) -> u16 {
        self.end.saturating_sub(self.x)
    }

    /// A share from 0 to 1 as a bar of so many cells.
    pub fn bar(&mut self, share: f64, cells: u16) -> &mut Self {
        let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
        let full = (share * f64::from(cells)).round() as usize;
        let [filled, empty] = self.look.filling();
        self.text(Look::level(share), &filled.repeat(full));
        self.text(Role::Dim, &empty.repeat(usize::from(cells).saturating_sub(full)))
    }

    /// Values from 0 to the most as signs of different height, the last ones last.
    pub fn spark(&mut self, values: impl Iterator<Item = f64>, most: f64) -> &mut Self {
        let levels = self.look.levels();
        for value in values {
            let share = if most > 0.0 { value / most } else { 0.0 };
            let sign = level(&levels, share);
            self.text(Role::Accent, sign);
        }
        self
    }
}

/// A text for a terminal that has letters alone.
fn letters(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    text.chars().map(|it| if it.is_ascii() { it } else { '?' }).collect()
}

/// The sign of a share. Anything more than nothing is seen.
pub fn level(levels: &ratatui::symbols::bar::Set<'static>, share: f64) -> &'static str {
    match share {
        s if s <= 0.0 => levels.empty,
        ..0.1875 => levels.one_eighth,
        ..0.3125 => levels.one_quarter,
        ..0.4375 => levels.three_eighths,
        ..0.5625 => levels.half,
        ..0.6875 => levels.five_eighths,
        ..0.8125 => levels.three_quarters,
        ..0.9375 => levels.seven_eighths,
        _ => levels.full,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(ascii: bool, write: impl FnOnce(&mut Line<'_>)) -> String {
        let area = Rect::new(0, 0, 10, 1);
        let mut buffer = Buffer::empty(area);
        let look = Look { ascii, ..Look::default() };
        write(&mut Line::new(&mut buffer, look, area));
        (0..10).map(|x| buffer[(x, 0)].symbol().to_owned()).collect()
    }

    #[test]
    fn a_number_is_whole_or_is_not_there() {
        let text = written(false, |line| {
            line.text(Role::Text, "123456 ").whole(&[(Role::Text, "50"), (Role::Text, "58")]);
        });
        assert_eq!(text, "123456    ");
    }

    #[test]
    fn names_of_other_scripts_become_letters_where_there_are_no_others() {
        let write = |line: &mut Line<'_>| {
            let _ = line.text(Role::Text, "a\u{e9}b");
        };
        assert_eq!(written(true, write), "a?b       ");
        assert_eq!(written(false, write), "a\u{e9}b       ");
    }

    #[test]
    fn nothing_is_written_beyond_the_end_or_moves_the_cursor() {
        let text = written(false, |line| {
            line.text(Role::Text, "a\x1b[2J").skip(20).text(Role::Text, "x").bar(0.5, 9);
        });
        assert_eq!(text, "a[2J      ");
    }
}
