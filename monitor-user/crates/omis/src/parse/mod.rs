//! Parses a line into a request or a reply, by recursive descent with one symbol of look-ahead.
//!
//! In: a line of bytes, with or without its line break. Out: data, or the first fault.
//! Uses winnow, which no other module sees.
//! Memory is bounded by the line: each limit is checked before the element that would exceed it,
//! and the length of a binary is compared with the bytes that are left.

mod basic;
mod input;
mod line;
mod number;
mod string;
mod value;

use super::limit::{self, LineLimits};
use super::{BytePos, Dialect, Extension, Fault, Reply, Request, Stage, Status};
use input::{Input, ParseState, Parsed, UsedExtensions};
use winnow::Parser;

/// Parses a request.
///
/// # Errors
///
/// Returns the first fault: a syntax error, an exceeded limit, an unbound variable, or an
/// extension in a strict session.
pub fn request(line: &[u8], dialect: Dialect) -> Result<Request, Fault> {
    let (request, used) = whole(line, &limit::REQUEST, line::request)?;
    match used.first() {
        Some((extension, at)) if dialect == Dialect::Strict => {
            Err(of_request(refuse(line, extension, at), &request))
        }
        _ => bound(line, request),
    }
}

/// Parses the actions of a request without an event.
///
/// # Errors
///
/// Returns the first fault.
pub fn stages(text: &[u8]) -> Result<Vec<Stage>, Fault> {
    Ok(whole(text, &limit::REQUEST, line::stages)?.0)
}

/// Returns the extensions that a request uses, each with the position of its first use.
///
/// # Errors
///
/// Returns the first fault if the line does not parse.
pub fn extensions(line: &[u8]) -> Result<Vec<(Extension, BytePos)>, Fault> {
    let (_, used) = whole(line, &limit::REQUEST, line::request)?;
    Ok(used.iter().map(|(extension, at)| (extension, BytePos(at))).collect())
}

/// Parses a reply.
///
/// # Errors
///
/// Returns the first fault.
pub fn reply(line: &[u8]) -> Result<Reply, Fault> {
    Ok(whole(line, &limit::REPLY, line::reply)?.0)
}

fn whole<'i, T>(
    line: &'i [u8],
    limits: &'static LineLimits,
    mut parser: impl Parser<Input<'i>, T, input::ParseError>,
) -> Result<(T, UsedExtensions), Fault> {
    if line.len() > limits.line {
        let mut fault = Fault::new(line, limits.line, Status::LIMIT, "a shorter line".into());
        fault.found = format!("a line of {} bytes", line.len());
        fault.expected = format!("at most {}", limits.line).into();
        return Err(fault);
    }
    let mut input = Input { input: line, state: ParseState::new(line.len(), limits) };
    let read: Parsed<T> = parser.parse_next(&mut input);
    read.map(|value| (value, input.state.used)).map_err(|error| {
        let expected = match error.most {
            Some(most) => format!("at most {most} {}", error.expected).into(),
            None => error.expected.into(),
        };
        let mut fault = Fault::new(line, line.len() - error.left, error.status, expected);
        fault.id = input.state.id;
        fault
    })
}

/// Refuses variables that no event can bind.
fn bound(line: &[u8], request: Request) -> Result<Request, Fault> {
    let Some((var, pos)) = request.unbound() else { return Ok(request) };
    let expected = match request.event {
        Some(_) => "a value; an event cannot use its own variables",
        None => "a value; there is no event to take it from",
    };
    let mut fault = Fault::new(line, pos.0, Status::UNBOUND_VAR, expected.into());
    fault.found = format!("`{var}`");
    Err(of_request(fault, &request))
}

fn refuse(line: &[u8], extension: Extension, at: usize) -> Fault {
    let expected = format!("OMIS 1.0; {extension} is an extension");
    Fault::new(line, at, Status::SYNTAX, expected.into())
}

/// The fault with the number and the service of the line that has it.
fn of_request(fault: Fault, request: &Request) -> Fault {
    let service = request.head().map(|basic| basic.service.clone());
    Fault { id: request.id(), service, ..fault }
}
