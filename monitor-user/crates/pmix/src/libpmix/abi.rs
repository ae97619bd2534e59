//! The C structures of PMIx, as `pmix_common.h` has them on 64-bit Linux.
//!
//! They are those of PMIx 4 and 5.

use std::ffi::{c_char, c_int, c_void};

/// Longest key of an attribute, with the byte that ends it.
pub const KEY: usize = 512;
/// Longest namespace, with the byte that ends it.
pub const NAMESPACE: usize = 256;
/// `pmix_proc_t`: a rank of a namespace.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Proc {
    /// The namespace.
    pub nspace: [c_char; NAMESPACE],
    /// The rank.
    pub rank: u32,
}

/// `pmix_byte_object_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ByteObject {
    /// The bytes.
    pub bytes: *mut c_char,
    /// How many.
    pub size: usize,
}

/// `pmix_envar_t`: a variable of an environment.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Envar {
    /// Its name.
    pub name: *mut c_char,
    /// Its value.
    pub value: *mut c_char,
    /// What is between two elements of its value.
    pub separator: c_char,
}

/// `pmix_data_array_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DataArray {
    /// Type of its elements.
    pub kind: u16,
    /// How many.
    pub size: usize,
    /// The elements.
    pub array: *mut c_void,
}

/// The union in `pmix_value_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub union ValueData {
    /// Plain numbers, in the first bytes.
    pub words: [u64; 3],
    /// Text.
    pub string: *mut c_char,
    /// A rank of a namespace.
    pub proc: *mut Proc,
    /// Bytes.
    pub bytes: ByteObject,
    /// A variable.
    pub envar: Envar,
    /// An array.
    pub array: *mut DataArray,
}

/// `pmix_value_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Value {
    /// Its type.
    pub kind: u16,
    /// What it is.
    pub data: ValueData,
}

/// `pmix_info_t`: a key and its value.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct KeyedValue {
    /// The key.
    pub key: [c_char; KEY],
    /// Whether it is required, among others.
    pub flags: u32,
    /// The value.
    pub value: Value,
}

/// `pmix_pdata_t`: a published value, and which process published it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Published {
    /// The process.
    pub proc: Proc,
    /// The key.
    pub key: [c_char; KEY],
    /// The value.
    pub value: Value,
}

/// `pmix_app_t`: an application to start.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct App {
    /// Its program.
    pub command: *mut c_char,
    /// The words of its command line, that of the program first; NULL ends them.
    pub arguments: *mut *mut c_char,
    /// Variables `NAME=value`; NULL ends them.
    pub environment: *mut *mut c_char,
    /// Its working directory.
    pub folder: *mut c_char,
    /// Number of its ranks.
    pub ranks: c_int,
    /// Its attributes.
    pub infos: *mut KeyedValue,
    /// How many.
    pub info_count: usize,
}

/// `pmix_query_t`: keys that are asked for.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Query {
    /// The keys; NULL ends them.
    pub keys: *mut *mut c_char,
    /// What limits the answer.
    pub qualifiers: *mut KeyedValue,
    /// How many.
    pub qualifier_count: usize,
}

/// `pmix_proc_info_t`: a line of a process table.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ProcInfo {
    /// The rank.
    pub proc: Proc,
    /// Its node.
    pub host: *mut c_char,
    /// Its program.
    pub executable: *mut c_char,
    /// Its process.
    pub pid: libc::pid_t,
    /// How it ended.
    pub exit_code: c_int,
    /// Its state.
    pub state: u8,
}

/// `pmix_node_pid_t`: a process by its node.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct HostPid {
    /// The name of the node, or NULL.
    pub host: *mut c_char,
    /// The number of the node.
    pub node: u32,
    /// The process.
    pub pid: libc::pid_t,
}

/// `pmix_op_cbfunc_t`. This and those that follow are absent where the library needs no answer.
pub type OpCallback = Option<unsafe extern "C" fn(c_int, *mut c_void)>;
/// `PMIx_Notify_event`, of a server and of a tool.
pub type NotifyEvent = unsafe extern "C" fn(
    c_int,
    *const Proc,
    u8,
    *const KeyedValue,
    usize,
    OpCallback,
    *mut c_void,
) -> c_int;
/// `PMIx_Spawn`.
pub type Spawn = unsafe extern "C" fn(
    *const KeyedValue,
    usize,
    *const App,
    usize,
    *mut [c_char; NAMESPACE],
) -> c_int;
/// `PMIx_Job_control_nb`.
pub type JobControlLater = unsafe extern "C" fn(
    *const Proc,
    usize,
    *const KeyedValue,
    usize,
    InfoCallback,
    *mut c_void,
) -> c_int;
/// `pmix_event_notification_cbfunc_fn_t`: says what a handler has done.
pub type HandlerDone = Option<
    unsafe extern "C" fn(c_int, *mut KeyedValue, usize, OpCallback, *mut c_void, *mut c_void),
>;
/// `pmix_notification_fn_t`: handles an event.
pub type Handler = unsafe extern "C" fn(
    usize,
    c_int,
    *const Proc,
    *mut KeyedValue,
    usize,
    *mut KeyedValue,
    usize,
    HandlerDone,
    *mut c_void,
);
/// `pmix_hdlr_reg_cbfunc_t`: an event handler is registered.
pub type HandlerRegistered = Option<unsafe extern "C" fn(c_int, usize, *mut c_void)>;
/// `PMIx_Register_event_handler`; its last callback gets the number of the handler.
pub type RegisterHandler = unsafe extern "C" fn(
    *mut c_int,
    usize,
    *mut KeyedValue,
    usize,
    Option<Handler>,
    HandlerRegistered,
    *mut c_void,
) -> c_int;
/// `pmix_release_cbfunc_t`.
pub type ReleaseCallback = unsafe extern "C" fn(*mut c_void);
/// `pmix_modex_cbfunc_t`.
pub type ModexCallback = Option<
    unsafe extern "C" fn(
        c_int,
        *const c_char,
        usize,
        *mut c_void,
        Option<ReleaseCallback>,
        *mut c_void,
    ),
>;
/// `pmix_info_cbfunc_t`.
pub type InfoCallback = Option<
    unsafe extern "C" fn(
        c_int,
        *mut KeyedValue,
        usize,
        *mut c_void,
        Option<ReleaseCallback>,
        *mut c_void,
    ),
>;
/// `pmix_spawn_cbfunc_t`.
pub type SpawnCallback = Option<unsafe extern "C" fn(c_int, *mut c_char, *mut c_void)>;
/// `pmix_tool_connection_cbfunc_t`.
pub type ToolCallback = Option<unsafe extern "C" fn(c_int, *mut Proc, *mut c_void)>;
/// `pmix_lookup_cbfunc_t`.
pub type LookupCallback = Option<unsafe extern "C" fn(c_int, *mut Published, usize, *mut c_void)>;

const _: () = {
    assert!(size_of::<Proc>() == 260);
    assert!(size_of::<Value>() == 32);
    assert!(size_of::<KeyedValue>() == 552);
    assert!(size_of::<Published>() == 808);
    assert!(size_of::<App>() == 56);
    assert!(size_of::<ProcInfo>() == 296);
    assert!(size_of::<HostPid>() == 16);
};
