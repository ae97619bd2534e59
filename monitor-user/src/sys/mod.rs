//! L1, system calls that the libraries lack: the only home of unsafe code in user space.
