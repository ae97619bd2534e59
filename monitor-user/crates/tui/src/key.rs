//! The key bindings: one table for the keyboard, the help on the screen and the manual.
//!
//! Each key is listed once. While a text is typed or a list is open, keys have other meanings,
//! which are not defined here.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// An action of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Quit.
    Quit,
    /// Show the help.
    Help,
    /// Close what is open, or remove the filter.
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
    /// Select the column to sort by.
    Sort,
    /// Sort by the column further left.
    SortLeft,
    /// Sort by the column further right.
    SortRight,
    /// Reverse the order.
    Reverse,
    /// Show processes as a tree.
    Tree,
    /// Select what to group by.
    Group,
    /// Select the columns.
    Columns,
    /// Freeze the screen.
    Freeze,
    /// Read less often.
    Slower,
    /// Read more often.
    Faster,
    /// Open or close the details.
    Details,
    /// The next page of the details.
    NextTab,
    /// The previous page of the details.
    PreviousTab,
    /// Send a signal.
    Signal,
    /// Stop the process.
    Stop,
    /// Continue the process.
    Continue,
    /// Change its nice value.
    Nice,
    /// Start a rule on the process.
    Watch,
    /// Remove a rule.
    Unwatch,
    /// Show the probes and the usage of the monitor.
    Probes,
    /// Seek back in a recording.
    SeekBack,
    /// Seek forward in a recording.
    SeekForward,
    /// Seek far back in a recording.
    LeapBack,
    /// Seek far forward in a recording.
    LeapForward,
    /// Draw the whole screen again.
    Redraw,
    /// Suspend to the shell.
    Suspend,
}

/// A key with its modifiers.
pub type Chord = (KeyCode, KeyModifiers);

/// A key binding.
pub struct Binding<A = Action> {
    /// The keys: any of them.
    pub chords: &'static [Chord],
    /// Their action.
    pub action: A,
    /// The label in the last line of the screen; empty if it is not shown there.
    pub label: &'static str,
    /// The description in help and manual.
    pub help: &'static str,
}

/// A character without modifiers.
pub const fn key(letter: char) -> Chord {
    (KeyCode::Char(letter), KeyModifiers::NONE)
}

/// A character with Control.
pub const fn ctrl(letter: char) -> Chord {
    (KeyCode::Char(letter), KeyModifiers::CONTROL)
}

/// A key without modifiers.
pub const fn code(code: KeyCode) -> Chord {
    (code, KeyModifiers::NONE)
}

/// A function key.
pub const fn f(number: u8) -> Chord {
    code(KeyCode::F(number))
}

/// A binding: its keys, its action, its label and its description.
pub const fn row<A: Copy>(
    chords: &'static [Chord],
    action: A,
    label: &'static str,
    help: &'static str,
) -> Binding<A> {
    Binding { chords, action, label, help }
}

/// All key bindings.
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
    row(&[code(KeyCode::Enter)], Action::Details, "details", "details; of a group: its processes"),
    row(&[code(KeyCode::Tab)], Action::NextTab, "", "the next page of the details"),
    row(&[code(KeyCode::BackTab)], Action::PreviousTab, "", "the previous page of the details"),
    row(&[key('k'), f(9)], Action::Signal, "signal", "send a signal (asks for confirmation)"),
    row(&[key('x')], Action::Stop, "", "stop the process (SIGSTOP; asks for confirmation)"),
    row(&[key('X')], Action::Continue, "", "continue the process (SIGCONT; asks for confirmation)"),
    row(&[key('n'), f(7)], Action::Nice, "", "change its nice value (asks for confirmation)"),
    row(&[key('w')], Action::Watch, "", "watch calls of a function or signals of the process"),
    row(&[key('W')], Action::Unwatch, "", "remove a rule; all are removed at the end"),
    row(&[key('p')], Action::Probes, "", "state of the probes, usage of the monitor"),
    row(&[key('[')], Action::SeekBack, "", "ten readings back in a recording"),
    row(&[key(']')], Action::SeekForward, "", "ten readings forward in a recording"),
    row(&[key('{')], Action::LeapBack, "", "a hundred readings back"),
    row(&[key('}')], Action::LeapForward, "", "a hundred readings forward"),
    row(&[ctrl('l')], Action::Redraw, "", "draw the whole screen again"),
    row(&[ctrl('z')], Action::Suspend, "", "suspend to the shell"),
];

/// The action of a key.
pub fn action(event: KeyEvent) -> Option<Action> {
    // Terminals report Shift through the character itself.
    let modifiers = event.modifiers.difference(KeyModifiers::SHIFT);
    let chord = (event.code, modifiers);
    let row = BINDINGS.iter().find(|row| row.chords.contains(&chord));
    row.map(|row| row.action)
}

/// The names of the keys of a binding.
pub fn names<A>(row: &Binding<A>) -> String {
    row.chords.iter().map(|chord| name(*chord)).collect::<Vec<_>>().join(" ")
}

/// The name of a key.
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
    fn no_key_is_bound_twice() {
        let mut seen = HashSet::new();
        for chord in BINDINGS.iter().flat_map(|row| row.chords) {
            assert!(seen.insert(name(*chord)), "{}", name(*chord));
        }
    }

    #[test]
    fn a_character_is_found_with_and_without_shift() {
        let press = |modifiers| KeyEvent::new(KeyCode::Char('?'), modifiers);
        assert_eq!(action(press(KeyModifiers::NONE)), Some(Action::Help));
        assert_eq!(action(press(KeyModifiers::SHIFT)), Some(Action::Help));
        assert_eq!(action(press(KeyModifiers::CONTROL)), None);
    }

    #[test]
    fn keys_have_their_usual_names() {
        let names_of = |action| BINDINGS.iter().find(|row| row.action == action).map(names);
        assert_eq!(names_of(Action::Quit).as_deref(), Some("q F10 Ctrl-C"));
        assert_eq!(names_of(Action::Freeze).as_deref(), Some("Space"));
    }
}
