//! What a connection serves: a tree of files, as a trait.
//!
//! A connection checks fids, tags, modes, offsets of directories and permission bits before it
//! calls the tree. The tree never waits: what is not there yet is `Pending`, or a future.

use crate::error::{Errno, FileError};
use crate::stat::Attributes;
use crate::user::User;
use bytes::Bytes;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenMode {
    /// Whether it can be read.
    pub read: bool,
    /// Whether it can be written.
    pub write: bool,
    /// Whether its content is removed first.
    pub truncate: bool,
}

/// What a read asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadRange {
    /// Where it begins.
    pub offset: u64,
    /// The most bytes.
    pub count: usize,
}

impl ReadRange {
    /// The bytes of a text in the range.
    pub fn part(&self, text: &Bytes) -> Bytes {
        let start = usize::try_from(self.offset).unwrap_or(usize::MAX).min(text.len());
        let end = start.saturating_add(self.count).min(text.len());
        text.slice(start..end)
    }
}

/// The direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To the client.
    Read,
    /// From the client.
    Write,
}

/// A result that is there, or will be.
pub enum Deferred<T> {
    /// It is there.
    Now(Result<T, FileError>),
    /// It will be. Dropped if the client abandons the request.
    Later(Later<T>),
}

/// A result that will be there.
pub type Later<T> = Pin<Box<dyn Future<Output = Result<T, FileError>> + Send>>;

/// The root that an attach reaches, and for which user.
pub struct Attached<N> {
    /// The user whose rights its fids have.
    pub user: Arc<User>,
    /// The root.
    pub root: N,
}

/// A tree of files, as one connection sees it.
pub trait Tree {
    /// What a fid names: a file, not opened.
    type Node: Clone;
    /// What an open fid has: a snapshot, a position, a queue. It ends with the fid.
    type File;

    /// The root for a user that the client names.
    ///
    /// # Errors
    ///
    /// When the client may not be that user, or there is no such tree.
    fn attach(&mut self, user: &str, tree: &str) -> Result<Attached<Self::Node>, FileError>;

    /// The file of this name in a directory; `..` is its parent, and the root is its own.
    ///
    /// # Errors
    ///
    /// When there is none.
    fn walk(&mut self, user: &User, from: &Self::Node, name: &str)
    -> Result<Self::Node, FileError>;

    /// The attributes of a file, at no cost: the length may be of the past.
    fn attributes(&self, user: &User, node: &Self::Node) -> Attributes;

    /// The attributes with the length that a read would find; `file` if it is open.
    fn stat(
        &mut self,
        user: &Arc<User>,
        node: &Self::Node,
        file: Option<&Self::File>,
    ) -> Deferred<Attributes> {
        let _ = file;
        Deferred::Now(Ok(self.attributes(user, node)))
    }

    /// The files of a directory, in a fixed order.
    ///
    /// # Errors
    ///
    /// When the directory has ended.
    fn entries(&mut self, user: &User, node: &Self::Node) -> Result<Vec<Attributes>, FileError>;

    /// Opens a file that is no directory.
    fn open(&mut self, user: &Arc<User>, node: &Self::Node, mode: OpenMode)
    -> Deferred<Self::File>;

    /// The bytes of a range that are there; none at the end. Bytes of a queue are taken from it
    /// only with `Ready`: a reply with them is then queued, and an abandoned read has taken none.
    fn read(
        &mut self,
        file: &mut Self::File,
        range: ReadRange,
        context: &mut Context<'_>,
    ) -> Poll<Result<Bytes, FileError>>;

    /// Writes at `offset`, and returns the number of bytes. A write that is `Pending` is called
    /// again with the same bytes, or [`Tree::abandon`] is.
    fn write(
        &mut self,
        file: &mut Self::File,
        (offset, content): (u64, &[u8]),
        context: &mut Context<'_>,
    ) -> Poll<Result<usize, FileError>> {
        let _ = (file, offset, content, context);
        Poll::Ready(Err(not_permitted("this file is not written")))
    }

    /// The client has abandoned a transfer that was `Pending`.
    fn abandon(&mut self, file: &mut Self::File, direction: Direction) {
        let _ = (file, direction);
    }

    /// Removes the content of a file (Twstat with length 0).
    ///
    /// # Errors
    ///
    /// Unless the tree supports it for this file.
    fn truncate(&mut self, user: &User, node: &Self::Node) -> Result<(), FileError> {
        let _ = (user, node);
        Err(not_permitted("this file has no length that can be set"))
    }

    /// Sets the nine permission bits of a file (Twstat with a mode). The user is its owner, or
    /// root.
    ///
    /// # Errors
    ///
    /// Unless the tree supports it for this file.
    fn set_permissions(
        &mut self,
        user: &User,
        node: &Self::Node,
        permissions: u32,
    ) -> Result<(), FileError> {
        let _ = (user, node, permissions);
        Err(not_permitted("the mode of this file cannot be changed"))
    }

    /// Sets when a file was changed, in seconds since 1970 (Twstat with a time). A file that has no
    /// such time of its own ignores it.
    ///
    /// # Errors
    ///
    /// When the file system refuses.
    fn set_modified(
        &mut self,
        user: &User,
        node: &Self::Node,
        modified_s: u32,
    ) -> Result<(), FileError> {
        let _ = (user, node, modified_s);
        Ok(())
    }

    /// Gives a file another name in its directory (Twstat with a name), which no file has, and
    /// returns it under that name.
    ///
    /// # Errors
    ///
    /// Unless the tree supports it for this file.
    fn rename(
        &mut self,
        user: &User,
        node: &Self::Node,
        name: &str,
    ) -> Result<Self::Node, FileError> {
        let _ = (user, node, name);
        Err(not_permitted("this file cannot have another name"))
    }

    /// A file was renamed: what another fid names follows it, if it is that file or below it.
    fn follow_rename(&self, node: &mut Self::Node, (old, new): (&Self::Node, &Self::Node)) {
        let _ = (node, old, new);
    }

    /// Removes a file.
    ///
    /// # Errors
    ///
    /// Unless the tree supports it for this file.
    fn remove(&mut self, user: &User, node: &Self::Node) -> Result<(), FileError> {
        let _ = (user, node);
        Err(not_permitted("files of this tree are not removed"))
    }

    /// Creates a file in a directory, and opens it; or a directory, if the permissions have the bit
    /// [`crate::stat::DIRECTORY`], and that is not opened here.
    ///
    /// # Errors
    ///
    /// Unless the tree supports it for this directory.
    fn create(
        &mut self,
        user: &User,
        directory: &Self::Node,
        file: (&str, u32, OpenMode),
    ) -> Result<(Self::Node, Option<Self::File>), FileError> {
        let _ = (user, directory, file);
        Err(not_permitted("files of this tree are not created"))
    }

    /// The name of a user, for attributes.
    fn user_name(&self, uid: u32) -> String;

    /// The name of a group, for attributes.
    fn group_name(&self, gid: u32) -> String;

    /// An error has been sent to the client: its explanation is what `err` says from now on.
    fn failed(&mut self, error: &FileError) {
        let _ = error;
    }
}

fn not_permitted(why: &str) -> FileError {
    FileError::new(Errno::NotPermitted, why)
}
