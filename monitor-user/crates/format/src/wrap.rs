//! Wraps text to a width: breaks between words and indents all lines but the first.

use unicode_width::UnicodeWidthStr;

/// The width without a terminal.
pub const COLUMNS: usize = 80;

/// Appends a text whose first line starts at column `indent`, and a line feed.
pub fn wrap(text: &str, indent: usize, columns: usize, out: &mut String) {
    let mut used = indent;
    for (index, word) in text.split_whitespace().enumerate() {
        let width = word.width();
        if index > 0 && used + 1 + width > columns {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent));
            used = indent;
        } else if index > 0 {
            out.push(' ');
            used += 1;
        }
        out.push_str(word);
        used += width;
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_breaks_between_words() {
        let mut out = String::from("name ");
        wrap(&"word ".repeat(16), 5, COLUMNS, &mut out);
        let lines: Vec<_> = out.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(lines.iter().all(|line| line.len() <= COLUMNS && !line.ends_with(' ')));
        assert_eq!(lines[1], "     word");
    }
}
