//! What the library waits for: the completion of an upcall, exactly once.
//!
//! A reply that is dropped says `PMIX_ERROR`, so no client waits for ever.

use super::abi::{
    InfoCallback, LookupCallback, ModexCallback, OpCallback, Proc, Published, SpawnCallback,
    ToolCallback,
};
use super::values::{InfoArray, chars, value};
use crate::attribute::{Attribute, Datum, ProcName};
use crate::status;
use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::{null, null_mut};

/// The function that completes an upcall.
#[derive(Clone, Copy)]
pub enum Completion {
    /// A status.
    Op(OpCallback),
    /// Data of a fence.
    Modex(ModexCallback),
    /// Attributes.
    Info(InfoCallback),
    /// A namespace.
    Spawn(SpawnCallback),
    /// Published data.
    Lookup(LookupCallback),
    /// The name of a tool.
    Tool(ToolCallback),
}

/// Completes an upcall.
pub struct Reply {
    /// Absent after its completion.
    completion: Option<Completion>,
    data: *mut c_void,
}

// SAFETY: the library accepts completions from any thread, and uses the pointer for nothing else.
unsafe impl Send for Reply {}

impl Reply {
    /// Of an upcall: its callback with the data for it.
    pub const fn new(completion: Completion, data: *mut c_void) -> Self {
        Self { completion: Some(completion), data }
    }

    /// With a status alone.
    pub fn status(mut self, status: c_int) {
        self.complete(status);
    }

    fn complete(&mut self, status: c_int) {
        let data = self.data;
        match self.completion.take() {
            Some(Completion::Op(Some(function))) => {
                // SAFETY: the library's own function with its own data, once.
                unsafe { function(status, data) }
            }
            Some(Completion::Modex(Some(function))) => {
                // SAFETY: as above; without results, what would release them is absent.
                unsafe { function(status, null(), 0, data, None, null_mut()) }
            }
            Some(Completion::Info(Some(function))) => {
                // SAFETY: as above.
                unsafe { function(status, null_mut(), 0, data, None, null_mut()) }
            }
            Some(Completion::Spawn(Some(function))) => {
                // SAFETY: as above; there is no namespace.
                unsafe { function(status, null_mut(), data) }
            }
            Some(Completion::Lookup(Some(function))) => {
                // SAFETY: as above; there are no data.
                unsafe { function(status, null_mut(), 0, data) }
            }
            Some(Completion::Tool(Some(function))) => {
                // The library copies the name also of a tool that is refused.
                let mut proc = Proc { nspace: chars(""), rank: 0 };
                // SAFETY: as above; the name lives until the function returns.
                unsafe { function(status, &raw mut proc, data) }
            }
            _ => {}
        }
    }

    /// With the name that a tool gets.
    pub fn admitted(mut self, name: &ProcName) {
        let Some(Completion::Tool(Some(function))) = self.completion else { return };
        self.completion = None;
        let mut proc = Proc::from(name);
        // SAFETY: the library copies the name before the function returns.
        unsafe { function(status::SUCCESS, &raw mut proc, self.data) }
    }

    /// With attributes.
    pub fn attributes(mut self, status: c_int, attributes: &[Attribute]) {
        let Some(Completion::Info(Some(function))) = self.completion else { return };
        self.completion = None;
        let mut infos = Box::new(InfoArray::new(attributes));
        let (pointer, count) = (infos.pointer(), infos.count());
        let infos = Box::into_raw(infos).cast();
        // SAFETY: the library's own function with its own data, once; the attributes live until
        // it calls the function that releases them.
        unsafe { function(status, pointer, count, self.data, Some(release_infos), infos) }
    }

    /// With the data that all processes of a fence contributed; they are of `malloc`.
    pub fn modex(mut self, blob: Blob) {
        let Some(Completion::Modex(Some(function))) = self.completion else { return };
        self.completion = None;
        let Blob { bytes, size } = blob;
        let release = Some(release_blob as _);
        // SAFETY: as above.
        unsafe { function(status::SUCCESS, bytes, size, self.data, release, bytes.cast()) }
    }

    /// With the namespace of the processes that were started.
    pub fn spawned(mut self, nspace: &str) {
        let Some(Completion::Spawn(Some(function))) = self.completion else { return };
        self.completion = None;
        let nspace = CString::new(nspace).unwrap_or_default();
        // SAFETY: the library copies the namespace before the function returns.
        unsafe { function(status::SUCCESS, nspace.as_ptr().cast_mut(), self.data) }
    }

    /// With published data.
    pub fn found(mut self, status: c_int, found: &[(ProcName, String, Datum)]) {
        let Some(Completion::Lookup(Some(function))) = self.completion else { return };
        self.completion = None;
        let mut storage = Vec::new();
        let published = |(owner, key, datum): &(ProcName, String, Datum)| Published {
            proc: owner.into(),
            key: chars(key),
            value: value(datum, &mut storage),
        };
        let mut all: Vec<Published> = found.iter().map(published).collect();
        // SAFETY: the library copies the data before the function returns.
        unsafe { function(status, all.as_mut_ptr(), all.len(), self.data) }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        self.complete(status::ERROR);
    }
}

/// # Safety
/// The library passes back what [`Reply::attributes`] gave it, once.
unsafe extern "C" fn release_infos(infos: *mut c_void) {
    // SAFETY: of the caller.
    drop(unsafe { Box::from_raw(infos.cast::<InfoArray>()) });
}

/// Bytes of `malloc`, which the library gave to its host.
pub struct Blob {
    bytes: *mut c_char,
    size: usize,
}

// SAFETY: they have one owner.
unsafe impl Send for Blob {}

impl Blob {
    /// Bytes that the library gives to its host.
    pub const fn new(bytes: *mut c_char, size: usize) -> Self {
        Self { bytes, size }
    }
}

/// # Safety
/// The library passes back what [`Reply::modex`] gave it, once.
unsafe extern "C" fn release_blob(bytes: *mut c_void) {
    // SAFETY: of the caller; the library allocated them with `malloc`.
    unsafe { libc::free(bytes) }
}
