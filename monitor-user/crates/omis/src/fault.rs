//! Faults of a line: the position, what was found there and what was expected.
//!
//! In: the position and the reason from the parser, and the line. Out: the fault, its one-line
//! message, and its reply. Suggests no corrections; the caller knows the names of services.

use super::{Answer, Dialect, Name, Node, Reply, RequestId, Status, Value};
use std::{borrow::Cow, fmt};

/// Maximum bytes of a line that are quoted.
const QUOTED: usize = 24;
/// The name of the service in the reply to a line that does not parse.
const SERVICE: &str = "error";

/// An error in a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The kind of error.
    pub status: Status,
    /// The position, in bytes from the beginning of the line.
    pub at: usize,
    /// The number of the request, if it was parsed.
    pub id: Option<RequestId>,
    /// The service that it calls, if that much was parsed.
    pub service: Option<Name>,
    /// What the line has there.
    pub found: String,
    /// What was expected or is allowed there.
    pub expected: Cow<'static, str>,
}

impl Fault {
    /// Builds the fault at a position of a line, quoting the line.
    pub(super) fn new(line: &[u8], at: usize, status: Status, expected: Cow<'static, str>) -> Self {
        Self {
            status,
            at,
            id: None,
            service: None,
            found: piece(&line[at.min(line.len())..]),
            expected,
        }
    }

    /// Returns the reply to the line, which a node has read. In the extended dialect it comes from
    /// no node and gives the position and the reason. A strict reply has what the grammar and the
    /// prototypes of the specification allow: the node, the service if it is known, and a status.
    pub fn reply(&self, node: Node, dialect: Dialect) -> Reply {
        let error = || Name::new(SERVICE).expect("`error` is an identifier");
        let at = u64::try_from(self.at).unwrap_or(u64::MAX);
        let (nodes, service, results) = match dialect {
            Dialect::Strict => (vec![node], self.service.clone().unwrap_or_else(error), Vec::new()),
            Dialect::Extended => {
                let reason = vec![Value::from(at), Value::from(self.to_string().as_str())];
                (Vec::new(), error(), reason)
            }
        };
        let (id, status) = (self.id.unwrap_or_default(), self.status);
        Reply(vec![Answer { id, nodes, service, status, results }])
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "found {}, expected {}", self.found, self.expected)
    }
}

impl std::error::Error for Fault {}

/// Quotes the word or the character at the beginning of the rest of a line.
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
    fn the_text_at_the_position_is_quoted_as_a_word_or_a_character() {
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
