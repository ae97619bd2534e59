//! Limits of connections to the listeners. A refusal names the limit.

use super::user_shares::ShareLimits;
use monitor_protocol::LINE_BYTES;

/// Limits of connections.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConnectionLimits {
    /// Connections of one user.
    pub connections: usize,
    /// Connections of all users except root, which can always connect to diagnose problems.
    pub all_connections: usize,
    /// Bytes of samples queued for one connection.
    pub queue_bytes: usize,
    /// Bytes of one user on all its connections: unread replies and samples, unfinished lines.
    pub user_bytes: usize,
    /// Share of one processor that calls and requests of one user may take.
    pub processor: f64,
    /// Longest line of a request or call.
    pub request_bytes: usize,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            connections: 1024,
            all_connections: 8192,
            queue_bytes: 1 << 20,
            user_bytes: 16 << 20,
            processor: 0.1,
            request_bytes: LINE_BYTES,
        }
    }
}

impl ConnectionLimits {
    /// The limits of one user on all its connections.
    pub const fn of_user(&self) -> ShareLimits {
        ShareLimits { bytes: self.user_bytes, processor: self.processor }
    }

    /// Why a further connection is refused to a user with `own` connections, when all users except
    /// root have `all`; `None` if it is accepted.
    pub fn refuse(&self, uid: u32, own: usize, all: usize) -> Option<String> {
        if own >= self.connections {
            let max = self.connections;
            return Some(format!(
                "user {uid} has {max} connections, the limit \"connections\": close some"
            ));
        }
        (uid != 0 && all >= self.all_connections).then(|| {
            let max = self.all_connections;
            format!("{max} connections are open, the limit \"all_connections\": try again later")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_its_limit_and_root_is_accepted_beyond_it() {
        let limits =
            ConnectionLimits { connections: 2, all_connections: 3, ..ConnectionLimits::default() };
        assert_eq!(limits.refuse(7, 1, 2), None);
        assert!(limits.refuse(7, 2, 2).is_some_and(|why| why.contains("\"connections\"")));
        assert!(limits.refuse(7, 1, 3).is_some_and(|why| why.contains("\"all_connections\"")));
        assert_eq!(limits.refuse(0, 1, 3), None);
    }
}
