//! `libpmix` as a tool: a connection to the PMIx server of a job.
//!
//! In: the URI of a server, keys, events. Out: values. Documented in `pmix_tool.h` and the PMIx
//! standard, chapter "Tools and Debuggers".

use super::abi::{
    App, InfoCallback, JobControlLater, KeyedValue, NotifyEvent, Proc, Query, RegisterHandler,
    Spawn,
};
use super::library::{ErrorText, PmixError, function, open};
use super::output::{STDERR, STDOUT};
use super::tool_events::{EventReceiver, answer_kill, answer_question, handle_event, set_receiver};
use super::tool_io::{InputSender, OutputReceiver, Pull, Push, handle_output, set_output_receiver};
use super::values::{InfoArray, chars, read_chars, read_infos};
use crate::attribute::{Attribute, Datum, ProcName, WILDCARD};
use crate::status;
use crate::upcall::SpawnedApp;
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW, Symbol};
use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::{Arc, Mutex, PoisonError};

type QueryInfo = unsafe extern "C" fn(*mut Query, usize, *mut *mut KeyedValue, *mut usize) -> c_int;
type QueryLater = unsafe extern "C" fn(*mut Query, usize, InfoCallback, *mut c_void) -> c_int;
/// A connection to a server.
pub struct Tool {
    name: ProcName,
    finalize: Symbol<unsafe extern "C" fn() -> c_int>,
    query_info: Symbol<QueryInfo>,
    query_later: Symbol<QueryLater>,
    notify_event: Symbol<NotifyEvent>,
    spawn: Symbol<Spawn>,
    register_handler: Symbol<RegisterHandler>,
    job_control: Symbol<JobControlLater>,
    pull: Symbol<Pull>,
    input: InputSender,
    errors: ErrorText,
    _library: Library,
}

impl Tool {
    /// Connects to a server by its URI. The library reads the environment, and what it finds there
    /// of another server has no effect: call it before there is another thread.
    ///
    /// # Errors
    /// If the library is not installed, or the server does not answer, or refuses tools.
    pub fn connect(uri: &str) -> Result<Self, PmixError> {
        let of_ranks = std::env::vars_os().map(|(name, _)| name);
        for name in of_ranks.filter(|it| it.as_encoded_bytes().starts_with(b"PMIX_")) {
            // SAFETY: there is no other thread, as the caller is to see to.
            unsafe { std::env::remove_var(name) };
        }
        let library = open(RTLD_NOW | RTLD_GLOBAL)?;
        // SAFETY: the type is that of pmix_tool.h.
        let init = unsafe {
            function::<unsafe extern "C" fn(*mut Proc, *mut KeyedValue, usize) -> c_int>(
                &library,
                c"PMIx_tool_init",
            )
        }?;
        let mut proc = Proc { nspace: chars(""), rank: 0 };
        let mut infos = InfoArray::new(&[Attribute::new("pmix.srvr.uri", Datum::text(uri))]);
        let errors = ErrorText::from_library(&library)?;
        // SAFETY: the library copies the attributes.
        let status = unsafe { init(&raw mut proc, infos.pointer(), infos.count()) };
        errors.check("PMIx_tool_init", status)?;
        // SAFETY: the type is that of pmix_tool.h.
        let push = unsafe { function::<Push>(&library, c"PMIx_IOF_push") }?;
        macro_rules! tool {
            ($($field:ident = $name:literal,)*) => {
                Self {
                    // SAFETY: the types are those of pmix_tool.h and pmix.h.
                    $($field: unsafe { function(&library, $name) }?,)*
                    name: ProcName::from(&proc),
                    input: InputSender(Arc::new(Mutex::new(Some(push)))),
                    errors,
                    _library: library,
                }
            };
        }
        Ok(tool! {
            finalize = c"PMIx_tool_finalize",
            query_info = c"PMIx_Query_info",
            query_later = c"PMIx_Query_info_nb",
            notify_event = c"PMIx_Notify_event",
            spawn = c"PMIx_Spawn",
            register_handler = c"PMIx_Register_event_handler",
            job_control = c"PMIx_Job_control_nb",
            pull = c"PMIx_IOF_pull",
        })
    }

    /// The values of keys, as far as the server has them.
    ///
    /// # Errors
    /// If the server has none of them.
    pub fn query(
        &self,
        keys: &[&str],
        qualifiers: &[Attribute],
    ) -> Result<Vec<Attribute>, PmixError> {
        let keys: Vec<CString> =
            keys.iter().map(|it| CString::new(*it).unwrap_or_default()).collect();
        let pointers = keys.iter().map(|it| it.as_ptr().cast_mut());
        let mut pointers: Vec<*mut c_char> = pointers.chain([null_mut()]).collect();
        let mut infos = InfoArray::new(qualifiers);
        let mut query = Query {
            keys: pointers.as_mut_ptr(),
            qualifiers: infos.pointer(),
            qualifier_count: infos.count(),
        };
        let (mut results, mut count) = (null_mut(), 0);
        // SAFETY: what it reads lives until it returns; the library allocates the results.
        let status =
            unsafe { (self.query_info)(&raw mut query, 1, &raw mut results, &raw mut count) };
        if status != status::PARTIAL_SUCCESS && status != status::QUERY_PARTIAL_SUCCESS {
            self.errors.check("PMIx_Query_info", status)?;
        }
        // SAFETY: the library says how many there are. They are left to its heap: the function
        // that releases them is a macro.
        Ok(unsafe { read_infos(results, count) })
    }

    /// Raises an event.
    ///
    /// # Errors
    /// If the server refuses it.
    pub fn notify(
        &self,
        code: c_int,
        range: u8,
        attributes: &[Attribute],
    ) -> Result<(), PmixError> {
        let mut infos = InfoArray::new(attributes);
        let source = Proc::from(&self.name);
        let (pointer, count) = (infos.pointer(), infos.count());
        // SAFETY: without a callback, the function returns when the server has it.
        let status = unsafe {
            (self.notify_event)(code, &raw const source, range, pointer, count, None, null_mut())
        };
        self.errors.check("PMIx_Notify_event", status)
    }
}

impl Tool {
    /// Starts the ranks of an application; the namespace of their job. What they write comes by
    /// [`Tool::pull_output`], if the attributes do not forward it: the library writes what is
    /// forwarded to the standard output and error of this process.
    ///
    /// # Errors
    /// If the server does not start them. A job that has failed at once has a namespace all the
    /// same, and ends as [`Tool::watch_jobs`] says.
    pub fn spawn(
        &self,
        app: &SpawnedApp,
        attributes: &[Attribute],
    ) -> Result<String, (PmixError, Option<String>)> {
        let pointers = |texts: &[CString]| -> Vec<*mut c_char> {
            texts.iter().map(|it| it.as_ptr().cast_mut()).chain([null_mut()]).collect()
        };
        let (mut arguments, mut environment) =
            (pointers(&app.arguments), pointers(&app.environment));
        let mut of_app = InfoArray::new(&app.attributes);
        let folder = app.folder.as_deref().map_or(null_mut(), |it| it.as_ptr().cast_mut());
        let apps = [App {
            command: app.command.as_ptr().cast_mut(),
            arguments: arguments.as_mut_ptr(),
            environment: environment.as_mut_ptr(),
            folder,
            ranks: c_int::try_from(app.ranks).unwrap_or(c_int::MAX),
            infos: of_app.pointer(),
            info_count: of_app.count(),
        }];
        let mut infos = InfoArray::new(attributes);
        let mut nspace = chars("");
        let (pointer, count) = (infos.pointer(), infos.count());
        // SAFETY: what it reads lives until it returns, and a namespace fits.
        let status = unsafe { (self.spawn)(pointer, count, apps.as_ptr(), 1, &raw mut nspace) };
        let nspace = read_chars(&nspace);
        match self.errors.check("PMIx_Spawn", status) {
            Ok(()) => Ok(nspace),
            Err(error) => Err((error, Some(nspace).filter(|it| !it.is_empty()))),
        }
    }

    /// Gives what happens to the jobs of this tool, and the end of the connection, to a receiver. A
    /// process has one.
    ///
    /// # Errors
    /// If the library refuses it.
    pub fn watch_jobs(&self, receiver: EventReceiver) -> Result<(), PmixError> {
        set_receiver(receiver);
        let mut codes = [status::JOB_END, status::READY_FOR_DEBUG, status::LOST_CONNECTION];
        let count_of_codes = codes.len();
        let name = [Attribute::new("pmix.evname", Datum::text("jobs"))];
        let mut infos = InfoArray::new(&name);
        let (codes, pointer, count) = (&raw mut codes, infos.pointer(), infos.count());
        // SAFETY: without a callback, the function returns when the handler is there: its number,
        // or an error.
        let number = unsafe {
            (self.register_handler)(
                codes.cast(),
                count_of_codes,
                pointer,
                count,
                Some(handle_event),
                None,
                null_mut(),
            )
        };
        self.errors.check("PMIx_Register_event_handler", number.min(0))
    }

    /// Asks the server to end a job. If it refuses, that is an event
    /// ([`super::ToolEvent::KillRefused`]).
    ///
    /// # Errors
    /// If it is not asked.
    pub fn kill(&self, nspace: &str) -> Result<(), PmixError> {
        let target = Box::leak(Box::new(Proc { nspace: chars(nspace), rank: WILDCARD }));
        let kill = [Attribute::new("pmix.jctrl.kill", Datum::flag(true))];
        let infos = Box::leak(Box::new(InfoArray::new(&kill)));
        let (pointer, infos) = (infos.pointer(), infos.count());
        let (target, answer) = (&raw const *target, Some(answer_kill as _));
        // SAFETY: what it reads is there until the process ends: when it has answered it needs it
        // no longer, and a process asks a few times.
        let status = unsafe { (self.job_control)(target, 1, pointer, infos, answer, null_mut()) };
        self.errors.check("PMIx_Job_control_nb", status)
    }

    /// Gives what the ranks of a job write to a receiver. A process has one.
    ///
    /// # Errors
    /// If the server refuses it.
    pub fn pull_output(
        &self,
        nspace: &str,
        receiver: Arc<dyn OutputReceiver>,
    ) -> Result<(), PmixError> {
        set_output_receiver(receiver);
        let ranks = Proc { nspace: chars(nspace), rank: WILDCARD };
        let (ranks, both) = (&raw const ranks, STDOUT | STDERR);
        // SAFETY: without a callback, the function returns when the server has answered: a number,
        // or an error.
        let number =
            unsafe { (self.pull)(ranks, 1, null(), 0, both, handle_output, None, null_mut()) };
        self.errors.check("PMIx_IOF_pull", number.min(0))
    }

    /// Asks the server something, whose answer is an event ([`super::ToolEvent::Answered`]): then
    /// all has come that the server has sent before.
    ///
    /// # Errors
    /// If it is not asked.
    pub fn ask_for_answer(&self) -> Result<(), PmixError> {
        let key = CString::new("pmix.qry.ns").unwrap_or_default();
        let keys = Box::leak(Box::new([key.into_raw(), null_mut()]));
        let keys = keys.as_mut_ptr();
        let query = Query { keys, qualifiers: null_mut(), qualifier_count: 0 };
        let query = &raw mut *Box::leak(Box::new(query));
        // SAFETY: what it reads is there until the process ends, which asks once.
        let status = unsafe { (self.query_later)(query, 1, Some(answer_question), null_mut()) };
        self.errors.check("PMIx_Query_info_nb", status)
    }

    /// What sends input to ranks.
    pub fn input(&self) -> InputSender {
        self.input.clone()
    }
}

impl Drop for Tool {
    fn drop(&mut self) {
        // No thread sends input from now on.
        *self.input.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
        // SAFETY: it was initialized.
        let _status = unsafe { (self.finalize)() };
    }
}
