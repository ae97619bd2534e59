//! Errors of files: a text that Linux knows, and an explanation for a person.
//!
//! 9P2000 carries errors as text. Linux maps exact texts to an `errno` (net/9p/error.c) and every
//! other text to 526, so only texts of that table are sent. The explanation is in the file `err`.

/// A text of Linux's table, by the `errno` that it becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Errno {
    /// EPERM: no user may do it.
    NotPermitted,
    /// ENOENT: there is no such file.
    NotFound,
    /// EIO: it could not be read or written.
    Io,
    /// EBADF: the fid is not known.
    UnknownFid,
    /// EBADF: the fid is not in a state for it.
    BadFidUse,
    /// EBADF: the new fid has a file already.
    FidInUse,
    /// EAGAIN: a limit on requests that wait.
    TryAgain,
    /// EACCES: this user may not.
    Denied,
    /// EBUSY: something uses it.
    Busy,
    /// ENOTDIR: it is not a directory.
    NotDirectory,
    /// EISDIR: it is a directory.
    IsDirectory,
    /// EINVAL: the request makes no sense.
    Invalid,
    /// EINVAL: unknown bits in the mode of Topen.
    IllegalMode,
    /// EINVAL: the user of Tattach does not exist.
    UnknownUser,
    /// ENOENT: a name that no file can have.
    IllegalName,
    /// EMFILE: a limit on fids.
    TooManyFids,
    /// EFBIG: the file would be larger than it may be.
    TooLarge,
    /// ESPIPE: an offset in a directory that is no end of a previous read.
    BadDirectoryOffset,
    /// EPIPE: the reader of what is written is gone.
    BrokenPipe,
    /// EUSERS: a limit on connections.
    TooManyUsers,
    /// ENXIO: no process runs that it is about.
    NoProcess,
    /// E2BIG: arguments and environment are longer than the kernel accepts.
    ArgumentsTooLong,
    /// ETXTBSY: the program is being written.
    ProgramBusy,
    /// EEXIST: something has the name.
    Exists,
    /// ENOTEMPTY: the directory has entries.
    NotEmpty,
    /// ENOSPC: the file system is full.
    NoSpace,
    /// EPROTO: the message is malformed or not expected.
    Protocol,
    /// Not in the table: Linux never sends Tauth, and Plan 9 prints the text.
    NoAuthentication,
}

impl Errno {
    /// All errors, in the order of their declaration.
    pub const ALL: [Self; 28] = [
        Self::NotPermitted,
        Self::NotFound,
        Self::Io,
        Self::UnknownFid,
        Self::BadFidUse,
        Self::FidInUse,
        Self::TryAgain,
        Self::Denied,
        Self::Busy,
        Self::NotDirectory,
        Self::IsDirectory,
        Self::Invalid,
        Self::IllegalMode,
        Self::UnknownUser,
        Self::IllegalName,
        Self::TooManyFids,
        Self::TooLarge,
        Self::BadDirectoryOffset,
        Self::BrokenPipe,
        Self::TooManyUsers,
        Self::NoProcess,
        Self::ArgumentsTooLong,
        Self::ProgramBusy,
        Self::Exists,
        Self::NotEmpty,
        Self::NoSpace,
        Self::Protocol,
        Self::NoAuthentication,
    ];

    /// Whether it is a limit, a missing right or a broken rule: these are counted.
    pub const fn is_refusal(self) -> bool {
        matches!(
            self,
            Self::NotPermitted
                | Self::TryAgain
                | Self::Denied
                | Self::TooManyFids
                | Self::TooLarge
                | Self::TooManyUsers
                | Self::Protocol
        )
    }

    /// The error with this `errno` of Linux; those that have no text here are EIO.
    pub const fn from_number(number: i32) -> Self {
        // include/uapi/asm-generic/errno-base.h, and errno.h beside it from 35 on.
        match number {
            1 => Self::NotPermitted,
            2 => Self::NotFound,
            // Linux has no text for ESRCH and ENOEXEC.
            3 | 6 => Self::NoProcess,
            8 | 22 => Self::Invalid,
            7 => Self::ArgumentsTooLong,
            11 => Self::TryAgain,
            // What a path of a session leads out of its directory by: a link, or another file
            // system.
            13 | 18 | 40 => Self::Denied,
            16 => Self::Busy,
            17 => Self::Exists,
            20 => Self::NotDirectory,
            21 => Self::IsDirectory,
            26 => Self::ProgramBusy,
            27 => Self::TooLarge,
            28 | 122 => Self::NoSpace,
            32 => Self::BrokenPipe,
            39 => Self::NotEmpty,
            _ => Self::Io,
        }
    }

    /// The text of Rerror.
    pub const fn text(self) -> &'static str {
        match self {
            Self::NotPermitted => "Operation not permitted",
            Self::NotFound => "No such file or directory",
            Self::Io => "Input/output error",
            Self::UnknownFid => "fid unknown or out of range",
            Self::BadFidUse => "bad use of fid",
            Self::FidInUse => "fid already in use",
            Self::TryAgain => "Resource temporarily unavailable",
            Self::Denied => "Permission denied",
            Self::Busy => "Device or resource busy",
            Self::NotDirectory => "Not a directory",
            Self::IsDirectory => "Is a directory",
            Self::Invalid => "Invalid argument",
            Self::IllegalMode => "illegal mode",
            Self::UnknownUser => "unknown user",
            Self::IllegalName => "illegal path element",
            Self::TooManyFids => "Too many open files",
            Self::TooLarge => "File too large",
            Self::BadDirectoryOffset => "bad offset in directory read",
            Self::BrokenPipe => "Broken pipe",
            Self::TooManyUsers => "Too many users",
            Self::NoProcess => "No such device or address",
            Self::ArgumentsTooLong => "Argument list too long",
            Self::ProgramBusy => "Text file busy",
            Self::Exists => "File exists",
            Self::NotEmpty => "Directory not empty",
            Self::NoSpace => "No space left on device",
            Self::Protocol => "Protocol error",
            Self::NoAuthentication => "authentication not required",
        }
    }
}

/// Why an operation on a file failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {explanation}", errno.text())]
pub struct FileError {
    /// What the client gets.
    pub errno: Errno,
    /// What the file `err` says: what, why, and what to do. One line.
    pub explanation: String,
}

impl FileError {
    /// An error with its explanation.
    pub fn new(errno: Errno, explanation: impl Into<String>) -> Self {
        Self { errno, explanation: explanation.into() }
    }
}
