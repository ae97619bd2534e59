//! The line as the parsers see it: what is left, what was noticed, and what all of them need.

use super::super::dialect::{Extension, N_EXTENSIONS};
use super::super::limit::Limits;
use super::super::request::{RequestId, Spot};
use super::super::status::Status;
use winnow::Parser;
use winnow::combinator::opt;
use winnow::error::ParserError;
use winnow::stream::Stateful;
use winnow::token::take_while;

/// The rest of a line.
pub type Input<'i> = Stateful<&'i [u8], State>;

/// What a parser gives.
pub type Parsed<T> = Result<T, Snag>;

/// What was noticed on the way.
#[derive(Clone, Debug)]
pub struct State {
    /// Bytes of the whole line.
    length: usize,
    pub limits: &'static Limits,
    /// Basic requests begun so far.
    pub members: usize,
    /// Lists open now.
    pub depth: usize,
    /// The first number of a request.
    pub id: Option<RequestId>,
    pub used: Used,
}

/// The extensions met, with the place of the first use.
#[derive(Clone, Copy, Debug, Default)]
pub struct Used([Option<(Extension, usize)>; N_EXTENSIONS]);

/// Why a parser stopped, as small as can be: the fault is made of it once, at the end.
#[derive(Clone, Copy, Debug)]
pub struct Snag {
    /// Bytes that were left.
    pub left: usize,
    pub status: Status,
    pub expected: &'static str,
    /// The limit that the line went over.
    pub most: Option<usize>,
    /// A mistake; otherwise only "not this, perhaps something else".
    is_final: bool,
}

impl State {
    pub fn new(length: usize, limits: &'static Limits) -> Self {
        Self { length, limits, members: 0, depth: 0, id: None, used: Used::default() }
    }
}

impl Used {
    pub fn note(&mut self, extension: Extension, at: usize) {
        for place in &mut self.0 {
            match place {
                Some((known, _)) if *known == extension => return,
                Some(_) => {}
                None => return *place = Some((extension, at)),
            }
        }
    }

    /// In the order in which they were met.
    pub fn iter(&self) -> impl Iterator<Item = (Extension, usize)> {
        self.0.iter().flatten().copied()
    }

    /// The leftmost.
    pub fn first(&self) -> Option<(Extension, usize)> {
        self.iter().min_by_key(|(_, at)| *at)
    }
}

impl ParserError<Input<'_>> for Snag {
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

/// A mistake here.
pub fn wrong(input: &Input<'_>, status: Status, expected: &'static str) -> Snag {
    wrong_at(input.input, status, expected)
}

/// A mistake where this rest of the line begins.
pub fn wrong_at(rest: &[u8], status: Status, expected: &'static str) -> Snag {
    Snag { left: rest.len(), status, expected, most: None, is_final: true }
}

/// More than is allowed, where this rest of the line begins.
pub fn too_many(rest: &[u8], most: usize, of: &'static str) -> Snag {
    Snag { most: Some(most), ..wrong_at(rest, Status::LIMIT, of) }
}

/// What the parser reads, or else the mistake that it is not there.
pub fn expect<'i, T>(
    mut parser: impl Parser<Input<'i>, T, Snag>,
    expected: &'static str,
) -> impl Parser<Input<'i>, T, Snag> {
    move |input: &mut Input<'i>| {
        let begin = input.input;
        parser.parse_next(input).map_err(|snag| {
            if snag.is_final { snag } else { wrong_at(begin, Status::SYNTAX, expected) }
        })
    }
}

/// Where we are, in bytes from the beginning of the line.
pub fn here(input: &Input<'_>) -> usize {
    input.state.length - input.len()
}

/// The same, to keep.
pub fn spot(input: &Input<'_>) -> Spot {
    Spot(here(input))
}

/// What C calls white space.
pub fn space(input: &mut Input<'_>) -> Parsed<()> {
    take_while(0.., (b' ', b'\t'..=b'\r')).void().parse_next(input)
}

/// A sign and the space after it.
pub fn sign<'i>(byte: u8) -> impl Parser<Input<'i>, (), Snag> {
    (byte, space).void()
}

/// Whether the sign stood there; it was taken.
pub fn took(input: &mut Input<'_>, byte: u8) -> Parsed<bool> {
    opt(sign(byte)).map(|found| found.is_some()).parse_next(input)
}

/// What stands between two brackets: items with commas between them, or nothing.
pub fn bracketed<'i>(
    input: &mut Input<'i>,
    [open, close]: [u8; 2],
    expected: [&'static str; 2],
    mut item: impl FnMut(&mut Input<'i>) -> Parsed<()>,
) -> Parsed<()> {
    expect(sign(open), expected[0]).parse_next(input)?;
    if took(input, close)? {
        return Ok(());
    }
    for n_items in 1.. {
        let most = input.state.limits.elements;
        if n_items > most {
            return Err(too_many(input.input, most, "elements of a list"));
        }
        item(input)?;
        if !took(input, b',')? {
            break;
        }
    }
    expect(sign(close), expected[1]).parse_next(input)
}
