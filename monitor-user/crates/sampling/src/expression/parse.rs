//! Parses tokens to a condition.
//!
//! `or` binds least, then `and`, then `not`. A comparison is a field, a relation and a value; a
//! word alone is searched in the name. Values have the units that the screen shows: `10`, `10%`,
//! `1.5G` (powers of 1,024), `20ms`.

use super::token::{Token, TokenAt, tokens};
use super::{Expression, LONGEST, ParseError, Pattern, Relation};
use monitor_model::{Category as _, Field, ProcessField, Unit, ValueKind};

/// Maximum nesting depth of brackets.
const MAX_DEPTH: usize = 32;

/// Parses a condition.
///
/// # Errors
/// Returns the first error.
pub fn parse(text: &str) -> Result<Expression, ParseError> {
    if text.len() > LONGEST {
        let message = format!("a condition has at most {LONGEST} bytes");
        return Err(ParseError { at: text.floor_char_boundary(LONGEST), message });
    }
    let tokens = tokens(text)?;
    let mut rest = Rest { tokens: &tokens, end: text.trim_end().len(), depth: 0 };
    let it = rest.either()?;
    match rest.tokens.first() {
        None => Ok(it),
        Some((at, Token::Close)) => fault(*at, "a bracket that was not opened"),
        Some((at, _)) => fault(*at, "`and` or `or` is missing before this"),
    }
}

fn fault<T>(at: usize, message: impl Into<String>) -> Result<T, ParseError> {
    Err(ParseError { at, message: message.into() })
}

/// The tokens that are left.
struct Rest<'t> {
    tokens: &'t [TokenAt<'t>],
    /// Position of the end of the text.
    end: usize,
    depth: usize,
}

impl<'t> Rest<'t> {
    fn at(&self) -> usize {
        self.tokens.first().map_or(self.end, |(at, _)| *at)
    }

    fn next(&mut self) -> Option<&'t Token<'t>> {
        let ((_, first), rest) = self.tokens.split_first()?;
        self.tokens = rest;
        Some(first)
    }

    /// Takes a word or the sign that means the same.
    fn took(&mut self, word: &str, sign: &str) -> bool {
        let is = match self.tokens.first() {
            Some((_, Token::Word(it))) => it.eq_ignore_ascii_case(word),
            Some((_, Token::Relation(it))) => *it == sign,
            _ => false,
        };
        if is {
            self.tokens = &self.tokens[1..];
        }
        is
    }

    fn either(&mut self) -> Result<Expression, ParseError> {
        let mut it = self.both()?;
        while self.took("or", "||") {
            it = Expression::Or(Box::new(it), Box::new(self.both()?));
        }
        Ok(it)
    }

    fn both(&mut self) -> Result<Expression, ParseError> {
        let mut it = self.one()?;
        while self.took("and", "&&") {
            it = Expression::And(Box::new(it), Box::new(self.one()?));
        }
        Ok(it)
    }

    fn one(&mut self) -> Result<Expression, ParseError> {
        let at = self.at();
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return fault(at, format!("more than {MAX_DEPTH} brackets in each other"));
        }
        let it = if self.took("not", "!") {
            self.one().map(|it| Expression::Not(Box::new(it)))
        } else {
            self.simple(at)
        };
        self.depth -= 1;
        it
    }

    fn simple(&mut self, at: usize) -> Result<Expression, ParseError> {
        match self.next() {
            Some(Token::Open) => {
                let it = self.either()?;
                let close = self.at();
                match self.next() {
                    Some(Token::Close) => Ok(it),
                    _ => fault(close, "the bracket is not closed: `)` is missing"),
                }
            }
            Some(Token::Word(word)) => self.comparison(at, word),
            Some(Token::Quoted(text)) => Ok(Expression::Named(Pattern::new(text))),
            _ => fault(at, "a condition is missing, such as cpu > 10 or a word of the name"),
        }
    }

    fn comparison(&mut self, at: usize, word: &str) -> Result<Expression, ParseError> {
        let Some((_, Token::Relation(relation))) = self.tokens.first() else {
            return Ok(Expression::Named(Pattern::new(word)));
        };
        if ["&&", "||", "!"].contains(relation) {
            return Ok(Expression::Named(Pattern::new(word)));
        }
        let field = ProcessField::named(word)
            .map_err(|unknown| ParseError { at, message: unknown.to_string() })?;
        let sign_at = self.at();
        let _ = self.next();
        let value_at = self.at();
        let value = match self.next() {
            Some(Token::Word(word)) => *word,
            Some(Token::Quoted(text)) => text,
            _ => return fault(value_at, format!("a value is missing after {relation}")),
        };
        compared(field, (sign_at, relation), (value_at, value))
    }
}

fn compared(
    field: ProcessField,
    (sign_at, sign): (usize, &str),
    (at, value): (usize, &str),
) -> Result<Expression, ParseError> {
    let not = |it: Expression| Expression::Not(Box::new(it));
    if matches!(field.field().kind, ValueKind::Text | ValueKind::Letter) {
        return match sign {
            "=" | "==" => Ok(Expression::Same(field, value.into())),
            "!=" => Ok(not(Expression::Same(field, value.into()))),
            "~" => Ok(Expression::Like(field, Pattern::new(value))),
            "!~" => Ok(not(Expression::Like(field, Pattern::new(value)))),
            _ => fault(sign_at, "a text is compared by = != ~ or !~"),
        };
    }
    let relation = match sign {
        "=" | "==" | "!=" => Relation::Equal,
        "<" => Relation::Less,
        "<=" => Relation::AtMost,
        ">" => Relation::More,
        ">=" => Relation::AtLeast,
        _ => return fault(sign_at, "a number is compared by = != < <= > or >="),
    };
    let wanted = number(field.field(), value).map_err(|message| ParseError { at, message })?;
    let it = Expression::Number(field, relation, wanted);
    Ok(if sign == "!=" { not(it) } else { it })
}

/// Units of bytes, of time, of things; the last two as on the screen.
const BYTES: &[(&str, f64)] =
    &[("K", 1024.0), ("M", 1_048_576.0), ("G", 1_073_741_824.0), ("T", 1_099_511_627_776.0)];
const TIMES: &[(&str, f64)] = &[
    ("ns", 1.0),
    ("us", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 60e9),
    ("h", 3600e9),
    ("d", 86_400e9),
];
const THINGS: &[(&str, f64)] = &[("K", 1e3), ("M", 1e6), ("G", 1e9)];
const HUNDREDTHS: &[(&str, f64)] = &[("%", 1.0)];

fn number(field: &Field, text: &str) -> Result<f64, String> {
    let (units, example) = match field.unit {
        Unit::Bytes | Unit::BytesPerSecond => (BYTES, "a size such as 512K or 1.5G"),
        Unit::Nanoseconds => (TIMES, "a time such as 20ms, 5s or 2h"),
        Unit::Percent => (HUNDREDTHS, "a number such as 10 or 10%"),
        Unit::Count | Unit::PerSecond => (THINGS, "a number such as 10 or 2K"),
        Unit::None => (&[][..], "a number"),
    };
    if field.kind == ValueKind::Flag {
        return match text {
            "yes" | "1" => Ok(1.0),
            "no" | "0" => Ok(0.0),
            _ => Err(format!("{text:?}: write yes or no")),
        };
    }
    let split = text.find(|it: char| !(it.is_ascii_digit() || "+-.".contains(it)));
    let (digits, unit) = text.split_at(split.unwrap_or(text.len()));
    // A bare time could be of any unit; zero is zero in all of them.
    let bare = unit.is_empty() && (field.unit != Unit::Nanoseconds || digits == "0");
    let scale = units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit));
    let scale = scale.map(|(_, scale)| *scale).or(bare.then_some(1.0));
    let number = digits.parse::<f64>().ok().filter(|it| it.is_finite());
    let wrong = || format!("{text:?}: {} is compared with {example}", field.name);
    Ok(number.ok_or_else(wrong)? * scale.ok_or_else(wrong)?)
}
