//! One Rust file as a row of tokens.
//!
//! In: a path and its text. Out: `Source`, with tokens, their lines, and where its tests begin.
//! Tokens rather than lines, so that comments and strings are out of the way; tokens rather than
//! a syntax tree, so that code inside macro calls is seen, and because a tree takes five times as
//! long to compile.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// A word, a literal, a bracket or a punctuation mark; `::` is one token.
pub struct Token {
    pub text: String,
    /// Counted from 1.
    pub line: usize,
}

/// A file of the workspace.
pub struct Source {
    /// From the root of the workspace.
    pub path: String,
    pub text: String,
    pub tokens: Vec<Token>,
    /// The line of the first `#[cfg(test)]` before a module, if there is one.
    pub tests_from: Option<usize>,
}

impl Source {
    /// Fails with the line where the text is not Rust any more.
    pub fn new(path: &str, text: &str) -> Result<Source, usize> {
        let stream: TokenStream =
            text.parse().map_err(|error: proc_macro2::LexError| error.span().start().line)?;
        let mut tokens = Vec::new();
        flatten(stream, &mut tokens);
        let tests_from = tests_from(&tokens);
        Ok(Source { path: path.to_owned(), text: text.to_owned(), tokens, tests_from })
    }

    /// The text of a token, or nothing beyond the ends.
    pub fn at(&self, index: usize) -> &str {
        self.tokens.get(index).map_or("", |token| &token.text)
    }

    /// Where these tokens stand one after the other: the index of the first of them.
    pub fn find<'a>(&'a self, words: &'a [&str]) -> impl Iterator<Item = usize> + 'a {
        (0..self.tokens.len())
            .filter(|&start| words.iter().enumerate().all(|(n, word)| self.at(start + n) == *word))
    }

    /// Whether the line is part of a test.
    pub fn is_test(&self, line: usize) -> bool {
        self.path.starts_with("tests/")
            || self.path.ends_with("/tests.rs")
            || self.tests_from.is_some_and(|from| line >= from)
    }

    /// The index of the bracket that closes the one at `open`.
    pub fn closing(&self, open: usize) -> usize {
        let mut depth = 0;
        for index in open..self.tokens.len() {
            match self.at(index) {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return index;
            }
        }
        self.tokens.len()
    }
}

/// Whether the token is a name or a keyword.
pub fn is_word(text: &str) -> bool {
    text.starts_with(|first: char| first.is_alphabetic() || first == '_')
        && text.chars().all(|letter| letter.is_alphanumeric() || letter == '_')
}

fn tests_from(tokens: &[Token]) -> Option<usize> {
    const TESTS: [&str; 8] = ["#", "[", "cfg", "(", "test", ")", "]", "mod"];
    let mut windows = tokens.windows(TESTS.len());
    let found = windows.find(|it| it.iter().zip(TESTS).all(|(token, word)| token.text == word))?;
    Some(found[0].line)
}

fn flatten(stream: TokenStream, tokens: &mut Vec<Token>) {
    let mut trees = stream.into_iter().peekable();
    while let Some(tree) = trees.next() {
        let line = tree.span().start().line;
        let mut push = |text: &str, line| tokens.push(Token { text: text.to_owned(), line });
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = brackets(group.delimiter());
                push(open, line);
                let end = group.span_close().start().line;
                flatten(group.stream(), tokens);
                tokens.push(Token { text: close.to_owned(), line: end });
            }
            TokenTree::Punct(mark) => {
                if is_colon(&TokenTree::Punct(mark.clone())) && trees.peek().is_some_and(is_colon) {
                    trees.next();
                    push("::", line);
                } else {
                    push(&mark.as_char().to_string(), line);
                }
            }
            other => push(&other.to_string(), line),
        }
    }
}

fn is_colon(tree: &TokenTree) -> bool {
    matches!(tree, TokenTree::Punct(mark) if mark.as_char() == ':')
}

fn brackets(delimiter: Delimiter) -> (&'static str, &'static str) {
    match delimiter {
        Delimiter::Parenthesis => ("(", ")"),
        Delimiter::Brace => ("{", "}"),
        Delimiter::Bracket => ("[", "]"),
        Delimiter::None => ("", ""),
    }
}
