//! Words of `argv`, `env` and `ctl`: separated by blanks, tabs and line breaks.
//!
//! A quoted part begins anywhere in a word with `'` and ends with the next one; in it, `''` is a
//! quotation mark. So `FOO='a b'` and `'FOO=a b'` are the same word.

use super::error::{Refusal, SessionError};

/// A name and its value.
pub type Assignment = (Vec<u8>, Vec<u8>);

/// The words as text: what is none has replacement characters.
///
/// # Errors
///
/// As [`words`].
pub fn text_words(text: &[u8]) -> Result<Vec<String>, SessionError> {
    let all = words(text)?;
    Ok(all.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect())
}

/// The words of a text.
///
/// # Errors
///
/// When a quoted part does not end, or there is a NUL, which no argument can have.
pub fn words(text: &[u8]) -> Result<Vec<Vec<u8>>, SessionError> {
    let mut all = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut rest = text.iter().copied().enumerate().peekable();
    while let Some((at, byte)) = rest.next() {
        match byte {
            0 => return Err(invalid(format!("byte {at} is NUL, which no word can have"))),
            b' ' | b'\t' | b'\n' => all.extend(word.take()),
            b'\'' => loop {
                let word = word.get_or_insert_default();
                match rest.next() {
                    None => {
                        let why = format!("the quotation mark at byte {at} has no second one");
                        return Err(invalid(why));
                    }
                    Some((at, 0)) => {
                        return Err(invalid(format!("byte {at} is NUL, which no word can have")));
                    }
                    Some((_, b'\'')) if rest.next_if(|it| it.1 == b'\'').is_none() => break,
                    Some((_, quoted)) => word.push(quoted),
                }
            },
            byte => word.get_or_insert_default().push(byte),
        }
    }
    all.extend(word);
    Ok(all)
}

/// A text whose words are these. A word must have no NUL.
pub fn quoted<'w>(all: impl IntoIterator<Item = &'w [u8]>) -> Vec<u8> {
    let mut text = Vec::new();
    for word in all {
        if !text.is_empty() {
            text.push(b' ');
        }
        text.push(b'\'');
        for byte in word {
            text.extend_from_slice(if *byte == b'\'' { b"''" } else { std::slice::from_ref(byte) });
        }
        text.push(b'\'');
    }
    text
}

/// The assignments of an environment, each a word `NAME=value`.
///
/// # Errors
///
/// As [`words`]; when a word is no assignment, or its name is none.
pub fn assignments(text: &[u8]) -> Result<Vec<Assignment>, SessionError> {
    words(text)?.into_iter().map(assignment).collect()
}

fn assignment(word: Vec<u8>) -> Result<Assignment, SessionError> {
    let shown = || String::from_utf8_lossy(&word[..word.len().min(64)]).into_owned();
    let Some(at) = word.iter().position(|it| *it == b'=') else {
        return Err(invalid(format!("{:?} is no assignment: expected NAME=value", shown())));
    };
    let name = &word[..at];
    let is_name = name.iter().all(|it| it.is_ascii_alphanumeric() || *it == b'_')
        && name.first().is_some_and(|it| !it.is_ascii_digit());
    if !is_name {
        let why = "a name has letters, digits and _, and does not begin with a digit";
        return Err(invalid(format!("{:?}: {why}", shown())));
    }
    Ok((name.to_vec(), word[at + 1..].to_vec()))
}

fn invalid(why: String) -> SessionError {
    SessionError::new(Refusal::Invalid, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(text: &str, want: &[&str]) {
        let got = words(text.as_bytes()).expect("words");
        let got: Vec<_> = got.iter().map(|it| String::from_utf8_lossy(it).into_owned()).collect();
        assert_eq!(got, want, "{text:?}");
    }

    #[test]
    fn words_are_separated_by_blanks_and_quoted_parts_are_not() {
        check("a  b\tc\nd\n", &["a", "b", "c", "d"]);
        check("'a b' ''", &["a b", ""]);
        check("FOO='a b' 'FOO=a b'", &["FOO=a b", "FOO=a b"]);
        check("'it''s' x'y'z", &["it's", "xyz"]);
        check("'a\nb'", &["a\nb"]);
        check("", &[]);
    }

    #[test]
    fn a_quotation_mark_alone_and_a_nul_are_refused() {
        for text in ["'", "a 'b", "'a''", "a\0b", "'a\0b'"] {
            assert_eq!(words(text.as_bytes()).map_err(|it| it.refusal), Err(Refusal::Invalid));
        }
    }

    #[test]
    fn an_assignment_has_a_name() {
        let got = assignments(b"A=1 _b2='x y' C= D==").expect("assignments");
        let pair = |name: &str, value: &str| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
        assert_eq!(got, [pair("A", "1"), pair("_b2", "x y"), pair("C", ""), pair("D", "=")]);
        for text in ["A", "=1", "1A=2", "a-b=1", "''=1"] {
            assert!(assignments(text.as_bytes()).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn quoted_words_come_back(all in proptest::collection::vec("[ -~\n\t]{0,12}", 0..6)) {
            let text = quoted(all.iter().map(String::as_bytes));
            let got = words(&text).expect("balanced");
            prop_assert_eq!(got, all.into_iter().map(String::into_bytes).collect::<Vec<_>>());
        }

        #[test]
        fn any_bytes_are_words_or_an_error(text in proptest::collection::vec(any::<u8>(), 0..99)) {
            let _either = (words(&text), assignments(&text));
        }
    }
}
