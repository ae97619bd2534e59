//! The input of the parsers: the rest of the line, the parser state, and shared combinators.

use crate::{BytePos, Extension, RequestId, Status, dialect::N_EXTENSIONS, limit::LineLimits};
use winnow::{Parser, combinator::opt, error::ParserError, stream::Stateful, token::take_while};

/// The rest of a line, with the state of the parser.
pub type Input<'i> = Stateful<&'i [u8], ParseState>;

/// The result of a parser.
pub type Parsed<T> = Result<T, ParseError>;

/// State that the parsers of a line share.
#[derive(Clone, Debug)]
pub struct ParseState {
    /// Bytes of the whole line.
    length: usize,
    /// The limits of this kind of line.
    pub limits: &'static LineLimits,
    /// Basic requests or replies parsed so far.
    pub members: usize,
    /// Nesting depth of lists at this position.
    pub depth: usize,
    /// The first number of a request.
    pub id: Option<RequestId>,
    /// The extensions used so far.
    pub used: UsedExtensions,
}

/// The extensions used, each with the position of its first use.
#[derive(Clone, Copy, Debug, Default)]
pub struct UsedExtensions([Option<(Extension, usize)>; N_EXTENSIONS]);

/// Why a parser stopped. Small, since backtracking discards it; `Fault` is built from it at the
/// end.
#[derive(Clone, Copy, Debug)]
pub struct ParseError {
    /// Bytes that were left in the line.
    pub left: usize,
    /// The kind of error.
    pub status: Status,
    /// What the parser expected.
    pub expected: &'static str,
    /// The limit that the line exceeds.
    pub most: Option<usize>,
    /// Whether the error is definite; otherwise another alternative may match.
    is_final: bool,
}

impl ParseState {
    pub fn new(length: usize, limits: &'static LineLimits) -> Self {
        Self { length, limits, members: 0, depth: 0, id: None, used: UsedExtensions::default() }
    }
}

impl UsedExtensions {
    /// Records a use, unless the extension was used before.
    pub fn note(&mut self, extension: Extension, at: usize) {
        for slot in &mut self.0 {
            match slot {
                Some((known, _)) if *known == extension => return,
                Some(_) => {}
                None => return *slot = Some((extension, at)),
            }
        }
    }

    /// Iterates in the order of use.
    pub fn iter(&self) -> impl Iterator<Item = (Extension, usize)> {
        self.0.iter().flatten().copied()
    }

    /// Returns the leftmost use.
    pub fn first(&self) -> Option<(Extension, usize)> {
        self.iter().min_by_key(|(_, at)| *at)
    }
}

impl ParserError<Input<'_>> for ParseError {
    type Inner = Self;

    fn from_input(input: &Input<'_>) -> Self {
        let (left, status) = (input.len(), Status::SYNTAX);
        Self { left, status, expected: "", most: None, is_final: false }
    }

    fn is_backtrack(&self) -> bool {
        !self.is_final
    }

    fn into_inner(self) -> Result<Self, Self> {
        Ok(self)
    }
}

/// An error at the current position.
pub fn wrong(input: &Input<'_>, status: Status, expected: &'static str) -> ParseError {
    wrong_at(input.input, status, expected)
}

/// An error at the beginning of this rest of the line.
pub fn wrong_at(rest: &[u8], status: Status, expected: &'static str) -> ParseError {
    ParseError { left: rest.len(), status, expected, most: None, is_final: true }
}

/// An exceeded limit at the beginning of this rest of the line.
pub fn too_many(rest: &[u8], most: usize, of: &'static str) -> ParseError {
    ParseError { most: Some(most), ..wrong_at(rest, Status::LIMIT, of) }
}

/// Makes the failure of a parser definite, with the text of what was expected.
pub fn expect<'i, T>(
    mut parser: impl Parser<Input<'i>, T, ParseError>,
    expected: &'static str,
) -> impl Parser<Input<'i>, T, ParseError> {
    move |input: &mut Input<'i>| {
        let begin = input.input;
        parser.parse_next(input).map_err(|error| {
            if error.is_final { error } else { wrong_at(begin, Status::SYNTAX, expected) }
        })
    }
}

/// Returns the position, in bytes from the beginning of the line.
pub fn offset(input: &Input<'_>) -> usize {
    input.state.length - input.len()
}

/// Returns the position for the parsed request.
pub fn pos(input: &Input<'_>) -> BytePos {
    BytePos(offset(input))
}

/// Skips white space as C defines it.
pub fn space(input: &mut Input<'_>) -> Parsed<()> {
    take_while(0.., (b' ', b'\t'..=b'\r')).void().parse_next(input)
}

/// Parses a punctuation character and the space after it.
pub fn symbol<'i>(byte: u8) -> impl Parser<Input<'i>, (), ParseError> {
    (byte, space).void()
}

/// Consumes the character if it is next; returns whether it was.
pub fn accept(input: &mut Input<'_>, byte: u8) -> Parsed<bool> {
    opt(symbol(byte)).map(|found| found.is_some()).parse_next(input)
}

/// Parses the content of brackets: items separated by commas, or nothing.
pub fn bracketed<'i>(
    input: &mut Input<'i>,
    [open, close]: [u8; 2],
    expected: [&'static str; 2],
    mut item: impl FnMut(&mut Input<'i>) -> Parsed<()>,
) -> Parsed<()> {
    expect(symbol(open), expected[0]).parse_next(input)?;
    if accept(input, close)? {
        return Ok(());
    }
    for n_items in 1.. {
        let most = input.state.limits.elements;
        if n_items > most {
            return Err(too_many(input.input, most, "elements of a list"));
        }
        item(input)?;
        if !accept(input, b',')? {
            break;
        }
    }
    expect(symbol(close), expected[1]).parse_next(input)
}
