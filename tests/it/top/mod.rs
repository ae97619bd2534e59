//! The screen in a terminal of its own: keys in, what is seen out.

mod rule;
mod screen;
pub mod terminal;
