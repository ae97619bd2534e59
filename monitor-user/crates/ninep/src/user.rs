//! The user of an attach, and what the permission bits of a file allow it.

use crate::stat::Attributes;

/// The user that an attach is for. All its fids have the rights of this user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Its uid.
    pub uid: u32,
    /// Its primary group.
    pub gid: u32,
    /// Its supplementary groups.
    pub groups: Vec<u32>,
    /// Its name, or its uid if it has none.
    pub name: String,
}

/// A permission of a file or directory, by its bit for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read a file, list a directory.
    Read = 4,
    /// Write.
    Write = 2,
    /// Walk through a directory.
    Search = 1,
}

impl User {
    /// Whether a group is its primary one, or one of the others.
    pub fn in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }

    /// Whether the permission bits of a file allow this. Root may do everything.
    pub fn may(&self, access: Access, file: &Attributes) -> bool {
        let shift = if self.uid == file.uid {
            6
        } else if self.in_group(file.gid) {
            3
        } else {
            0
        };
        self.uid == 0 || file.permissions >> shift & access as u32 != 0
    }
}
