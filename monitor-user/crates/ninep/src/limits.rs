//! Limits of a connection. Going over one is an error with its name, and counted.

/// Bytes of the largest message that is accepted, its size field included.
pub const MESSAGE_BYTES: u32 = 64 << 10;
/// Bytes of the smallest `msize` that is negotiated; it is also the limit before Tversion.
pub const SMALLEST_MESSAGE_BYTES: u32 = 4 << 10;
/// Fids of a connection.
pub const FIDS: usize = 4096;
/// Fids of a connection that count in no quota of several: where others have used that up, a client
/// can still attach and read files.
pub const UNCOUNTED_FIDS: usize = 64;
/// Requests of a connection that wait for their reply.
pub const TAGS: usize = 256;
/// Bytes of the writes of a connection that wait.
pub const WAITING_BYTES: usize = 1 << 20;
/// Names in one Twalk; 9P2000 defines it.
pub const WALK_NAMES: usize = 16;
/// Bytes of replies that may wait for a client that does not read; then it is not read either.
pub const OUTPUT_BYTES: usize = 256 << 10;
/// Bytes of entries that the open directories of a connection keep.
pub const DIRECTORY_BYTES: usize = 1 << 20;

/// The limits of one connection, for tests that need small ones.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of the largest message.
    pub message_bytes: u32,
    /// Fids.
    pub fids: usize,
    /// Those of them that count in no quota of several connections.
    pub uncounted_fids: usize,
    /// Requests that wait for their reply.
    pub tags: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message_bytes: MESSAGE_BYTES,
            fids: FIDS,
            uncounted_fids: UNCOUNTED_FIDS,
            tags: TAGS,
        }
    }
}
