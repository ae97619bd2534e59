//! Files and disks of a node.

use monitor_event::outcome::Refusal;
use monitor_model::id::Identity;
use monitor_sys::extents::Extent;

/// How a file lies on its disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileLayout {
    /// The file, as its process sees it.
    pub path: Vec<u8>,
    /// The numbers of the device: `8:1`.
    pub device: String,
    /// How long it is.
    pub size: u64,
    /// Its pieces.
    pub extents: Vec<Extent>,
    /// Whether there are more of them.
    pub is_truncated: bool,
}

/// The space of a file system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileSystemSpace {
    /// Where it is mounted.
    pub path: String,
    /// What it is mounted from.
    pub source: String,
    /// Bytes.
    pub size: u64,
    /// Bytes that are free.
    pub free: u64,
    /// Bytes that users may still have.
    pub avail: u64,
    /// Files that there can be.
    pub files: u64,
    /// Files that there can still be.
    pub files_free: u64,
}

/// Who knows files and disks.
pub trait Disks {
    /// How the file behind a descriptor of a process lies.
    fn file_layout(&mut self, id: Identity, descriptor: u32) -> Result<FileLayout, Refusal>;

    /// The space of each file system that is mounted from a device.
    fn file_systems(&mut self) -> Result<Vec<FileSystemSpace>, Refusal>;
}
