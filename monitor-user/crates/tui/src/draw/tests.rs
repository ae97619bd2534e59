//! Frames as they are seen, whole, against golden files.
//!
//! A golden file has the letters of a frame, and below them a letter for the style of each cell.
//! `MONITOR_BLESS=1 cargo test` writes the files anew; what changed is then seen in the diff.

use super::draw;
use crate::feed::Told;
use crate::look::{Look, Theme};
use crate::state::Input;
use crate::state::scene::{Scene, rules};
use crossterm::event::KeyCode::{BackTab, Down, Enter, Esc, Tab};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};
use std::path::Path;

fn frame(scene: &Scene) -> Buffer {
    let size = scene.state.size;
    let mut buffer = Buffer::empty(Rect::new(0, 0, size.width, size.height));
    draw(&scene.state, &mut buffer);
    buffer
}

fn letters(buffer: &Buffer) -> String {
    let line = |y| {
        let line: String = (0..buffer.area.width).map(|x| buffer[(x, y)].symbol()).collect();
        line.trim_end().to_owned() + "\n"
    };
    (0..buffer.area.height).map(line).collect()
}

/// A letter for each style, in the order in which they are met; the list of them comes last.
fn styles(buffer: &Buffer) -> String {
    let mut met: Vec<Style> = vec![Buffer::empty(Rect::new(0, 0, 1, 1))[(0, 0)].style()];
    let mut out = String::new();
    for y in 0..buffer.area.height {
        let mut line = String::new();
        for x in 0..buffer.area.width {
            let style = buffer[(x, y)].style();
            let at = met.iter().position(|it| *it == style).unwrap_or_else(|| {
                met.push(style);
                met.len() - 1
            });
            line.push(" abcdefghijklmnopqrstuvwxyz".chars().nth(at).unwrap_or('?'));
        }
        out += line.trim_end();
        out.push('\n');
    }
    for (style, letter) in met.iter().skip(1).zip('a'..) {
        out += &format!("{letter}: {:?} {:?}\n", style.fg, style.add_modifier);
    }
    out
}

#[track_caller]
fn golden(name: &str, text: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/golden/top");
    let path = root.join(format!("{name}.txt"));
    if std::env::var_os("MONITOR_BLESS").is_some() {
        std::fs::create_dir_all(&root).expect("a folder");
        std::fs::write(&path, text).expect("a file");
    }
    let wanted = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(text == wanted, "{name} differs; MONITOR_BLESS=1 writes it anew:\n{text}");
}

#[track_caller]
fn check(name: &str, scene: &Scene) {
    golden(name, &letters(&frame(scene)));
}

fn looking(theme: Theme, ascii: bool) -> Scene {
    let mut scene = Scene::after(3, (80, 24));
    scene.state.look = Look { theme, ascii };
    let _ = scene.press(&[Down]);
    scene
}

#[test]
fn the_table_at_eighty_columns() {
    check("80x24", &Scene::after(3, (80, 24)));
}

#[test]
fn the_table_on_a_large_terminal() {
    check("120x40", &Scene::after(3, (120, 40)));
}

#[test]
fn the_smallest_terminal_and_one_that_is_too_small() {
    check("40x10", &Scene::after(3, (40, 10)));
    check("too-small", &Scene::after(3, (30, 6)));
}

#[test]
fn colours_for_dark_and_light_and_none() {
    for (name, theme) in [("dark", Theme::Dark), ("light", Theme::Light), ("plain", Theme::Plain)] {
        golden(name, &styles(&frame(&looking(theme, false))));
    }
}

#[test]
fn the_letters_do_not_depend_on_colours_and_no_sign_is_lost_without_them() {
    let dark = letters(&frame(&looking(Theme::Dark, false)));
    let plain = frame(&looking(Theme::Plain, false));
    assert_eq!(dark, letters(&plain));
    assert!(plain.content.iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset));
}

#[test]
fn without_unicode_there_are_letters_alone() {
    let mut scene = looking(Theme::Dark, true);
    let _ = scene.types("t");
    let _ = scene.press(&[Enter]);
    scene.read(5);
    check("ascii", &scene);
    let ascii = |scene: &Scene| letters(&frame(scene)).is_ascii();
    assert!(ascii(&scene));
    for keys in ["?", "p", "s", "c", "k", "/cpu >"] {
        let _ = scene.types(keys);
        assert!(ascii(&scene), "{keys}");
        let _ = scene.press(&[Esc]);
    }
}

#[test]
fn the_tree() {
    let mut scene = Scene::after(3, (80, 24));
    let _ = scene.types("t");
    check("tree", &scene);
}

#[test]
fn groups() {
    let mut scene = Scene::after(1, (80, 24));
    let _ = scene.types("gcgroup");
    let _ = scene.press(&[Enter]);
    scene.read(3);
    check("groups", &scene);
}

#[test]
fn the_pages_of_the_details() {
    let mut scene = Scene::after(3, (80, 24));
    let _ = scene.press(&[Enter]);
    scene.read(20);
    check("details", &scene);
    let _ = scene.press(&[Tab]);
    scene.read(1);
    check("storage", &scene);
    let _ = scene.press(&[Tab, Tab, Tab]);
    scene.read(2);
    check("threads", &scene);
}

#[test]
fn rules_and_how_they_stand() {
    let mut scene = Scene::after(3, (80, 24));
    let _ = scene.types("w");
    check("watch", &scene);
    let _ = scene.press(&[Esc, Down, Enter, BackTab]);
    check("no-rules", &scene);
    let mine = scene.state.chosen().expect("somebody").id;
    let mut rules = rules().to_vec();
    rules.iter_mut().filter(|it| it.id.pid == mine.pid).for_each(|it| it.id = mine);
    let _ = scene.state.take(Input::Told(Told::Rules(rules.into())));
    check("rules", &scene);
    let _ = scene.types("W");
    check("unwatch", &scene);
}

#[test]
fn the_details_on_a_large_terminal() {
    let mut scene = Scene::after(3, (120, 40));
    let _ = scene.press(&[Enter]);
    scene.read(60);
    check("details-120x40", &scene);
}

#[test]
fn help_lists_and_questions() {
    let mut scene = Scene::after(3, (80, 24));
    for (name, keys) in [("help", "?"), ("probes", "p"), ("sort", "s"), ("columns", "c")] {
        let _ = scene.types(keys);
        check(name, &scene);
        let _ = scene.press(&[Esc]);
    }
    let _ = scene.types("x");
    check("question", &scene);
}

#[test]
fn a_mistake_stands_above_its_place() {
    let mut scene = Scene::after(3, (80, 24));
    let _ = scene.types("/cpu > 10 and cpuu > 1");
    check("mistake", &scene);
}

#[test]
fn every_size_is_drawn_with_everything_open() {
    for (width, height) in [(1, 1), (39, 50), (40, 10), (41, 11), (60, 13), (200, 70), (300, 5)] {
        let mut scene = Scene::after(3, (width, height));
        for keys in ["", "t", "?", "p", "s", "c", "k", "n", "/cpu >", "x", "gcomm"] {
            let _ = scene.types(keys);
            let _ = frame(&scene);
            let _ = scene.press(&[Enter, Tab]);
            scene.read(1);
            let _ = frame(&scene);
            let _ = scene.press(&[Esc, Esc, Esc]);
        }
    }
}
