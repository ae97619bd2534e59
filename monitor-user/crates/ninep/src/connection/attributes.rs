//! Tstat, Twstat, Tclunk, Tremove and Tcreate.

use super::Connection;
use super::transfer::open_mode;
use crate::error::{Errno, FileError};
use crate::fid::{Fid, FidState};
use crate::pending::{Operation, Pending};
use crate::reply::Reply;
use crate::stat::{DIRECTORY, Stat};
use crate::tree::{Deferred, Tree};
use crate::user::Access;
use std::sync::Arc;

impl<T: Tree> Connection<T> {
    pub(super) fn stat(&mut self, tag: u16, number: u32) -> Result<(), FileError> {
        let fid = self.fids.get(number)?;
        let file = match &fid.state {
            FidState::File(file, _) => Some(file),
            _ => None,
        };
        match self.tree.stat(&fid.user, &fid.node, file) {
            Deferred::Now(attributes) => {
                let stat = Box::new(self.stat_of(attributes?));
                self.reply(tag, &Reply::Stat { stat });
                Ok(())
            }
            Deferred::Later(later) => self.wait(Pending::new(tag, number, Operation::Stat(later))),
        }
    }

    /// Only the length can be set, and only to 0. A stat that changes nothing is a sync.
    pub(super) fn write_stat(&mut self, tag: u16, fid: u32, to: &Stat) -> Result<(), FileError> {
        let fid = self.fids.get(fid)?;
        let same = Stat::unchanged();
        // The qid, its own types and the modifier are the server's: what is there is not compared.
        let others = Stat {
            length: same.length,
            qid: same.qid,
            kind: same.kind,
            device: same.device,
            modifier: String::new(),
            ..to.clone()
        };
        let times = Stat { accessed_s: same.accessed_s, modified_s: same.modified_s, ..others };
        if times != same {
            let why = "name, mode, owner and group of this file cannot be changed";
            return Err(FileError::new(Errno::NotPermitted, why));
        }
        if to.length != same.length {
            let (user, node) = (Arc::clone(&fid.user), fid.node.clone());
            self.set_length(&user, &node, to.length)?;
        }
        self.reply(tag, &Reply::WriteStat);
        Ok(())
    }

    fn set_length(
        &mut self,
        user: &Arc<crate::User>,
        node: &T::Node,
        length: u64,
    ) -> Result<(), FileError> {
        let file = self.tree.attributes(user, node);
        if !user.may(Access::Write, &file) {
            let why = format!("user {} may not write {}", user.name, file.name);
            return Err(FileError::new(Errno::Denied, why));
        }
        if length != 0 || file.qid.is_directory() {
            let why = format!("the length of {} can only be set to 0", file.name);
            return Err(FileError::new(Errno::NotPermitted, why));
        }
        self.tree.truncate(user, node)
    }

    pub(super) fn clunk(&mut self, tag: u16, number: u32) -> Result<(), FileError> {
        self.fids.get(number)?;
        self.forget(number);
        self.reply(tag, &Reply::Clunk);
        Ok(())
    }

    /// Removes a file. The fid is forgotten also if that fails.
    pub(super) fn remove(&mut self, tag: u16, number: u32) -> Result<(), FileError> {
        let fid = self.fids.get(number)?;
        let (user, node) = (Arc::clone(&fid.user), fid.node.clone());
        self.forget(number);
        self.tree.remove(&user, &node)?;
        self.reply(tag, &Reply::Remove);
        Ok(())
    }

    /// Forgets a fid. Requests that wait on it fail.
    fn forget(&mut self, number: u32) {
        for tag in self.pending.remove_fid(number) {
            let why = format!("fid {number} was clunked while the request waited");
            self.error(tag, &FileError::new(Errno::BadFidUse, why));
        }
        drop(self.fids.remove(number));
    }

    pub(super) fn create(
        &mut self,
        tag: u16,
        number: u32,
        (name, permissions, mode): (&str, u32, u8),
    ) -> Result<(), FileError> {
        let fid = self.fids.get(number)?;
        if !matches!(fid.state, FidState::Closed) {
            let why = format!("fid {number} is open: create with one that is not");
            return Err(FileError::new(Errno::BadFidUse, why));
        }
        let (user, node) = (Arc::clone(&fid.user), fid.node.clone());
        let mode = open_mode(mode)?;
        if permissions & DIRECTORY != 0 && (mode.write || mode.truncate) {
            let why = format!("{name:?} would be a directory, which is not opened for writing");
            return Err(FileError::new(Errno::IsDirectory, why));
        }
        let directory = self.tree.attributes(&user, &node);
        if !directory.qid.is_directory() {
            let why = format!("{} is not a directory", directory.name);
            return Err(FileError::new(Errno::NotDirectory, why));
        }
        if matches!(name, "" | "." | "..") || name.contains('/') {
            let why = format!("{name:?} is no name of a file");
            return Err(FileError::new(Errno::IllegalName, why));
        }
        if !user.may(Access::Write, &directory) {
            let why = format!("user {} may not create files in {}", user.name, directory.name);
            return Err(FileError::new(Errno::Denied, why));
        }
        let (node, file) = self.tree.create(&user, &node, (name, permissions, mode))?;
        let qid = self.tree.attributes(&user, &node).qid;
        let state = match file {
            Some(file) => FidState::File(file, mode),
            None => FidState::Directory(self.list(&user, &node)?),
        };
        let mut fid = Fid::closed(user, node);
        fid.state = state;
        self.fids.insert(number, fid);
        self.reply(tag, &Reply::Create { qid, iounit: 0 });
        Ok(())
    }
}
