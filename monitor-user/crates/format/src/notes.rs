//! Notes below a table, so that they never push its rows away.
//!
//! In: the notes of a sample and its losses. Out: each as a paragraph, if the reader's side has no
//! end; on a screen a third of the lines at most. There long notes are cut to a line, and those
//! that find no place are counted.

use super::{Frame, grid, human, wrap};
use monitor_model::sample::Lost;
use monitor_model::shortfall::Fold;
use std::fmt::Write;

const LABEL: &str = "note: ";
/// The notes get one line of a screen in so many.
const SHARE: usize = 3;

/// The notes of the sample, those of a missing privilege in one line; then what was lost.
pub fn text(frame: &Frame<'_>, fold: &mut Fold) -> String {
    let sample = &frame.rates.sample;
    let lost = sample.lost.iter().filter(|it| it.ring_full + it.table_full > 0).map(loss);
    let notes = fold.folded(sample.notes.iter().map(|note| note.text.clone()).collect());
    let notes: Vec<_> = notes.into_iter().chain(lost).map(|note| escaped(&note)).collect();
    let whole = paragraphs(&notes, frame.room.columns);
    match frame.room.lines.map(|lines| (lines / SHARE).max(1)) {
        Some(most) if whole.lines().count() > most => short(&notes, frame.room.columns, most),
        _ => whole,
    }
}

/// Notes below what is no table.
pub fn below(notes: &[String], columns: usize) -> String {
    let notes: Vec<String> = notes.iter().map(|note| escaped(note)).collect();
    paragraphs(&notes, columns)
}

fn paragraphs(notes: &[String], columns: usize) -> String {
    let mut out = String::new();
    for note in notes {
        out.push_str(LABEL);
        wrap::wrap(note, LABEL.len(), columns, &mut out);
    }
    out
}

/// A line for each, and the last line for those that are too many.
fn short(notes: &[String], columns: usize, most: usize) -> String {
    let shown = if notes.len() > most { most - 1 } else { notes.len() };
    let mut out = String::new();
    for note in &notes[..shown] {
        out.push_str(LABEL);
        grid::cut(note, columns.saturating_sub(LABEL.len()), &mut out);
        out.push('\n');
    }
    // Writing to a `String` cannot fail.
    let _ = match (notes.len() - shown, shown) {
        (0, _) => Ok(()),
        (rest, 0) => writeln!(out, "{rest} notes: monitor doctor"),
        (rest, _) => writeln!(out, "and {rest} more notes: monitor doctor"),
    };
    out
}

fn escaped(note: &str) -> String {
    let mut text = String::new();
    human::escaped(note, &mut text);
    text
}

fn loss(lost: &Lost) -> String {
    let Lost { program, ring_full, table_full } = lost;
    format!("{program} lost {ring_full} records (ring full), {table_full} keys (table full)")
}

#[cfg(test)]
mod tests {
    use super::super::Room;
    use super::*;
    use monitor_model::rates;
    use monitor_model::sample::{Note, Sample};

    #[track_caller]
    fn check(notes: &[&str], lines: Option<usize>, want: &str) {
        let notes = notes.iter().map(|text| Note::remark(*text)).collect();
        let rates = rates::first(Sample { notes, ..Sample::default() });
        let room = Room { columns: 40, lines };
        let frame = Frame { rates: &rates, processes: &[], matched: 0, events: &[], room };
        assert_eq!(text(&frame, &mut Fold::default()), want);
    }

    const LONG: &str = "read from /proc instead of eBPF: it needs CAP_BPF";

    #[test]
    fn a_note_is_whole_where_there_is_room() {
        let whole = "note: read from /proc instead of eBPF:\n      it needs CAP_BPF\n";
        check(&[LONG], None, whole);
        check(&[LONG], Some(6), whole);
    }

    #[test]
    fn on_a_small_screen_each_is_cut_to_a_line() {
        check(&[LONG], Some(5), "note: read from /proc instead of eBPF: …\n");
        let two = "note: read from /proc instead of eBPF: …\nnote: short\n";
        check(&[LONG, "short"], Some(6), two);
    }

    #[test]
    fn those_that_find_no_line_are_counted() {
        let many = "note: a\nand 3 more notes: monitor doctor\n";
        check(&["a", "b", "c", "d"], Some(8), many);
        check(&["a", "b"], Some(3), "2 notes: monitor doctor\n");
    }
}
