//! Parses strings in the syntax of C, and byte strings.
//!
//! `"..."` with the escapes of C; it may contain any byte except line breaks and NUL.
//! `#4:deadbeef` is four bytes: the length, then two hexadecimal digits for each; an extension.

use super::input::{Input, Parsed, expect, offset, space, wrong, wrong_at};
use super::number::decimal;
use crate::{Binary, Extension, Status, Text};
use winnow::Parser;
use winnow::token::{any, take, take_till, take_while};

const LENGTH: &str = "the length of the binary";

/// Parses a string.
pub fn string(input: &mut Input<'_>) -> Parsed<Text> {
    expect(b'"', "a string").parse_next(input)?;
    let mut bytes = Vec::new();
    loop {
        let plain = take_till(0.., [b'"', b'\\', b'\n', b'\r', 0]).parse_next(input)?;
        bytes.extend_from_slice(plain);
        match input.first() {
            Some(b'\\') => bytes.push(escape(input)?),
            Some(b'"') => break,
            _ => return Err(wrong(input, Status::LEX, "`\"` at the end of the string")),
        }
    }
    (b'"', space).void().parse_next(input)?;
    Ok(Text::from(bytes))
}

/// Parses an escape sequence.
fn escape(input: &mut Input<'_>) -> Parsed<u8> {
    let begin = input.input;
    let unknown = || wrong_at(begin, Status::LEX, "an escape of C, such as `\\n` or `\\033`");
    let _ = any.parse_next(input)?;
    let letter = match input.first() {
        Some(b'0'..=b'7') => return number(take_while(1..=3, b'0'..=b'7'), 8, input),
        Some(letter) => *letter,
        None => return Err(unknown()),
    };
    let _ = any.parse_next(input)?;
    Ok(match letter {
        b'n' => b'\n',
        b't' => b'\t',
        b'r' => b'\r',
        b'a' => 7,
        b'b' => 8,
        b'f' => 12,
        b'v' => 11,
        b'\\' | b'"' | b'\'' | b'?' => letter,
        // As in C, `\x` takes all digits that follow, so `print` never writes it.
        b'x' => {
            let digits = take_while(1.., |byte: u8| byte.is_ascii_hexdigit());
            return number(expect(digits, "a hexadecimal digit"), 16, input);
        }
        _ => return Err(unknown()),
    })
}

fn number<'i>(
    mut digits: impl Parser<Input<'i>, &'i [u8], super::input::ParseError>,
    radix: u32,
    input: &mut Input<'i>,
) -> Parsed<u8> {
    let begin = input.input;
    let digits = std::str::from_utf8(digits.parse_next(input)?).unwrap_or_default();
    u8::from_str_radix(digits, radix)
        .map_err(|_| wrong_at(begin, Status::RANGE, "a byte, at most `\\377` or `\\xff`"))
}

/// Parses a byte string.
pub fn binary(input: &mut Input<'_>) -> Parsed<Binary> {
    let at = offset(input);
    let _ = expect(b'#', "a binary").parse_next(input)?;
    let length: usize = expect(decimal(LENGTH), LENGTH).parse_next(input)?;
    let _ = expect(b':', "`:` after the length of the binary").parse_next(input)?;
    let begin = input.input;
    // The length is compared with the rest of the line before anything is allocated.
    let n_digits = length.checked_mul(2).filter(|n_digits| *n_digits <= begin.len());
    let n_digits = n_digits
        .ok_or_else(|| wrong_at(begin, Status::LEX, "as many bytes as the length of the binary"))?;
    let digits: &[u8] = take(n_digits).parse_next(input)?;
    if let Some(index) = digits.iter().position(|byte| !byte.is_ascii_hexdigit()) {
        return Err(wrong_at(&begin[index..], Status::LEX, "a hexadecimal digit"));
    }
    space(input)?;
    input.state.used.note(Extension::Binary, at);
    let byte = |pair: &[u8]| digit(pair[0]) << 4 | digit(pair[1]);
    Ok(Binary::from(digits.chunks_exact(2).map(byte).collect::<Vec<u8>>()))
}

fn digit(letter: u8) -> u8 {
    match letter {
        b'0'..=b'9' => letter - b'0',
        _ => (letter | 0x20) - b'a' + 10,
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::limit;
    use super::super::input::ParseState;
    use super::*;

    fn input(text: &[u8]) -> Input<'_> {
        Input { input: text, state: ParseState::new(text.len(), &limit::REQUEST) }
    }

    #[track_caller]
    fn check(text: &[u8], want: Result<&[u8], (Status, usize)>) {
        let read = string(&mut input(text)).map_err(|it| (it.status, text.len() - it.left));
        assert_eq!(read, want.map(Text::from), "{}", text.escape_ascii());
    }

    #[track_caller]
    fn check_binary(text: &[u8], want: Result<&[u8], (Status, usize)>) {
        let read = binary(&mut input(text)).map_err(|it| (it.status, text.len() - it.left));
        assert_eq!(read, want.map(|it| it.to_vec().into()), "{}", text.escape_ascii());
    }

    #[test]
    fn a_string_has_the_escapes_of_c() {
        check(br#""""#, Ok(b""));
        check(br#""a\\b\"c""#, Ok(b"a\\b\"c"));
        check(br#""\n\t\r\a\b\f\v\'\?""#, Ok(b"\n\t\r\x07\x08\x0c\x0b'?"));
        check(br#""\0\33\1017""#, Ok(b"\0\x1bA7"));
        check(br#""\x41\xff""#, Ok(b"A\xff"));
    }

    #[test]
    fn a_string_holds_any_byte_but_a_line_break() {
        check(b"\"\xff\xc3\x28\t\"", Ok(b"\xff\xc3\x28\t"));
        check(b"\"a\nb\"", Err((Status::LEX, 2)));
        check(b"\"a\0b\"", Err((Status::LEX, 2)));
    }

    #[test]
    fn the_fault_of_an_invalid_escape_has_its_position() {
        check(br#""ab\q""#, Err((Status::LEX, 3)));
        check(br#""ab\400""#, Err((Status::RANGE, 4)));
        check(br#""ab\x123""#, Err((Status::RANGE, 5)));
        check(br#""ab\xg""#, Err((Status::SYNTAX, 5)));
        check(br#""ab\"#, Err((Status::LEX, 3)));
        check(br#""ab"#, Err((Status::LEX, 3)));
    }

    #[test]
    fn the_length_of_a_binary_is_checked() {
        check_binary(b"#0:", Ok(b""));
        check_binary(b"#4:deadBEEF", Ok(b"\xde\xad\xbe\xef"));
        check_binary(b"#4:deadbee", Err((Status::LEX, 3)));
        check_binary(b"#1:0x", Err((Status::LEX, 4)));
        check_binary(b"#1073741824:00", Err((Status::LEX, 12)));
        check_binary(b"#18446744073709551615:00", Err((Status::LEX, 22)));
        check_binary(b"#99999999999999999999:", Err((Status::RANGE, 1)));
        check_binary(b"#:", Err((Status::SYNTAX, 1)));
    }
}
