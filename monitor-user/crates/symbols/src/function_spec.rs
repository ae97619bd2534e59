//! The text form of a place in code.
//!
//! In: `[FILE:]FUNCTION[|FUNCTION…][@VERSION][+DISTANCE]` or `[FILE:]0xOFFSET`. Out: its parts.
//! A file is a path, or the name of a library with or without the part after `.so`.

use super::SymbolError;
use std::path::Path;

/// A parsed spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionSpec {
    /// The file; absent, any file.
    pub file: Option<String>,
    /// The place in the file.
    pub place: CodePlace,
}

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CodePlace {
    /// A function, or an address inside it.
    Function {
        /// Its name, or alternatives separated by `|`.
        name: String,
        /// Its symbol version; absent, all versions.
        version: Option<String>,
        /// Bytes after its start; absent, its entry.
        distance: Option<u64>,
    },
    /// An offset in the file, in bytes.
    Offset(u64),
}

/// The function that the dynamic linker calls after it has loaded libraries (`r_brk` of
/// `struct r_debug`, link.h): of glibc and musl, and of Android. Both in one name that no client
/// writes, so that it is never a tap of a client.
pub const LINKER_HOOK: &str = "_dl_debug_state|rtld_db_dlactivity";

const WANT: &str = "write [FILE:]FUNCTION[|FUNCTION][@VERSION][+DISTANCE] or [FILE:]0xOFFSET";

impl FunctionSpec {
    /// Parses a spec.
    pub fn from_text(text: &str) -> Result<Self, SymbolError> {
        let wrong = || SymbolError::BadSpec { written: text.to_owned(), want: WANT };
        let (file, rest) = match text.rsplit_once(':') {
            Some((file, rest)) => (Some(file.to_owned()), rest),
            None => (None, text),
        };
        if rest.is_empty() || file.as_deref() == Some("") {
            return Err(wrong());
        }
        if rest.starts_with("0x") {
            let offset = number(rest).ok_or_else(wrong)?;
            return Ok(Self { file, place: CodePlace::Offset(offset) });
        }
        let (rest, distance) = match rest.split_once('+') {
            Some((rest, distance)) => (rest, Some(number(distance).ok_or_else(wrong)?)),
            None => (rest, None),
        };
        let (name, version) = match rest.split_once('@') {
            Some((name, version)) => (name, Some(version.trim_start_matches('@').to_owned())),
            None => (rest, None),
        };
        if name.is_empty() {
            return Err(wrong());
        }
        let place = CodePlace::Function { name: name.to_owned(), version, distance };
        Ok(Self { file, place })
    }

    /// Whether the spec can refer to this file.
    pub fn matches_file(&self, path: &Path) -> bool {
        let Some(file) = &self.file else { return true };
        if file.contains('/') {
            return path == Path::new(file);
        }
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        // `libc` matches `libc.so.6` and the older `libc-2.31.so`.
        let rest = name.strip_prefix(file.as_str());
        rest.is_some_and(|rest| {
            rest.is_empty()
                || rest.starts_with(".so")
                || rest.starts_with('.') && file.ends_with(".so")
                || rest.starts_with('-') && rest.contains(".so")
        })
    }
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, file: Option<&str>, name: &str, version: Option<&str>, at: Option<u64>) {
        let (name, version) = (name.to_owned(), version.map(str::to_owned));
        let place = CodePlace::Function { name, version, distance: at };
        let want = FunctionSpec { file: file.map(str::to_owned), place };
        assert_eq!(FunctionSpec::from_text(text).unwrap(), want);
    }

    #[test]
    fn a_function_may_have_a_file_a_version_and_a_distance() {
        check("pvm_send", None, "pvm_send", None, None);
        check("libc:open", Some("libc"), "open", None, None);
        check("memcpy@GLIBC_2.2.5", None, "memcpy", Some("GLIBC_2.2.5"), None);
        check("memcpy@@GLIBC_2.14", None, "memcpy", Some("GLIBC_2.14"), None);
        check("/bin/a b:main+0x10", Some("/bin/a b"), "main", None, Some(16));
        check("/opt/a:b:main+7", Some("/opt/a:b"), "main", None, Some(7));
    }

    #[test]
    fn an_offset_is_hexadecimal() {
        let it = FunctionSpec::from_text("a.out:0xb710").unwrap();
        assert_eq!(
            it,
            FunctionSpec { file: Some("a.out".into()), place: CodePlace::Offset(0xb710) }
        );
    }

    #[test]
    fn an_invalid_spec_is_refused_with_the_expected_form() {
        for text in ["", ":", "libc:", ":open", "0x", "0xzz", "+4", "open+", "open+x", "@V"] {
            let error = FunctionSpec::from_text(text).unwrap_err().to_string();
            assert!(error.contains("FUNCTION"), "{text}: {error}");
        }
    }

    #[test]
    fn a_library_can_be_named_without_its_version() {
        let accepts = |file: &str, path: &str| {
            FunctionSpec::from_text(&format!("{file}:f")).unwrap().matches_file(Path::new(path))
        };
        assert!(accepts("libc", "/usr/lib/libc.so.6"));
        assert!(accepts("libc", "/lib/libc-2.31.so"));
        assert!(accepts("libc.so", "/usr/lib/libc.so.6"));
        assert!(accepts("libc.so.6", "/usr/lib/libc.so.6"));
        assert!(accepts("/usr/lib/libc.so.6", "/usr/lib/libc.so.6"));
        assert!(!accepts("libc", "/usr/lib/libcrypt.so.1"));
        assert!(!accepts("/lib/libc.so.6", "/usr/lib/libc.so.6"));
    }
}
