//! Parses whole lines: an event and stages of actions, or replies.

use super::basic::{answer, basic};
use super::input::{Input, Parsed, accept, offset, space, wrong};
use crate::{Basic, Extension, Reply, Request, Stage, Status};

/// Parses a request.
pub fn request(input: &mut Input<'_>) -> Parsed<Request> {
    space(input)?;
    let first = basic(input)?;
    if !accept(input, b':')? {
        let expected = "`:`, `,`, `;` or the end of the line";
        return Ok(Request { event: None, stages: actions(input, first, expected)? });
    }
    let action = basic(input)?;
    let stages = actions(input, action, "`,`, `;` or the end of the line")?;
    Ok(Request { event: Some(first), stages })
}

/// Parses actions without an event.
pub fn stages(input: &mut Input<'_>) -> Parsed<Vec<Stage>> {
    space(input)?;
    let first = basic(input)?;
    actions(input, first, "`,`, `;` or the end of the line")
}

/// Parses the answers of a reply.
pub fn reply(input: &mut Input<'_>) -> Parsed<Reply> {
    space(input)?;
    let mut answers = vec![answer(input)?];
    while accept(input, b';')? {
        answers.push(answer(input)?);
    }
    end(input, "`;` or the end of the line")?;
    Ok(Reply(answers))
}

/// The actions after the first: those after a comma run beside it, those after a semicolon later.
fn actions(input: &mut Input<'_>, first: Basic, expected: &'static str) -> Parsed<Vec<Stage>> {
    let (mut done, mut stage) = (Vec::new(), vec![first]);
    let (mut has_comma, mut has_semicolon) = (false, false);
    loop {
        let at = offset(input);
        if accept(input, b',')? {
            has_comma = true;
        } else if accept(input, b';')? {
            has_semicolon = true;
            done.push(Stage(std::mem::take(&mut stage)));
        } else {
            break;
        }
        if has_comma && has_semicolon {
            input.state.used.note(Extension::MixedSeparators, at);
        }
        stage.push(basic(input)?);
    }
    end(input, expected)?;
    done.push(Stage(stage));
    Ok(done)
}

fn end(input: &Input<'_>, expected: &'static str) -> Parsed<()> {
    if input.is_empty() { Ok(()) } else { Err(wrong(input, Status::SYNTAX, expected)) }
}
