//! The user of a node at the server, from a file that no other user may read.
//!
//! In: a file with one line: the seed of an nkey, or a user with its password. Out: which user this
//! is. The seed signs what the server sends, and is never sent.

use super::failure::{Failed, failed};
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Longest file that is read.
const FILE_BYTES: u64 = 4096;
/// Permissions of other users than the owner.
const OTHERS: u32 = 0o077;
/// How the seed of a user begins.
const SEED: &str = "SU";

/// A user of an account of the server.
#[derive(Clone, PartialEq, Eq)]
pub enum NatsUser {
    /// A user whose name is a public key.
    Seed(String),
    /// A user with a password.
    Password {
        /// Its name.
        name: String,
        /// Its password.
        password: String,
    },
}

impl NatsUser {
    /// Reads the file, whose one line is the seed of an nkey, or `USER:PASSWORD`.
    ///
    /// # Errors
    /// It cannot be read, others may read it, or it has no such line.
    pub fn read(path: &Path) -> Result<Self, Failed> {
        let question = "credentials";
        let shown = path.display();
        let mut file =
            File::open(path).map_err(|why| failed(question)(format!("{shown}: {why}")))?;
        let metadata = file.metadata().map_err(failed(question))?;
        if metadata.mode() & OTHERS != 0 {
            let why = format!("others may read {shown}: chmod 600 it");
            return Err(failed(question)(why));
        }
        let mut text = String::new();
        let read = file.by_ref().take(FILE_BYTES).read_to_string(&mut text);
        let _bytes = read.map_err(failed(question))?;
        let malformed = || {
            let want = "expected one line, the seed of a user (SU…) or USER:PASSWORD";
            failed(question)(format!("{shown}: {want}"))
        };
        Self::from_line(text.trim_end()).ok_or_else(malformed)
    }

    fn from_line(line: &str) -> Option<Self> {
        if line.starts_with(SEED) && nkeys::KeyPair::from_seed(line).is_ok() {
            return Some(Self::Seed(line.to_owned()));
        }
        let (name, password) = line.split_once(':')?;
        let is_whole = !name.is_empty() && !password.is_empty() && !line.contains('\n');
        let (name, password) = (name.to_owned(), password.to_owned());
        is_whole.then_some(Self::Password { name, password })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_line_is_a_seed_or_a_user_with_a_password() {
        let user = NatsUser::from_line("n1:a:b");
        let want = NatsUser::Password { name: "n1".to_owned(), password: "a:b".to_owned() };
        assert!(user == Some(want));
        let seed = nkeys::KeyPair::new_user().seed().unwrap();
        assert!(NatsUser::from_line(&seed) == Some(NatsUser::Seed(seed.clone())));
        // One that was cut is no seed, and no user either.
        for wrong in ["", "n1", "n1:", ":a", "n1:a\nn2:b", &seed[..20]] {
            assert!(NatsUser::from_line(wrong).is_none(), "{wrong:?}");
        }
    }

    #[test]
    fn a_file_that_others_may_read_is_refused() {
        let path = std::env::temp_dir().join(format!("monitor-nats-user-{}", std::process::id()));
        std::fs::write(&path, "n1:secret\n").unwrap();
        let read_with = |mode| {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            NatsUser::read(&path).map(drop).map_err(|why| why.to_string())
        };
        assert_eq!(read_with(0o600), Ok(()));
        let error = read_with(0o640).expect_err("others may read it");
        assert!(error.starts_with("credentials: others may read "), "{error}");
        std::fs::remove_file(&path).unwrap();
        assert!(NatsUser::read(&path).is_err());
    }
}
