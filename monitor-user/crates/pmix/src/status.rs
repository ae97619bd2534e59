//! Statuses of PMIx (`pmix_status_t`): those that this host returns or raises.

use std::ffi::c_int;

/// It was done.
pub const SUCCESS: c_int = 0;
/// It failed.
pub const ERROR: c_int = -1;
/// No such data, process or namespace.
pub const NOT_FOUND: c_int = -46;
/// This host does not do it.
pub const NOT_SUPPORTED: c_int = -47;
/// An argument is not valid.
pub const BAD_PARAM: c_int = -27;
/// The id is in use.
pub const EXISTS: c_int = -11;
/// The key was published already.
pub const DUPLICATE_KEY: c_int = -53;
/// The input of a process has ended.
pub const IOF_COMPLETE: c_int = -173;
/// Some of it was done.
pub const PARTIAL_SUCCESS: c_int = -52;
/// Some of what was asked for is known.
pub const QUERY_PARTIAL_SUCCESS: c_int = -104;
/// It was done before the call returned: the callback is not called.
pub const OPERATION_SUCCEEDED: c_int = -157;
/// The program could not be executed.
pub const FAILED_TO_LAUNCH: c_int = -181;
/// Ranks wait for a debugger.
pub const READY_FOR_DEBUG: c_int = -58;
/// Ranks that wait for a debugger run on.
pub const DEBUGGER_RELEASE: c_int = -3;
/// A job has ended.
pub const JOB_END: c_int = -145;
/// A connection is lost: to the server, or to a tool or a client that has not finalized.
pub const LOST_CONNECTION: c_int = -61;
/// A handler has done all that an event needs.
pub const ACTION_COMPLETE: c_int = -334;
/// A client has sent no heartbeat.
pub const HEARTBEAT_ALERT: c_int = -109;
/// A new sample of resource usage.
pub const RESOURCE_USAGE_UPDATE: c_int = -114;

/// To all processes (`pmix_data_range_t`).
pub const RANGE_GLOBAL: u8 = 5;
/// To the processes that an attribute names.
pub const RANGE_CUSTOM: u8 = 6;
