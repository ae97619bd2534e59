//! Parses parameters: numbers, strings, variables, tokens, and lists of them.

use super::input::{Input, Parsed, bracketed, expect, offset, space, too_many, wrong, wrong_at};
use super::number::{decimal, number};
use super::string::{binary, string};
use crate::{Expr, Extension, Name, Status, Token, Value, Var, limit, name};
use winnow::{Parser, token::take_while};

const VALUE: &str = "a value";

/// Parses a parameter.
pub fn expr(input: &mut Input<'_>) -> Parsed<Expr> {
    Ok(Expr::Value(match input.first() {
        Some(b'0'..=b'9' | b'-' | b'+' | b'.') => number(input)?,
        Some(b'"') => Value::Text(string(input)?),
        Some(b'[') => return list(input),
        Some(b'$') => return var(input).map(Expr::Var),
        Some(b'#') => Value::Binary(binary(input)?),
        Some(first) if name::is_start(*first) => word(input)?,
        _ => return Err(wrong(input, Status::SYNTAX, VALUE)),
    }))
}

/// Parses a variable: `$1`, `$time`.
pub fn var(input: &mut Input<'_>) -> Parsed<Var> {
    let at = offset(input);
    let _ = expect(b'$', "a variable").parse_next(input)?;
    let var = if input.first().is_some_and(u8::is_ascii_digit) {
        let number = decimal("the number of a variable").map(Var::Position).parse_next(input)?;
        space(input)?;
        number
    } else {
        input.state.used.note(Extension::NamedVariable, at);
        Var::Named(name(input, "the number or the name of a variable")?)
    };
    Ok(var)
}

/// Parses a name.
pub fn name(input: &mut Input<'_>, expected: &'static str) -> Parsed<Name> {
    let begin = input.input;
    let text: &[u8] = identifier(input)?;
    if text.len() > limit::NAME {
        return Err(too_many(begin, limit::NAME, "bytes of a name"));
    }
    let name = std::str::from_utf8(text).ok().and_then(Name::new);
    name.ok_or_else(|| wrong_at(begin, Status::SYNTAX, expected))
}

fn identifier<'i>(input: &mut Input<'i>) -> Parsed<&'i [u8]> {
    let (text, ()) = (take_while(0.., name::is_part), space).parse_next(input)?;
    Ok(text)
}

/// Parses a token, or a float without digits.
fn word(input: &mut Input<'_>) -> Parsed<Value> {
    let (begin, at) = (input.input, offset(input));
    let text = std::str::from_utf8(identifier(input)?).unwrap_or_default();
    let (value, extension) = match text {
        "nan" => (Value::from(f64::NAN), Extension::SpecialFloat),
        "inf" => (Value::from(f64::INFINITY), Extension::SpecialFloat),
        _ => {
            let token = Token::from_text(text);
            let token = token.ok_or_else(|| wrong_at(begin, Status::SYNTAX, VALUE))?;
            (Value::Token(token), Extension::Token)
        }
    };
    input.state.used.note(extension, at);
    Ok(value)
}

/// Parses a list. Most lists have no variables and are built as values directly.
fn list(input: &mut Input<'_>) -> Parsed<Expr> {
    let most = input.state.limits.depth;
    if input.state.depth == most {
        return Err(too_many(input.input, most, "lists within lists"));
    }
    input.state.depth += 1;
    let mut items = Items::Values(Vec::new());
    bracketed(input, *b"[]", [VALUE, "`,` or `]`"], |input| {
        items.push(expr(input)?);
        Ok(())
    })?;
    input.state.depth -= 1;
    Ok(match items {
        Items::Values(values) => Expr::Value(Value::List(values)),
        Items::Exprs(exprs) => Expr::List(exprs),
    })
}

enum Items {
    Values(Vec<Value>),
    Exprs(Vec<Expr>),
}

impl Items {
    fn push(&mut self, item: Expr) {
        match (&mut *self, item) {
            (Self::Values(values), Expr::Value(value)) => values.push(value),
            (Self::Values(values), item) => {
                let before = std::mem::take(values).into_iter().map(Expr::Value);
                *self = Self::Exprs(before.chain([item]).collect());
            }
            (Self::Exprs(exprs), item) => exprs.push(item),
        }
    }
}
