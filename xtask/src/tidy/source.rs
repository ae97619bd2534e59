//! One Rust file as a row of tokens.
//!
//! In: a path and its text. Out: `Source`, with tokens, their lines, and the line of its tests.
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
    /// The line of the first `#[cfg(test)]` before an inline module, if there is one.
    pub tests_from: Option<usize>,
    /// Compiled for tests only, because its module is declared so.
    pub is_test_only: bool,
}

impl Source {
    /// Fails with the line where the text is not Rust any more.
    pub fn new(path: &str, text: &str) -> Result<Source, usize> {
        let stream: TokenStream =
            text.parse().map_err(|error: proc_macro2::LexError| error.span().start().line)?;
        let mut tokens = Vec::new();
        flatten(stream, &mut tokens);
        let tests_from = tests_from(&tokens);
        let (path, text) = (path.to_owned(), text.to_owned());
        Ok(Source { path, text, tokens, tests_from, is_test_only: false })
    }

    /// The text of a token, or nothing beyond the ends.
    pub fn at(&self, index: usize) -> &str {
        self.tokens.get(index).map_or("", |token| &token.text)
    }

    /// Where these tokens follow each other: the index of the first of them.
    pub fn find<'a>(&'a self, words: &'a [&str]) -> impl Iterator<Item = usize> + 'a {
        (0..self.tokens.len())
            .filter(|&start| words.iter().enumerate().all(|(n, word)| self.at(start + n) == *word))
    }

    /// Whether the line is part of a test.
    pub fn is_test(&self, line: usize) -> bool {
        self.path.starts_with("tests/") || self.is_unit_test(line)
    }

    /// Whether the line is part of the tests of a module.
    pub fn is_unit_test(&self, line: usize) -> bool {
        self.path.ends_with("/tests.rs") || self.tests_from.is_some_and(|from| line >= from)
    }

    /// The files or folders, without `.rs`, of the modules that it declares for tests only.
    pub fn test_modules(&self) -> Vec<String> {
        let stem = self.path.trim_end_matches(".rs");
        let (folder, name) = stem.rsplit_once('/').unwrap_or(("", stem));
        let is_root = matches!(name, "mod" | "lib" | "main");
        let below = if is_root { folder } else { stem };
        let declared = cfg_test_modules(&self.tokens);
        let declared = declared.filter(|(at, _)| is_text(&self.tokens, at + 1, ";"));
        declared.map(|(at, _)| format!("{below}/{}", self.at(at))).collect()
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
        && text.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// The line of `#[cfg(test)] mod NAME {`.
fn tests_from(tokens: &[Token]) -> Option<usize> {
    let mut starts = cfg_test_modules(tokens).filter(|(at, _)| is_text(tokens, at + 1, "{"));
    starts.next().map(|(_, line)| line)
}

/// The index of the name of each module after `#[cfg(test)]`, and the line of the attribute.
fn cfg_test_modules(tokens: &[Token]) -> impl Iterator<Item = (usize, usize)> + '_ {
    const CFG_TEST: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let is_at = |at: usize| (0..CFG_TEST.len()).all(|n| is_text(tokens, at + n, CFG_TEST[n]));
    (0..tokens.len()).filter(move |&at| is_at(at)).filter_map(move |at| {
        let mut next = at + CFG_TEST.len();
        // `pub`, `pub(super)`, another attribute.
        while next < at + 3 * CFG_TEST.len() && !is_text(tokens, next, "mod") {
            if is_text(tokens, next, ";") || is_text(tokens, next, "{") {
                return None;
            }
            next += 1;
        }
        is_text(tokens, next, "mod").then(|| (next + 1, tokens[at].line))
    })
}

fn is_text(tokens: &[Token], at: usize, text: &str) -> bool {
    tokens.get(at).is_some_and(|token| token.text == text)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source::new(path, text).expect("the case is Rust")
    }

    #[test]
    fn tests_begin_with_an_inline_module() {
        let text = "#[cfg(test)]\nmod tests;\nfn f() {}\n#[cfg(test)]\nmod more {}";
        assert_eq!(source("p/src/x.rs", text).tests_from, Some(4));
        assert_eq!(source("p/src/x.rs", "#[cfg(test)] use a::b;\nmod c {}").tests_from, None);
    }

    #[test]
    fn modules_for_tests_are_named_by_their_path() {
        let text =
            "#[cfg(test)] mod a; #[cfg(test)] pub(crate) mod b; mod c; #[cfg(test)] mod d {}";
        assert_eq!(source("p/src/x.rs", text).test_modules(), ["p/src/x/a", "p/src/x/b"]);
        assert_eq!(source("p/src/y/mod.rs", text).test_modules(), ["p/src/y/a", "p/src/y/b"]);
    }
}
