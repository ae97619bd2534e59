//! A fault as people like to see it: the line, and a mark below the place.
//!
//! ```text
//! 10 [0] stop([1)
//!               ^ found `)`, expected `,` or `]`
//! ```
//!
//! Never wider than a terminal: of a long line, the part around the place is shown.

use super::fault::Fault;

/// Most columns of the line that are shown.
const COLUMNS: usize = 76;
/// Columns that are kept before the place.
const BEFORE: usize = 50;
/// Stands for what was cut away.
const CUT: &str = "...";

/// The picture of a fault in its line; two lines without a line break at the end.
pub fn picture(line: &[u8], fault: &Fault) -> String {
    let line = line.trim_ascii_end();
    let at = fault.at.min(line.len());
    let from = if line.len() <= COLUMNS { 0 } else { at.saturating_sub(BEFORE) };
    let to = line.len().min(from + COLUMNS);
    let (cut_before, cut_after) = (cut(from > 0), cut(to < line.len()));
    let shown = shown(&line[from..to]);
    let indent = cut_before.len() + at - from;
    format!("{cut_before}{shown}{cut_after}\n{:indent$}^ {fault}", "")
}

fn cut(is_cut: bool) -> &'static str {
    if is_cut { CUT } else { "" }
}

/// One column for each byte, or the mark would stand elsewhere.
fn shown(line: &[u8]) -> String {
    let column = |byte: &u8| if byte.is_ascii_graphic() { char::from(*byte) } else { ' ' };
    line.iter().map(|byte| if byte.is_ascii() { column(byte) } else { '?' }).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Dialect;
    use super::super::parse;
    use super::*;

    #[track_caller]
    fn check(line: &[u8], want: &str) {
        let fault = parse::request(line, Dialect::Extended).unwrap_err();
        assert_eq!(picture(line, &fault), want);
    }

    #[test]
    fn the_mark_stands_below_the_place() {
        check(
            b"10 [0] stop([1)\n",
            "10 [0] stop([1)\n              ^ found `)`, expected `,` or `]`",
        );
        check(
            b"",
            "\n^ found the end of the line, expected a request id, a node list or a service",
        );
    }

    #[test]
    fn a_byte_is_a_column_whatever_it_is() {
        check(
            b"1 [0] p(\"\xc3\xa4\t\" x)",
            "1 [0] p(\"?? \" x)\n              ^ found `x`, expected `,` or `)`",
        );
    }

    #[test]
    fn of_a_long_line_the_part_around_the_place_is_shown() {
        let line = format!("1 [0] p(\"{}\" x{})", "a".repeat(500), "b".repeat(500));
        let fault = parse::request(line.as_bytes(), Dialect::Extended).unwrap_err();
        let picture = picture(line.as_bytes(), &fault);
        let lines: Vec<&str> = picture.lines().collect();
        assert_eq!(lines[0].len(), CUT.len() + COLUMNS + CUT.len());
        assert_eq!(&lines[0][lines[1].find('^').unwrap()..][..2], "xb");
    }
}
