//! A line to a request or a reply, by recursive descent with one sign of look-ahead.
//!
//! In: a line of bytes, with or without its line break. Out: data, or the first fault.
//! Written with winnow; everything of it stays in this folder.
//! Nothing is allocated for what a line only claims to hold: each limit is looked at before the
//! element that would break it, and the length of a binary is compared with what is there.

mod basic;
mod input;
mod line;
mod number;
mod string;
mod value;

use super::dialect::{Dialect, Extension};
use super::fault::Fault;
use super::limit::{self, Limits};
use super::reply::Reply;
use super::request::{Request, Spot, Stage};
use super::status::Status;
use input::{Input, Parsed, State, Used};
use winnow::Parser;

/// Reads a request.
pub fn request(line: &[u8], dialect: Dialect) -> Result<Request, Fault> {
    let (request, used) = whole(line, &limit::REQUEST, line::request)?;
    match used.first() {
        Some((extension, at)) if dialect == Dialect::Strict => {
            let mut fault = refuse(line, extension, at);
            fault.id = request.id();
            Err(fault)
        }
        _ => bound(line, request),
    }
}

/// Reads the actions of a request without an event.
pub fn stages(text: &[u8]) -> Result<Vec<Stage>, Fault> {
    Ok(whole(text, &limit::REQUEST, line::stages)?.0)
}

/// The extensions that a request uses, each with the place of its first use.
pub fn extensions(line: &[u8]) -> Result<Vec<(Extension, Spot)>, Fault> {
    let (_, used) = whole(line, &limit::REQUEST, line::request)?;
    Ok(used.iter().map(|(extension, at)| (extension, Spot(at))).collect())
}

/// Reads a reply.
pub fn reply(line: &[u8]) -> Result<Reply, Fault> {
    Ok(whole(line, &limit::REPLY, line::reply)?.0)
}

fn whole<'i, T>(
    line: &'i [u8],
    limits: &'static Limits,
    mut parser: impl Parser<Input<'i>, T, input::Snag>,
) -> Result<(T, Used), Fault> {
    if line.len() > limits.line {
        let mut fault = Fault::new(line, limits.line, Status::LIMIT, "a shorter line".into());
        fault.found = format!("a line of {} bytes", line.len());
        fault.expected = format!("at most {}", limits.line).into();
        return Err(fault);
    }
    let mut input = Input { input: line, state: State::new(line.len(), limits) };
    let read: Parsed<T> = parser.parse_next(&mut input);
    read.map(|it| (it, input.state.used)).map_err(|snag| {
        let expected = match snag.most {
            Some(most) => format!("at most {most} {}", snag.expected).into(),
            None => snag.expected.into(),
        };
        let mut fault = Fault::new(line, line.len() - snag.left, snag.status, expected);
        fault.id = input.state.id;
        fault
    })
}

/// Where nothing can fill in a variable, there is no sense in having one.
fn bound(line: &[u8], request: Request) -> Result<Request, Fault> {
    let Some((var, spot)) = request.unbound() else { return Ok(request) };
    let expected = match request.event {
        Some(_) => "a value; an event cannot depend on its own variables",
        None => "a value; there is no event that could say what it is",
    };
    let mut fault = Fault::new(line, spot.0, Status::UNBOUND_VAR, expected.into());
    fault.found = format!("`{var}`");
    fault.id = request.id();
    Err(fault)
}

fn refuse(line: &[u8], extension: Extension, at: usize) -> Fault {
    let status = match extension {
        Extension::WideInteger => Status::RANGE,
        _ => Status::SYNTAX,
    };
    Fault::new(line, at, status, format!("OMIS 1.0; {extension} is an extension").into())
}
