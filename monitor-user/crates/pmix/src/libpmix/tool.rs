//! `libpmix` as a tool: a connection to the PMIx server of a job.
//!
//! In: the URI of a server, keys, events. Out: values. Documented in `pmix_tool.h` and the PMIx
//! standard, chapter "Tools and Debuggers".

use super::abi::{KeyedValue, NotifyEvent, Proc, Query};
use super::library::{ErrorText, PmixError, function, open};
use super::values::{InfoArray, chars, read_infos};
use crate::attribute::{Attribute, Datum, ProcName};
use crate::status;
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW, Symbol};
use std::ffi::{CString, c_char, c_int};
use std::ptr::null_mut;

type QueryInfo = unsafe extern "C" fn(*mut Query, usize, *mut *mut KeyedValue, *mut usize) -> c_int;
/// A connection to a server.
pub struct Tool {
    name: ProcName,
    finalize: Symbol<unsafe extern "C" fn() -> c_int>,
    query_info: Symbol<QueryInfo>,
    notify_event: Symbol<NotifyEvent>,
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
        macro_rules! tool {
            ($($field:ident = $name:literal,)*) => {
                Self {
                    // SAFETY: the types are those of pmix_tool.h and pmix.h.
                    $($field: unsafe { function(&library, $name) }?,)*
                    name: ProcName::from(&proc),
                    errors,
                    _library: library,
                }
            };
        }
        Ok(tool! {
            finalize = c"PMIx_tool_finalize",
            query_info = c"PMIx_Query_info",
            notify_event = c"PMIx_Notify_event",
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

impl Drop for Tool {
    fn drop(&mut self) {
        // SAFETY: it was initialized.
        let _status = unsafe { (self.finalize)() };
    }
}
