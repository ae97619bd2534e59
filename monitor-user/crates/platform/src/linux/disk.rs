//! Files of this node's processes, and its disks.
//!
//! Only regular files are opened, and only file systems of devices are asked: a pipe, or a server
//! that does not answer, would have everybody wait.

use super::Linux;
use crate::disk::{Disks, FileLayout, FileSystemSpace};
use monitor_backends::host;
use monitor_backends::host::MountedDevice;
use monitor_event::outcome::Refusal;
use monitor_model::id::Identity;
use monitor_omis::Status;
use monitor_sys::extents::extents;
use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::MetadataExt as _;

impl Disks for Linux {
    fn file_layout(&mut self, id: Identity, descriptor: u32) -> Result<FileLayout, Refusal> {
        let link = format!("/proc/{}/fd/{descriptor}", id.pid.0);
        let facts = std::fs::metadata(&link).map_err(|why| refused("look at", &link, &why))?;
        if !facts.is_file() {
            let text = format!("descriptor {descriptor} is no regular file: it lies on no disk");
            return Err(Refusal::new(Status::WRONG_STATE, text));
        }
        let path = std::fs::read_link(&link).map_err(|why| refused("read", &link, &why))?;
        let file = File::open(&link).map_err(|why| refused("open", &link, &why))?;
        let (extents, is_cut) = extents(file.as_fd()).map_err(|why| {
            let text = format!("the file system of {} tells no layout: {why}", path.display());
            Refusal::new(Status::UNSUPPORTED, text).with_errno(why.raw_os_error().unwrap_or(0))
        })?;
        let device = host::device(facts.dev());
        let path = path.into_os_string().into_vec();
        Ok(FileLayout { path, device, size: facts.len(), extents, is_truncated: is_cut })
    }

    fn file_systems(&mut self) -> Result<Vec<FileSystemSpace>, Refusal> {
        let mounted =
            host::mounted().map_err(|why| refused("read", "/proc/self/mountinfo", &why))?;
        Ok(mounted.iter().filter_map(space).collect())
    }
}

/// One that was unmounted meanwhile has none.
fn space(it: &MountedDevice) -> Option<FileSystemSpace> {
    let [size, free, avail, files, files_free] = host::space(&it.path)?;
    let (path, source) = (it.path.display().to_string(), it.source.clone());
    Some(FileSystemSpace { path, source, size, free, avail, files, files_free })
}

fn refused(verb: &str, what: &str, why: &io::Error) -> Refusal {
    let status = match why.kind() {
        io::ErrorKind::NotFound => Status::NO_SUCH_OBJECT,
        io::ErrorKind::PermissionDenied => Status::PERMISSION,
        _ => Status::IO,
    };
    let text = format!("cannot {verb} {what}: {why}");
    Refusal::new(status, text).with_errno(why.raw_os_error().unwrap_or(0))
}
