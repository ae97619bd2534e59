//! Clients of a daemon: the library, the commands, the manual of the socket.

mod command;
mod library;
mod manual;
