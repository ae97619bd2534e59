//! The tokens of a condition, each with its position.
//!
//! In: a text. Out: brackets, relations, words and quoted texts, or the quote that is not closed.
//! Does not check their order.

use super::ParseError;
use winnow::combinator::{alt, delimited, dispatch, fail, preceded, repeat};
use winnow::token::{any, none_of, one_of, take_while};
use winnow::{LocatingSlice, Result, error::ContextError, prelude::*, stream::Location};

type Input<'i> = LocatingSlice<&'i str>;

/// A token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token<'t> {
    /// `(`.
    Open,
    /// `)`.
    Close,
    /// `<`, `!=`, `~` and so on.
    Relation(&'t str),
    /// Letters without quotes.
    Word(&'t str),
    /// A text in quotes.
    Quoted(String),
}

/// A token and the byte at which it begins.
pub type TokenAt<'t> = (usize, Token<'t>);

/// Splits a text into tokens.
pub fn tokens(text: &str) -> std::result::Result<Vec<TokenAt<'_>>, ParseError> {
    let mut input = LocatingSlice::new(text);
    let mut found = Vec::new();
    loop {
        let _: &str = space(&mut input);
        if input.is_empty() {
            return Ok(found);
        }
        let at = input.current_token_start();
        match token.parse_next(&mut input) {
            Ok(token) => found.push((at, token)),
            Err(_) => {
                let message = "a quote without its end".to_owned();
                return Err(ParseError { at, message });
            }
        }
    }
}

/// White space, or nothing: that cannot fail.
fn space<'i>(input: &mut Input<'i>) -> &'i str {
    let spaces: Result<&str, ContextError> = take_while(0.., char::is_whitespace).parse_next(input);
    spaces.unwrap_or_default()
}

fn token<'i>(input: &mut Input<'i>) -> Result<Token<'i>> {
    alt((
        '('.value(Token::Open),
        ')'.value(Token::Close),
        // The longer ones first.
        alt(("&&", "||", "==", "!=", "!~", "<=", ">=")).map(Token::Relation),
        alt(("=", "<", ">", "~", "!")).map(Token::Relation),
        quoted.map(Token::Quoted),
        take_while(1.., is_letter).map(Token::Word),
    ))
    .parse_next(input)
}

fn is_letter(it: char) -> bool {
    !it.is_whitespace() && !"()=<>~!&|\"'".contains(it)
}

fn quoted(input: &mut Input<'_>) -> Result<String> {
    dispatch! { any;
        '"' => inside('"'),
        '\'' => inside('\''),
        _ => |input: &mut Input<'_>| fail.parse_next(input),
    }
    .parse_next(input)
}

/// Until the quote; a backslash takes the next letter as it is.
fn inside<'i>(quote: char) -> impl Parser<Input<'i>, String, ContextError> {
    move |input: &mut Input<'i>| {
        let letter = alt((preceded('\\', any), none_of([quote, '\\'])));
        delimited((), repeat(0.., letter), one_of(quote)).parse_next(input)
    }
}
