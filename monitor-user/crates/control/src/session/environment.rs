//! The program of an `exec`: its file, arguments and environment.
//!
//! In: the texts of a session and the operands of `exec`. Out: a [`LaunchedProgram`]. The
//! environment is what `env` says and the variables of the session, and nothing of the service.

use super::error::{Refusal, SessionError};
use super::message::LaunchedProgram;
use super::words::{Assignment, assignments, words};
use crate::host_protocol::OUTPUT_FOLDER;
use monitor_model::job::SESSION_VARIABLE;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};

/// Names that `exec` without a program tries, in this order.
const DEFAULT_PROGRAMS: [&str; 2] = ["xc", "exec"];
/// Where the dynamic linker looks first (ld.so(8)).
const LIBRARY_PATH: &[u8] = b"LD_LIBRARY_PATH";

/// Where a session is found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionPlace {
    /// Its directory.
    pub folder: PathBuf,
    /// The id of the job that it is, and the folder with the socket for it; none, if commands for
    /// jobs do not find it.
    pub job: Option<(String, PathBuf)>,
}

/// What the program of a session gets.
#[derive(Clone, Copy, Debug)]
pub struct SessionTexts<'t> {
    /// The directory of the session, and its job.
    pub place: &'t SessionPlace,
    /// The number of the session.
    pub number: u32,
    /// Numbers of job and process.
    pub id: &'t str,
    /// The text `argv`.
    pub argv: &'t [u8],
    /// The text `env`.
    pub env: &'t [u8],
}

/// The program of an `exec` with these operands.
///
/// # Errors
///
/// When a text is no list of words, or of assignments, or the program is not below the directory.
pub fn launched_program(
    texts: SessionTexts<'_>,
    program: Option<&[u8]>,
    folder: Option<PathBuf>,
) -> Result<LaunchedProgram, SessionError> {
    let named = |what: &str, error: SessionError| SessionError {
        why: format!("{what}: {}", error.why),
        ..error
    };
    let files = match program {
        Some(it) => vec![program_file(&texts.place.folder, it)?],
        None => DEFAULT_PROGRAMS.iter().map(|it| texts.place.folder.join(it)).collect(),
    };
    let mut arguments = words(texts.argv).map_err(|it| named("argv", it))?;
    if arguments.is_empty() {
        // Linux runs no program without arguments (execve(2), since 5.18).
        arguments.extend(files.first().map(|it| it.clone().into_os_string().into_vec()));
    }
    let given = assignments(texts.env).map_err(|it| named("env", it))?;
    let environment = with_session_variables(given, texts);
    Ok(LaunchedProgram { files, arguments, environment, folder, redirects: [None, None, None] })
}

/// The file of a program: an absolute path as it is, another one below the directory.
fn program_file(folder: &Path, program: &[u8]) -> Result<PathBuf, SessionError> {
    let path = Path::new(OsStr::from_bytes(program));
    if path.is_absolute() {
        return Ok(path.to_owned());
    }
    let is_below =
        path.components().all(|it| matches!(it, Component::Normal(_) | Component::CurDir));
    if program.is_empty() || !is_below {
        let why =
            format!("exec: {} leaves fs/: name a file in it, or an absolute path", path.display());
        return Err(SessionError::new(Refusal::Invalid, why));
    }
    Ok(folder.join(path))
}

/// The last assignment to a name is the one that counts; those of the session replace others, and
/// the directory is the first place of libraries.
fn with_session_variables(given: Vec<Assignment>, texts: SessionTexts<'_>) -> Vec<Assignment> {
    let folder = texts.place.folder.as_os_str().as_bytes();
    let mut all: Vec<Assignment> = Vec::with_capacity(given.len() + 4);
    // A user may assign to ten thousands of names.
    let mut places: HashMap<Vec<u8>, usize> = HashMap::new();
    let mut set = |name: &[u8], value: Vec<u8>| match places.get(name) {
        Some(place) => all[*place].1 = value,
        None => {
            places.insert(name.to_vec(), all.len());
            all.push((name.to_vec(), value));
        }
    };
    let mut libraries = folder.to_vec();
    for (name, value) in given {
        if name == LIBRARY_PATH && !value.is_empty() {
            libraries = [folder, b":", &value].concat();
        }
        set(&name, value);
    }
    set(LIBRARY_PATH, libraries);
    set(b"XCPUPATH", folder.to_vec());
    set(b"XCPUID", texts.id.as_bytes().to_vec());
    set(b"XCPUSID", texts.number.to_string().into_bytes());
    if let Some((id, path)) = &texts.place.job {
        set(SESSION_VARIABLE.as_bytes(), id.as_bytes().to_vec());
        set(OUTPUT_FOLDER.as_bytes(), path.as_os_str().as_bytes().to_vec());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program_of(argv: &[u8], env: &[u8], file: Option<&[u8]>) -> Option<LaunchedProgram> {
        let job = Some(("session-3-ab".to_owned(), "/run/j".into()));
        let place = &SessionPlace { folder: "/run/s".into(), job };
        let texts = SessionTexts { place, number: 3, id: "7/1", argv, env };
        launched_program(texts, file, None).ok()
    }

    fn environment(env: &str) -> Vec<String> {
        let it = program_of(b"", env.as_bytes(), Some(b"a")).expect("a program");
        let show = |(name, value): Assignment| {
            format!("{}={}", String::from_utf8_lossy(&name), String::from_utf8_lossy(&value))
        };
        it.environment.into_iter().map(show).collect()
    }

    #[test]
    fn the_environment_is_that_of_the_text_and_of_the_session() {
        let of_job = ["MONITOR_SESSION=session-3-ab", "MONITOR_JOB_OUTPUT=/run/j"];
        let own = ["LD_LIBRARY_PATH=/run/s", "XCPUPATH=/run/s", "XCPUID=7/1", "XCPUSID=3"];
        assert_eq!(environment(""), [&own[..], &of_job].concat());
        let given =
            ["A=2", "XCPUSID=3", "LD_LIBRARY_PATH=/run/s:/x", "XCPUPATH=/run/s", "XCPUID=7/1"];
        let got = environment("A=1 XCPUSID=9 A=2 LD_LIBRARY_PATH=/x MONITOR_SESSION=x");
        assert_eq!(got[..3], given[..3]);
        assert_eq!(got[3..], ["MONITOR_SESSION=session-3-ab", given[3], given[4], of_job[1]]);
    }

    #[test]
    fn a_program_is_absolute_or_in_the_directory() {
        let files = |program: Option<&[u8]>| program_of(b"", b"", program).map(|it| it.files);
        assert_eq!(files(Some(b"/bin/sh")), Some(vec!["/bin/sh".into()]));
        assert_eq!(files(Some(b"bin/a")), Some(vec!["/run/s/bin/a".into()]));
        assert_eq!(files(None), Some(vec!["/run/s/xc".into(), "/run/s/exec".into()]));
        for program in [&b"../a"[..], b"a/../../b", b"", b".."] {
            assert!(files(Some(program)).is_none(), "{program:?}");
        }
    }

    #[test]
    fn the_first_word_of_argv_is_the_name_of_the_program() {
        let arguments =
            |argv: &[u8]| program_of(argv, b"", Some(b"/bin/sh")).expect("it").arguments;
        assert_eq!(arguments(b"a 'b c'"), [b"a".to_vec(), b"b c".to_vec()]);
        assert_eq!(arguments(b""), [b"/bin/sh".to_vec()]);
        assert!(program_of(b"'", b"", Some(b"/a")).is_none());
    }
}
