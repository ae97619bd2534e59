//! Clients of a daemon: the library, the commands, the manual of the socket.

mod ask;
mod command;
mod library;
mod manual;
mod options;
mod pmix;
pub mod tool;
mod tour;
