//! The targets of `clone`: sessions of other services, each with its key.
//!
//! In: `ADDRESS/SESSION/KEY,…`. Out: targets, and the parts of a tree of them. Whether an address
//! can be reached is not known here.

use super::error::{Refusal, SessionError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};

/// Most targets of a tree.
pub const MAX_TARGETS: usize = 1024;
/// Most sessions that one session is copied to at a time.
pub const MAX_WIDTH: usize = 64;
/// Longest address, in bytes.
const MAX_ADDRESS: usize = 300;
/// Longest key, in bytes.
const MAX_KEY: usize = 64;

/// A session that others are copied to.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyTarget {
    /// Where its service serves files.
    pub address: String,
    /// Its number there.
    pub session: u32,
    /// The secret that permits the copy.
    pub key: String,
}

/// A target, and those that it copies to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyPart<T> {
    /// What gets a copy from here.
    pub head: T,
    /// What gets it from the head.
    pub rest: Vec<T>,
}

impl CopyTarget {
    /// Parses a list; commas at its end are ignored, as Xcpu does.
    ///
    /// # Errors
    ///
    /// When a target is none, is there twice, or there are too many.
    pub fn list(text: &[u8]) -> Result<Vec<Self>, SessionError> {
        let text = std::str::from_utf8(text);
        let text = text.map_err(|_| invalid("clone: the list of targets is no text".to_owned()))?;
        let all: Vec<Self> = text
            .split(',')
            .filter(|it| !it.is_empty())
            .map(Self::parse)
            .collect::<Result<_, _>>()?;
        check_list(&all)?;
        Ok(all)
    }

    fn parse(text: &str) -> Result<Self, SessionError> {
        let mut parts = text.rsplitn(3, '/');
        let (key, session, address) = (parts.next(), parts.next(), parts.next());
        let session = session.and_then(|it| it.parse().ok());
        match (address, session, key) {
            (Some(address), Some(session), Some(key)) => {
                Ok(Self { address: address.to_owned(), session, key: key.to_owned() })
            }
            // The end may be a key.
            _ => Err(invalid(
                "clone: a target has another form than ADDRESS/SESSION/KEY, such as \
                 tls!n1!5641/3/KEY with the content of the file key of that session"
                    .to_owned(),
            )),
        }
    }
}

/// Checks a list of targets, which another service may have sent.
///
/// # Errors
///
/// As [`CopyTarget::list`].
pub fn check_list(all: &[CopyTarget]) -> Result<(), SessionError> {
    if all.is_empty() || all.len() > MAX_TARGETS {
        let count = all.len();
        return Err(invalid(format!("clone: {count} targets; expected 1 to {MAX_TARGETS}")));
    }
    let mut known = BTreeSet::new();
    for it in all {
        let is_key = !it.key.is_empty() && it.key.len() <= MAX_KEY;
        let is_of_key = it.key.bytes().all(|it| it.is_ascii_alphanumeric());
        let is_address = !it.address.is_empty() && it.address.len() <= MAX_ADDRESS;
        if !is_key || !is_of_key || !is_address || it.address.chars().any(char::is_control) {
            return Err(invalid(format!("clone: {it:?} has no address, or no key")));
        }
        if !known.insert((it.address.as_str(), it.session)) {
            return Err(invalid(format!("clone: {it} is there twice")));
        }
    }
    Ok(())
}

/// Cuts targets into at most `width` parts of nearly the same size. A width of 0 is one part for
/// each target.
pub fn parts<T>(targets: Vec<T>, width: usize) -> Vec<CopyPart<T>> {
    let count = targets.len();
    let number = if width == 0 { count } else { width.min(count) };
    let mut targets = targets.into_iter();
    let mut all = Vec::with_capacity(number);
    for at in 0..number {
        let size = count / number + usize::from(at < count % number);
        let Some(head) = targets.next() else { break };
        all.push(CopyPart { head, rest: targets.by_ref().take(size - 1).collect() });
    }
    all
}

/// Without the key.
impl Display for CopyTarget {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.address, self.session)
    }
}

/// As it is displayed: a key is in no log.
impl fmt::Debug for CopyTarget {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        Display::fmt(self, out)
    }
}

fn invalid(why: String) -> SessionError {
    SessionError::new(Refusal::Invalid, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_addresses_sessions_and_keys() {
        let all = CopyTarget::list(b"tls!n1!5641/3/aa,/run/a.9p/4/bb,,").expect("two");
        let shown: Vec<String> = all.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["tls!n1!5641/3", "/run/a.9p/4"]);
        assert_eq!(all[1].key, "bb");
        assert_eq!(format!("{:?}", all[0]), "tls!n1!5641/3");
        for odd in ["", ",", "a", "a/3", "a/x/k", "/3/k", "a/3/", "a/3/k!", "a/1/k,a/1/l", "a/-1/k"]
        {
            assert!(CopyTarget::list(odd.as_bytes()).is_err(), "{odd}");
        }
        let many: String = (0..=MAX_TARGETS).map(|it| format!("a/{it}/k,")).collect();
        assert!(CopyTarget::list(many.as_bytes()).is_err());
    }

    #[test]
    fn parts_have_nearly_the_same_size_and_all_targets() {
        for (count, width, sizes) in [
            (64, 4, vec![16; 4]),
            (15, 4, vec![4, 4, 4, 3]),
            (3, 4, vec![1; 3]),
            (5, 0, vec![1; 5]),
            (5, 1, vec![5]),
            (0, 4, vec![]),
        ] {
            let all = parts((0..count).collect(), width);
            let got: Vec<usize> = all.iter().map(|it| 1 + it.rest.len()).collect();
            assert_eq!(got, sizes, "{count} {width}");
            let targets = all.into_iter().flat_map(|it| std::iter::once(it.head).chain(it.rest));
            assert!(targets.eq(0..count));
        }
    }
}
