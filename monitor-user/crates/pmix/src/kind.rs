//! Types of values (`pmix_data_type_t`), of those that this host reads or writes.

/// No value: its presence says it.
pub const UNDEFINED: u16 = 0;
/// `bool`.
pub const BOOL: u16 = 1;
/// Text that a NUL byte ends.
pub const STRING: u16 = 3;
/// `pid_t`.
pub const PID: u16 = 5;
/// `int`.
pub const INT: u16 = 6;
/// `int32_t`.
pub const INT32: u16 = 9;
/// `uint16_t`.
pub const UINT16: u16 = 13;
/// `uint32_t`.
pub const UINT32: u16 = 14;
/// `uint64_t`.
pub const UINT64: u16 = 15;
/// `float`.
pub const FLOAT: u16 = 16;
/// `struct timeval`.
pub const TIMEVAL: u16 = 18;
/// `time_t`, in seconds.
pub const TIME: u16 = 19;
/// `pmix_status_t`.
pub const STATUS: u16 = 20;
/// `pmix_proc_t`.
pub const PROC: u16 = 22;
/// `pmix_info_t`, only in arrays.
pub const INFO: u16 = 24;
/// `pmix_byte_object_t`.
pub const BYTE_OBJECT: u16 = 27;
/// `pmix_proc_info_t`, only in arrays.
pub const PROC_INFO: u16 = 38;
/// `pmix_data_array_t`.
pub const DATA_ARRAY: u16 = 39;
/// A rank.
pub const RANK: u16 = 40;
/// `pmix_envar_t`.
pub const ENVAR: u16 = 46;
/// `pmix_node_pid_t`, only in arrays; since OpenPMIx 6.
pub const NODE_PID: u16 = 73;
