//! A fid that the server has.

use super::connection::Connection;
use std::sync::Arc;

/// A fid of the server, which is clunked when it is dropped.
#[derive(Debug)]
pub struct Fid {
    /// Its connection.
    pub connection: Arc<Connection>,
    /// Its number.
    pub number: u32,
}

impl Fid {
    /// A fid that the server has.
    pub const fn new(connection: Arc<Connection>, number: u32) -> Self {
        Self { connection, number }
    }
}

impl Drop for Fid {
    fn drop(&mut self) {
        self.connection.table.clunk(self.number);
    }
}
