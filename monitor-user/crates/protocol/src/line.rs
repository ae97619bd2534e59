//! A line of the socket.

use crate::terminal::write_json;
use serde::Serialize;

/// Serializes an object as a line, with its end.
pub fn to_line(object: &impl Serialize) -> Vec<u8> {
    let mut line = Vec::new();
    write_json(&mut line, object)
        .expect("all keys are strings, and writing to a vector cannot fail");
    line.push(b'\n');
    line
}
