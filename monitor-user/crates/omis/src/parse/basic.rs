//! Parses basic requests and basic replies: a number, a node list, a name, parameters.
//!
//! The grammar of the specification has commas between the first three, its examples have none;
//! both forms are accepted. A request may omit the number and the node list, an extension.

use super::input::{Input, Parsed, accept, bracketed, offset, pos, too_many, wrong, wrong_at};
use super::number::int;
use super::value::{expr, name, var};
use crate::{Answer, Arg, Basic, Expr, Extension, Int, Node, NodeRef, RequestId, Status, Value};

const ID: &str = "a request id";
const NODE: &str = "a node number";

/// Parses a basic request.
pub fn basic(input: &mut Input<'_>) -> Parsed<Basic> {
    count(input)?;
    let at = offset(input);
    let id = id(input)?;
    let nodes = nodes(input, node_ref)?;
    if id.is_none() || nodes.is_none() {
        input.state.used.note(Extension::RoutedByObject, at);
    }
    let pos = pos(input);
    let service = name(input, missing(id.is_some(), nodes.is_some()))?;
    let mut args = Vec::new();
    bracketed(input, *b"()", ["`(`", "`,` or `)`"], |input| {
        let pos = self::pos(input);
        args.push(Arg { expr: expr(input)?, pos });
        Ok(())
    })?;
    Ok(Basic { id, nodes, service, args, pos })
}

/// Parses a basic reply.
pub fn answer(input: &mut Input<'_>) -> Parsed<Answer> {
    count(input)?;
    let id = id(input)?.ok_or_else(|| wrong(input, Status::SYNTAX, ID))?;
    let mut nodes =
        nodes(input, node)?.ok_or_else(|| wrong(input, Status::SYNTAX, "a node list"))?;
    nodes.sort_unstable();
    nodes.dedup();
    let service = name(input, missing(true, true))?;
    let mut status = None;
    let mut results = Vec::new();
    let begin = input.input;
    bracketed(input, *b"()", ["`(`", "`,` or `)`"], |input| {
        match status {
            None => status = Some(self::status(input)?),
            Some(_) => results.push(value(input)?),
        }
        Ok(())
    })?;
    let status = status.ok_or_else(|| wrong_at(&begin[1..], Status::ARITY, "a status"))?;
    Ok(Answer { id, nodes, service, status, results })
}

fn count(input: &mut Input<'_>) -> Parsed<()> {
    let most = input.state.limits.members;
    if input.state.members == most {
        return Err(too_many(input.input, most, "basic requests in a line"));
    }
    input.state.members += 1;
    Ok(())
}

/// What may still come where the name of the service is missing.
fn missing(has_id: bool, has_nodes: bool) -> &'static str {
    match (has_id, has_nodes) {
        (false, false) => "a request id, a node list or a service",
        (true, false) => "a node list or a service",
        (_, true) => "a service",
    }
}

fn id(input: &mut Input<'_>) -> Parsed<Option<RequestId>> {
    if !input.first().is_some_and(|first| first.is_ascii_digit() || b"+-.".contains(first)) {
        return Ok(None);
    }
    let id = RequestId(int(input, "an integer as request id")?);
    let _ = input.state.id.get_or_insert(id);
    let _ = accept(input, b',')?;
    Ok(Some(id))
}

fn nodes<'i, T>(
    input: &mut Input<'i>,
    mut item: impl FnMut(&mut Input<'i>) -> Parsed<T>,
) -> Parsed<Option<Vec<T>>> {
    if input.first() != Some(&b'[') {
        return Ok(None);
    }
    let mut nodes = Vec::new();
    bracketed(input, *b"[]", ["a node list", "`,` or `]`"], |input| {
        nodes.push(item(input)?);
        Ok(())
    })?;
    let _ = accept(input, b',')?;
    Ok(Some(nodes))
}

fn node_ref(input: &mut Input<'_>) -> Parsed<NodeRef> {
    if input.first() == Some(&b'$') {
        let pos = pos(input);
        return Ok(NodeRef::Var(var(input)?, pos));
    }
    node(input).map(NodeRef::Number)
}

fn node(input: &mut Input<'_>) -> Parsed<Node> {
    let begin = input.input;
    if !begin.first().is_some_and(|first| first.is_ascii_digit() || b"+-.".contains(first)) {
        return Err(wrong(input, Status::SYNTAX, NODE));
    }
    let number: Int = int(input, NODE)?;
    let number = number.get().map(Node);
    number.ok_or_else(|| wrong_at(begin, Status::RANGE, "a node number from 0 to 2^32-1"))
}

fn status(input: &mut Input<'_>) -> Parsed<Status> {
    let begin = input.input;
    let status = value(input)?.integer().map(Status);
    status.ok_or_else(|| wrong_at(begin, Status::TYPE, "a status, an integer of 32 bits"))
}

fn value(input: &mut Input<'_>) -> Parsed<Value> {
    let begin = input.input;
    let no_value = || wrong_at(begin, Status::SYNTAX, "a value; a reply has no variables");
    match expr(input)? {
        Expr::Value(value) => Ok(value),
        Expr::Var(_) | Expr::List(_) => Err(no_value()),
    }
}
