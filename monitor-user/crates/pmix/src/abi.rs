//! The C structures of PMIx, as `pmix_common.h` and `pmix_server.h` have them on 64-bit Linux.
//!
//! They are those of PMIx 4 and 5: later versions only append to `pmix_server_module_t`, so
//! [`ServerModule`] has room for what they append.

use std::ffi::{c_char, c_int, c_void};

/// Longest key of an attribute, with the byte that ends it.
pub const KEY: usize = 512;
/// Longest namespace, with the byte that ends it.
pub const NAMESPACE: usize = 256;
/// Bytes of a server module of any version.
const MODULE: usize = 512;

/// `PMIX_RANK_WILDCARD`: all ranks of a namespace.
pub const WILDCARD: u32 = u32::MAX - 1;

/// `pmix_data_type_t`: types of a value.
pub mod kind {
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
}

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
pub union Data {
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
    pub data: Data,
}

/// `pmix_info_t`: a key and its value.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Info {
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
    pub infos: *mut Info,
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
    pub qualifiers: *mut Info,
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

/// `pmix_op_cbfunc_t`. This and those that follow are absent where the library needs no answer.
pub type OpCallback = Option<unsafe extern "C" fn(c_int, *mut c_void)>;
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
        *mut Info,
        usize,
        *mut c_void,
        Option<ReleaseCallback>,
        *mut c_void,
    ),
>;
/// `pmix_spawn_cbfunc_t`.
pub type SpawnCallback = Option<unsafe extern "C" fn(c_int, *mut c_char, *mut c_void)>;
/// `pmix_lookup_cbfunc_t`.
pub type LookupCallback = Option<unsafe extern "C" fn(c_int, *mut Published, usize, *mut c_void)>;

/// Functions of the server module that have processes, attributes and an operation to complete:
/// `pmix_server_connect_fn_t`.
pub type ConnectFunction =
    unsafe extern "C" fn(*const Proc, usize, *const Info, usize, OpCallback, *mut c_void) -> c_int;
/// `pmix_server_client_finalized_fn_t`.
pub type ClientFunction =
    unsafe extern "C" fn(*const Proc, *mut c_void, OpCallback, *mut c_void) -> c_int;

/// `pmix_server_module_t`: what the library calls when it needs its host. A missing function is
/// answered by the library with `PMIX_ERR_NOT_SUPPORTED`.
#[repr(C)]
pub struct ServerModule {
    /// A client has begun; `client_connected2` replaces it.
    pub client_connected: Option<ClientFunction>,
    /// A client called `PMIx_Finalize`.
    pub client_finalized: Option<ClientFunction>,
    /// A client called `PMIx_Abort`.
    pub abort: Option<
        unsafe extern "C" fn(
            *const Proc,
            *mut c_void,
            c_int,
            *const c_char,
            *mut Proc,
            usize,
            OpCallback,
            *mut c_void,
        ) -> c_int,
    >,
    /// All local clients have entered a fence.
    pub fence: Option<
        unsafe extern "C" fn(
            *const Proc,
            usize,
            *const Info,
            usize,
            *mut c_char,
            usize,
            ModexCallback,
            *mut c_void,
        ) -> c_int,
    >,
    /// Data of a rank on another node are needed.
    pub direct_modex: Option<
        unsafe extern "C" fn(*const Proc, *const Info, usize, ModexCallback, *mut c_void) -> c_int,
    >,
    /// A client publishes data.
    pub publish: Option<
        unsafe extern "C" fn(*const Proc, *const Info, usize, OpCallback, *mut c_void) -> c_int,
    >,
    /// A client looks published data up.
    pub lookup: Option<
        unsafe extern "C" fn(
            *const Proc,
            *mut *mut c_char,
            *const Info,
            usize,
            LookupCallback,
            *mut c_void,
        ) -> c_int,
    >,
    /// A client removes published data.
    pub unpublish: Option<
        unsafe extern "C" fn(
            *const Proc,
            *mut *mut c_char,
            *const Info,
            usize,
            OpCallback,
            *mut c_void,
        ) -> c_int,
    >,
    /// A client starts programs.
    pub spawn: Option<
        unsafe extern "C" fn(
            *const Proc,
            *const Info,
            usize,
            *const App,
            usize,
            SpawnCallback,
            *mut c_void,
        ) -> c_int,
    >,
    /// Ranks of several namespaces connect.
    pub connect: Option<ConnectFunction>,
    /// And disconnect.
    pub disconnect: Option<ConnectFunction>,
    /// Clients want events.
    pub register_events: Option<
        unsafe extern "C" fn(
            *mut c_int,
            usize,
            *const Info,
            usize,
            OpCallback,
            *mut c_void,
        ) -> c_int,
    >,
    /// And no longer.
    pub deregister_events:
        Option<unsafe extern "C" fn(*mut c_int, usize, OpCallback, *mut c_void) -> c_int>,
    /// Not used: the library listens itself.
    pub listener: *const c_void,
    /// A client raises an event.
    pub notify_event: Option<
        unsafe extern "C" fn(
            c_int,
            *const Proc,
            u8,
            *mut Info,
            usize,
            OpCallback,
            *mut c_void,
        ) -> c_int,
    >,
    /// A client or a tool asks.
    pub query: Option<
        unsafe extern "C" fn(*mut Proc, *mut Query, usize, InfoCallback, *mut c_void) -> c_int,
    >,
    /// A tool connects: without it, none can.
    pub tool_connected: *const c_void,
    /// A client logs.
    pub log: Option<
        unsafe extern "C" fn(
            *const Proc,
            *const Info,
            usize,
            *const Info,
            usize,
            OpCallback,
            *mut c_void,
        ),
    >,
    /// A client asks for more nodes.
    pub allocate: *const c_void,
    /// A client acts on processes.
    pub job_control: Option<
        unsafe extern "C" fn(
            *const Proc,
            *const Proc,
            usize,
            *const Info,
            usize,
            InfoCallback,
            *mut c_void,
        ) -> c_int,
    >,
    /// A client asks for resource usage.
    pub monitor: Option<
        unsafe extern "C" fn(
            *const Proc,
            *const Info,
            c_int,
            *const Info,
            usize,
            InfoCallback,
            *mut c_void,
        ) -> c_int,
    >,
    /// Credentials, output and groups, which this host does not serve, and what later versions
    /// have; up to `client_connected2`.
    pub others: [*const c_void; 6],
    /// A client has begun.
    pub client_connected2: Option<
        unsafe extern "C" fn(
            *const Proc,
            *mut c_void,
            *mut Info,
            usize,
            OpCallback,
            *mut c_void,
        ) -> c_int,
    >,
    /// What later versions append.
    pub later: [*const c_void; (MODULE - 28 * 8) / 8],
}

const _: () = {
    assert!(size_of::<Proc>() == 260);
    assert!(size_of::<Value>() == 32);
    assert!(size_of::<Info>() == 552);
    assert!(size_of::<Published>() == 808);
    assert!(size_of::<App>() == 56);
    assert!(size_of::<ProcInfo>() == 296);
    assert!(size_of::<ServerModule>() == MODULE);
    assert!(std::mem::offset_of!(ServerModule, spawn) == 64);
    assert!(std::mem::offset_of!(ServerModule, query) == 120);
    assert!(std::mem::offset_of!(ServerModule, monitor) == 160);
    assert!(std::mem::offset_of!(ServerModule, client_connected2) == 216);
};
