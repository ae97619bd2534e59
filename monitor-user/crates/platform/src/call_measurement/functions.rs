//! The functions of MPI that the ranks of a job call, as the kernel is to profile them.
//!
//! In: what was found in the files of each rank (`call_questions.rs`). Out: a list of functions for
//! all ranks, and for each rank where they are probed. A function is in the list twice if its ends
//! are seen in one file and not in another.

use monitor_backend::call_profile::{
    CallEnds, NO_ARGUMENT, ProfiledFile, ProfiledFunction, StartKind,
};
use monitor_control::call_questions::{MpiFunction, MpiFunctions};
use monitor_jobs::mpi_datatype::DatatypeHandles;
use monitor_model::Pid;
use monitor_symbols::held_file::HeldFile;
use monitor_symbols::site::ProbeCost;
use monitor_symbols::{FunctionEnds, SymbolError};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

const PROC: &str = "/proc";

/// A function of the list.
#[derive(Clone, Debug)]
pub struct ListedFunction {
    /// Its name in C.
    pub name: Arc<str>,
    /// What the kernel knows of it.
    pub profiled: ProfiledFunction,
    /// How its ends are seen.
    pub ends: CallEnds,
    /// The kind of its start.
    pub kind: StartKind,
}

/// The functions of all ranks.
#[derive(Debug, Default)]
pub struct ProfiledFunctions {
    /// The list.
    pub all: Vec<ListedFunction>,
    /// Functions that are counted and not timed, and why.
    pub untimed: BTreeMap<Arc<str>, String>,
    /// Functions that cannot be probed, and why.
    pub refused: BTreeMap<String, String>,
}

/// The probes of a rank.
#[derive(Debug)]
pub struct RankProbes {
    /// Its files, held while probes are set, with the functions.
    files: Vec<(HeldFile, Vec<FunctionSites>)>,
    /// What its handles of datatypes are.
    pub handles: Option<DatatypeHandles>,
}

/// The probes of a function.
#[derive(Debug)]
struct FunctionSites {
    function: u32,
    start: u64,
    ends: EndSites,
}

/// Where the ends of a function are seen.
#[derive(Debug)]
enum EndSites {
    Unseen,
    Instructions(FunctionEnds),
    Trampoline,
}

impl ProfiledFunctions {
    /// Adds the functions that a rank calls, whose ends are to be seen in this way.
    ///
    /// # Errors
    /// If a file was replaced meanwhile, or its file system is in user space.
    pub fn add_rank(
        &mut self,
        process: Pid,
        found: MpiFunctions,
        ends: CallEnds,
    ) -> Result<RankProbes, SymbolError> {
        self.refused.extend(found.refused);
        let mut files = Vec::new();
        for (file, functions) in found.files {
            let held = file.hold(Path::new(PROC), process)?;
            files.push((held, functions.into_iter().map(|it| self.add(it, ends)).collect()));
        }
        Ok(RankProbes { files, handles: found.handles })
    }

    /// The kind of the start of a function.
    pub fn kind(&self, function: u32) -> StartKind {
        self.all.get(function as usize).map_or(StartKind::Stepped, |it| it.kind)
    }

    fn add(&mut self, found: MpiFunction, ends: CallEnds) -> FunctionSites {
        let MpiFunction { called, elements } = found;
        let sites = match ends {
            CallEnds::Unseen => Ok(EndSites::Unseen),
            CallEnds::Instructions => called.ends.map(EndSites::Instructions),
            CallEnds::Trampolines => called.trampoline.map(|()| EndSites::Trampoline),
        };
        let sites = sites.unwrap_or_else(|why| {
            let _known = self.untimed.insert(called.name.as_str().into(), why);
            EndSites::Unseen
        });
        let ends = match sites {
            EndSites::Unseen => CallEnds::Unseen,
            EndSites::Instructions(_) => CallEnds::Instructions,
            EndSites::Trampoline => CallEnds::Trampolines,
        };
        let is_it = |it: &ListedFunction| *it.name == *called.name && it.ends == ends;
        let known = self.all.iter().position(is_it);
        let index = known.unwrap_or_else(|| {
            let (count_argument, type_argument) = elements.unwrap_or((NO_ARGUMENT, NO_ARGUMENT));
            let in_kernel = ends.in_kernel();
            let profiled =
                ProfiledFunction { ends: in_kernel, count_argument, type_argument, zero: 0 };
            let kind = match called.cost {
                ProbeCost::Emulated => StartKind::Emulated,
                ProbeCost::Patched => StartKind::Patched,
                ProbeCost::Stepped(_) => StartKind::Stepped,
            };
            self.all.push(ListedFunction { name: called.name.into(), profiled, ends, kind });
            self.all.len() - 1
        });
        let function = u32::try_from(index).unwrap_or(u32::MAX);
        FunctionSites { function, start: called.offset, ends: sites }
    }
}

impl RankProbes {
    /// Whether there is nothing to probe.
    pub fn is_empty(&self) -> bool {
        self.files.iter().all(|(_, sites)| sites.is_empty())
    }

    /// Where the kernel is to probe: the starts of functions that are counted, the ends of those
    /// that are timed.
    pub fn files(
        &self,
        is_counted: impl Fn(u32) -> bool,
        is_timed: impl Fn(u32) -> bool,
    ) -> Vec<ProfiledFile> {
        let file = |(held, sites): &(HeldFile, Vec<FunctionSites>)| {
            let mut file = ProfiledFile { path: held.attach_path(), ..ProfiledFile::default() };
            for it in sites.iter().filter(|it| is_counted(it.function)) {
                let probed = |at: &u64| (*at, it.function);
                file.starts.push(probed(&it.start));
                match &it.ends {
                    _ if !is_timed(it.function) => {}
                    EndSites::Unseen => {}
                    EndSites::Trampoline => file.trampolines.push(probed(&it.start)),
                    EndSites::Instructions(ends) => {
                        file.returns.extend(ends.returns.iter().map(probed));
                        file.jumps.extend(ends.tail_jumps.iter().map(probed));
                    }
                }
            }
            file
        };
        self.files.iter().map(file).collect()
    }
}
