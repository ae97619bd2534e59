//! The copy that comes in to a session: its key, and what it has made so far.
//!
//! In: the begin and the end of copies. Out: which of them counts. A copy that has not come to its
//! end leaves nothing: its files are removed, by its own end or by the next copy that has the key.

use super::key::{CopyKey, Digest};
use monitor_control::session::{SessionError, SessionRecord, StoredFiles};

/// The copies to a session.
#[derive(Debug, Default)]
pub struct IncomingCopy {
    /// Permits them.
    pub key: CopyKey,
    /// The number of the last one.
    last: u64,
    /// What it has made, if it has not ended.
    made: Option<Vec<String>>,
}

impl IncomingCopy {
    /// A copy begins, and takes the place of one that has not ended. Returns its number.
    ///
    /// # Errors
    ///
    /// When the program of the session was executed.
    pub fn begin(
        &mut self,
        (record, stored): (&SessionRecord, &StoredFiles),
    ) -> Result<u64, SessionError> {
        self.undo((record, stored));
        record.begin_copy()?;
        self.last += 1;
        self.made = Some(Vec::new());
        Ok(self.last)
    }

    /// Whether a copy has neither ended nor lost its place.
    pub fn is_current(&self, number: u64) -> bool {
        self.made.is_some() && self.last == number
    }

    /// The current copy has made a file or a directory.
    pub fn add(&mut self, path: String) {
        self.made.get_or_insert_default().push(path);
    }

    /// The copy is complete: its files and these texts are those of the session.
    pub fn complete(&mut self, record: &SessionRecord, texts: (Vec<u8>, Vec<u8>), of: Digest) {
        self.made = None;
        self.key.used(of);
        record.end_copy(Some(texts));
    }

    /// Ends a copy that is not complete, and removes what it has made.
    pub fn cancel(&mut self, number: u64, of: (&SessionRecord, &StoredFiles)) {
        if self.is_current(number) {
            self.undo(of);
        }
    }

    fn undo(&mut self, (record, stored): (&SessionRecord, &StoredFiles)) {
        let Some(made) = self.made.take() else { return };
        for path in made.iter().rev() {
            // Its user may have removed it.
            let _gone = stored.remove(path);
        }
        record.end_copy(None);
    }
}
