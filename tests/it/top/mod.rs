//! The screen in a terminal of its own: keys in, what is seen out.

mod screen;
pub mod terminal;
