//! A line of the socket.

use serde::Serialize;

/// Serializes an object as a line, with its end.
pub fn to_line(object: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(object)
        .expect("all keys are strings, and writing to a vector cannot fail");
    line.push(b'\n');
    line
}
