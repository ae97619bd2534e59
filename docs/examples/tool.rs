//! A tool of the request language: one reply at once, and one at each occurrence of an event.
//!
//! In: the socket of a daemon. Out: replies, as they arrive.

use monitor_client::Error;
use monitor_client::tool::Tool;
use std::path::Path;
use std::sync::mpsc::channel;

/// The number of nodes, as a reply line.
pub fn nodes(socket: &Path) -> Result<String, Error> {
    Tool::connect_to(socket)?.request_block("1 [] number_of_nodes()")
}

/// The replies when a user event is raised twice.
pub fn raised(socket: &Path) -> Result<[String; 3], Error> {
    let tool = Tool::connect_to(socket)?;
    tool.request_block("1 [] define_user_event(7)")?;
    let (sender, replies) = channel();
    tool.request("2 [0] user_event(7): 3 [0] print($1)", move |reply| {
        // An error only means that the receiver was dropped.
        let _ = sender.send(reply.to_owned());
    })?;
    tool.request_block("4 [0] enable(2)")?;
    tool.request_block("5 [0] raise_event(7,\"a\"); 6 [0] raise_event(7,\"b\")")?;
    let next = || replies.recv().map_err(|_| Error::Lost);
    Ok([next()?, next()?, next()?])
}
