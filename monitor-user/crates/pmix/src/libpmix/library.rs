//! The file of `libpmix`, which is opened at run time.
//!
//! In: the name of a function. Out: the function; or why there is no library.

use crate::status;
use libloading::os::unix::{Library, RTLD_NOW, Symbol};
use std::ffi::{CStr, c_char, c_int};
use thiserror::Error;

/// The library.
const LIBRARY: &str = "libpmix.so.2";

/// Why a call of the library is not possible.
#[derive(Debug, Error)]
pub enum PmixError {
    /// It cannot be opened.
    #[error("cannot open {LIBRARY}: {why}; install PMIx (Debian: apt install libpmix2)")]
    NotOpened {
        /// Why.
        why: String,
    },
    /// This program has no dynamic linker: what it opens would have a second C library.
    #[error(
        "this program is linked statically and cannot open PMIx: use that of the package, or a \
         build of the source"
    )]
    Static,
    /// Processes of other users could connect.
    #[error(
        "this program hides its function `accept` from PMIx, which checks the owners of \
         connections: build it as the README says"
    )]
    OwnersNotChecked,
    /// It refuses a call.
    #[error("{call} of PMIx: {why}")]
    Refused {
        /// The function.
        call: &'static str,
        /// Its status, as the library says it.
        why: String,
    },
}

fn not_opened(why: &libloading::Error) -> PmixError {
    PmixError::NotOpened { why: why.to_string() }
}

/// Whether the library can be opened.
///
/// # Errors
/// Why not.
pub fn check_installed() -> Result<(), PmixError> {
    open(RTLD_NOW).map(drop)
}

/// The version of the library, such as `4.2.2`.
///
/// # Errors
/// If it is not installed.
pub fn installed_version() -> Result<String, PmixError> {
    let text = version(&open(RTLD_NOW)?)?;
    let number = text.split(' ').find(|it| it.starts_with(|it: char| it.is_ascii_digit()));
    Ok(number.unwrap_or(&text).trim_end_matches(',').to_owned())
}

/// The version as a library says it, such as `OpenPMIx 4.2.2`; it need not be initialized.
///
/// # Errors
/// If the library is none of PMIx.
pub fn version(library: &Library) -> Result<String, PmixError> {
    // SAFETY: the type is that of pmix.h.
    let get = unsafe {
        function::<unsafe extern "C" fn() -> *const c_char>(library, c"PMIx_Get_version")
    }?;
    // SAFETY: no argument.
    let text = unsafe { get() };
    if text.is_null() {
        return Ok(String::new());
    }
    // SAFETY: the library returns a constant.
    Ok(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// Opens it, with flags of dlopen(3).
///
/// # Errors
/// If it is not installed, or this program cannot open a library.
pub fn open(flags: c_int) -> Result<Library, PmixError> {
    // SAFETY: a number.
    let linker = unsafe { libc::getauxval(libc::AT_BASE) };
    if linker == 0 {
        return Err(PmixError::Static);
    }
    // SAFETY: the initializers of the library are those of a system library.
    let library = unsafe { Library::open(Some(LIBRARY), flags) };
    library.map_err(|error| not_opened(&error))
}

/// Looks a function up.
///
/// # Errors
/// If the library has none of this name.
///
/// # Safety
/// The function has this type.
pub unsafe fn function<T>(library: &Library, name: &CStr) -> Result<Symbol<T>, PmixError> {
    // SAFETY: of the caller.
    let found = unsafe { library.get::<T>(name.to_bytes_with_nul()) };
    found.map_err(|error| not_opened(&error))
}

/// `PMIx_Error_string`: statuses in words.
pub struct ErrorText(Symbol<unsafe extern "C" fn(c_int) -> *const c_char>);

impl ErrorText {
    /// That of a library.
    ///
    /// # Errors
    /// If it is none of PMIx.
    pub fn from_library(library: &Library) -> Result<Self, PmixError> {
        // SAFETY: the type is that of pmix.h.
        unsafe { function(library, c"PMIx_Error_string") }.map(Self)
    }

    fn text(&self, status: c_int) -> String {
        // SAFETY: a number.
        let text = unsafe { (self.0)(status) };
        if text.is_null() {
            return format!("status {status}");
        }
        // SAFETY: the library returns a constant.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }

    /// The result of a call with this status.
    ///
    /// # Errors
    /// If the status is one of a failure.
    pub fn check(&self, call: &'static str, status: c_int) -> Result<(), PmixError> {
        match status {
            status::SUCCESS | status::OPERATION_SUCCEEDED => Ok(()),
            status => Err(PmixError::Refused { call, why: self.text(status) }),
        }
    }
}
