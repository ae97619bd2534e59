//! The functions of MPI that the ranks of a job call, as the kernel is to profile them.
//!
//! In: the files of each rank. Out: a list of functions for all ranks, and for each rank where they
//! are probed. A function is in the list twice if its ends are seen in one file and not in another.

use monitor_jobs::mpi_datatype::DatatypeHandles;
use monitor_jobs::mpi_name::{is_mark, unified};
use monitor_loader::call_profile::{NO_ARGUMENT, ProfiledFile, ProfiledFunction, StartKind};
use monitor_symbols::FunctionEnds;
use monitor_symbols::library_calls::{CallFinder, CalledFunction};
use monitor_symbols::mapped_files::MappedFile;
use monitor_symbols::signatures::Signatures;
use monitor_symbols::signatures::call::{Direction, Signature, ValueType};
use monitor_symbols::site::ProbeCost;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Integer arguments in registers.
const MAX_ARGUMENTS: usize = 6;
/// How the names of the arguments end that are types of elements.
const TYPE: &str = "type";

/// A function of the list.
#[derive(Clone, Debug)]
pub struct ListedFunction {
    /// Its name in C.
    pub name: Arc<str>,
    /// What the kernel knows of it.
    pub profiled: ProfiledFunction,
    /// The kind of its start.
    pub kind: StartKind,
}

/// The functions of all ranks.
pub struct ProfiledFunctions {
    finder: CallFinder,
    signatures: Signatures,
    /// Whether calls are timed.
    pub is_timed: bool,
    /// The list.
    pub all: Vec<ListedFunction>,
    /// Functions that are counted and not timed, and why.
    pub untimed: BTreeMap<Arc<str>, String>,
    /// Functions that cannot be probed, and why.
    pub refused: BTreeMap<String, String>,
}

/// The probes of a rank.
pub struct RankProbes {
    /// Its files, open while probes are set.
    files: Vec<MappedFile>,
    /// By index of the file.
    sites: BTreeMap<usize, Vec<FunctionSites>>,
    /// What its handles of datatypes are.
    pub handles: Option<DatatypeHandles>,
}

/// The probes of a function.
struct FunctionSites {
    function: u32,
    start: u64,
    ends: FunctionEnds,
}

impl ProfiledFunctions {
    /// An empty list; `is_timed` says whether ends are probed, too.
    pub fn new(is_timed: bool) -> Self {
        Self {
            finder: CallFinder::new(unified, is_mark),
            signatures: Signatures::shipped(),
            is_timed,
            all: Vec::new(),
            untimed: BTreeMap::new(),
            refused: BTreeMap::new(),
        }
    }

    /// Adds the functions that a rank with these files calls.
    pub fn add_rank(&mut self, files: Vec<MappedFile>) -> RankProbes {
        let mut sites = BTreeMap::new();
        for (index, found) in self.finder.in_files(&files) {
            self.refused.extend(found.refused);
            let file = &files[index];
            let listed = found.functions.into_iter().map(|it| self.add(file, it));
            let _new = sites.insert(index, listed.collect());
        }
        let handles = sites.keys().find_map(|index| handles(&files[*index]));
        RankProbes { files, sites, handles }
    }

    /// The kind of the start of a function.
    pub fn kind(&self, function: u32) -> StartKind {
        self.all.get(function as usize).map_or(StartKind::Stepped, |it| it.kind)
    }

    fn add(&mut self, file: &MappedFile, called: CalledFunction) -> FunctionSites {
        let CalledFunction { name, offset, cost, ends } = called;
        let ends = match ends {
            _ if !self.is_timed => FunctionEnds::default(),
            Ok(ends) => ends,
            Err(why) => {
                let _known = self.untimed.insert(name.as_str().into(), why);
                FunctionEnds::default()
            }
        };
        let is_timed = u8::from(!ends.returns.is_empty());
        let is_it = |it: &ListedFunction| *it.name == *name && it.profiled.is_timed == is_timed;
        let known = self.all.iter().position(is_it);
        let index = known.unwrap_or_else(|| {
            let signature = self.signature(file, &name);
            let elements = signature.as_deref().and_then(elements);
            let (count_argument, type_argument) = elements.unwrap_or((NO_ARGUMENT, NO_ARGUMENT));
            let profiled = ProfiledFunction { is_timed, count_argument, type_argument, zero: 0 };
            let kind = match cost {
                ProbeCost::Emulated => StartKind::Emulated,
                ProbeCost::Patched => StartKind::Patched,
                ProbeCost::Stepped(_) => StartKind::Stepped,
            };
            self.all.push(ListedFunction { name: name.into(), profiled, kind });
            self.all.len() - 1
        });
        let function = u32::try_from(index).unwrap_or(u32::MAX);
        FunctionSites { function, start: offset, ends }
    }

    /// The description of a function; the same for C and Fortran, whose arguments are addresses.
    fn signature(&self, file: &MappedFile, name: &str) -> Option<Arc<Signature>> {
        let defines = |mark: &str| {
            file.image.symbols(|symbol| symbol == mark).is_ok_and(|found| !found.is_empty())
        };
        let is_c = defines(name) || defines(&format!("P{name}"));
        is_c.then(|| self.signatures.call(file.image.file.name(), name, defines))?
    }
}

impl RankProbes {
    /// Whether there is nothing to probe.
    pub fn is_empty(&self) -> bool {
        self.sites.is_empty()
    }

    /// Where the kernel is to probe: the starts of functions that are counted, the ends of those
    /// that are timed.
    pub fn files(
        &self,
        is_counted: impl Fn(u32) -> bool,
        is_timed: impl Fn(u32) -> bool,
    ) -> Vec<ProfiledFile> {
        let file = |(index, sites): (&usize, &Vec<FunctionSites>)| {
            let path = self.files[*index].image.file.attach_path();
            let mut file = ProfiledFile { path, ..ProfiledFile::default() };
            for it in sites.iter().filter(|it| is_counted(it.function)) {
                file.starts.push((it.start, it.function));
                if is_timed(it.function) {
                    let probed = |at: &u64| (*at, it.function);
                    file.returns.extend(it.ends.returns.iter().map(probed));
                    file.jumps.extend(it.ends.tail_jumps.iter().map(probed));
                }
            }
            file
        };
        self.sites.iter().map(file).collect()
    }
}

/// What the handles of datatypes of a library are.
fn handles(file: &MappedFile) -> Option<DatatypeHandles> {
    let marks = file.image.symbols(|it| DatatypeHandles::by_symbol(it).is_some()).ok()?;
    marks.iter().find_map(|it| DatatypeHandles::by_symbol(&it.name))
}

/// The arguments with the number and the type of the elements that a call sends or writes: an
/// integer behind a buffer that the caller fills, and the type behind it.
fn elements(signature: &Signature) -> Option<(u8, u8)> {
    let parameters = &signature.parameters;
    let is_type = |index: &usize| {
        let count = &parameters[index - 1];
        parameters[*index].name.ends_with(TYPE)
            && matches!(count.kind, ValueType::Number(_))
            && !count.is_pointed
            && count.direction == Direction::In
            && parameters[..index - 1]
                .iter()
                .any(|it| it.kind == ValueType::Address && it.direction != Direction::Out)
    };
    let index = (2..parameters.len().min(MAX_ARGUMENTS)).find(is_type)?;
    let index = u8::try_from(index).ok()?;
    Some((index - 1, index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(function: &str, want: Option<(u8, u8)>) {
        let signature = Signatures::shipped().call("libmpi.so.40", function, |_| false);
        let signature = signature.expect("it is described");
        assert_eq!(elements(&signature), want, "{function}");
    }

    #[test]
    fn what_a_call_sends_or_writes_is_known_by_its_description() {
        check("MPI_Send", Some((1, 2)));
        check("MPI_Sendrecv", Some((1, 2)));
        check("MPI_Bcast", Some((1, 2)));
        check("MPI_Allreduce", Some((2, 3)));
        check("MPI_File_write_at", Some((3, 4)));
    }

    #[test]
    fn other_calls_send_nothing() {
        for function in ["MPI_Recv", "MPI_Wait", "MPI_Type_contiguous", "MPI_Comm_split_type"] {
            check(function, None);
        }
    }
}
