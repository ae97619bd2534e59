//! What processes log (`PMIx_Log`): on the standard output or error of the host.

use crate::attribute::{Attribute, Datum, ProcName};
use crate::status;
use std::ffi::c_int;

/// Writes texts where their keys say; the status. Other channels, such as the system log,
/// are not served.
pub fn write(
    name: &ProcName,
    attributes: &[Attribute],
    write: impl Fn(&str, bool) -> bool,
) -> c_int {
    let mut written = 0;
    let texts: Vec<_> = attributes.iter().filter(|it| it.key.starts_with("pmix.log.")).collect();
    for attribute in &texts {
        let Some(text) = attribute.value.as_text() else { continue };
        let is_error = match attribute.key.as_str() {
            "pmix.log.stdout" => false,
            "pmix.log.stderr" => true,
            _ => continue,
        };
        written += usize::from(write(&text.to_string_lossy(), is_error));
    }
    tracing::debug!(nspace = name.nspace, rank = name.rank, written, "log");
    match written {
        0 if texts.iter().any(|it| matches!(it.value, Datum::Text(_))) => status::NOT_SUPPORTED,
        0 => status::BAD_PARAM,
        written if written < texts.len() => status::PARTIAL_SUCCESS,
        _ => status::SUCCESS,
    }
}
