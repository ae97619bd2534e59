//! The token: who can read its file sees what the service sees.
//!
//! In: the path of a file, or the folder where one belongs, if one does. Out: whether somebody has
//! it. A file that others may read is no secret and is refused. One that was made here goes with
//! the service.

use rustix::fs::{Mode, OFlags};
use std::fmt::Write as _;
use std::io::{self, Read, Write as _};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use subtle::ConstantTimeEq;

/// Its name, where none is configured.
const NAME: &str = "http.token";
/// Random bytes of a token.
const BYTES: usize = 16;
/// Longest token that is taken from a file.
const LONGEST: u64 = 4096;

/// A token, and the file that holds it, if one does.
pub struct Secret {
    text: String,
    path: Option<PathBuf>,
    /// Whether the file was made here.
    own: bool,
}

impl Secret {
    /// What the file says; a file of our own where none is named, or the named one is not there;
    /// no file, where there is no folder for one.
    pub fn of(named: Option<&Path>, beside: Option<&Path>) -> io::Result<Self> {
        let path = named.map(Path::to_owned).or_else(|| beside.map(|it| it.join(NAME)));
        let Some(path) = path else {
            return Ok(Self { text: random()?, path: None, own: false });
        };
        let told = |why: io::Error| {
            io::Error::new(why.kind(), format!("the token {}: {why}", path.display()))
        };
        if named.is_none() {
            // What a service left behind that was killed.
            let _ = std::fs::remove_file(&path);
        }
        let text = match read(&path) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => write(&path).map_err(told)?,
            other => other.map_err(told)?,
        };
        Ok(Self { text, own: named.is_none(), path: Some(path) })
    }

    /// Its file.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// What it is, for who may know.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether this is it. How long that takes tells nothing of how much of it is right.
    pub fn is(&self, said: &str) -> bool {
        self.text.as_bytes().ct_eq(said.as_bytes()).into()
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        if let Some(path) = self.path.as_ref().filter(|_| self.own) {
            // Somebody may have taken it away.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn read(path: &Path) -> io::Result<String> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = std::fs::File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let (mode, own) = (file.metadata()?, rustix::process::geteuid().as_raw());
    if mode.mode() & 0o077 != 0 {
        return Err(io::Error::other("others may read it: chmod 600 it"));
    }
    if mode.uid() != own && mode.uid() != 0 {
        return Err(io::Error::other(format!("it belongs to user {}", mode.uid())));
    }
    let mut text = String::new();
    let _bytes = file.take(LONGEST).read_to_string(&mut text)?;
    let text = text.trim().to_owned();
    if text.len() < BYTES {
        return Err(io::Error::other(format!("{} letters: at least {BYTES}", text.len())));
    }
    Ok(text)
}

fn random() -> io::Result<String> {
    let mut bytes = [0; BYTES];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    let mut text = String::new();
    // Writing to a `String` cannot fail.
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}

fn write(path: &Path) -> io::Result<String> {
    let text = random()?;
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
    fn one_of_our_own_is_ours_alone_new_each_time_and_goes_with_us() {
        let folder = folder("secret-own");
        let first = Secret::of(None, Some(&folder)).expect("a token");
        let path = first.path().expect("it has a file").to_owned();
        let mode = std::fs::metadata(&path).expect("a file").permissions().mode();
        assert_eq!((mode & 0o777, first.text.len()), (0o600, 32));
        let second = Secret::of(None, Some(&folder)).expect("another");
        assert!(second.is(&second.text) && !second.is(&first.text) && !second.is(""));
        drop(second);
        assert!(!path.exists());
        let _ = std::fs::remove_dir_all(folder);
    }

    #[test]
    fn a_named_one_stays_and_is_refused_if_others_may_read_it() {
        let folder = folder("secret-named");
        let path = folder.join("token");
        drop(Secret::of(Some(&path), None).expect("it is made"));
        let text = std::fs::read_to_string(&path).expect("it stays");
        assert!(Secret::of(Some(&path), None).expect("it is read").is(text.trim()));
        let readable = std::fs::Permissions::from_mode(0o644);
        std::fs::set_permissions(&path, readable).expect("it is ours");
        let why = Secret::of(Some(&path), None).map(drop).expect_err("it is open");
        assert!(why.to_string().ends_with("others may read it: chmod 600 it"), "{why}");
        let _ = std::fs::remove_dir_all(folder);
    }
}
