//! Random bytes of the kernel, random(4), which no process guesses.

use std::fs::File;
use std::io::{self, Read as _};

/// This number of random bytes.
///
/// # Errors
/// If `/dev/urandom` cannot be read.
pub fn bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// This number of random bytes as text: two hexadecimal digits for each.
///
/// # Errors
/// As [`bytes`].
pub fn hex<const N: usize>() -> io::Result<String> {
    Ok(bytes::<N>()?.iter().map(|it| format!("{it:02x}")).collect())
}
