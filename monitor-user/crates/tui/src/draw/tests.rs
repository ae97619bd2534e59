//! Compares whole frames with golden files.
//!
//! A golden file contains the characters of a frame, or a letter for the style of each cell.
//! `MONITOR_BLESS=1 cargo test` writes the files; the diff shows what changed.

use super::draw;
use crate::state::tests::fixture::{Fixture, rules};
use crate::theme::{Palette, Theme};
use crate::{feed_source::FeedEvent, state::ScreenInput};
use crossterm::event::KeyCode::{BackTab, Down, Enter, Esc, Tab};
use ratatui::style::{Color, Style};
use ratatui::{buffer::Buffer, layout::Rect};
use std::path::Path;

fn frame(fixture: &Fixture) -> Buffer {
    let size = fixture.state.size;
    let mut buffer = Buffer::empty(Rect::new(0, 0, size.width, size.height));
    draw(&fixture.state, &mut buffer);
    buffer
}

pub(crate) fn letters(buffer: &Buffer) -> String {
    let line = |y| {
        let line: String = (0..buffer.area.width).map(|x| buffer[(x, y)].symbol()).collect();
        line.trim_end().to_owned() + "\n"
    };
    (0..buffer.area.height).map(line).collect()
}

/// A letter for each style, in order of appearance, followed by the list of styles.
fn styles(buffer: &Buffer) -> String {
    let mut found: Vec<Style> = vec![Buffer::empty(Rect::new(0, 0, 1, 1))[(0, 0)].style()];
    let mut out = String::new();
    for y in 0..buffer.area.height {
        let mut line = String::new();
        for x in 0..buffer.area.width {
            let style = buffer[(x, y)].style();
            let at = found.iter().position(|it| *it == style).unwrap_or_else(|| {
                found.push(style);
                found.len() - 1
            });
            line.push(" abcdefghijklmnopqrstuvwxyz".chars().nth(at).unwrap_or('?'));
        }
        out += line.trim_end();
        out.push('\n');
    }
    for (style, letter) in found.iter().skip(1).zip('a'..) {
        out += &format!("{letter}: {:?} {:?}\n", style.fg, style.add_modifier);
    }
    out
}

#[track_caller]
pub(crate) fn golden(name: &str, text: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/golden/top");
    let path = root.join(format!("{name}.txt"));
    if std::env::var_os("MONITOR_BLESS").is_some() {
        std::fs::create_dir_all(&root).expect("a folder");
        std::fs::write(&path, text).expect("a file");
    }
    let wanted = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(text == wanted, "{name} differs; MONITOR_BLESS=1 writes it:\n{text}");
}

#[track_caller]
fn check(name: &str, fixture: &Fixture) {
    golden(name, &letters(&frame(fixture)));
}

fn with_theme(palette: Palette, ascii: bool) -> Fixture {
    let mut fixture = Fixture::after(3, (80, 24));
    fixture.state.theme = Theme { palette, ascii };
    let _ = fixture.press(&[Down]);
    fixture
}

#[test]
fn the_table_at_eighty_columns() {
    check("80x24", &Fixture::after(3, (80, 24)));
}

#[test]
fn the_table_on_a_large_terminal() {
    check("120x40", &Fixture::after(3, (120, 40)));
}

#[test]
fn the_smallest_terminal_and_one_that_is_too_small() {
    check("40x10", &Fixture::after(3, (40, 10)));
    check("too-small", &Fixture::after(3, (30, 6)));
}

#[test]
fn colours_for_dark_and_light_and_none() {
    for (name, theme) in
        [("dark", Palette::Dark), ("light", Palette::Light), ("plain", Palette::Plain)]
    {
        golden(name, &styles(&frame(&with_theme(theme, false))));
    }
}

#[test]
fn the_characters_do_not_depend_on_colours() {
    let dark = letters(&frame(&with_theme(Palette::Dark, false)));
    let plain = frame(&with_theme(Palette::Plain, false));
    assert_eq!(dark, letters(&plain));
    assert!(plain.content.iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset));
}

#[test]
fn without_unicode_frames_are_ascii() {
    let mut fixture = with_theme(Palette::Dark, true);
    let _ = fixture.types("t");
    let _ = fixture.press(&[Enter]);
    fixture.read(5);
    check("ascii", &fixture);
    let ascii = |fixture: &Fixture| letters(&frame(fixture)).is_ascii();
    assert!(ascii(&fixture));
    for keys in ["?", "p", "s", "c", "k", "/cpu >"] {
        let _ = fixture.types(keys);
        assert!(ascii(&fixture), "{keys}");
        let _ = fixture.press(&[Esc]);
    }
}

#[test]
fn the_tree() {
    let mut fixture = Fixture::after(3, (80, 24));
    let _ = fixture.types("t");
    check("tree", &fixture);
}

#[test]
fn groups() {
    let mut fixture = Fixture::after(1, (80, 24));
    let _ = fixture.types("gcgroup");
    let _ = fixture.press(&[Enter]);
    fixture.read(3);
    check("groups", &fixture);
}

#[test]
fn the_pages_of_the_details() {
    let mut fixture = Fixture::after(3, (80, 24));
    let _ = fixture.press(&[Enter]);
    fixture.read(20);
    check("details", &fixture);
    let _ = fixture.press(&[Tab]);
    fixture.read(1);
    check("storage", &fixture);
    let _ = fixture.press(&[Tab, Tab, Tab]);
    fixture.read(2);
    check("threads", &fixture);
}

#[test]
fn the_page_of_rules() {
    let mut fixture = Fixture::after(3, (80, 24));
    let _ = fixture.types("w");
    check("watch", &fixture);
    let _ = fixture.press(&[Esc, Down, Enter, BackTab]);
    check("no-rules", &fixture);
    let selected = fixture.state.selected().expect("a selected process").id;
    let mut rules = rules().to_vec();
    rules.iter_mut().filter(|it| it.id.pid == selected.pid).for_each(|it| it.id = selected);
    let _ = fixture.state.handle(ScreenInput::Feed(FeedEvent::Rules(rules.into())));
    check("rules", &fixture);
    let _ = fixture.types("W");
    check("unwatch", &fixture);
}

#[test]
fn the_details_on_a_large_terminal() {
    let mut fixture = Fixture::after(3, (120, 40));
    let _ = fixture.press(&[Enter]);
    fixture.read(60);
    check("details-120x40", &fixture);
}

#[test]
fn help_lists_and_confirmations() {
    let mut fixture = Fixture::after(3, (80, 24));
    for (name, keys) in [("help", "?"), ("probes", "p"), ("sort", "s"), ("columns", "c")] {
        let _ = fixture.types(keys);
        check(name, &fixture);
        let _ = fixture.press(&[Esc]);
    }
    let _ = fixture.types("x");
    check("question", &fixture);
}

#[test]
fn an_error_is_shown_above_its_position() {
    let mut fixture = Fixture::after(3, (80, 24));
    let _ = fixture.types("/cpu > 10 and cpuu > 1");
    check("mistake", &fixture);
}

#[test]
fn every_size_is_drawn_with_everything_open() {
    for (width, height) in [(1, 1), (39, 50), (40, 10), (41, 11), (60, 13), (200, 70), (300, 5)] {
        let mut fixture = Fixture::after(3, (width, height));
        for keys in ["", "t", "?", "p", "s", "c", "k", "n", "/cpu >", "x", "gcomm"] {
            let _ = fixture.types(keys);
            let _ = frame(&fixture);
            let _ = fixture.press(&[Enter, Tab]);
            fixture.read(1);
            let _ = frame(&fixture);
            let _ = fixture.press(&[Esc, Esc, Esc]);
        }
    }
}
