//! Renders a fault for a terminal: the line, and a caret below the position of the fault.
//!
//! ```text
//! 10 [0] stop([1)
//!               ^ found `)`, expected `,` or `]`
//! ```
//!
//! A long line is shortened to the part around the position. Writes nothing.

use super::Fault;

/// Maximum columns of the line that are shown.
const COLUMNS: usize = 76;
/// Columns that are shown before the position.
const BEFORE: usize = 50;
/// Replaces the parts that are not shown.
const CUT: &str = "...";

/// Returns the line and the caret with the message: two lines, without a final line break.
pub fn render(line: &[u8], fault: &Fault) -> String {
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

/// One column for each byte, so that the caret is below the right one.
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
        assert_eq!(render(line, &fault), want);
    }

    #[test]
    fn the_caret_is_below_the_position_of_the_fault() {
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
    fn every_byte_takes_one_column() {
        check(
            b"1 [0] p(\"\xc3\xa4\t\" x)",
            "1 [0] p(\"?? \" x)\n              ^ found `x`, expected `,` or `)`",
        );
    }

    #[test]
    fn a_long_line_is_cut_around_the_fault() {
        let line = format!("1 [0] p(\"{}\" x{})", "a".repeat(500), "b".repeat(500));
        let fault = parse::request(line.as_bytes(), Dialect::Extended).unwrap_err();
        let text = render(line.as_bytes(), &fault);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0].len(), CUT.len() + COLUMNS + CUT.len());
        assert_eq!(&lines[0][lines[1].find('^').unwrap()..][..2], "xb");
    }
}
