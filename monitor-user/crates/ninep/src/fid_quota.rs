//! A limit of fids over several connections.
//!
//! In: fids as connections make and forget them. Out: whether there may be a further one. A fid
//! costs memory of the server, and a client may have many connections.

use crate::error::{Errno, FileError};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many fids several connections have, and may have.
#[derive(Debug)]
pub struct FidQuota {
    /// Whose they are, as an explanation names it.
    whose: String,
    most: usize,
    used: AtomicUsize,
    /// A quota of more connections, in which these count too.
    within: Option<Arc<Self>>,
}

impl FidQuota {
    /// At most this many.
    pub fn new(most: usize, whose: impl Into<String>) -> Self {
        Self { whose: whose.into(), most, used: AtomicUsize::new(0), within: None }
    }

    /// Those that count here count in that quota too.
    #[must_use]
    pub fn within(self, all: &Arc<Self>) -> Self {
        Self { within: Some(Arc::clone(all)), ..self }
    }

    /// Counts a further fid.
    ///
    /// # Errors
    ///
    /// When the limit, or that of more connections, is reached; then it does not count.
    pub fn take(&self) -> Result<(), FileError> {
        if self.used.fetch_add(1, Ordering::Relaxed) >= self.most {
            self.used.fetch_sub(1, Ordering::Relaxed);
            let (most, whose) = (self.most, &self.whose);
            let why = format!("{most} fids, the limit of all connections of {whose}: clunk some");
            return Err(FileError::new(Errno::TooManyFids, why));
        }
        if let Some(all) = &self.within {
            all.take().inspect_err(|_| {
                self.used.fetch_sub(1, Ordering::Relaxed);
            })?;
        }
        Ok(())
    }

    /// This many are forgotten.
    pub fn give_back(&self, count: usize) {
        self.used.fetch_sub(count, Ordering::Relaxed);
        if let Some(all) = &self.within {
            all.give_back(count);
        }
    }

    /// How many there are.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fids_of_a_user_count_among_those_of_all() {
        let all = Arc::new(FidQuota::new(3, "all users"));
        let of = |name: &str| FidQuota::new(2, name).within(&all);
        let (one, other) = (of("user 1"), of("user 2"));
        let refused = |it: &FidQuota| it.take().err().map(|error| error.explanation);
        assert_eq!((refused(&one), refused(&one)), (None, None));
        let why = "2 fids, the limit of all connections of user 1: clunk some";
        assert_eq!(refused(&one), Some(why.to_owned()));
        assert_eq!(refused(&other), None);
        let why = "3 fids, the limit of all connections of all users: clunk some";
        assert_eq!(refused(&other), Some(why.to_owned()));
        one.give_back(2);
        assert_eq!((one.used(), other.used(), all.used()), (0, 1, 1));
        assert_eq!(refused(&other), None);
    }
}
