//! The key bindings of the cluster: one table for the keyboard, the help on the screen and the
//! manual.

use crate::key::{Binding, code, ctrl, f, key, row};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// An action of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterAction {
    /// Show the help.
    Help,
    /// Quit.
    Quit,
    /// Close what is open.
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
    /// Open the selected row.
    Open,
    /// The next list.
    NextList,
    /// The previous list.
    PreviousList,
    /// Sort by the next value.
    Sort,
    /// Freeze the screen.
    Freeze,
    /// Play recordings more slowly.
    Slower,
    /// Play recordings faster.
    Faster,
    /// Seek back in recordings.
    SeekBack,
    /// Seek forward in recordings.
    SeekForward,
    /// Seek far back in recordings.
    LeapBack,
    /// Seek far forward in recordings.
    LeapForward,
    /// Draw the whole screen again.
    Redraw,
    /// Suspend to the shell.
    Suspend,
}

/// All key bindings.
pub const BINDINGS: &[Binding<ClusterAction>] = &[
    row(&[key('?'), f(1), key('h')], ClusterAction::Help, "help", "this help"),
    row(
        &[key('q'), f(10), ctrl('c')],
        ClusterAction::Quit,
        "quit",
        "end; on the screen of a node: back to the cluster",
    ),
    row(&[code(KeyCode::Enter)], ClusterAction::Open, "open", "a node's processes; a job's nodes"),
    row(&[code(KeyCode::Esc)], ClusterAction::Back, "back", "close the job, or the help"),
    row(&[code(KeyCode::Tab)], ClusterAction::NextList, "list", "nodes, jobs, users"),
    row(&[code(KeyCode::BackTab)], ClusterAction::PreviousList, "", "the previous list"),
    row(
        &[key('s'), f(6)],
        ClusterAction::Sort,
        "sort",
        "by CPU, memory, processes or name, one after the other",
    ),
    row(&[key(' ')], ClusterAction::Freeze, "freeze", "stand still, or go on"),
    row(&[code(KeyCode::Up)], ClusterAction::Up, "", "one row up"),
    row(&[code(KeyCode::Down)], ClusterAction::Down, "", "one row down"),
    row(&[code(KeyCode::PageUp)], ClusterAction::PageUp, "", "a screen up"),
    row(&[code(KeyCode::PageDown)], ClusterAction::PageDown, "", "a screen down"),
    row(&[code(KeyCode::Home)], ClusterAction::First, "", "the first row"),
    row(&[code(KeyCode::End)], ClusterAction::Last, "", "the last row"),
    row(&[key('[')], ClusterAction::SeekBack, "", "ten readings back in recordings"),
    row(&[key(']')], ClusterAction::SeekForward, "", "ten readings forward in recordings"),
    row(&[key('{')], ClusterAction::LeapBack, "", "a hundred readings back"),
    row(&[key('}')], ClusterAction::LeapForward, "", "a hundred readings forward"),
    row(&[key('-')], ClusterAction::Slower, "", "play recordings at half the speed"),
    row(&[key('+'), key('=')], ClusterAction::Faster, "", "play recordings at twice the speed"),
    row(&[ctrl('l')], ClusterAction::Redraw, "", "draw the whole screen again"),
    row(&[ctrl('z')], ClusterAction::Suspend, "", "suspend to the shell"),
];

/// The action of a key.
pub fn action(event: KeyEvent) -> Option<ClusterAction> {
    // Terminals report Shift through the character itself.
    let chord = (event.code, event.modifiers.difference(KeyModifiers::SHIFT));
    BINDINGS.iter().find(|row| row.chords.contains(&chord)).map(|row| row.action)
}
