//! Writes one line of the screen from left to right, clipped at its end.

use crate::theme::{Role, Theme};
use ratatui::{buffer::Buffer, layout::Rect, style::Style};
use std::borrow::Cow;
use unicode_width::UnicodeWidthStr;

/// A writer of one line.
pub struct LineWriter<'b> {
    buffer: &'b mut Buffer,
    theme: Theme,
    x: u16,
    y: u16,
    end: u16,
}

impl<'b> LineWriter<'b> {
    /// A writer of the first line of an area.
    pub fn new(buffer: &'b mut Buffer, theme: Theme, area: Rect) -> Self {
        let area = area.intersection(buffer.area);
        // An empty area has no line: nothing is written.
        let end = if area.height == 0 { area.x } else { area.right() };
        Self { buffer, theme, x: area.x, y: area.y, end }
    }

    /// Writes a text, clipped at the end of the line.
    pub fn text(&mut self, role: Role, text: &str) -> &mut Self {
        let style = self.theme.style(role);
        self.styled(style, text)
    }

    /// Writes a text in a style.
    pub fn styled(&mut self, style: Style, text: &str) -> &mut Self {
        if self.left() > 0 {
            let max = self.left().into();
            let text = if self.theme.ascii { letters(text) } else { Cow::Borrowed(text) };
            (self.x, _) = self.buffer.set_stringn(self.x, self.y, text, max, style);
        }
        self
    }

    /// Writes texts only if all of them fit: a clipped number would be a wrong number.
    pub fn whole(&mut self, texts: &[(Role, &str)]) -> &mut Self {
        let cells: usize = texts.iter().map(|(_, text)| text.width()).sum();
        if cells <= usize::from(self.left()) {
            for (role, text) in texts {
                self.text(*role, text);
            }
        }
        self
    }

    /// Writes a text right-aligned in a number of cells.
    pub fn right(&mut self, role: Role, text: &str, cells: u16) -> &mut Self {
        self.skip(cells.saturating_sub(width(text))).text(role, text)
    }

    /// Writes a text at the end of the line.
    pub fn at_end(&mut self, role: Role, text: &str) -> &mut Self {
        self.to(self.end.saturating_sub(width(text))).text(role, text)
    }

    /// Skips a number of cells.
    pub fn skip(&mut self, cells: u16) -> &mut Self {
        self.x = self.x.saturating_add(cells).min(self.end);
        self
    }

    /// Continues at a column.
    pub fn to(&mut self, x: u16) -> &mut Self {
        self.x = x.min(self.end);
        self
    }

    /// The current column.
    pub const fn x(&self) -> u16 {
        self.x
    }

    /// Cells that are left.
    pub const fn left(&self) -> u16 {
        self.end.saturating_sub(self.x)
    }

    /// Writes a share from 0 to 1 as a bar.
    pub fn bar(&mut self, share: f64, cells: u16) -> &mut Self {
        let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
        let full = (share * f64::from(cells)).round() as usize;
        let [filled, empty] = self.theme.bar_symbols();
        self.text(Theme::level(share), &filled.repeat(full));
        self.text(Role::Dim, &empty.repeat(usize::from(cells).saturating_sub(full)))
    }

    /// Writes values from 0 to `max` as symbols of different height.
    pub fn spark(&mut self, values: impl Iterator<Item = f64>, max: f64) -> &mut Self {
        let levels = self.theme.spark_symbols();
        for value in values {
            let share = if max > 0.0 { value / max } else { 0.0 };
            self.text(Role::Accent, level(&levels, share));
        }
        self
    }
}

/// The width of a text in cells.
pub fn width(text: &str) -> u16 {
    u16::try_from(text.width()).unwrap_or(u16::MAX)
}

/// A text for a terminal without Unicode.
fn letters(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    text.chars().map(|it| if it.is_ascii() { it } else { '?' }).collect()
}

/// The symbol of a share. Every share above 0 is visible.
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

    fn written(ascii: bool, write: impl FnOnce(&mut LineWriter<'_>)) -> String {
        let area = Rect::new(0, 0, 10, 1);
        let mut buffer = Buffer::empty(area);
        let theme = Theme { ascii, ..Theme::default() };
        write(&mut LineWriter::new(&mut buffer, theme, area));
        (0..10).map(|x| buffer[(x, 0)].symbol().to_owned()).collect()
    }

    #[test]
    fn a_number_is_complete_or_not_written() {
        let text = written(false, |line| {
            line.text(Role::Text, "123456 ").whole(&[(Role::Text, "50"), (Role::Text, "58")]);
        });
        assert_eq!(text, "123456    ");
    }

    #[test]
    fn other_characters_are_replaced_without_unicode() {
        let write = |line: &mut LineWriter<'_>| {
            let _ = line.text(Role::Text, "a\u{e9}b");
        };
        assert_eq!(written(true, write), "a?b       ");
        assert_eq!(written(false, write), "a\u{e9}b       ");
    }

    #[test]
    fn the_end_of_the_line_and_escape_sequences_are_handled() {
        let text = written(false, |line| {
            line.text(Role::Text, "a\x1b[2J").skip(20).text(Role::Text, "x").bar(0.5, 9);
        });
        assert_eq!(text, "a[2J      ");
    }
}
