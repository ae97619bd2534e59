//! Where another service serves its files.

use super::error::RemoteError;
use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;
use std::str::FromStr;
use tokio::net::UnixStream;

/// An address: the path of a Unix socket.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    path: PathBuf,
}

impl Address {
    /// The socket at this path.
    pub fn unix(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Connects.
    ///
    /// # Errors
    ///
    /// [`RemoteError::Unreachable`] with what the system says.
    pub(crate) async fn connect(&self) -> Result<UnixStream, RemoteError> {
        UnixStream::connect(&self.path).await.map_err(|why| RemoteError::Unreachable {
            address: self.to_string(),
            why: why.to_string(),
        })
    }
}

impl FromStr for Address {
    type Err = String;

    /// A path that begins with a slash, also behind `unix!`, as Plan 9 writes addresses.
    fn from_str(written: &str) -> Result<Self, String> {
        let path = written.strip_prefix("unix!").unwrap_or(written);
        if path.starts_with('/') {
            Ok(Self::unix(path))
        } else {
            Err(format!("{written:?} is no address: expected the path of a 9P socket"))
        }
    }
}

impl Display for Address {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.path.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_the_path_of_a_socket() {
        let path = Address::unix("/run/a.9p");
        assert_eq!("/run/a.9p".parse(), Ok(path.clone()));
        assert_eq!("unix!/run/a.9p".parse(), Ok(path.clone()));
        assert_eq!(path.to_string(), "/run/a.9p");
        for other in ["", "a.9p", "tcp!host!5640", "unix!a"] {
            assert!(other.parse::<Address>().is_err(), "{other}");
        }
    }
}
