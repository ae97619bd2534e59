//! L2, processes under our hand: stopped, steered, looked into, started.
//!
//! ```text
//!  daemon                            | hand: a process of the requester's user
//!  hand::remote --- frames ---------> hand::serve -> Worker -> hold, trace, memory, ...
//!    keeps what to undo if it dies   |   undoes everything when its socket closes
//! ```
//!
//! In: orders, each on a process named by pid and start. Out: what was done, or why not, and what
//! happened later to threads that are traced. The kernel decides who may do what: a hand has the
//! rights of its user and no more. Knows no request, no service and no reading.

// What is asked, and what is answered.
pub mod act;
pub mod trouble;
// Whom it is done to, for whom, and how long it may take.
mod holder;
mod met;
mod patience;
pub mod subject;
// What is done.
mod checkpoint;
mod hold;
mod image;
mod loader;
mod machine;
mod memory;
mod signal;
mod site;
mod start;
mod trace;
mod unwind;
pub mod work;
mod worker;
// Who does it.
pub mod hand;

pub use act::{
    Act, Done, Dump, Frame, Happened, Image, Mark, Method, Names, Order, Patch, Program, Site,
    Spot, Tool, What,
};
pub use hand::Hand;
pub use monitor_event::thread::{Argument, Target};
pub use trouble::Trouble;
pub use work::{Deed, Term, Work};
pub use worker::Worker;
