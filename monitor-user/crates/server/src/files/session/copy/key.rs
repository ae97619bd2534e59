//! The key of a session: a secret that permits one copy of another session to it.
//!
//! In: the time, what a copy says. Out: whether the copy may begin. Keys are compared in constant
//! time. A copy that has not come to its end leaves the key as it was, so that another node may
//! bring it after the first one has died; one that has come to its end may be brought again only
//! with the same content, which changes nothing.

use monitor_control::session::{Refusal, SessionError};
use monitor_sys::random;
use std::time::{Duration, Instant};
use subtle::ConstantTimeEq as _;

/// Random bytes of a key; it has twice as many digits.
const KEY_BYTES: usize = 16;
/// Digits of a key.
pub const KEY_DIGITS: usize = 2 * KEY_BYTES;
/// How long a key is valid.
pub const KEY_TIME: Duration = Duration::from_secs(600);

/// The SHA-256 of what is copied.
pub type Digest = [u8; 32];

/// The key of a session.
#[derive(Debug, Default)]
pub struct CopyKey(Option<IssuedKey>);

struct IssuedKey {
    text: String,
    until: Instant,
    /// What it was used for.
    used: Option<Digest>,
}

/// A key is in no log.
impl std::fmt::Debug for IssuedKey {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "IssuedKey(used: {})", self.used.is_some())
    }
}

/// What a copy with a valid key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyUse {
    /// The first one that comes to its end.
    First,
    /// The same content as before: it is there.
    Repeated,
}

impl CopyKey {
    /// A new key; an earlier one is not valid any longer.
    ///
    /// # Errors
    ///
    /// When the kernel has no random bytes.
    pub fn issue(&mut self, now: Instant) -> Result<String, SessionError> {
        let text = random::hex::<KEY_BYTES>().map_err(|it| SessionError::kernel("key", &it))?;
        self.0 = Some(IssuedKey { text: text.clone(), until: now + KEY_TIME, used: None });
        Ok(text)
    }

    /// Checks what a copy of this content says.
    ///
    /// # Errors
    ///
    /// When the key is another one, has expired, or was used for other content.
    pub fn check(&self, said: &str, of: &Digest, now: Instant) -> Result<KeyUse, SessionError> {
        let denied = |why: &str| Err(SessionError::new(Refusal::Denied, why));
        let known = self.0.as_ref().filter(|it| it.text.as_bytes().ct_eq(said.as_bytes()).into());
        match known {
            None => denied("the key is not that of the session: read its file key"),
            Some(it) if now >= it.until => denied("the key has expired: read the file key again"),
            Some(it) => match &it.used {
                None => Ok(KeyUse::First),
                Some(used) if used == of => Ok(KeyUse::Repeated),
                Some(_) => denied("the key was used: read the file key again"),
            },
        }
    }

    /// A copy of this content has come to its end.
    pub fn used(&mut self, of: Digest) {
        if let Some(it) = &mut self.0 {
            it.used = Some(of);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(result: Result<KeyUse, SessionError>) -> String {
        result.expect_err("refused").why
    }

    #[test]
    fn a_key_permits_one_copy_for_its_time() {
        let (now, of) = (Instant::now(), [1; 32]);
        let mut it = CopyKey::default();
        assert!(refusal(it.check("", &of, now)).contains("not that of the session"));
        let first = it.issue(now).expect("random bytes");
        assert_eq!(first.len(), KEY_DIGITS);
        assert_eq!(it.check(&first, &of, now), Ok(KeyUse::First));
        let wrong = format!("{}x", &first[..KEY_DIGITS - 1]);
        for said in ["", "0", &first[1..], &wrong] {
            assert!(refusal(it.check(said, &of, now)).contains("not that"), "{said}");
        }
        // A copy that has not come to its end leaves it.
        assert_eq!(it.check(&first, &of, now + KEY_TIME / 2), Ok(KeyUse::First));
        assert!(refusal(it.check(&first, &of, now + KEY_TIME)).contains("expired"));
        it.used(of);
        assert_eq!(it.check(&first, &of, now), Ok(KeyUse::Repeated));
        assert!(refusal(it.check(&first, &[2; 32], now)).contains("was used"));
        let second = it.issue(now).expect("random bytes");
        assert!(refusal(it.check(&first, &of, now)).contains("not that"));
        assert_eq!(it.check(&second, &[2; 32], now), Ok(KeyUse::First));
    }
}
