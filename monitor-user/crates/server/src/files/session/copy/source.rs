//! What is copied, from which session, and until when.

use super::super::LiveSession;
use super::manifest::CopiedContent;
use std::sync::Arc;
use tokio::time::Instant;

/// A session that is copied to others.
pub struct CopySource {
    /// The session.
    pub live: Arc<LiveSession>,
    /// What is copied of it.
    pub content: CopiedContent,
    /// The sessions that the copy has come through, with this one.
    pub through: Vec<String>,
    /// When all of it must have ended.
    pub until: Instant,
    /// Parts of the tree; 0 is one for each target.
    pub width: usize,
}
