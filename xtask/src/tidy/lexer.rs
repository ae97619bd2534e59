//! A Rust file as pieces: names, punctuation, string literals and comments, with their lines.
//!
//! In: the text of a file. Out: its pieces in order; the token reader of `source.rs` drops
//! comments, and the word list needs them. Does not check that the text is Rust.

/// What a piece is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A name or a keyword.
    Name,
    /// One character that is neither a name nor a literal.
    Mark,
    /// The content of a string literal.
    Text,
    /// The content of a comment, without `//` or `/*`.
    Comment,
}

/// A part of the text.
#[derive(Debug)]
pub struct Piece<'a> {
    pub kind: Kind,
    pub text: &'a str,
    /// Counted from 1.
    pub line: usize,
}

/// All pieces; numbers, lifetimes and character literals are left out.
pub fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut lexer = Lexer { text, at: 0, line: 1, found: Vec::new() };
    while lexer.at < text.len() {
        lexer.step();
    }
    lexer.found
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    line: usize,
    found: Vec<Piece<'a>>,
}

impl<'a> Lexer<'a> {
    fn step(&mut self) {
        let rest = &self.text[self.at..];
        let first = rest.chars().next().expect("the caller stops at the end");
        if rest.starts_with("//") {
            let end = rest.find('\n').unwrap_or(rest.len());
            let marks = rest.len() - rest.trim_start_matches(['/', '!']).len();
            self.keep(Kind::Comment, marks.min(end), end, end);
        } else if rest.starts_with("/*") {
            let end = end_of_block(rest);
            self.keep(Kind::Comment, 2, end.saturating_sub(2).max(2), end);
        } else if let Some(open) = string_start(rest) {
            self.string(rest, open);
        } else if first == '\'' {
            self.skip(end_of_char(rest));
        } else if first.is_alphabetic() || first == '_' {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            self.keep(Kind::Name, 0, end, end);
        } else if first.is_ascii_digit() {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            self.skip(end);
        } else if first.is_whitespace() {
            self.skip(first.len_utf8());
        } else {
            self.keep(Kind::Mark, 0, first.len_utf8(), first.len_utf8());
        }
    }

    /// A string that opens after `open` bytes, which hold its `r`, `b`, `c` and `#`.
    fn string(&mut self, rest: &'a str, open: usize) {
        let prefix = &rest[..open];
        let inside = &rest[open..];
        let (content, close) = if prefix.contains('r') {
            let close = format!("\"{}", "#".repeat(prefix.matches('#').count()));
            (inside.find(&close).unwrap_or(inside.len()), close.len())
        } else {
            (end_of_string(inside), 1)
        };
        let end = (open + content + close).min(rest.len());
        self.keep(Kind::Text, open, open + content, end);
    }

    fn keep(&mut self, kind: Kind, from: usize, to: usize, end: usize) {
        let text = &self.text[self.at + from..self.at + to];
        self.found.push(Piece { kind, text, line: self.line });
        self.skip(end);
    }

    fn skip(&mut self, length: usize) {
        let skipped = &self.text[self.at..self.at + length];
        self.line += skipped.matches('\n').count();
        self.at += length;
    }
}

/// How many bytes open a string literal here, its quotation mark included.
fn string_start(rest: &str) -> Option<usize> {
    let prefix = rest.len() - rest.trim_start_matches(['b', 'c', 'r']).len();
    let marks = rest[prefix..].len() - rest[prefix..].trim_start_matches('#').len();
    let is_raw = rest[..prefix].ends_with('r');
    let is_string = rest[prefix + marks..].starts_with('"') && (marks == 0 || is_raw);
    (is_string && prefix <= 2).then_some(prefix + marks + 1)
}

/// Where the closing quotation mark of an ordinary string is.
fn end_of_string(inside: &str) -> usize {
    let mut escaped = false;
    for (index, letter) in inside.char_indices() {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return index,
            _ => {}
        }
    }
    inside.len()
}

/// Where a comment `/* … */` ends; such comments nest.
fn end_of_block(rest: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        let tail = &rest.as_bytes()[at..];
        if tail.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if tail.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

/// The length of a character literal, or of the mark of a lifetime.
fn end_of_char(rest: &str) -> usize {
    let mut letters = rest.char_indices().skip(1);
    let Some((_, first)) = letters.next() else { return rest.len() };
    if first == '\\' {
        // The character after the backslash is part of the literal, whatever it is.
        let close = letters.skip(1).find(|(_, letter)| *letter == '\'');
        return close.map_or(rest.len(), |(index, _)| index + 1);
    }
    match letters.next() {
        Some((index, '\'')) => index + 1,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, kind: Kind, expected: &[(&str, usize)]) {
        let all = pieces(text);
        let found = all.iter().filter(|piece| piece.kind == kind);
        let found: Vec<_> = found.map(|piece| (piece.text, piece.line)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn comments_are_kept_with_their_lines() {
        let text = "//! One.\n/// Two. // x\nfn f() {} /* three /* four */ */ // five";
        let expected = [(" One.", 1), (" Two. // x", 2), (" three /* four */ ", 3), (" five", 3)];
        check(text, Kind::Comment, &expected);
    }

    #[test]
    fn strings_of_every_kind_are_texts() {
        let text = "a(\"x \\\" // y\", r#\"q\"r\"#, b\"z\", br\"\\\")\n\"t\"";
        let expected = [("x \\\" // y", 1), ("q\"r", 1), ("z", 1), ("\\", 1), ("t", 2)];
        check(text, Kind::Text, &expected);
    }

    #[test]
    fn a_lifetime_opens_no_character() {
        check("f<'a>('\"', '\\'', '\\u{1}', b'\"') \"x\"", Kind::Text, &[("x", 1)]);
        check("f<'a>(0x1f) r", Kind::Name, &[("f", 1), ("a", 1), ("r", 1)]);
    }
}
