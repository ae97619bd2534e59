//! Files that gdb reads through the connection (`vFile`): programs, libraries, `/proc`.
//!
//! In: paths as the program sees them, if gdb says so. Out: their contents, with the rights of this
//! process, which are those of gdb's user. Nothing is written or removed.

use crate::debuggee::Debuggee;
use crate::files::MAX_FILES;
use gdbstub::target::ext::host_io::{
    FsKind, HostIo, HostIoClose, HostIoCloseOps, HostIoErrno, HostIoError, HostIoFstat,
    HostIoFstatOps, HostIoOpen, HostIoOpenFlags, HostIoOpenMode, HostIoOpenOps, HostIoPread,
    HostIoPreadOps, HostIoReadlink, HostIoReadlinkOps, HostIoResult, HostIoSetfs, HostIoSetfsOps,
    HostIoStat,
};
use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};

impl HostIo for Debuggee {
    fn support_open(&mut self) -> Option<HostIoOpenOps<'_, Self>> {
        Some(self)
    }

    fn support_close(&mut self) -> Option<HostIoCloseOps<'_, Self>> {
        Some(self)
    }

    fn support_pread(&mut self) -> Option<HostIoPreadOps<'_, Self>> {
        Some(self)
    }

    fn support_fstat(&mut self) -> Option<HostIoFstatOps<'_, Self>> {
        Some(self)
    }

    fn support_readlink(&mut self) -> Option<HostIoReadlinkOps<'_, Self>> {
        Some(self)
    }

    fn support_setfs(&mut self) -> Option<HostIoSetfsOps<'_, Self>> {
        Some(self)
    }
}

impl HostIoOpen for Debuggee {
    fn open(
        &mut self,
        name: &[u8],
        flags: HostIoOpenFlags,
        _: HostIoOpenMode,
    ) -> HostIoResult<u32, Self> {
        let writes = HostIoOpenFlags::O_WRONLY
            | HostIoOpenFlags::O_RDWR
            | HostIoOpenFlags::O_CREAT
            | HostIoOpenFlags::O_TRUNC;
        if flags.intersects(writes) {
            return Err(HostIoError::Errno(HostIoErrno::EROFS));
        }
        if self.files.open.len() >= MAX_FILES {
            return Err(HostIoError::Errno(HostIoErrno::EMFILE));
        }
        let file = File::open(self.files.path(name))?;
        let free = (3..).find(|it| !self.files.open.contains_key(it)).unwrap_or(u32::MAX);
        let _none = self.files.open.insert(free, file);
        Ok(free)
    }
}

impl HostIoClose for Debuggee {
    fn close(&mut self, descriptor: u32) -> HostIoResult<(), Self> {
        let _file = self.files.file(descriptor)?;
        let _closed = self.files.open.remove(&descriptor);
        Ok(())
    }
}

impl HostIoPread for Debuggee {
    fn pread(
        &mut self,
        descriptor: u32,
        count: usize,
        offset: u64,
        buffer: &mut [u8],
    ) -> HostIoResult<usize, Self> {
        let room = count.min(buffer.len());
        Ok(self.files.file(descriptor)?.read_at(&mut buffer[..room], offset)?)
    }
}

impl HostIoFstat for Debuggee {
    fn fstat(&mut self, descriptor: u32) -> HostIoResult<HostIoStat, Self> {
        let found = self.files.file(descriptor)?.metadata()?;
        // The protocol has 32 bits for most of them.
        let low = |number: u64| u32::try_from(number & 0xffff_ffff).unwrap_or(0);
        let seconds = |number: i64| u32::try_from(number).unwrap_or(0);
        Ok(HostIoStat {
            st_dev: low(found.dev()),
            st_ino: low(found.ino()),
            st_mode: HostIoOpenMode::from_bits_retain(found.mode()),
            st_nlink: low(found.nlink()),
            st_uid: found.uid(),
            st_gid: found.gid(),
            st_rdev: low(found.rdev()),
            st_size: found.size(),
            st_blksize: found.blksize(),
            st_blocks: found.blocks(),
            st_atime: seconds(found.atime()),
            st_mtime: seconds(found.mtime()),
            st_ctime: seconds(found.ctime()),
        })
    }
}

impl HostIoReadlink for Debuggee {
    fn readlink(&mut self, name: &[u8], buffer: &mut [u8]) -> HostIoResult<usize, Self> {
        let target = std::fs::read_link(self.files.path(name))?;
        let target = target.as_os_str().as_bytes();
        let room = buffer.get_mut(..target.len());
        let room = room.ok_or(HostIoError::Errno(HostIoErrno::ENAMETOOLONG))?;
        room.copy_from_slice(target);
        Ok(target.len())
    }
}

impl HostIoSetfs for Debuggee {
    fn setfs(&mut self, fs: FsKind) -> HostIoResult<(), Self> {
        self.files.root = match fs {
            FsKind::Stub => None,
            FsKind::Pid(pid) => u32::try_from(pid.get()).ok(),
        };
        Ok(())
    }
}
