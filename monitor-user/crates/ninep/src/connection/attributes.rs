//! Tstat, Twstat, Tclunk, Tremove and Tcreate.

use super::Connection;
use super::transfer::open_mode;
use crate::error::{Errno, FileError};
use crate::fid::{Fid, FidState};
use crate::pending::{Operation, Pending};
use crate::reply::Reply;
use crate::stat::{Attributes, DIRECTORY, Stat};
use crate::tree::{Deferred, Tree};
use crate::user::{Access, User};
use std::sync::Arc;

/// The bits of a mode that Twstat may change.
const PERMISSIONS: u32 = 0o777;

/// Refuses a mode that would change more than the permission bits of a file.
fn check_mode(mode: u32, file: &Attributes) -> Result<(), FileError> {
    let kind = if file.qid.is_directory() { DIRECTORY } else { 0 };
    if mode & !PERMISSIONS != kind {
        let why = format!("mode {mode:#o}: only the nine permission bits can be changed");
        return Err(FileError::new(Errno::NotPermitted, why));
    }
    Ok(())
}

/// Refuses a length that the user may not set, or that is not 0.
fn check_length(user: &User, file: &Attributes, length: u64) -> Result<(), FileError> {
    if !user.may(Access::Write, file) {
        let why = format!("user {} may not write {}", user.name, file.name);
        return Err(FileError::new(Errno::Denied, why));
    }
    if length != 0 || file.qid.is_directory() {
        let why = format!("the length of {} can only be set to 0", file.name);
        return Err(FileError::new(Errno::NotPermitted, why));
    }
    Ok(())
}

impl<T: Tree> Connection<T> {
    pub(super) fn stat(&mut self, tag: u16, number: u32) -> Result<(), FileError> {
        let fid = self.fids.get(number)?;
        let file = match &fid.state {
            FidState::File(file, _) => Some(&**file),
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

    /// Sets length, permission bits, time and name. A stat that changes nothing is a sync. What
    /// can be refused is checked first, and the name is changed before the rest: so all of it is
    /// done, or nothing.
    pub(super) fn write_stat(&mut self, tag: u16, fid: u32, to: &Stat) -> Result<(), FileError> {
        let of = self.fids.get(fid)?;
        let (user, mut node) = (Arc::clone(&of.user), of.node.clone());
        let same = Stat::unchanged();
        if to.user != same.user || to.group != same.group {
            let why = "owner and group of this file cannot be changed";
            return Err(FileError::new(Errno::NotPermitted, why));
        }
        let file = self.tree.attributes(&user, &node);
        let is_owner = user.uid == 0 || user.uid == file.uid;
        let mode = (to.mode != same.mode).then_some(to.mode);
        if let Some(mode) = mode {
            check_mode(mode, &file)?;
        }
        if mode.is_some() && !is_owner {
            let why = format!("user {} does not own {}", user.name, file.name);
            return Err(FileError::new(Errno::NotPermitted, why));
        }
        let length = (to.length != same.length).then_some(to.length);
        if let Some(length) = length {
            check_length(&user, &file, length)?;
        }
        if !to.name.is_empty() && to.name != file.name {
            node = self.rename(&user, &node, &to.name)?;
        }
        if let Some(mode) = mode {
            self.tree.set_permissions(&user, &node, mode & PERMISSIONS)?;
        }
        if length.is_some() {
            self.tree.truncate(&user, &node)?;
        }
        if to.modified_s != same.modified_s && is_owner {
            self.tree.set_modified(&user, &node, to.modified_s)?;
        }
        self.reply(tag, &Reply::WriteStat);
        Ok(())
    }

    /// Gives a file another name, which all fids of it follow.
    fn rename(
        &mut self,
        user: &Arc<User>,
        node: &T::Node,
        name: &str,
    ) -> Result<T::Node, FileError> {
        if matches!(name, "." | "..") || name.contains('/') {
            let why = format!("{name:?} is no name of a file");
            return Err(FileError::new(Errno::IllegalName, why));
        }
        let new = self.tree.rename(user, node, name)?;
        for fid in self.fids.all() {
            self.tree.follow_rename(&mut fid.node, (node, &new));
        }
        Ok(new)
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
            Some(file) => FidState::File(Box::new(file), mode),
            None => FidState::Directory(Box::new(self.list(&user, &node)?)),
        };
        let mut fid = Fid::closed(user, node);
        fid.state = state;
        self.fids.insert(number, fid)?;
        self.reply(tag, &Reply::Create { qid, iounit: 0 });
        Ok(())
    }
}
