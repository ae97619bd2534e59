//! What is to be known of a function to watch its calls in a process: everything that needs the
//! content of files, so that another process can read them.
//!
//! In: a process and the name of a function. Out: data alone. The caller opens the files again to
//! attach probes, and compares their identity.

use super::elf::ElfImage;
use super::ends::{FunctionEnds, ends};
use super::held_file::FileRef;
use super::mapped_files::{self, MappedFile};
use super::site::{self, ProbeCost};
use super::{FunctionSpec, SymbolError, errno, resolve};
use monitor_model::{ErrnoPlace, Pid};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Most sites of a function in a process, and bytes of a name.
const MOST_SITES: usize = 256;
const LONGEST_NAME: usize = 64 << 10;
/// Most ends of a function; `ends` finds fewer.
const MOST_ENDS: usize = 256;

/// What is to be found.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq, Hash)]
pub struct CallQuery {
    /// The function, as a spec.
    pub name: String,
    /// Whether its return is watched, by a trampoline unless its ends are needed, so that the error
    /// number is needed.
    pub returns: bool,
    /// Whether its ends are needed.
    pub ends: bool,
    /// Names by which libraries are recognised.
    pub marks: Vec<String>,
}

/// A function in a file of a process.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct CallSite {
    /// The file.
    pub file: FileRef,
    /// Offset of the probe in the file, in bytes.
    pub offset: u64,
    /// The function, by the requested name or its address.
    pub function: String,
    /// Cost of a hit at the entry. Each end is single-stepped.
    pub cost: ProbeCost,
    /// Its ends, if they are needed.
    pub ends: FunctionEnds,
    /// The marks that the file defines.
    pub marks: Vec<String>,
}

/// What was found.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundCalls {
    /// The sites.
    pub sites: Vec<CallSite>,
    /// Where the error number is, if it is needed and known.
    pub errno: Option<ErrnoPlace>,
}

/// Finds a function in the files of a process.
///
/// # Errors
///
/// If no file has it, or it cannot be probed.
pub fn find(proc: &Path, pid: Pid, query: &CallQuery) -> Result<FoundCalls, SymbolError> {
    let spec = FunctionSpec::from_text(&query.name)?;
    let (files, failed) = mapped_files::files(proc, pid)?;
    let found = resolve::in_files(pid, (&files, failed), &spec)?;
    let mut sites = Vec::new();
    for (site, file) in found {
        if query.returns && !query.ends {
            site::refuse_return(&file.image, &site)?;
        }
        let ends = match query.ends {
            true => ends(&file.image, &site)?,
            false => FunctionEnds::default(),
        };
        sites.push(CallSite {
            file: FileRef::from_mapped(file),
            offset: site.offset,
            function: site.function,
            cost: site.cost,
            ends,
            marks: marks(&file.image, &query.marks),
        });
    }
    // Without it the error number is absent.
    let errno = query.returns.then(|| errno::find_place(&files));
    FoundCalls { sites, errno: errno.flatten() }.checked()
}

fn marks(image: &ElfImage, wanted: &[String]) -> Vec<String> {
    let is_wanted = |name: &str| wanted.iter().any(|mark| mark == name);
    let found = image.symbols(is_wanted).unwrap_or_default();
    let mut found: Vec<String> = found.into_iter().map(|symbol| symbol.name).collect();
    found.sort();
    found.dedup();
    found
}

impl FoundCalls {
    /// The same, unless it exceeds the bounds.
    ///
    /// # Errors
    ///
    /// If it does: another process may report anything.
    pub fn checked(self) -> Result<Self, SymbolError> {
        let is_bounded = |it: &CallSite| {
            it.function.len() <= LONGEST_NAME
                && it.ends.returns.len() + it.ends.tail_jumps.len() <= MOST_ENDS
        };
        if self.sites.len() <= MOST_SITES && self.sites.iter().all(is_bounded) {
            return Ok(self);
        }
        let why = "more than 256 sites; name the library";
        Err(SymbolError::Unsupported { path: "the function".into(), why })
    }
}

impl FileRef {
    /// The file of a mapping.
    pub fn from_mapped(file: &MappedFile) -> Self {
        let (path, identity) = (file.image.file.path.clone(), file.image.file.identity);
        Self { path, range: file.range, identity }
    }
}
