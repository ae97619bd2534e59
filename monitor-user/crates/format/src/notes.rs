//! Notes below a table.
//!
//! In: the notes and losses of a sample. Out: a paragraph per note. On a screen they use at most a
//! third of the lines: long notes are cut to one line, and the others are counted.

use super::{Frame, grid, human, wrap};
use monitor_model::{ProgramLoss, degradation::NoteFolder};
use std::fmt::Write;

const LABEL: &str = "note: ";

/// Formats the notes, those about a missing privilege folded into one, then the losses.
pub fn text(frame: &Frame<'_>, folder: &mut NoteFolder) -> String {
    let sample = &frame.rates.sample;
    let lost = sample.lost.iter().filter(|it| !it.is_none()).map(loss_text);
    let notes = folder.fold(sample.notes.iter().map(|note| note.text.clone()).collect());
    let notes: Vec<_> = notes.into_iter().chain(lost).map(|note| escaped(&note)).collect();
    let whole = paragraphs(&notes, frame.viewport.columns);
    match frame.viewport.lines_below() {
        Some(max) if whole.lines().count() > max => {
            one_line_each(&notes, frame.viewport.columns, max)
        }
        _ => whole,
    }
}

/// Formats notes as paragraphs, for outputs that are not tables.
pub fn note_paragraphs(notes: &[String], columns: usize) -> String {
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

/// Formats each note as one line, and counts those beyond `max` in the last line.
fn one_line_each(notes: &[String], columns: usize, max: usize) -> String {
    let shown = if notes.len() > max { max - 1 } else { notes.len() };
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

/// What an object dropped, as a note.
pub fn loss_text(lost: &ProgramLoss) -> String {
    let ProgramLoss { program, ring_full, table_full } = lost;
    format!("{program} lost {ring_full} records (ring full), {table_full} keys (table full)")
}

#[cfg(test)]
mod tests {
    use super::super::Viewport;
    use super::*;
    use monitor_model::rates;
    use monitor_model::sample::{Note, Sample};

    #[track_caller]
    fn check(notes: &[&str], lines: Option<usize>, want: &str) {
        let notes = notes.iter().map(|text| Note::remark(*text)).collect();
        let rates = rates::first(Sample { notes, ..Sample::default() });
        let room = Viewport { columns: 40, lines };
        let frame =
            Frame { rates: &rates, processes: &[], matched: 0, events: &[], viewport: room };
        assert_eq!(text(&frame, &mut NoteFolder::default()), want);
    }

    const LONG: &str = "read from /proc instead of eBPF: it needs CAP_BPF";

    #[test]
    fn a_note_is_complete_if_it_fits() {
        let whole = "note: read from /proc instead of eBPF:\n      it needs CAP_BPF\n";
        check(&[LONG], None, whole);
        check(&[LONG], Some(6), whole);
    }

    #[test]
    fn on_a_small_screen_each_note_is_cut_to_one_line() {
        check(&[LONG], Some(5), "note: read from /proc instead of eBPF: …\n");
        let two = "note: read from /proc instead of eBPF: …\nnote: short\n";
        check(&[LONG, "short"], Some(6), two);
    }

    #[test]
    fn notes_that_do_not_fit_are_counted() {
        let many = "note: a\nand 3 more notes: monitor doctor\n";
        check(&["a", "b", "c", "d"], Some(8), many);
        check(&["a", "b"], Some(3), "2 notes: monitor doctor\n");
    }
}
