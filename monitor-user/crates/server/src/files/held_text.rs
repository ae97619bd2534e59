//! A text that counts for a user while it is kept.

use crate::user_shares::UserShare;
use bytes::Bytes;
use std::sync::Arc;

/// The text.
pub struct HeldText {
    text: Bytes,
    share: Arc<UserShare>,
}

impl HeldText {
    /// Counts from now on.
    pub fn new(text: impl Into<Bytes>, share: &Arc<UserShare>) -> Self {
        let text = text.into();
        share.add(text.len());
        Self { text, share: Arc::clone(share) }
    }

    /// The text.
    pub fn text(&self) -> Bytes {
        self.text.clone()
    }

    /// Its bytes.
    pub fn len(&self) -> usize {
        self.text.len()
    }
}

impl Drop for HeldText {
    fn drop(&mut self) {
        self.share.remove(self.text.len());
    }
}
