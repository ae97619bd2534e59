//! The libraries that a program needs, and those that these need, as files of this system.
//!
//! In: a program. Out: its libraries, each with the file that the dynamic linker would map, without
//! executing anything, as ldd(1) does. The libraries of the C library are left out: they belong to
//! the dynamic linker, whose path is in the program, and fit no other. What a program opens by
//! itself (dlopen(3)) is not known.

use super::SymbolError;
use super::elf::{DynamicSection, ElfImage};
use super::object_file::ObjectFile;
use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Most libraries of a program.
const MOST_LIBRARIES: usize = 1024;
/// Directories that are searched last, after those of `/etc/ld.so.conf`.
const DEFAULT_DIRECTORIES: [&str; 6] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
];
/// The configuration of the dynamic linker (ldconfig(8)), and how deep its files include others.
const CONFIGURATION: &str = "/etc/ld.so.conf";
const MOST_INCLUDES: usize = 4;
/// Beginnings of the names of libraries that belong to the dynamic linker: glibc's, and musl's.
const OF_THE_C_LIBRARY: [&str; 15] = [
    "ld-",
    "ld.so",
    "ld64.",
    "libc.so.",
    "libc.musl",
    "libm.so.",
    "libmvec.so.",
    "libpthread.so.",
    "libdl.so.",
    "librt.so.",
    "libutil.so.",
    "libresolv.so.",
    "libanl.so.",
    "libnsl.so.",
    "libnss_",
];

/// Where libraries are searched.
#[derive(Clone, Debug, Default)]
pub struct LibraryPath {
    /// The directories of `LD_LIBRARY_PATH`.
    pub first: Vec<PathBuf>,
    /// Those of the configuration, and the default ones.
    pub last: Vec<PathBuf>,
}

/// A library that was not found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{needed_by} needs {name}, which is not found here")]
pub struct MissingLibrary {
    /// Its name.
    pub name: String,
    /// The file that needs it.
    pub needed_by: String,
}

/// Why the libraries of a program are not known.
#[derive(Debug, thiserror::Error)]
pub enum ClosureError {
    /// A file cannot be read as ELF.
    #[error(transparent)]
    File(#[from] SymbolError),
    /// A library is not found.
    #[error(transparent)]
    Missing(#[from] MissingLibrary),
    /// There are too many.
    #[error("more than {MOST_LIBRARIES} libraries")]
    TooMany,
}

impl LibraryPath {
    /// That of this system, with this `LD_LIBRARY_PATH`.
    pub fn of_system(library_path: Option<&OsStr>) -> Self {
        let first = library_path.map(|it| std::env::split_paths(it).collect()).unwrap_or_default();
        let mut last = configured(Path::new(CONFIGURATION), MOST_INCLUDES);
        last.extend(DEFAULT_DIRECTORIES.map(PathBuf::from));
        Self { first, last }
    }

    /// The files where a library may be, in the order in which they are tried.
    fn candidates(&self, name: &str, by: &Needing) -> Vec<PathBuf> {
        if name.contains('/') {
            return vec![name.into()];
        }
        let before = if by.section.runpath.is_none() { by.rpath.as_slice() } else { &[] };
        let after = by.section.runpath.as_deref().map(|it| expanded(it, &by.file));
        let after = after.unwrap_or_default();
        let folders = before.iter().chain(&self.first).chain(&after).chain(&self.last);
        folders.map(|folder| folder.join(name)).collect()
    }
}

/// A file whose libraries are looked for.
struct Needing {
    file: PathBuf,
    section: DynamicSection,
    /// The directories of `DT_RPATH`: its own, and those of what needs it.
    rpath: Vec<PathBuf>,
}

/// The libraries of a program by their names, which are those that the dynamic linker asks for.
///
/// # Errors
///
/// When a file is malformed, or a library is not found.
pub fn library_closure(
    program: &Path,
    path: &LibraryPath,
) -> Result<BTreeMap<String, PathBuf>, ClosureError> {
    let mut found = BTreeMap::new();
    let mut left = VecDeque::from([needing(program, program, &[])?]);
    while let Some(by) = left.pop_front() {
        for name in &by.section.needed {
            if found.contains_key(name) || is_of_the_c_library(name) {
                continue;
            }
            if found.len() >= MOST_LIBRARIES {
                return Err(ClosureError::TooMany);
            }
            let candidates = path.candidates(name, &by);
            let usable = candidates.into_iter().find_map(|file| {
                // A library of another architecture is passed over, as the dynamic linker does.
                needing(&file, &file, &by.rpath).ok().map(|it| (file, it))
            });
            let needed_by = || by.file.display().to_string();
            let missing = || MissingLibrary { name: name.clone(), needed_by: needed_by() };
            let (file, next) = usable.ok_or_else(missing)?;
            let _new = found.insert(name.clone(), file);
            left.push_back(next);
        }
    }
    Ok(found)
}

fn needing(file: &Path, name: &Path, inherited: &[PathBuf]) -> Result<Needing, SymbolError> {
    let image = ElfImage::read(Arc::new(ObjectFile::open(file, name)?))?;
    let section = image.dynamic()?;
    let own = section.rpath.as_deref().map(|it| expanded(it, file)).unwrap_or_default();
    let rpath = own.into_iter().chain(inherited.iter().cloned()).collect();
    Ok(Needing { file: file.to_owned(), section, rpath })
}

/// The directories of a list between colons, with `$ORIGIN` as that of the file.
fn expanded(list: &str, file: &Path) -> Vec<PathBuf> {
    let real = std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let origin = real.parent().unwrap_or(Path::new("/")).display().to_string();
    let folders = list.split(':').filter(|it| !it.is_empty());
    folders.map(|it| it.replace("${ORIGIN}", &origin).replace("$ORIGIN", &origin).into()).collect()
}

fn is_of_the_c_library(name: &str) -> bool {
    OF_THE_C_LIBRARY.iter().any(|it| name.starts_with(it))
}

/// The directories of a configuration of the dynamic linker.
fn configured(file: &Path, includes: usize) -> Vec<PathBuf> {
    // A system may have none.
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    lines.flat_map(|line| configured_line(line, file, includes)).collect()
}

fn configured_line(line: &str, file: &Path, includes: usize) -> Vec<PathBuf> {
    match line.split_once(char::is_whitespace) {
        Some(("include", pattern)) if includes > 0 => {
            let folder = file.parent().unwrap_or(Path::new("/"));
            let files = matching(&folder.join(pattern.trim()));
            files.iter().flat_map(|it| configured(it, includes - 1)).collect()
        }
        _ if line.starts_with('/') => vec![line.into()],
        _ => Vec::new(),
    }
}

/// The files that a pattern with `*` in its last part names, in the order of their names.
fn matching(pattern: &Path) -> Vec<PathBuf> {
    let name = pattern.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let Some((begin, end)) = name.split_once('*') else { return vec![pattern.to_owned()] };
    let folder = pattern.parent().unwrap_or(Path::new("/"));
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let is_it = |it: &PathBuf| {
        let name = it.file_name().and_then(OsStr::to_str).unwrap_or_default();
        name.len() >= begin.len() + end.len() && name.starts_with(begin) && name.ends_with(end)
    };
    let mut files: Vec<PathBuf> = entries.map(|it| it.path()).filter(is_it).collect();
    files.sort();
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that is removed after the test.
    struct Folder(PathBuf);

    impl Folder {
        fn new(test: &str) -> Self {
            let path = std::env::temp_dir().join(format!("monitor-{test}-{}", std::process::id()));
            let _left = std::fs::remove_dir_all(&path);
            std::fs::create_dir(&path).expect("a folder");
            Self(path)
        }

        fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
            let path = self.0.join(name);
            std::fs::write(&path, bytes).expect("a file");
            path
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _left = std::fs::remove_dir_all(&self.0);
        }
    }

    /// An ELF file with a dynamic section: libraries, and perhaps `DT_RPATH` or `DT_RUNPATH`.
    fn elf(needed: &[&str], folders: Option<(i64, &str)>) -> Vec<u8> {
        let mut strings = vec![0_u8];
        let mut add = |text: &str| {
            let at = strings.len() as u64;
            strings.extend_from_slice(text.as_bytes());
            strings.push(0);
            at
        };
        let mut rows: Vec<(i64, u64)> = needed.iter().map(|it| (1, add(it))).collect();
        rows.extend(folders.map(|(tag, text)| (tag, add(text))));
        let (headers, strings_at) = (64 + 2 * 56_u64, 64 + 2 * 56 + (rows.len() as u64 + 3) * 16);
        rows.extend([(5, strings_at), (10, strings.len() as u64), (0, 0)]);
        let length = strings_at + strings.len() as u64;
        let mut bytes = vec![0_u8; 64];
        bytes[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        bytes[18] = 62;
        bytes[32..40].copy_from_slice(&64_u64.to_le_bytes());
        bytes[56] = 2;
        let table = rows.len() as u64 * 16;
        for (kind, at, size) in [(1_u64, 0_u64, length), (2, headers, table)] {
            for value in [kind, at, at, at, size, size, 8] {
                bytes.extend_from_slice(&value.to_le_bytes());
            }
        }
        for (tag, value) in rows {
            bytes.extend_from_slice(&tag.to_le_bytes());
            bytes.extend_from_slice(&value.to_le_bytes());
        }
        bytes.extend_from_slice(&strings);
        bytes
    }

    fn names(found: &BTreeMap<String, PathBuf>) -> Vec<&str> {
        found.keys().map(String::as_str).collect()
    }

    const RPATH: i64 = 15;
    const RUNPATH: i64 = 29;

    #[test]
    fn libraries_of_libraries_are_found_where_the_linker_looks() {
        let it = Folder::new("closure");
        std::fs::create_dir_all(it.0.join("own/b")).expect("a folder");
        let needed = ["liba.so.1", "libc.so.6", "ld-linux-x86-64.so.2"];
        let program = it.write("program", &elf(&needed, Some((RUNPATH, "/none:$ORIGIN/own"))));
        it.write("own/liba.so.1", &elf(&["libb.so"], Some((RPATH, "${ORIGIN}/b"))));
        it.write("own/b/libb.so", &elf(&["libd.so", "liba.so.1"], None));
        it.write("own/libd.so", &elf(&[], None));
        // The directories of DT_RUNPATH are for the file itself only.
        let missing = library_closure(&program, &LibraryPath::default()).expect_err("missing");
        assert!(missing.to_string().contains("libb.so needs libd.so"), "{missing}");
        let path = LibraryPath { first: vec![it.0.join("own")], last: Vec::new() };
        let found = library_closure(&program, &path).expect("all");
        assert_eq!(names(&found), ["liba.so.1", "libb.so", "libd.so"]);
        assert_eq!(found["libb.so"], it.0.join("own/b/libb.so"));
    }

    #[test]
    fn what_is_no_library_is_passed_over() {
        let it = Folder::new("closure-other");
        std::fs::create_dir(it.0.join("last")).expect("a folder");
        let program = it.write("program", &elf(&["liba.so"], None));
        it.write("liba.so", b"INPUT(libreal.so)");
        it.write("last/liba.so", &elf(&[], None));
        let path = LibraryPath { first: vec![it.0.clone()], last: vec![it.0.join("last")] };
        let found = library_closure(&program, &path).expect("one");
        assert_eq!(found["liba.so"], it.0.join("last/liba.so"));
        let script = it.write("script", b"#!/bin/sh\n");
        assert!(matches!(library_closure(&script, &path), Err(ClosureError::File(_))));
    }

    #[test]
    fn a_malformed_section_is_an_error() {
        let it = Folder::new("closure-bad");
        let good = elf(&["liba.so"], None);
        for (at, byte) in [(176 + 8, 0xff), (176 + 16 + 8 + 6, 0x7f), (176 + 32 + 8 + 6, 0x7f)] {
            let mut bad = good.clone();
            bad[at] = byte;
            let program = it.write("program", &bad);
            let result = library_closure(&program, &LibraryPath::default());
            assert!(matches!(result, Err(ClosureError::File(_))), "{at}: {result:?}");
        }
    }

    #[test]
    fn the_configuration_includes_files_in_the_order_of_their_names() {
        let it = Folder::new("closure-conf");
        std::fs::create_dir(it.0.join("conf.d")).expect("a folder");
        let conf = it.write("ld.so.conf", b"# text\n/first # more\ninclude conf.d/*.conf\nodd\n");
        it.write("conf.d/b.conf", b"/b\n");
        it.write("conf.d/a.conf", b"/a\n/a2\n");
        it.write("conf.d/c.other", b"/c\n");
        assert_eq!(
            configured(&conf, MOST_INCLUDES),
            ["/first", "/a", "/a2", "/b"].map(PathBuf::from)
        );
    }
}
