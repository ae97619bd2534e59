//! What is known of another node, and how it is written.
//!
//! In: texts of its files, and why it does not answer. Out: words without blanks and control
//! characters, and the lines of `state` and `state.sx`.

use super::super::sexpr::put_word;
use monitor_remote::RemoteError;
use std::fmt::Write;
use std::time::Instant;

/// Longest state, in characters.
const MAX_STATE: usize = 128;

/// Why a node is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DownReason {
    /// Nothing was asked yet.
    Initializing,
    /// No connection is possible, or it ends before an answer.
    ConnectFailed,
    /// It does not answer in time.
    NoContact,
    /// It answers, but not with what was asked for.
    ReadFailed,
    /// It refuses the connection or the user.
    AuthFailed,
}

/// What is known of a node.
#[derive(Clone, Debug)]
pub struct NodeStatus {
    /// Operating system and machine; empty before the first contact.
    pub arch: String,
    /// `up`, the state that its administrator has set, or `down(…)`.
    pub word: String,
    /// The number of its sessions, if it is known.
    pub jobs: Option<u64>,
    /// How long its last answer took, in microseconds.
    pub rtt_us: Option<u64>,
    /// When it has answered last.
    pub seen: Option<Instant>,
}

impl Default for NodeStatus {
    fn default() -> Self {
        let word = DownReason::Initializing.word();
        Self { arch: String::new(), word, jobs: None, rtt_us: None, seen: None }
    }
}

impl DownReason {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Initializing => "initializing",
            Self::ConnectFailed => "connect_failed",
            Self::NoContact => "no_contact",
            Self::ReadFailed => "read_failed",
            Self::AuthFailed => "auth_failed",
        }
    }

    /// The word of the status.
    pub fn word(self) -> String {
        format!("down({})", self.name())
    }

    /// Why a connection was not made.
    pub const fn of_connect(error: &RemoteError) -> Self {
        match error {
            RemoteError::Refused { .. } => Self::AuthFailed,
            error => Self::of_read(error),
        }
    }

    /// Why a file was not read.
    pub const fn of_read(error: &RemoteError) -> Self {
        match error {
            // A service that ends may still accept a connection.
            RemoteError::Unreachable { .. } | RemoteError::Lost { .. } => Self::ConnectFailed,
            RemoteError::TimedOut { .. } => Self::NoContact,
            _ => Self::ReadFailed,
        }
    }
}

/// The status of a node by the text of its file `state`.
pub fn state_word(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let word = one_word(text.trim());
    if word.is_empty() { "up".to_owned() } else { word }
}

/// A text as one word, which is at most [`MAX_STATE`] characters long.
pub fn one_word(text: &str) -> String {
    let plain = |it: char| match it {
        it if it.is_whitespace() => '_',
        it if it.is_control() => '?',
        it => it,
    };
    text.chars().take(MAX_STATE).map(plain).collect()
}

/// The number of sessions by the text of the file `ctl` of a node.
pub fn sessions(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let (_, rest) = text.split_once("(sessions ")?;
    rest.split_once(')')?.0.parse().ok()
}

/// The columns of a node after its name: architecture, address, status, jobs, and milliseconds
/// since it has answered. What is not known is empty.
pub fn columns(status: &NodeStatus, address: &str) -> [String; 5] {
    let number = |it: Option<u64>| it.map(|it| it.to_string()).unwrap_or_default();
    let age = status.seen.map(|it| u64::try_from(it.elapsed().as_millis()).unwrap_or(u64::MAX));
    let (arch, word) = (status.arch.clone(), status.word.clone());
    [arch, one_word(address), word, number(status.jobs), number(age)]
}

/// Appends a line of `state`: the name and the columns with tabs between, `-` for what is empty.
pub fn put_line(out: &mut String, name: &str, columns: &[String]) {
    out.push_str(name);
    for it in columns {
        let _ = write!(out, "\t{}", if it.is_empty() { "-" } else { it });
    }
    out.push('\n');
}

/// Appends a list of `state.sx`.
pub fn put_list(out: &mut String, name: &str, columns: &[String]) {
    let _ = write!(out, "({name}");
    for it in columns {
        out.push(' ');
        put_word(out, it);
    }
    out.push_str(")\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_one_word() {
        assert_eq!(state_word(b""), "up");
        assert_eq!(state_word(b" \n"), "up");
        assert_eq!(state_word(b"down for repair\n"), "down_for_repair");
        assert_eq!(state_word(b"a\tb\x1bc\xff"), "a_b?c\u{fffd}");
        assert_eq!(state_word(&[b'x'; 5000]).len(), MAX_STATE);
    }

    #[test]
    fn a_line_has_all_columns_also_before_the_first_contact() {
        let it = columns(&NodeStatus::default(), "/run/a b");
        let (mut line, mut list) = (String::new(), String::new());
        put_line(&mut line, "n1", &it);
        put_list(&mut list, "n1", &it);
        assert_eq!(line, "n1\t-\t/run/a_b\tdown(initializing)\t-\t-\n");
        assert_eq!(list, "(n1 '' /run/a_b 'down(initializing)' '' '')\n");
    }

    #[test]
    fn sessions_are_counted_by_the_text_of_ctl() {
        assert_eq!(sessions(b"(running 1 (sessions 3) (draining no))\n"), Some(3));
        for odd in ["", "(running 1)", "(sessions x)", "(sessions "] {
            assert_eq!(sessions(odd.as_bytes()), None, "{odd:?}");
        }
    }
}
