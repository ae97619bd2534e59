//! Parses numbers in the syntax of C: decimal, octal, hexadecimal; floats with a point or an
//! exponent.

use super::input::{Input, ParseError, Parsed, offset, space, wrong_at};
use crate::{Extension, Float, Int, Status, Value};
use std::num::IntErrorKind;
use winnow::token::{one_of, take_while};
use winnow::{Parser, combinator::opt, stream::Stream as _};

const INTEGER: &str = "an integer";
const FLOAT: &str = "a floating point number";
const INTEGER_RANGE: &str = "an integer from -2^63 to 2^64-1";

/// Parses a number with its sign.
pub fn number(input: &mut Input<'_>) -> Parsed<Value> {
    let (begin, at) = (input.input, offset(input));
    let is_negative = opt(one_of([b'+', b'-'])).parse_next(input)? == Some(b'-');
    if is_negative && input.starts_with(b"inf") {
        input.next_slice(b"inf".len());
        space(input)?;
        input.state.used.note(Extension::SpecialFloat, at);
        return Ok(Value::from(f64::NEG_INFINITY));
    }
    let word = word(input)?;
    let value = if is_float(word) { float(word, is_negative) } else { integer(word, is_negative) };
    let value = value.map_err(|(status, expected)| wrong_at(begin, status, expected))?;
    space(input)?;
    Ok(value)
}

/// Parses an integer, such as the number of a request or of a node.
pub fn int(input: &mut Input<'_>, expected: &'static str) -> Parsed<Int> {
    let begin = input.input;
    match number(input) {
        Ok(Value::Integer(number)) => Ok(number),
        Ok(_) => Err(wrong_at(begin, Status::TYPE, expected)),
        Err(error) => Err(error),
    }
}

/// Parses decimal digits: the number of a variable, the length of a binary.
pub fn decimal<'i, T: std::str::FromStr>(
    expected: &'static str,
) -> impl Parser<Input<'i>, T, ParseError> {
    move |input: &mut Input<'i>| {
        let begin = input.input;
        let digits = take_while(1.., b'0'..=b'9').parse_next(input)?;
        let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
        number.ok_or_else(|| wrong_at(begin, Status::RANGE, expected))
    }
}

/// Takes all characters that a number may contain, so that `12ab` is one malformed number and not
/// two words.
fn word<'i>(input: &mut Input<'i>) -> Parsed<&'i [u8]> {
    let begin = input.input;
    let part = (b'0'..=b'9', b'a'..=b'z', b'A'..=b'Z', b'.', b'_');
    let head: &[u8] = take_while(0.., part).parse_next(input)?;
    if matches!(head, [.., b'e' | b'E']) && !is_hexadecimal(head) {
        let _: (Option<u8>, &[u8]) =
            (opt(one_of([b'+', b'-'])), take_while(0.., b'0'..=b'9')).parse_next(input)?;
    }
    Ok(&begin[..begin.len() - input.len()])
}

fn is_hexadecimal(word: &[u8]) -> bool {
    matches!(word, [b'0', b'x' | b'X', ..])
}

fn is_float(word: &[u8]) -> bool {
    !is_hexadecimal(word) && word.iter().any(|byte| matches!(byte, b'.' | b'e' | b'E'))
}

fn integer(word: &[u8], is_negative: bool) -> Result<Value, (Status, &'static str)> {
    let (radix, digits) = match word {
        [b'0', b'x' | b'X', digits @ ..] => (16, digits),
        [b'0', digits @ ..] if !digits.is_empty() => (8, digits),
        digits => (10, digits),
    };
    let digits = std::str::from_utf8(digits).unwrap_or_default();
    let magnitude = u64::from_str_radix(digits, radix).map_err(|error| match error.kind() {
        IntErrorKind::PosOverflow => (Status::RANGE, INTEGER_RANGE),
        _ => (Status::LEX, INTEGER),
    })?;
    let number = i128::from(magnitude) * if is_negative { -1 } else { 1 };
    Int::new(number).map(Value::Integer).ok_or((Status::RANGE, INTEGER_RANGE))
}

fn float(word: &[u8], is_negative: bool) -> Result<Value, (Status, &'static str)> {
    let word = std::str::from_utf8(word).unwrap_or_default();
    let magnitude: f64 = word.parse().map_err(|_| (Status::LEX, FLOAT))?;
    if magnitude.is_infinite() {
        return Err((Status::RANGE, "a number that a double can hold"));
    }
    Ok(Value::Float(Float(if is_negative { -magnitude } else { magnitude })))
}

#[cfg(test)]
mod tests {
    use super::super::super::limit;
    use super::super::input::ParseState;
    use super::*;

    #[track_caller]
    fn check(text: &str, want: Result<Value, Status>) {
        let state = ParseState::new(text.len(), &limit::REQUEST);
        let mut input = Input { input: text.as_bytes(), state };
        let read = number(&mut input).map_err(|error| error.status);
        assert_eq!((read, input.input), (want, &b""[..]), "{text}");
    }

    #[test]
    fn integers_are_decimal_octal_or_hexadecimal() {
        check("0", Ok(Value::from(0)));
        check("-10", Ok(Value::from(-10)));
        check("+7 ", Ok(Value::from(7)));
        check("010", Ok(Value::from(8)));
        check("0xfe08", Ok(Value::from(0xfe08)));
        check("0XFE", Ok(Value::from(0xfe)));
    }

    #[test]
    fn integers_have_64_bits() {
        check("18446744073709551615", Ok(Value::from(u64::MAX)));
        check("-9223372036854775808", Ok(Value::from(i64::MIN)));
        check("18446744073709551616", Err(Status::RANGE));
        check("-9223372036854775809", Err(Status::RANGE));
        check("0x10000000000000000", Err(Status::RANGE));
    }

    #[test]
    fn floats_have_a_point_or_an_exponent() {
        check("12.7", Ok(Value::from(12.7)));
        check("1.1e3", Ok(Value::from(1100.0)));
        check(".5", Ok(Value::from(0.5)));
        check("5.", Ok(Value::from(5.0)));
        check("-1E-3", Ok(Value::from(-0.001)));
        check("09.5", Ok(Value::from(9.5)));
        check("-inf", Ok(Value::from(f64::NEG_INFINITY)));
    }

    #[test]
    fn malformed_numbers_are_refused() {
        for text in ["08", "0x", "12a", "1_0", "1e", "1e+", ".", "-", "1.2.3", "0xfg", "1e5x"] {
            check(text, Err(Status::LEX));
        }
        check("1e999", Err(Status::RANGE));
    }
}
