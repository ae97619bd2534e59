//! The request language of OMIS 1.0: text to data and back.
//!
//! ```text
//!  a line -> parse -> Request -> (an engine) -> Answer -> unify -> Reply -> print -> a line
//!                 -> Fault -------------------------------------> Reply
//! ```
//!
//! In: lines of bytes. Out: requests and replies as data, or where and why a line is neither.
//! The grammar and the extensions of the specification are documented in docs/REQUESTS.md.
//! Knows no services, objects, clock or sockets: whether process 7 exists, the engine checks.

#![warn(clippy::missing_errors_doc)]

// Lexical elements.
pub mod id;
pub mod name;
pub mod number;
pub mod status;
pub mod text;
pub mod token;
// Requests, replies and values.
pub mod reply;
pub mod request;
pub mod value;
// From text and to text.
pub mod caret;
pub mod dialect;
pub mod fault;
pub mod limit;
pub mod parse;
pub mod print;
// Processing of requests and replies that needs no knowledge of objects.
pub mod define;
pub mod object;
pub mod param_type;
pub mod reply_pattern;
pub mod route;
pub mod unify;

#[cfg(test)]
mod tests;

pub use dialect::{Dialect, Extension};
pub use fault::Fault;
pub use id::{BytePos, Node, RequestId};
pub use name::Name;
pub use number::{Float, Int};
pub use reply::{Answer, Reply};
pub use request::{Arg, Basic, NodeRef, Request, Stage};
pub use status::Status;
pub use text::{Binary, Text};
pub use token::Token;
pub use value::{Expr, Value, Var};
