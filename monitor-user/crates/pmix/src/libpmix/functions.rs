//! The functions that the library calls, on its own thread.
//!
//! They copy what they are given, put it in the queue of the host, and return at once; the host
//! completes each by its [`Reply`].

use super::abi::{
    App, InfoCallback, KeyedValue, LookupCallback, ModexCallback, OpCallback, Proc, Query,
    SpawnCallback, ToolCallback,
};
use super::heartbeat;
use super::output::{STDERR, STDOUT};
use super::queue::send;
use super::reply::{Blob, Completion, Reply};
use super::server_module::ServerModule;
use super::values::{read_infos, read_procs, read_text, read_texts, slice};
use crate::attribute::{ProcName, WILDCARD};
use crate::status;
use crate::upcall::{SpawnedApp, Upcall};
use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::null;

/// # Safety
/// The pointer is NULL, or of a rank.
unsafe fn name(proc: *const Proc) -> ProcName {
    // SAFETY: of the caller.
    let proc = unsafe { proc.as_ref() };
    let unknown = || ProcName { nspace: String::new(), rank: WILDCARD };
    proc.map_or_else(unknown, ProcName::from)
}

fn texts(texts: Vec<CString>) -> Vec<String> {
    texts.into_iter().map(|it| it.to_string_lossy().into_owned()).collect()
}

/// The functions that the library calls.
pub const fn module() -> ServerModule {
    ServerModule {
        client_connected: None,
        client_finalized: Some(client_finalized),
        abort: Some(abort),
        fence: Some(fence),
        direct_modex: None,
        publish: Some(publish),
        lookup: Some(lookup),
        unpublish: Some(unpublish),
        spawn: Some(spawn),
        connect: Some(connect),
        disconnect: Some(connect),
        register_events: Some(register_events),
        deregister_events: Some(deregister_events),
        listener: null(),
        notify_event: Some(notify_event),
        query: Some(query),
        tool_connected: Some(tool_connected),
        log: Some(log),
        allocate: null(),
        job_control: Some(job_control),
        monitor: Some(monitor),
        credentials: [null(); 2],
        iof_pull: Some(iof_pull),
        others: [null(); 3],
        client_connected2: Some(client_connected),
        later: [null(); 36],
    }
}

/// Those of a server that answers queries of tools alone: the library refuses what has none.
pub const fn discovery_module() -> ServerModule {
    ServerModule {
        client_finalized: None,
        abort: None,
        fence: None,
        publish: None,
        lookup: None,
        unpublish: None,
        spawn: None,
        connect: None,
        disconnect: None,
        notify_event: None,
        log: None,
        job_control: None,
        monitor: None,
        iof_pull: None,
        client_connected2: None,
        ..module()
    }
}

// In each: the library passes pointers that are valid during the call, and as many elements as it
// says. The functions that copy have the same requirement.

unsafe extern "C" fn client_connected(
    proc: *const Proc,
    _object: *mut c_void,
    _infos: *mut KeyedValue,
    _count: usize,
    done: OpCallback,
    data: *mut c_void,
) -> c_int {
    // SAFETY: of the library.
    let name = unsafe { name(proc) };
    send(Upcall::Connected(name, Reply::new(Completion::Op(done), data)))
}

unsafe extern "C" fn client_finalized(
    proc: *const Proc,
    _object: *mut c_void,
    done: OpCallback,
    data: *mut c_void,
) -> c_int {
    // SAFETY: of the library.
    let name = unsafe { name(proc) };
    send(Upcall::Finalized(name, Reply::new(Completion::Op(done), data)))
}

unsafe extern "C" fn abort(
    proc: *const Proc,
    _object: *mut c_void,
    status: c_int,
    message: *const c_char,
    _procs: *mut Proc,
    _count: usize,
    done: OpCallback,
    data: *mut c_void,
) -> c_int {
    // SAFETY: of the library.
    let name = unsafe { name(proc) };
    // SAFETY: of the library.
    let message = unsafe { read_text(message) };
    send(Upcall::Abort(name, status, message, Reply::new(Completion::Op(done), data)))
}

unsafe extern "C" fn fence(
    _procs: *const Proc,
    _proc_count: usize,
    _infos: *const KeyedValue,
    _info_count: usize,
    bytes: *mut c_char,
    size: usize,
    done: ModexCallback,
    data: *mut c_void,
) -> c_int {
    send(Upcall::Fence(Blob::new(bytes, size), Reply::new(Completion::Modex(done), data)))
}

unsafe extern "C" fn publish(
    proc: *const Proc,
    infos: *const KeyedValue,
    count: usize,
    done: OpCallback,
    data: *mut c_void,
) -> c_int {
    // SAFETY: of the library.
    let name = unsafe { name(proc) };
    // SAFETY: of the library.
    let attributes = unsafe { read_infos(infos, count) };
    send(Upcall::Publish(name, attributes, Reply::new(Completion::Op(done), data)))
}

unsafe extern "C" fn lookup(
    _proc: *const Proc,
    keys: *mut *mut c_char,
    infos: *const KeyedValue,
    count: usize,
    done: LookupCallback,
    data: *mut c_void,
) -> c_int {
    // SAFETY: of the library.
    let keys = texts(unsafe { read_texts(keys) });
    // SAFETY: of the library.
    let attributes = unsafe { read_infos(infos, count) };
    send(Upcall::Lookup(keys, attributes, Reply::new(Completion::Lookup(done), data)))
}

unsafe extern "C" fn unpublish(
    proc: *const Proc,
    keys: *mut *mut c_char,
    _infos: *const KeyedValue,
    _count: usize,
    done: OpCallback,
    data: *mut c_void,
) -> c_int {
    // SAFETY: of the library.
    let name = unsafe { name(proc) };
    // SAFETY: of the library.
    let given = (!keys.is_null()).then(|| texts(unsafe { read_texts(keys) }));
    send(Upcall::Unpublish(name, given, Reply::new(Completion::Op(done), data)))
}

unsafe extern "C" fn spawn(
    proc: *const Proc,
    infos: *const KeyedValue,
    info_count: usize,
    apps: *const App,
    app_count: usize,
    done: SpawnCallback,
    data: *mut c_void,
) -> c_int {
    // SAFETY: of the library.
    let name = unsafe { name(proc) };
    // SAFETY: of the library.
    let attributes = unsafe { read_infos(infos, info_count) };
    // SAFETY: of the library.
    let apps = unsafe { slice(apps, app_count) };
    // SAFETY: of the library.
    let apps = apps.iter().map(|app| unsafe { read_app(app) }).collect();
    let reply = Reply::new(Completion::Spawn(done), data);
    send(Upcall::Spawn(name, attributes, apps, reply))
}

/// # Safety
/// Its pointers are valid.
unsafe fn read_app(app: &App) -> SpawnedApp {
    // SAFETY: of the caller.
    let arguments = unsafe { read_texts(app.arguments) };
    // SAFETY: of the caller.
    let command = unsafe { read_text(app.command) };
    let first = || arguments.first().cloned().unwrap_or_default();
    SpawnedApp {
        command: command.unwrap_or_else(first),
        arguments,
        // SAFETY: of the caller.
        environment: unsafe { read_texts(app.environment) },
        // SAFETY: of the caller.
        folder: unsafe { read_text(app.folder) },
        ranks: u32::try_from(app.ranks).unwrap_or(0),
        // SAFETY: of the caller.
        attributes: unsafe { read_infos(app.infos, app.info_count) },
    }
}

/// All processes are on this node: they are connected by the library itself.
unsafe extern "C" fn connect(
    _procs: *const Proc,
    _proc_count: usize,
    _infos: *const KeyedValue,
    _info_count: usize,
    _done: OpCallback,
    _data: *mut c_void,
) -> c_int {
    status::OPERATION_SUCCEEDED
}

/// The host raises events, and needs no list of those that are wanted.
unsafe extern "C" fn register_events(
    _codes: *mut c_int,
    _code_count: usize,
    _infos: *const KeyedValue,
    _info_count: usize,
    _done: OpCallback,
    _data: *mut c_void,
) -> c_int {
    status::OPERATION_SUCCEEDED
}

unsafe extern "C" fn deregister_events(
    _codes: *mut c_int,
    _count: usize,
    _done: OpCallback,
    _data: *mut c_void,
) -> c_int {
    status::OPERATION_SUCCEEDED
}

/// It is complete when it returns: PMIx 4.2.2 releases what it would complete later
/// (`pmix_prm_base_notify`).
unsafe extern "C" fn notify_event(
    code: c_int,
    source: *const Proc,
    _range: u8,
    infos: *mut KeyedValue,
    count: usize,
    _done: OpCallback,
    _data: *mut c_void,
) -> c_int {
    // SAFETY: of the library.
    let name = unsafe { name(source) };
    // SAFETY: of the library.
    let attributes = unsafe { read_infos(infos, count) };
    send(Upcall::Event(code, name, attributes));
    status::OPERATION_SUCCEEDED
}

unsafe extern "C" fn query(
    _proc: *mut Proc,
    queries: *mut Query,
    count: usize,
    done: InfoCallback,
    data: *mut c_void,
) -> c_int {
    // SAFETY: of the library.
    let queries = unsafe { slice(queries, count) };
    let read = |it: &Query| {
        // SAFETY: of the library.
        let keys = texts(unsafe { read_texts(it.keys) });
        // SAFETY: of the library.
        (keys, unsafe { read_infos(it.qualifiers, it.qualifier_count) })
    };
    let queries = queries.iter().map(read).collect();
    send(Upcall::Query(queries, Reply::new(Completion::Info(done), data)))
}

unsafe extern "C" fn tool_connected(
    infos: *mut KeyedValue,
    count: usize,
    done: ToolCallback,
    data: *mut c_void,
) {
    // SAFETY: of the library.
    let attributes = unsafe { read_infos(infos, count) };
    send(Upcall::ToolConnected(attributes, Reply::new(Completion::Tool(done), data)));
}

unsafe extern "C" fn log(
    proc: *const Proc,
    infos: *const KeyedValue,
    count: usize,
    _directives: *const KeyedValue,
    _directive_count: usize,
    done: OpCallback,
    data: *mut c_void,
) {
    // SAFETY: of the library.
    let name = unsafe { name(proc) };
    // SAFETY: of the library.
    let attributes = unsafe { read_infos(infos, count) };
    send(Upcall::Log(name, attributes, Reply::new(Completion::Op(done), data)));
}

/// The library sends what it is given to the tools that have asked.
unsafe extern "C" fn iof_pull(
    procs: *const Proc,
    count: usize,
    _infos: *const KeyedValue,
    _info_count: usize,
    channels: u16,
    _done: OpCallback,
    _data: *mut c_void,
) -> c_int {
    // SAFETY: of the library.
    let names = unsafe { read_procs(procs, count) };
    send(Upcall::Pull(names, [STDOUT, STDERR].map(|it| channels & it != 0)));
    status::OPERATION_SUCCEEDED
}

unsafe extern "C" fn job_control(
    proc: *const Proc,
    targets: *const Proc,
    target_count: usize,
    infos: *const KeyedValue,
    count: usize,
    done: InfoCallback,
    data: *mut c_void,
) -> c_int {
    // SAFETY: of the library.
    let name = unsafe { name(proc) };
    // SAFETY: of the library.
    let targets = unsafe { read_procs(targets, target_count) };
    // SAFETY: of the library.
    let attributes = unsafe { read_infos(infos, count) };
    let reply = Reply::new(Completion::Info(done), data);
    send(Upcall::JobControl(name, targets, attributes, reply))
}

unsafe extern "C" fn monitor(
    proc: *const Proc,
    what: *const KeyedValue,
    code: c_int,
    infos: *const KeyedValue,
    count: usize,
    done: InfoCallback,
    data: *mut c_void,
) -> c_int {
    // SAFETY: of the library.
    let name = unsafe { name(proc) };
    // SAFETY: of the library.
    let Some(what) = unsafe { read_infos(what, 1) }.pop() else { return status::BAD_PARAM };
    if heartbeat::is_done(&name) {
        return status::OPERATION_SUCCEEDED;
    }
    // SAFETY: of the library.
    let attributes = unsafe { read_infos(infos, count) };
    let reply = Reply::new(Completion::Info(done), data);
    send(Upcall::Monitor(name, what, code, attributes, reply))
}
