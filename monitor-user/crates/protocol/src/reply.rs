//! What a call gets back: a result, or an error with a number, in one line.

use super::call::{Fault, Tag};
use monitor_model::status::{Refusal, Status};
use serde::Serialize;

#[derive(Serialize)]
struct Good<'a, R> {
    jsonrpc: &'static str,
    id: &'a Tag,
    result: R,
}

#[derive(Serialize)]
struct Bad<'a> {
    jsonrpc: &'static str,
    id: Option<&'a Tag>,
    error: Error<'a>,
}

#[derive(Serialize)]
struct Error<'a> {
    code: i32,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Data>,
}

#[derive(Serialize)]
struct Data {
    status: &'static str,
}

/// The line of a result.
pub fn good(id: &Tag, result: impl Serialize) -> Vec<u8> {
    finished(serde_json::to_vec(&Good { jsonrpc: "2.0", id, result }))
}

/// The line of a refusal.
pub fn refused(id: &Tag, refusal: &Refusal) -> Vec<u8> {
    let data = Some(Data { status: refusal.status.name() });
    let error = Error { code: refusal.status.number(), message: &refusal.message, data };
    finished(serde_json::to_vec(&Bad { jsonrpc: "2.0", id: Some(id), error }))
}

/// The line for what was no call.
pub fn faulty(fault: &Fault) -> Vec<u8> {
    let data = Status::of(fault.code).map(|status| Data { status: status.name() });
    let error = Error { code: fault.code, message: &fault.message, data };
    finished(serde_json::to_vec(&Bad { jsonrpc: "2.0", id: fault.tag.as_ref(), error }))
}

fn finished(line: serde_json::Result<Vec<u8>>) -> Vec<u8> {
    let mut line = line.expect("keys are strings and a vector takes every byte");
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_has_its_number_and_its_name() {
        let line = refused(&Tag::Number(3), &Refusal::absent("no process 9"));
        assert_eq!(
            String::from_utf8(line).expect("text"),
            "{\"jsonrpc\":\"2.0\",\"id\":3,\"error\":{\"code\":-46,\
             \"message\":\"no process 9\",\"data\":{\"status\":\"NOT_FOUND\"}}}\n"
        );
    }

    #[test]
    fn a_fault_with_the_number_of_a_status_has_its_name() {
        let fault = Fault { tag: None, code: Status::BadParam.number(), message: "bad".into() };
        let text = String::from_utf8(faulty(&fault)).expect("text");
        assert!(text.contains(r#""code":-27,"message":"bad","data":{"status":"BAD_PARAM"}"#));
    }

    #[test]
    fn a_fault_without_a_tag_is_told_with_none() {
        let fault = Fault { tag: None, code: -32700, message: "bad".into() };
        let text = String::from_utf8(faulty(&fault)).expect("text");
        assert!(text.starts_with(r#"{"jsonrpc":"2.0","id":null,"error""#));
    }
}
