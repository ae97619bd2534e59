//! The program that is run on nodes: where it is here, and which files of it are copied.
//!
//! In: the command. Out: the files with the names that they get in the directory of a session, and
//! the line of `ctl` that executes the program. Copies nothing.

use crate::cli::exit::Failure;
use monitor_control::session::quoted;
use monitor_symbols::elf::ElfImage;
use monitor_symbols::library_closure::{LibraryPath, library_closure};
use monitor_symbols::object_file::ObjectFile;
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Most bytes of the files: the quota of a session.
const MOST_BYTES: u64 = 256 << 20;
/// The name of a program whose own name a library has, or no file of a session can have.
const PLAIN_NAME: &str = "xc";

/// What is copied and executed.
#[derive(Debug)]
pub struct Program {
    /// The files, the program first.
    pub files: Vec<PushedFile>,
    /// The line of `ctl` that executes it.
    pub exec: Vec<u8>,
}

/// A file that is copied.
#[derive(Debug)]
pub struct PushedFile {
    /// Its name in the directory of the session.
    pub name: String,
    /// The file, which stays the same if its path is replaced.
    pub file: File,
    /// Its permission bits there.
    pub permissions: u32,
}

impl Program {
    /// A program that the nodes have, at an absolute path.
    ///
    /// # Errors
    ///
    /// When the path is none.
    pub fn in_place(command: &OsStr) -> Result<Self, Failure> {
        let path = command.as_bytes();
        if !path.starts_with(b"/") || path.contains(&b'\n') {
            let why = format!("--in-place needs an absolute path, not {}", command.display());
            return Err(Failure::usage(why));
        }
        Ok(Self { files: Vec::new(), exec: exec_line(path) })
    }

    /// The program of a command, with the libraries that it needs. `None` if there is none.
    ///
    /// # Errors
    ///
    /// When it or a library cannot be read, or they are larger than a session takes.
    pub fn copied(command: &OsStr) -> Result<Option<Self>, Failure> {
        let Some(path) = found(command) else { return Ok(None) };
        let libraries = libraries(&path)?;
        let name = path.file_name().and_then(OsStr::to_str).filter(|name| {
            let is_plain = name.bytes().all(|it| it > b' ' && it != 0x7f);
            is_plain && libraries.iter().all(|it| it.0 != *name)
        });
        let name = name.unwrap_or(PLAIN_NAME);
        let mut files = vec![pushed(name, &path, 0o755)?];
        for (name, path) in &libraries {
            files.push(pushed(name, path, 0o644)?);
        }
        let length = |it: &PushedFile| it.file.metadata().map_or(0, |it: Metadata| it.len());
        let bytes: u64 = files.iter().map(length).sum();
        if bytes > MOST_BYTES {
            let (count, most) = (files.len(), MOST_BYTES >> 20);
            return Err(Failure::failed(format!(
                "{} and its libraries are {} MiB in {count} files; a session takes {most} MiB: \
                 install it on the nodes, and use --in-place",
                path.display(),
                bytes >> 20
            )));
        }
        let exec = exec_line(name.as_bytes());
        Ok(Some(Self { files, exec }))
    }
}

fn exec_line(program: &[u8]) -> Vec<u8> {
    [b"exec ", &quoted([program])[..], b"\n"].concat()
}

/// The file of a command, as a shell finds it.
fn found(command: &OsStr) -> Option<PathBuf> {
    if command.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(command)).filter(|it| it.exists());
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let is_program = |it: &PathBuf| {
        it.metadata().is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(&folders).map(|folder| folder.join(command)).find(is_program)
}

/// The libraries of a program, with their names; none of a script, or of a static program.
fn libraries(program: &Path) -> Result<Vec<(String, PathBuf)>, Failure> {
    let cannot_read = |why| Failure::failed(format!("cannot run it on nodes: {why}"));
    let file = ObjectFile::open(program, program).map_err(|why| cannot_read(why.to_string()))?;
    if ElfImage::read(Arc::new(file)).is_err() {
        // A script, whose interpreter the nodes have; or the node says that it is no program.
        return Ok(Vec::new());
    }
    let path = LibraryPath::of_system(std::env::var_os("LD_LIBRARY_PATH").as_deref());
    let all = library_closure(program, &path).map_err(|why| cannot_read(why.to_string()))?;
    // A library that is named by its path is where the program says, also on the node.
    Ok(all.into_iter().filter(|(name, _)| !name.contains('/')).collect())
}

fn pushed(name: &str, path: &Path, permissions: u32) -> Result<PushedFile, Failure> {
    let file = File::open(path);
    let file =
        file.map_err(|why| Failure::failed(format!("cannot read {}: {why}", path.display())));
    Ok(PushedFile { name: name.to_owned(), file: file?, permissions })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_and_executed_by_its_name() {
        let shell = Program::copied("sh".as_ref()).expect("readable").expect("there");
        assert_eq!(shell.exec, b"exec 'sh'\n");
        assert_eq!((shell.files[0].name.as_str(), shell.files[0].permissions), ("sh", 0o755));
        assert!(shell.files.iter().all(|it| !it.name.starts_with("libc.so")));
        assert!(Program::copied("monitor-absent".as_ref()).expect("no error").is_none());
        assert!(Program::copied("/none/absent".as_ref()).expect("no error").is_none());
    }

    #[test]
    fn a_program_of_the_nodes_has_an_absolute_path() {
        let program = Program::in_place("/bin/a b".as_ref()).expect("a path");
        assert_eq!(program.exec, b"exec '/bin/a b'\n");
        assert!(program.files.is_empty());
        for path in ["ls", "./ls", "/bin/a\nwipe"] {
            assert!(Program::in_place(path.as_ref()).is_err(), "{path}");
        }
    }
}
