//! Twalk: from a fid by names to another.

use super::Connection;
use crate::error::{Errno, FileError};
use crate::fid::{Fid, FidState};
use crate::reply::Reply;
use crate::tree::Tree;
use crate::user::{Access, User};
use std::sync::Arc;

impl<T: Tree> Connection<T> {
    /// Walks as far as it can. Only a walk to the end makes a fid, and only one that fails at its
    /// first name fails.
    pub(super) fn walk(
        &mut self,
        tag: u16,
        (fid, new): (u32, u32),
        names: &[&str],
    ) -> Result<(), FileError> {
        let from = self.fids.get(fid)?;
        if !matches!(from.state, FidState::Closed) {
            let why = format!("fid {fid} is open: walk from one that is not");
            return Err(FileError::new(Errno::BadFidUse, why));
        }
        let (user, mut node) = (Arc::clone(&from.user), from.node.clone());
        if new != fid {
            self.fids.check_new(new)?;
        }
        let mut qids = Vec::with_capacity(names.len());
        for name in names {
            match self.step(&user, &node, name) {
                Ok(next) => node = next,
                Err(error) if qids.is_empty() => return Err(error),
                Err(error) => {
                    // The client sees it by the number of qids; `err` says why.
                    self.tree.failed(&error);
                    break;
                }
            }
            qids.push(self.tree.attributes(&user, &node).qid);
        }
        if qids.len() == names.len() {
            self.fids.insert(new, Fid::closed(user, node))?;
        }
        self.reply(tag, &Reply::Walk { qids });
        Ok(())
    }

    fn step(&mut self, user: &User, from: &T::Node, name: &str) -> Result<T::Node, FileError> {
        if name.is_empty() || name == "." || name.contains('/') {
            let why = format!("{name:?} is no name of a file: walk by one name after another");
            return Err(FileError::new(Errno::IllegalName, why));
        }
        let directory = self.tree.attributes(user, from);
        if !directory.qid.is_directory() {
            let why = format!("{} is not a directory", directory.name);
            return Err(FileError::new(Errno::NotDirectory, why));
        }
        if !user.may(Access::Search, &directory) {
            let why = format!("user {} may not walk through {}", user.name, directory.name);
            return Err(FileError::new(Errno::Denied, why));
        }
        self.tree.walk(user, from, name)
    }
}
