//! What a door lets in at once: limits of connections, each with the name that a refusal tells.

use monitor_protocol::LINE_BYTES;

/// Limits of the doors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections of one user.
    pub connections: usize,
    /// Connections of all users but root, who can always come in to see what is wrong.
    pub all_connections: usize,
    /// Bytes of samples that wait for one connection.
    pub queue_bytes: usize,
    /// Longest line that is read.
    pub request_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1024,
            all_connections: 8192,
            queue_bytes: 1 << 20,
            request_bytes: LINE_BYTES,
        }
    }
}

impl Limits {
    /// Why one connection more is refused to a user who has `own`, while others have `all`.
    pub fn refuse(&self, uid: u32, own: usize, all: usize) -> Option<String> {
        if own >= self.connections {
            let most = self.connections;
            return Some(format!(
                "user {uid} has {most} connections, the limit \"connections\": close some"
            ));
        }
        (uid != 0 && all >= self.all_connections).then(|| {
            let most = self.all_connections;
            format!("{most} connections are open, the limit \"all_connections\": try again later")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_its_limit_and_root_comes_in_when_it_is_full() {
        let limits = Limits { connections: 2, all_connections: 3, ..Limits::default() };
        assert_eq!(limits.refuse(7, 1, 2), None);
        assert!(limits.refuse(7, 2, 2).is_some_and(|why| why.contains("\"connections\"")));
        assert!(limits.refuse(7, 1, 3).is_some_and(|why| why.contains("\"all_connections\"")));
        assert_eq!(limits.refuse(0, 1, 3), None);
    }
}
