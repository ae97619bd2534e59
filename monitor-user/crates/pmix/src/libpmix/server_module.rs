//! `pmix_server_module_t`: the functions of a host, which the library calls.
//!
//! Later versions only append to it, so it has room for what they append.

use super::abi::{
    App, InfoCallback, KeyedValue, LookupCallback, ModexCallback, OpCallback, Proc, Query,
    SpawnCallback, ToolCallback,
};
use std::ffi::{c_char, c_int, c_void};

/// Bytes of a server module of any version.
const MODULE: usize = 512;

/// Functions of the server module that have processes, attributes and an operation to complete:
/// `pmix_server_connect_fn_t`.
pub type ConnectFunction = unsafe extern "C" fn(
    *const Proc,
    usize,
    *const KeyedValue,
    usize,
    OpCallback,
    *mut c_void,
) -> c_int;
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
            *const KeyedValue,
            usize,
            *mut c_char,
            usize,
            ModexCallback,
            *mut c_void,
        ) -> c_int,
    >,
    /// Data of a rank on another node are needed.
    pub direct_modex: Option<
        unsafe extern "C" fn(
            *const Proc,
            *const KeyedValue,
            usize,
            ModexCallback,
            *mut c_void,
        ) -> c_int,
    >,
    /// A client publishes data.
    pub publish: Option<
        unsafe extern "C" fn(
            *const Proc,
            *const KeyedValue,
            usize,
            OpCallback,
            *mut c_void,
        ) -> c_int,
    >,
    /// A client looks published data up.
    pub lookup: Option<
        unsafe extern "C" fn(
            *const Proc,
            *mut *mut c_char,
            *const KeyedValue,
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
            *const KeyedValue,
            usize,
            OpCallback,
            *mut c_void,
        ) -> c_int,
    >,
    /// A client starts programs.
    pub spawn: Option<
        unsafe extern "C" fn(
            *const Proc,
            *const KeyedValue,
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
            *const KeyedValue,
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
            *mut KeyedValue,
            usize,
            OpCallback,
            *mut c_void,
        ) -> c_int,
    >,
    /// A client or a tool asks.
    pub query: Option<
        unsafe extern "C" fn(*mut Proc, *mut Query, usize, InfoCallback, *mut c_void) -> c_int,
    >,
    /// A tool connects.
    pub tool_connected:
        Option<unsafe extern "C" fn(*mut KeyedValue, usize, ToolCallback, *mut c_void)>,
    /// A client logs.
    pub log: Option<
        unsafe extern "C" fn(
            *const Proc,
            *const KeyedValue,
            usize,
            *const KeyedValue,
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
            *const KeyedValue,
            usize,
            InfoCallback,
            *mut c_void,
        ) -> c_int,
    >,
    /// A client asks for resource usage.
    pub monitor: Option<
        unsafe extern "C" fn(
            *const Proc,
            *const KeyedValue,
            c_int,
            *const KeyedValue,
            usize,
            InfoCallback,
            *mut c_void,
        ) -> c_int,
    >,
    /// Credentials, which this host does not give.
    pub credentials: [*const c_void; 2],
    /// A tool wants output.
    pub iof_pull: Option<
        unsafe extern "C" fn(
            *const Proc,
            usize,
            *const KeyedValue,
            usize,
            u16,
            OpCallback,
            *mut c_void,
        ) -> c_int,
    >,
    /// Input of tools, groups and the fabric, which this host does not serve.
    pub others: [*const c_void; 3],
    /// A client has begun.
    pub client_connected2: Option<
        unsafe extern "C" fn(
            *const Proc,
            *mut c_void,
            *mut KeyedValue,
            usize,
            OpCallback,
            *mut c_void,
        ) -> c_int,
    >,
    /// What later versions append.
    pub later: [*const c_void; (MODULE - 28 * 8) / 8],
}

const _: () = {
    assert!(size_of::<ServerModule>() == MODULE);
    assert!(std::mem::offset_of!(ServerModule, spawn) == 64);
    assert!(std::mem::offset_of!(ServerModule, query) == 120);
    assert!(std::mem::offset_of!(ServerModule, tool_connected) == 128);
    assert!(std::mem::offset_of!(ServerModule, monitor) == 160);
    assert!(std::mem::offset_of!(ServerModule, iof_pull) == 184);
    assert!(std::mem::offset_of!(ServerModule, client_connected2) == 216);
};
