//! Which key does what: one table behind the keyboard, the help on the screen and the manual.
//!
//! A key is listed once. What a key means while something is being typed or chosen is not here:
//! there it is a letter, or moves the bar.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// End.
    Quit,
    /// Show or hide the help.
    Help,
    /// Leave what is open, or the filter.
    Back,
    /// One row up.
    Up,
    /// One row down.
    Down,
    /// A screen up.
    PageUp,
    /// A screen down.
    PageDown,
    /// The first row.
    First,
    /// The last row.
    Last,
    /// Columns further left.
    Left,
    /// Columns further right.
    Right,
    /// Type a condition.
    Filter,
    /// Choose what to sort by.
    Sort,
    /// Sort by the column further left.
    SortLeft,
    /// Sort by the column further right.
    SortRight,
    /// Turn the order round.
    Reverse,
    /// Parents and children.
    Tree,
    /// Choose what to add up by.
    Group,
    /// Choose columns.
    Columns,
    /// Stand still.
    Freeze,
    /// Read less often.
    Slower,
    /// Read more often.
    Faster,
    /// Open or close the details.
    Details,
    /// The next page of the details.
    NextTab,
    /// The page before.
    PreviousTab,
    /// Send a signal.
    Signal,
    /// Stop the process.
    Stop,
    /// Let it continue.
    Continue,
    /// Change its nice value.
    Nice,
    /// Start a rule on the process.
    Watch,
    /// Remove a rule.
    Unwatch,
    /// Health of the probes and what the monitor costs.
    Probes,
    /// Back in a recording.
    SeekBack,
    /// Forward in a recording.
    SeekForward,
    /// Far back in a recording.
    LeapBack,
    /// Far forward in a recording.
    LeapForward,
    /// Draw everything anew.
    Redraw,
    /// Give the terminal back for a while.
    Suspend,
}

/// A key with what is held down.
pub type Chord = (KeyCode, KeyModifiers);

/// A row of the table.
pub struct Binding {
    /// Any of these.
    pub chords: &'static [Chord],
    /// What they ask for.
    pub action: Action,
    /// The word in the last line of the screen; empty for what is not shown there.
    pub label: &'static str,
    /// What it does, for help and manual.
    pub help: &'static str,
}

const fn key(letter: char) -> Chord {
    (KeyCode::Char(letter), KeyModifiers::NONE)
}

const fn ctrl(letter: char) -> Chord {
    (KeyCode::Char(letter), KeyModifiers::CONTROL)
}

const fn code(code: KeyCode) -> Chord {
    (code, KeyModifiers::NONE)
}

const fn f(number: u8) -> Chord {
    code(KeyCode::F(number))
}

const fn row(
    chords: &'static [Chord],
    action: Action,
    label: &'static str,
    help: &'static str,
) -> Binding {
    Binding { chords, action, label, help }
}

/// The table.
pub const BINDINGS: &[Binding] = &[
    row(&[key('?'), f(1), key('h')], Action::Help, "help", "this help"),
    row(&[key('q'), f(10), ctrl('c')], Action::Quit, "quit", "end"),
    row(&[code(KeyCode::Esc)], Action::Back, "", "close what is open; then drop the filter"),
    row(&[code(KeyCode::Up)], Action::Up, "", "one row up"),
    row(&[code(KeyCode::Down)], Action::Down, "", "one row down"),
    row(&[code(KeyCode::PageUp)], Action::PageUp, "", "a screen up"),
    row(&[code(KeyCode::PageDown)], Action::PageDown, "", "a screen down"),
    row(&[code(KeyCode::Home)], Action::First, "", "the first row, and stay there"),
    row(&[code(KeyCode::End)], Action::Last, "", "the last row"),
    row(&[code(KeyCode::Left)], Action::Left, "", "columns further left"),
    row(&[code(KeyCode::Right)], Action::Right, "", "columns further right"),
    row(&[key('/'), f(4)], Action::Filter, "filter", "show only what fits a condition"),
    row(&[key('s'), f(6)], Action::Sort, "sort", "choose the column to sort by"),
    row(&[key('<'), key(',')], Action::SortLeft, "", "sort by the column further left"),
    row(&[key('>'), key('.')], Action::SortRight, "", "sort by the column further right"),
    row(&[key('r')], Action::Reverse, "", "turn the order round"),
    row(&[key('t'), f(5)], Action::Tree, "tree", "parents and their children, or a flat list"),
    row(&[key('g')], Action::Group, "group", "add up by job, user, command, cgroup or container"),
    row(&[key('c'), f(2)], Action::Columns, "columns", "choose the columns"),
    row(&[key(' ')], Action::Freeze, "freeze", "stand still, or go on"),
    row(&[key('-')], Action::Slower, "", "read half as often"),
    row(&[key('+'), key('=')], Action::Faster, "", "read twice as often"),
    row(&[code(KeyCode::Enter)], Action::Details, "details", "details; of a group: who is in it"),
    row(&[code(KeyCode::Tab)], Action::NextTab, "", "the next page of the details"),
    row(&[code(KeyCode::BackTab)], Action::PreviousTab, "", "the page of the details before"),
    row(&[key('k'), f(9)], Action::Signal, "signal", "send a signal, after a question"),
    row(&[key('x')], Action::Stop, "", "stop the process (SIGSTOP), after a question"),
    row(&[key('X')], Action::Continue, "", "let it continue (SIGCONT), after a question"),
    row(&[key('n'), f(7)], Action::Nice, "", "change its nice value, after a question"),
    row(&[key('w')], Action::Watch, "", "watch calls of a function or signals of the process"),
    row(&[key('W')], Action::Unwatch, "", "remove such a rule; all go when this ends"),
    row(&[key('p')], Action::Probes, "", "health of the probes, and what the monitor costs"),
    row(&[key('[')], Action::SeekBack, "", "ten readings back in a recording"),
    row(&[key(']')], Action::SeekForward, "", "ten readings forward in a recording"),
    row(&[key('{')], Action::LeapBack, "", "a hundred readings back"),
    row(&[key('}')], Action::LeapForward, "", "a hundred readings forward"),
    row(&[ctrl('l')], Action::Redraw, "", "draw everything anew"),
    row(&[ctrl('z')], Action::Suspend, "", "back to the shell for a while"),
];

/// What a key asks for.
pub fn action(event: KeyEvent) -> Option<Action> {
    // A terminal tells of shift by the letter that it sends.
    let modifiers = event.modifiers.difference(KeyModifiers::SHIFT);
    let chord = (event.code, modifiers);
    let row = BINDINGS.iter().find(|row| row.chords.contains(&chord));
    row.map(|row| row.action)
}

/// The keys of a row as people call them.
pub fn names(row: &Binding) -> String {
    row.chords.iter().map(|chord| name(*chord)).collect::<Vec<_>>().join(" ")
}

/// A key as people call it.
pub fn name((code, modifiers): Chord) -> String {
    match code {
        KeyCode::Char(' ') => "Space".into(),
        KeyCode::Char(letter) if modifiers.contains(KeyModifiers::CONTROL) => {
            format!("Ctrl-{}", letter.to_ascii_uppercase())
        }
        KeyCode::Char(letter) => letter.to_string(),
        KeyCode::F(number) => format!("F{number}"),
        KeyCode::BackTab => "Shift-Tab".into(),
        KeyCode::PageUp => "PgUp".into(),
        KeyCode::PageDown => "PgDn".into(),
        other => format!("{other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_key_means_two_things() {
        let mut seen = HashSet::new();
        for chord in BINDINGS.iter().flat_map(|row| row.chords) {
            assert!(seen.insert(name(*chord)), "{}", name(*chord));
        }
    }

    #[test]
    fn a_key_is_found_with_or_without_the_shift_that_makes_it() {
        let press = |modifiers| KeyEvent::new(KeyCode::Char('?'), modifiers);
        assert_eq!(action(press(KeyModifiers::NONE)), Some(Action::Help));
        assert_eq!(action(press(KeyModifiers::SHIFT)), Some(Action::Help));
        assert_eq!(action(press(KeyModifiers::CONTROL)), None);
    }

    #[test]
    fn keys_have_the_names_that_people_use() {
        let of = |action| BINDINGS.iter().find(|row| row.action == action).map(names);
        assert_eq!(of(Action::Quit).as_deref(), Some("q F10 Ctrl-C"));
        assert_eq!(of(Action::Freeze).as_deref(), Some("Space"));
    }
}
