//! The access token: a client that sends it sees what the daemon sees.
//!
//! In: the path of a file, or the folder for a generated one. Out: whether a text is the token. A
//! file that other users may read is refused. A generated file is removed when the daemon ends.

use monitor_sys::random;
use rustix::fs::{Mode, OFlags};
use std::io::{self, Read, Write as _};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use subtle::ConstantTimeEq;

/// The name of the file, if none is configured.
const NAME: &str = "http.token";
/// Random bytes of a token.
const BYTES: usize = 16;
/// Longest token that is read from a file.
const LONGEST: u64 = 4096;

/// A token, and its file, if it has one.
pub struct AccessToken {
    text: String,
    path: Option<PathBuf>,
    /// Whether the file was generated in the default place, and is removed at the end.
    is_own: bool,
}

impl AccessToken {
    /// The token of the named file, which is created if missing; without a name, a new token in a
    /// new file in `folder`; without a folder, a new token without a file.
    ///
    /// # Errors
    ///
    /// When the file cannot be read or created, other users may read it, or it is too short.
    pub fn load(named: Option<&Path>, folder: Option<&Path>) -> io::Result<Self> {
        let path = named.map(Path::to_owned).or_else(|| folder.map(|it| it.join(NAME)));
        let Some(path) = path else {
            return Ok(Self { text: random::hex::<BYTES>()?, path: None, is_own: false });
        };
        let with_path = |why: io::Error| {
            io::Error::new(why.kind(), format!("the token {}: {why}", path.display()))
        };
        if named.is_none() {
            // A previous daemon that was killed may have left its file.
            let _ = std::fs::remove_file(&path);
        }
        let text = match read(&path) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => write(&path).map_err(with_path)?,
            other => other.map_err(with_path)?,
        };
        Ok(Self { text, is_own: named.is_none(), path: Some(path) })
    }

    /// The path of its file.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// The token.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether a text is the token, compared in constant time.
    pub fn matches(&self, said: &str) -> bool {
        self.text.as_bytes().ct_eq(said.as_bytes()).into()
    }
}

impl Drop for AccessToken {
    fn drop(&mut self) {
        if let Some(path) = self.path.as_ref().filter(|_| self.is_own) {
            // The file may have been removed already.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn read(path: &Path) -> io::Result<String> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = std::fs::File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let (mode, own) = (file.metadata()?, rustix::process::geteuid().as_raw());
    if mode.mode() & 0o077 != 0 {
        return Err(io::Error::other("other users may read it: chmod 600 it"));
    }
    if mode.uid() != own && mode.uid() != 0 {
        return Err(io::Error::other(format!("it belongs to user {}", mode.uid())));
    }
    let mut text = String::new();
    let _bytes = file.take(LONGEST).read_to_string(&mut text)?;
    let text = text.trim().to_owned();
    if text.len() < BYTES {
        return Err(io::Error::other(format!(
            "it has {} characters: at least {BYTES} are needed",
            text.len()
        )));
    }
    Ok(text)
}

fn write(path: &Path) -> io::Result<String> {
    let text = random::hex::<BYTES>()?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::from_raw_mode(0o600))?;
    writeln!(std::fs::File::from(file), "{text}")?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("monitor-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir(&folder).expect("a folder");
        folder
    }

    #[test]
    fn a_generated_token_is_private_new_each_time_and_removed_at_the_end() {
        let folder = folder("secret-own");
        let first = AccessToken::load(None, Some(&folder)).expect("a token");
        let path = first.path().expect("it has a file").to_owned();
        let mode = std::fs::metadata(&path).expect("a file").permissions().mode();
        assert_eq!((mode & 0o777, first.text.len()), (0o600, 32));
        let second = AccessToken::load(None, Some(&folder)).expect("another");
        assert!(
            second.matches(&second.text) && !second.matches(&first.text) && !second.matches("")
        );
        drop(second);
        assert!(!path.exists());
        let _ = std::fs::remove_dir_all(folder);
    }

    #[test]
    fn a_named_file_stays_and_is_refused_if_others_may_read_it() {
        let folder = folder("secret-named");
        let path = folder.join("token");
        drop(AccessToken::load(Some(&path), None).expect("it is made"));
        let text = std::fs::read_to_string(&path).expect("it stays");
        assert!(AccessToken::load(Some(&path), None).expect("it is read").matches(text.trim()));
        let readable = std::fs::Permissions::from_mode(0o644);
        std::fs::set_permissions(&path, readable).expect("it is ours");
        let why = AccessToken::load(Some(&path), None).map(drop).expect_err("it is open");
        assert!(why.to_string().ends_with("other users may read it: chmod 600 it"), "{why}");
        let _ = std::fs::remove_dir_all(folder);
    }
}
