//! Replies to calls: a result, or an error with its code, on one line.

use super::call::{Fault, Tag};
use super::line::to_line;
use monitor_model::{Refusal, Status};
use serde::{Deserialize, Serialize};

#[derive(Serialize)]
struct ResultLine<'a, R> {
    jsonrpc: &'static str,
    id: &'a Tag,
    result: R,
}

#[derive(Serialize)]
struct ErrorLine<'a> {
    jsonrpc: &'static str,
    id: Option<&'a Tag>,
    error: ErrorObject<'a>,
}

#[derive(Serialize)]
struct ErrorObject<'a> {
    code: i32,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<ErrorData>,
}

#[derive(Serialize)]
struct ErrorData {
    status: &'static str,
}

/// A reply to a call, as far as its reader needs it.
#[derive(Debug, Deserialize)]
pub struct CallReply<T> {
    result: Option<T>,
    error: Option<CallError>,
}

#[derive(Debug, Deserialize)]
struct CallError {
    message: String,
}

impl<T> CallReply<T> {
    /// The result.
    ///
    /// # Errors
    ///
    /// The message of its error, or `without` if it has neither.
    pub fn into_result(self, without: &str) -> Result<T, String> {
        match (self.result, self.error) {
            (Some(result), _) => Ok(result),
            (None, Some(error)) => Err(error.message),
            (None, None) => Err(without.to_owned()),
        }
    }
}

/// Serializes a result.
pub fn result_line(id: &Tag, result: impl Serialize) -> Vec<u8> {
    to_line(&ResultLine { jsonrpc: "2.0", id, result })
}

/// Serializes a refusal.
pub fn refusal_line(id: &Tag, refusal: &Refusal) -> Vec<u8> {
    let data = Some(ErrorData { status: refusal.status.name() });
    let error = ErrorObject { code: refusal.status.number(), message: &refusal.message, data };
    to_line(&ErrorLine { jsonrpc: "2.0", id: Some(id), error })
}

/// The line for an invalid call.
pub fn fault_line(fault: &Fault) -> Vec<u8> {
    let data = Status::from_number(fault.code).map(|status| ErrorData { status: status.name() });
    let error = ErrorObject { code: fault.code, message: &fault.message, data };
    to_line(&ErrorLine { jsonrpc: "2.0", id: fault.tag.as_ref(), error })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_has_its_code_and_its_name() {
        let line = refusal_line(&Tag::Number(3), &Refusal::absent("no process 9"));
        assert_eq!(
            String::from_utf8(line).expect("text"),
            "{\"jsonrpc\":\"2.0\",\"id\":3,\"error\":{\"code\":-46,\
             \"message\":\"no process 9\",\"data\":{\"status\":\"NOT_FOUND\"}}}\n"
        );
    }

    #[test]
    fn a_fault_with_the_code_of_a_status_has_its_name() {
        let fault = Fault { tag: None, code: Status::BadParam.number(), message: "bad".into() };
        let text = String::from_utf8(fault_line(&fault)).expect("text");
        assert!(text.contains(r#""code":-27,"message":"bad","data":{"status":"BAD_PARAM"}"#));
    }

    #[test]
    fn a_fault_without_a_tag_has_a_null_id() {
        let fault = Fault { tag: None, code: -32700, message: "bad".into() };
        let text = String::from_utf8(fault_line(&fault)).expect("text");
        assert!(text.starts_with(r#"{"jsonrpc":"2.0","id":null,"error""#));
    }
}
