//! `libpmix`, opened at run time.
//!
//! In: namespaces, clients, events. Out: calls of the library, which is initialized once in a
//! process. Documented in `pmix_server.h` and the PMIx standard, chapter "Server-specific
//! interfaces".

use super::abi::{KeyedValue, NAMESPACE, NotifyEvent, OpCallback, Proc, RegisterHandler};
use super::accept;
use super::functions;
use super::heartbeat;
use super::library::{ErrorText, PmixError, function, open, version};
use super::output::{Deliver, OutputSender};
use super::server_events;
use super::server_module::ServerModule;
use super::values::{InfoArray, chars, read_texts};
use crate::attribute::{Attribute, ProcName};
use crate::status;
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW, Symbol};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::mpsc;

type RegisterNspace = unsafe extern "C" fn(
    *const c_char,
    c_int,
    *mut KeyedValue,
    usize,
    OpCallback,
    *mut c_void,
) -> c_int;
type RegisterClient =
    unsafe extern "C" fn(*const Proc, u32, u32, *mut c_void, OpCallback, *mut c_void) -> c_int;
type Generate = unsafe extern "C" fn(*const c_char, *mut *mut c_char) -> c_int;

/// The library, initialized as a server.
pub struct Server {
    finalize: Symbol<unsafe extern "C" fn() -> c_int>,
    register_nspace: Symbol<RegisterNspace>,
    register_client: Symbol<RegisterClient>,
    deregister_nspace: Symbol<unsafe extern "C" fn(*const c_char, OpCallback, *mut c_void)>,
    setup_fork: Symbol<unsafe extern "C" fn(*const Proc, *mut *mut *mut c_char) -> c_int>,
    notify_event: Symbol<NotifyEvent>,
    deliver_output: Symbol<Deliver>,
    generate_regex: Symbol<Generate>,
    generate_ppn: Symbol<Generate>,
    errors: ErrorText,
    /// What it calls; it keeps the pointer.
    _module: Box<ServerModule>,
    library: Library,
}

impl Server {
    /// Opens and initializes it; upcalls go to the queue that [`set_queue`](super::set_queue) sets.
    /// The library reads the environment: call it before there is another thread.
    ///
    /// # Errors
    /// If it is not installed, is none of PMIx, or cannot make its sockets and files.
    pub fn start(attributes: &[Attribute]) -> Result<Self, PmixError> {
        Self::with_module(attributes, functions::module())
    }

    /// The same for a server that answers queries of tools alone.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub fn start_discovery(attributes: &[Attribute]) -> Result<Self, PmixError> {
        Self::with_module(attributes, functions::discovery_module())
    }

    fn with_module(attributes: &[Attribute], module: ServerModule) -> Result<Self, PmixError> {
        let library = open(RTLD_NOW | RTLD_GLOBAL)?;
        // The library answers all requests of usage itself, with nothing, unless these parts of it
        // are off, or its table of them is replaced.
        let sensors = match heartbeat::replace_sensors(&library, &version(&library)?) {
            true => "heartbeat",
            false => "^heartbeat,file",
        };
        // SAFETY: there is no other thread, as the caller is to see to.
        unsafe { std::env::set_var("PMIX_MCA_psensor", sensors) };
        // It reports a lost connection 1 s after the last one otherwise: not at all, while more are
        // lost.
        // SAFETY: as above.
        unsafe { std::env::set_var("PMIX_MCA_pmix_event_caching_window", "0") };
        if !accept::check_owners() {
            return Err(PmixError::OwnersNotChecked);
        }
        // SAFETY: the types are those of pmix_server.h.
        let init = unsafe {
            function::<unsafe extern "C" fn(*mut ServerModule, *mut KeyedValue, usize) -> c_int>(
                &library,
                c"PMIx_server_init",
            )
        }?;
        macro_rules! server {
            ($($field:ident = $name:literal,)*) => {
                Self {
                    // SAFETY: the types are those of pmix_server.h and pmix.h.
                    $($field: unsafe { function(&library, $name) }?,)*
                    errors: ErrorText::from_library(&library)?,
                    _module: Box::new(module),
                    library,
                }
            };
        }
        let mut server = server! {
            finalize = c"PMIx_server_finalize",
            register_nspace = c"PMIx_server_register_nspace",
            register_client = c"PMIx_server_register_client",
            deregister_nspace = c"PMIx_server_deregister_nspace",
            setup_fork = c"PMIx_server_setup_fork",
            notify_event = c"PMIx_Notify_event",
            deliver_output = c"PMIx_server_IOF_deliver",
            generate_regex = c"PMIx_generate_regex",
            generate_ppn = c"PMIx_generate_ppn",
        };
        let mut infos = InfoArray::new(attributes);
        let module = &raw mut *server._module;
        // SAFETY: the module and the attributes live as long as the library uses them.
        let status = unsafe { init(module, infos.pointer(), infos.count()) };
        match server.errors.check("PMIx_server_init", status) {
            Ok(()) => {
                server.register_handler()?;
                Ok(server)
            }
            Err(error) => {
                // Nothing is there to finalize.
                std::mem::forget(server);
                Err(error)
            }
        }
    }

    /// Gets the events that the library raises for its host alone.
    fn register_handler(&self) -> Result<(), PmixError> {
        let mut codes = [status::HEARTBEAT_ALERT, status::LOST_CONNECTION];
        // SAFETY: the type is that of pmix.h.
        let register =
            unsafe { function::<RegisterHandler>(&self.library, c"PMIx_Register_event_handler") }?;
        let (sender, receiver) = mpsc::channel::<c_int>();
        let data = Box::into_raw(Box::new(sender)).cast();
        let (codes, count) = (codes.as_mut_ptr(), codes.len());
        let handler = Some(server_events::raised as _);
        // SAFETY: the library copies the codes, and calls back once.
        unsafe { register(codes, count, null_mut(), 0, handler, Some(registered), data) };
        let status = receiver.recv().unwrap_or(status::ERROR);
        self.errors.check("PMIx_Register_event_handler", status)
    }

    /// Makes a namespace known, with the attributes of its job and this number of ranks on this
    /// node.
    ///
    /// # Errors
    /// If the library refuses it.
    pub fn register_nspace(
        &self,
        nspace: &str,
        ranks: u32,
        attributes: &[Attribute],
    ) -> Result<(), PmixError> {
        let mut infos = InfoArray::new(attributes);
        let nspace: [c_char; NAMESPACE] = chars(nspace);
        let ranks = c_int::try_from(ranks).unwrap_or(c_int::MAX);
        self.wait("PMIx_server_register_nspace", |done, data| {
            let (pointer, count) = (infos.pointer(), infos.count());
            // SAFETY: all of it lives until the operation is complete.
            unsafe { (self.register_nspace)(nspace.as_ptr(), ranks, pointer, count, done, data) }
        })
    }

    /// Makes a rank known before it is started, and returns the variables that it needs.
    ///
    /// # Errors
    /// If the library refuses it.
    pub fn register_client(&self, name: &ProcName) -> Result<Vec<CString>, PmixError> {
        let proc = Proc::from(name);
        let [uid, gid] = [rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw()];
        self.wait("PMIx_server_register_client", |done, data| {
            // SAFETY: all of it lives until the operation is complete; the object is not used.
            unsafe { (self.register_client)(&raw const proc, uid, gid, null_mut(), done, data) }
        })?;
        let mut environment: *mut *mut c_char = null_mut();
        // SAFETY: the library allocates the array.
        let status = unsafe { (self.setup_fork)(&raw const proc, &raw mut environment) };
        self.errors.check("PMIx_server_setup_fork", status)?;
        // SAFETY: the library ends the array with NULL. It is left to the library's heap: a few
        // hundred bytes for each rank.
        Ok(unsafe { read_texts(environment) })
    }

    /// Forgets a namespace whose processes have ended.
    pub fn deregister_nspace(&self, nspace: &str) {
        let nspace: [c_char; NAMESPACE] = chars(nspace);
        let _refused = self.wait("PMIx_server_deregister_nspace", |done, data| {
            // SAFETY: it lives until the operation is complete.
            unsafe { (self.deregister_nspace)(nspace.as_ptr(), done, data) }
            status::SUCCESS
        });
    }

    /// Raises an event for processes, and does not wait until it is delivered: the library asks
    /// its host first.
    ///
    /// # Errors
    /// If the library refuses it.
    pub fn notify(
        &self,
        code: c_int,
        source: &ProcName,
        range: u8,
        attributes: &[Attribute],
    ) -> Result<(), PmixError> {
        let mut infos = Box::new(InfoArray::new(attributes));
        let source = Proc::from(source);
        let (pointer, count) = (infos.pointer(), infos.count());
        let data = Box::into_raw(infos);
        let done: OpCallback = Some(notified);
        // SAFETY: the attributes live until the event is delivered; the library copies the source.
        let status = unsafe {
            (self.notify_event)(code, &raw const source, range, pointer, count, done, data.cast())
        };
        if status == status::SUCCESS {
            return Ok(());
        }
        // SAFETY: the callback is not called then.
        drop(unsafe { Box::from_raw(data) });
        self.errors.check("PMIx_Notify_event", status)
    }

    /// What gives output to tools.
    pub fn output_sender(&self) -> OutputSender {
        OutputSender(*self.deliver_output)
    }

    /// The names of nodes, as the library packs them.
    ///
    /// # Errors
    /// If the library refuses it.
    pub fn packed_nodes(&self, nodes: &str) -> Result<CString, PmixError> {
        self.packed("PMIx_generate_regex", &self.generate_regex, nodes)
    }

    /// The ranks of each node, as the library packs them.
    ///
    /// # Errors
    /// If the library refuses it.
    pub fn packed_ranks(&self, ranks: &str) -> Result<CString, PmixError> {
        self.packed("PMIx_generate_ppn", &self.generate_ppn, ranks)
    }

    fn packed(
        &self,
        call: &'static str,
        generate: &Symbol<Generate>,
        text: &str,
    ) -> Result<CString, PmixError> {
        let text = CString::new(text).unwrap_or_default();
        let mut packed = null_mut();
        // SAFETY: the library allocates the text.
        let status = unsafe { generate(text.as_ptr(), &raw mut packed) };
        self.errors.check(call, if packed.is_null() { status::ERROR } else { status })?;
        // SAFETY: a text that a NUL byte ends, which is ours.
        let copy = unsafe { CStr::from_ptr(packed) }.to_owned();
        // SAFETY: the library allocated it with `malloc`.
        unsafe { libc::free(packed.cast()) };
        Ok(copy)
    }

    /// Begins an operation, and waits until the library has completed it.
    fn wait(
        &self,
        call: &'static str,
        begin: impl FnOnce(OpCallback, *mut c_void) -> c_int,
    ) -> Result<(), PmixError> {
        let (sender, receiver) = mpsc::channel::<c_int>();
        let data = Box::into_raw(Box::new(sender));
        let status = match begin(Some(completed), data.cast()) {
            // The library owns the sender until it has answered, and needs no process for that.
            status::SUCCESS => receiver.recv().unwrap_or(status::ERROR),
            status => {
                // SAFETY: the callback is not called if the operation has not begun.
                drop(unsafe { Box::from_raw(data) });
                status
            }
        };
        self.errors.check(call, status)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // SAFETY: it was initialized.
        let _status = unsafe { (self.finalize)() };
    }
}

/// # Safety
/// The library passes back what [`Server::wait`] gave it, once.
unsafe extern "C" fn completed(status: c_int, sender: *mut c_void) {
    // SAFETY: of the caller.
    let sender = unsafe { Box::from_raw(sender.cast::<mpsc::Sender<c_int>>()) };
    // The operation waits for it.
    let _sent = sender.send(status);
}

/// # Safety
/// The library passes back what `Server::register_handler` gave it, once.
unsafe extern "C" fn registered(status: c_int, _handler: usize, sender: *mut c_void) {
    // SAFETY: of the caller.
    unsafe { completed(status, sender) }
}

/// # Safety
/// The library passes back what [`Server::notify`] gave it, once.
unsafe extern "C" fn notified(_status: c_int, infos: *mut c_void) {
    // SAFETY: of the caller.
    drop(unsafe { Box::from_raw(infos.cast::<InfoArray>()) });
}
