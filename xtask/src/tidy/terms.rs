//! The words of a file, each with its line and whether code, prose or a message uses it.
//!
//! In: a path and its text. Out: terms in order; identifiers are split at `_` and at capitals.
//! Leaves out what the writer only repeats: links, quotations, and lines of Markdown after `>`.

use super::lexer::{Kind, Piece};
use std::ops::Range;

/// A quotation in prose has at least this many words; fewer only name something.
const QUOTATION_WORDS: usize = 4;

/// What a word is part of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Context {
    /// A name in code.
    Ident,
    /// A name in prose: in backticks, or with `_` or capitals inside.
    Code,
    /// A comment or a page.
    Prose,
    /// A string literal, or a block of code on a page.
    Message,
}

/// One word.
#[derive(Debug)]
pub struct Term {
    /// In lower case.
    pub word: String,
    /// The whole name that it is a part of.
    pub name: String,
    pub line: usize,
    pub context: Context,
    /// Whether it continues the phrase of the term before.
    pub joined: bool,
}

/// The words of a Rust file.
pub fn of_rust(pieces: &[Piece]) -> Vec<Term> {
    let mut terms = Vec::new();
    let mut comment = Paragraph::default();
    for piece in pieces {
        let end = comment.line + comment.text.matches('\n').count();
        let continues = piece.kind == Kind::Comment && piece.line <= end + 1;
        if !continues {
            comment.read(Context::Prose, &mut terms);
        }
        match piece.kind {
            Kind::Name => add_name(piece.text, piece.line, Context::Ident, &mut terms),
            Kind::Comment if piece.text.trim().is_empty() => {
                comment.read(Context::Prose, &mut terms);
            }
            Kind::Comment => comment.add(piece.text, piece.line),
            Kind::Text => {
                let mut text = Paragraph { text: without_escapes(piece.text), line: piece.line };
                text.read(Context::Message, &mut terms);
            }
            Kind::Mark => {}
        }
    }
    comment.read(Context::Prose, &mut terms);
    terms
}

/// The words of a page in Markdown.
pub fn of_markdown(text: &str) -> Vec<Term> {
    let mut terms = Vec::new();
    let mut paragraph = Paragraph::default();
    let mut in_code = false;
    for (number, line) in (1..).zip(text.lines()) {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        if in_code || is_fence || line.trim().is_empty() || line.starts_with('>') {
            paragraph.read(Context::Prose, &mut terms);
        }
        if in_code && !is_fence {
            Paragraph { text: line.to_owned(), line: number }.read(Context::Message, &mut terms);
        } else if !is_fence && !line.starts_with('>') {
            paragraph.add(line, number);
        }
    }
    paragraph.read(Context::Prose, &mut terms);
    terms
}

/// The words of a file of request cases: comments after `#`, else requests and replies.
pub fn of_cases(text: &str) -> Vec<Term> {
    let mut terms = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let context = if line.starts_with('#') { Context::Prose } else { Context::Message };
        Paragraph { text: line.to_owned(), line: number }.read(context, &mut terms);
    }
    terms
}

/// Adds the parts of one name: `WorkerPool` and `worker_pool` are two words.
pub fn add_name(name: &str, line: usize, context: Context, terms: &mut Vec<Term>) {
    for (index, word) in split(name).into_iter().enumerate() {
        terms.push(Term { word, name: name.to_owned(), line, context, joined: index > 0 });
    }
}

/// Lines of text that belong together.
#[derive(Default)]
struct Paragraph {
    text: String,
    line: usize,
}

impl Paragraph {
    fn add(&mut self, text: &str, line: usize) {
        if self.text.is_empty() {
            self.line = line;
        } else {
            let missing = line.saturating_sub(self.line + self.text.matches('\n').count());
            self.text.push_str(&"\n".repeat(missing.max(usize::from(missing == 0))));
        }
        self.text.push_str(text);
    }

    /// Adds the words of the text, and empties it.
    fn read(&mut self, context: Context, terms: &mut Vec<Term>) {
        let text = std::mem::take(&mut self.text);
        let skipped = if context == Context::Prose { left_out(&text) } else { Vec::new() };
        let has_code = context == Context::Prose && text.matches('`').count().is_multiple_of(2);
        let (mut line, mut in_code, mut joined, mut begin) = (self.line, false, false, None);
        // A space at the end closes the last word.
        for (index, letter) in text.char_indices().chain([(text.len(), ' ')]) {
            let in_word = letter.is_alphanumeric() || letter == '_';
            if in_word && begin.is_none() {
                begin = Some(index);
            }
            if in_word {
                continue;
            }
            if let Some(begin) = begin.take()
                && !skipped.iter().any(|range| range.contains(&begin))
            {
                let name = &text[begin..index];
                let is_ident = context == Context::Prose && (in_code || is_compound(name));
                let context = if is_ident { Context::Code } else { context };
                let first = terms.len();
                add_name(name, line, context, terms);
                if let Some(first) = terms.get_mut(first) {
                    first.joined = joined;
                }
                joined = true;
            }
            match letter {
                '\n' => line += 1,
                '`' if has_code => in_code = !in_code,
                ' ' | '-' | '\'' => {}
                _ => joined = false,
            }
        }
    }
}

/// Whether it is a name of code: `a_b` or `aB`.
fn is_compound(name: &str) -> bool {
    let letters: Vec<char> = name.chars().collect();
    name.trim_matches('_').contains('_')
        || letters.windows(2).any(|pair| pair[0].is_lowercase() && pair[1].is_uppercase())
}

/// The parts of a name in lower case, without digits.
fn split(name: &str) -> Vec<String> {
    let letters: Vec<char> = name.chars().collect();
    let mut words = vec![String::new()];
    for (index, &letter) in letters.iter().enumerate() {
        let before = index.checked_sub(1).map_or(' ', |before| letters[before]);
        let after = letters.get(index + 1).copied().unwrap_or(' ');
        let begins = letter.is_uppercase()
            && (before.is_lowercase() || (before.is_uppercase() && after.is_lowercase()));
        if begins || !letter.is_alphabetic() {
            words.push(String::new());
        }
        if letter.is_alphabetic() {
            let word = words.last_mut().expect("there is always one");
            word.extend(letter.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// What is not the writer's own: addresses, targets of links, quotations.
fn left_out(text: &str) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    for (start, _) in text.match_indices("http") {
        let is_address =
            text[start..].starts_with("http://") || text[start..].starts_with("https://");
        if is_address {
            let length = text[start..].find([' ', '\n', ')', '>']);
            ranges.push(start..length.map_or(text.len(), |length| start + length));
        }
    }
    for (start, _) in text.match_indices("](") {
        let length = text[start..].find(')');
        ranges.push(start..length.map_or(text.len(), |length| start + length));
    }
    let marks: Vec<usize> = text.match_indices('"').map(|(index, _)| index).collect();
    if marks.len().is_multiple_of(2) {
        ranges.extend(
            marks
                .chunks(2)
                .map(|pair| pair[0]..pair[1])
                .filter(|range| text[range.clone()].split_whitespace().count() >= QUOTATION_WORDS),
        );
    }
    ranges
}

/// The text with blanks for `\n` and its like, so that no letter of an escape joins a word.
fn without_escapes(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some('\n') => plain.push_str(" \n"),
                // A quotation mark or a new line ends a phrase.
                _ => plain.push_str(". "),
            },
            _ => plain.push(letter),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::super::lexer::pieces;
    use super::*;

    fn shown(terms: &[Term]) -> Vec<String> {
        let context = |term: &Term| match term.context {
            Context::Ident => 'i',
            Context::Code => 'c',
            Context::Prose => 'p',
            Context::Message => 'm',
        };
        terms.iter().map(|term| format!("{}{}{}", term.line, context(term), term.word)).collect()
    }

    #[test]
    fn identifiers_are_split_at_underscores_and_capitals() {
        assert_eq!(split("WorkerPool"), ["worker", "pool"]);
        assert_eq!(split("HTTPServer_v2x"), ["http", "server", "v", "x"]);
        assert_eq!(split("MAX_ROWS"), ["max", "rows"]);
    }

    #[test]
    fn a_comment_goes_on_over_its_lines() {
        let terms = of_rust(&pieces("/// One\n/// two.\nfn three() {} // four\n"));
        assert_eq!(shown(&terms), ["1pone", "2ptwo", "3ifn", "3ithree", "3pfour"]);
        let two = terms.iter().find(|term| term.word == "two").expect("it is there");
        assert!(two.joined);
    }

    #[test]
    fn code_in_prose_is_code_and_quotations_are_left_out() {
        let text = "See `a_b` and cD, \"this is what they said\" (https://x.y/z) [t](u.md).";
        let terms = of_markdown(text);
        let expected = ["1psee", "1ca", "1cb", "1pand", "1cc", "1cd", "1pt"];
        assert_eq!(shown(&terms), expected);
    }

    #[test]
    fn blocks_of_code_are_messages_and_quoted_lines_are_left_out() {
        let terms = of_markdown("one\n> two\n```\nthree `x`\n```\nfour\n");
        assert_eq!(shown(&terms), ["1pone", "4mthree", "4mx", "6pfour"]);
    }

    #[test]
    fn an_escape_is_no_letter() {
        let terms = of_rust(&pieces(
            r#"f("a\nb \
            c")"#,
        ));
        assert_eq!(shown(&terms), ["1if", "1ma", "1mb", "2mc"]);
    }
}
