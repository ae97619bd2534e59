//! The user of a node at the server, from a file that no other user may read.

use super::server::{Failed, failed};
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Longest file that is read.
const FILE_BYTES: u64 = 4096;
/// Permissions of other users than the owner.
const OTHERS: u32 = 0o077;

/// A user of an account of the server.
#[derive(Clone, PartialEq, Eq)]
pub struct NatsUser {
    /// Its name.
    pub name: String,
    /// Its password.
    pub password: String,
}

impl NatsUser {
    /// Reads the file, whose one line is `USER:PASSWORD`.
    ///
    /// # Errors
    /// It cannot be read, others may read it, or it has no such line.
    pub fn read(path: &Path) -> Result<Self, Failed> {
        let question = "credentials";
        let mut file = File::open(path).map_err(failed(question))?;
        let metadata = file.metadata().map_err(failed(question))?;
        if metadata.mode() & OTHERS != 0 {
            let why = format!("others may read {}: chmod 600 it", path.display());
            return Err(failed(question)(why));
        }
        let mut text = String::new();
        let read = file.by_ref().take(FILE_BYTES).read_to_string(&mut text);
        let _bytes = read.map_err(failed(question))?;
        let malformed = || format!("{}: expected one line, USER:PASSWORD", path.display());
        Self::from_line(text.trim_end()).ok_or_else(malformed).map_err(failed(question))
    }

    fn from_line(line: &str) -> Option<Self> {
        let (name, password) = line.split_once(':')?;
        let is_whole = !name.is_empty() && !password.is_empty() && !line.contains('\n');
        is_whole.then(|| Self { name: name.to_owned(), password: password.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_line_has_a_user_and_a_password() {
        let user = NatsUser::from_line("n1:a:b").expect("a user");
        assert_eq!((user.name.as_str(), user.password.as_str()), ("n1", "a:b"));
        for wrong in ["", "n1", "n1:", ":a", "n1:a\nn2:b"] {
            assert!(NatsUser::from_line(wrong).is_none(), "{wrong:?}");
        }
    }

    #[test]
    fn a_file_that_others_may_read_is_refused() {
        let path = std::env::temp_dir().join(format!("monitor-nats-user-{}", std::process::id()));
        std::fs::write(&path, "n1:secret\n").unwrap();
        let read_with = |mode| {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            NatsUser::read(&path).map(|user| user.password).map_err(|why| why.to_string())
        };
        assert_eq!(read_with(0o600).as_deref(), Ok("secret"));
        let error = read_with(0o640).expect_err("others may read it");
        assert!(error.starts_with("credentials: others may read "), "{error}");
        std::fs::remove_file(&path).unwrap();
        assert!(NatsUser::read(&path).is_err());
    }
}
