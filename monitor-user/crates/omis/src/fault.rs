//! Why a line is not understood: where, what stands there, and what should.
//!
//! In: the place and the reason from the parser, and the line. Out: the fault, its one-line
//! message, and its reply. Which name was probably meant, the caller knows: it has the names.

use super::name::Name;
use super::reply::{Answer, Reply};
use super::request::RequestId;
use super::status::Status;
use super::value::Value;
use std::borrow::Cow;
use std::fmt;

/// Longest piece of a line that is quoted.
const QUOTED: usize = 24;
/// The service that answers a line which names none.
const SERVICE: &str = "error";

/// A mistake in a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What kind of mistake.
    pub status: Status,
    /// Where, in bytes from the beginning of the line.
    pub at: usize,
    /// The number of the request, if it was read.
    pub id: Option<RequestId>,
    /// What stands there.
    pub found: String,
    /// What should stand there, or what is allowed.
    pub expected: Cow<'static, str>,
}

impl Fault {
    /// A mistake at a place of a line.
    pub(super) fn new(line: &[u8], at: usize, status: Status, expected: Cow<'static, str>) -> Self {
        Self { status, at, id: None, found: piece(&line[at.min(line.len())..]), expected }
    }

    /// The line that answers it.
    pub fn reply(&self) -> Reply {
        let at = u64::try_from(self.at).unwrap_or(u64::MAX);
        Reply(vec![Answer {
            id: self.id.unwrap_or_default(),
            nodes: Vec::new(),
            service: Name::new(SERVICE).expect("it is an identifier"),
            status: self.status,
            results: vec![Value::from(at), Value::from(self.to_string().as_str())],
        }])
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "found {}, expected {}", self.found, self.expected)
    }
}

impl std::error::Error for Fault {}

/// The word or the sign at the beginning of the rest of a line, quoted.
fn piece(rest: &[u8]) -> String {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || b"_.+-$".contains(byte);
    let length = rest.iter().take_while(|byte| is_word(byte)).count();
    match rest {
        [] => "the end of the line".to_owned(),
        [b'\r' | b'\n', ..] => "a line break".to_owned(),
        [first, ..] if length == 0 && (first.is_ascii_graphic() || *first == b' ') => {
            format!("`{}`", char::from(*first))
        }
        [first, ..] if length == 0 => format!("the byte 0x{first:02x}"),
        _ if length > QUOTED => format!("`{}...`", rest[..QUOTED].escape_ascii()),
        _ => format!("`{}`", rest[..length].escape_ascii()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(rest: &[u8], want: &str) {
        assert_eq!(piece(rest), want);
    }

    #[test]
    fn what_stands_there_is_quoted_as_a_word_or_a_sign() {
        check(b"stop(1)", "`stop`");
        check(b"12a.5 x", "`12a.5`");
        check(b")", "`)`");
        check(b"$x", "`$x`");
        check(b"\"abc", "`\"`");
        check(b"", "the end of the line");
        check(b"\n1", "a line break");
        check(b"\xff", "the byte 0xff");
    }

    #[test]
    fn a_long_word_is_cut() {
        check(&[b'a'; 100], "`aaaaaaaaaaaaaaaaaaaaaaaa...`");
    }
}
