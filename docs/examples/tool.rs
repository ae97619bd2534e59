//! A tool of the request language: asks once, and is told again and again.
//!
//! In: the socket of a daemon. Out: replies, as they come.

use monitor::client::{Error, tool::Tool};
use std::path::Path;
use std::sync::mpsc::channel;

/// How many nodes there are, in the words of a reply.
pub fn nodes(socket: &Path) -> Result<String, Error> {
    Tool::connect_to(socket)?.request_block("1 [] number_of_nodes()")
}

/// What is said as this user's own event is raised twice.
pub fn raised(socket: &Path) -> Result<[String; 3], Error> {
    let tool = Tool::connect_to(socket)?;
    tool.request_block("1 [] define_user_event(7)")?;
    let (sender, replies) = channel();
    tool.request("2 [0] user_event(7): 3 [0] print($1)", move |reply| {
        // Whoever has heard enough is gone.
        let _ = sender.send(reply.to_owned());
    })?;
    tool.request_block("4 [0] enable(2)")?;
    tool.request_block("5 [0] raise_event(7,\"a\"); 6 [0] raise_event(7,\"b\")")?;
    let next = || replies.recv().map_err(|_| Error::Lost);
    Ok([next()?, next()?, next()?])
}
