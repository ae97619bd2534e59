//! The request language of OMIS 1.0: text to data and back.
//!
//! ```text
//!  a line -> parse -> Request -> (an engine) -> Answer -> unify -> Reply -> print -> a line
//!                 -> Fault -------------------------------------> Reply
//! ```
//!
//! In: lines of bytes. Out: requests and replies as data, or where and why a line is neither.
//! The grammar and what is an extension of the specification stand in docs/REQUESTS.md.
//! Knows no service, no object, no clock and no door: that a request names process 7 is a claim.

// The words of the language.
pub mod name;
pub mod number;
pub mod status;
pub mod text;
pub mod token;
// What is built of them.
pub mod reply;
pub mod request;
pub mod value;
// From text and to text.
pub mod dialect;
pub mod fault;
pub mod limit;
pub mod parse;
pub mod picture;
pub mod print;
// What both ends do with requests and replies before any object is known.
pub mod define;
pub mod kind;
pub mod localise;
pub mod object;
pub mod unify;

#[cfg(test)]
mod arbitrary;
#[cfg(test)]
mod tests;

pub use dialect::{Dialect, Extension};
pub use fault::Fault;
pub use name::Name;
pub use number::{Float, Int};
pub use reply::{Answer, Reply};
pub use request::{Arg, Basic, Node, NodeRef, Request, RequestId, Spot, Stage};
pub use status::Status;
pub use text::{Binary, Text};
pub use token::Token;
pub use value::{Expr, Value, Var};
