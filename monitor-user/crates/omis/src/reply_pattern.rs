//! Patterns of replies, for cases that any implementation of the language can pass.
//!
//! In: a pattern and the text of a reply. Out: whether it matches. `*` is any text within a basic
//! reply, `!` a status of failure (an integer other than 0), and all else is itself.

/// Whether a reply matches a pattern.
pub fn matches(pattern: &str, reply: &str) -> bool {
    is_match(pattern.as_bytes(), reply.as_bytes())
}

fn is_match(pattern: &[u8], reply: &[u8]) -> bool {
    match pattern.split_first() {
        None => reply.is_empty(),
        Some((b'*', rest)) => {
            let most = reply.iter().position(|byte| *byte == b';').unwrap_or(reply.len());
            (0..=most).any(|length| is_match(rest, &reply[length..]))
        }
        Some((b'!', rest)) => {
            let is_digit = |byte: &&u8| byte.is_ascii_digit() || **byte == b'-';
            let length = reply.iter().take_while(is_digit).count();
            let number = std::str::from_utf8(&reply[..length]).ok();
            let number = number.and_then(|number| number.parse::<i64>().ok());
            number.is_some_and(|number| number != 0) && is_match(rest, &reply[length..])
        }
        Some((byte, rest)) => {
            reply.split_first().is_some_and(|(first, left)| first == byte && is_match(rest, left))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_pattern_matches_a_reply() {
        assert!(matches("1 [0] f(0,[7,*])", "1 [0] f(0,[7,8,9])"));
        assert!(matches("1 [0] f(!)", "1 [0] f(105)") && matches("1 [0] f(!)", "1 [0] f(-1)"));
        assert!(matches("* [0] *(!); 2 [0] g(0)", "1 [0] f(3); 2 [0] g(0)"));
        for reply in ["1 [0] f(0)", "1 [0] f()", "1 [0] f(1,2)", "1 [0] f(1); 2 [0] f(1)"] {
            assert!(!matches("1 [0] f(!)", reply), "{reply}");
        }
        assert!(!matches("1 [0] *", "1 [0] f(0); 2 [0] f(0)"));
    }
}
