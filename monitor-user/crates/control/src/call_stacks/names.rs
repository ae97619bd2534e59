//! Names of the code at addresses: function, file, and line.
//!
//! In: an address of a process, and the image that has it. Out: its place in the file, which is
//! that of every process that maps the file, so that each is looked up once. Line numbers need the
//! debugging information of the file.

use crate::loaded_elf::{FileId, LoadedElf};
use crate::process_ref::ProcessRef;
use blazesym::symbolize::source::{Process, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};
use std::collections::HashMap;
use std::sync::Arc;

/// A place in the code of a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CodePlace {
    /// The function, demangled.
    pub function: Option<Box<str>>,
    /// The path of the file, as the process has mapped it.
    pub file: Option<Box<str>>,
    /// Address in the file; in memory, where there is no file.
    pub address: u64,
    /// Path and number of the line, such as `/src/main.c:12`.
    pub line: Option<Box<str>>,
}

/// Finds names, and keeps those that it found.
pub struct PlaceNames {
    symbolizer: Symbolizer,
    /// Whether lines are looked up.
    lines: bool,
    known: HashMap<(FileId, u64), Arc<CodePlace>>,
}

impl PlaceNames {
    /// Names of functions, and the lines if they are wanted.
    pub fn new(lines: bool) -> Self {
        let symbolizer = Symbolizer::builder().enable_code_info(lines).build();
        Self { symbolizer, lines, known: HashMap::new() }
    }

    /// The places of addresses of a process with these images, in their order.
    pub fn places(
        &mut self,
        (process, images): (&ProcessRef, &[LoadedElf]),
        addresses: &[u64],
        lines: bool,
    ) -> Vec<Arc<CodePlace>> {
        let image = |address: u64| images.iter().find(|it| it.range.contains(&address));
        let key = |address: u64| {
            let image = image(address)?;
            Some((image.file?, address.wrapping_sub(image.bias)))
        };
        let is_new = |it: &u64| key(*it).is_none_or(|key| !self.known.contains_key(&key));
        let mut new: Vec<u64> = addresses.iter().copied().filter(is_new).collect();
        new.sort_unstable();
        new.dedup();
        let found = self.look_up(process, &new, lines);
        // Generated code, and that of the kernel, is in no file.
        let mut without_file: HashMap<u64, Arc<CodePlace>> = HashMap::new();
        for (address, (function, line)) in new.into_iter().zip(found) {
            let image = image(address);
            let file = image.map(|it| String::from_utf8_lossy(&it.path).as_ref().into());
            let offset = address.wrapping_sub(image.map_or(0, |it| it.bias));
            let place = Arc::new(CodePlace { function, file, address: offset, line });
            let _new = match key(address) {
                Some(key) => self.known.insert(key, place),
                None => without_file.insert(address, place),
            };
        }
        let place = |address: &u64| match key(*address) {
            Some(key) => Arc::clone(&self.known[&key]),
            None => Arc::clone(&without_file[address]),
        };
        addresses.iter().map(place).collect()
    }

    /// Whether lines of a process are looked up. A file names the one that has its debugging
    /// information, and that may be any: a pipe of another user would be waited for.
    pub fn finds_lines(&self, process: &ProcessRef) -> bool {
        let owner = process.procfs().ok().and_then(|it| it.uid().ok());
        self.lines && owner == Some(rustix::process::geteuid().as_raw())
    }

    /// The function and the line at each address, where the files name them.
    fn look_up(
        &self,
        process: &ProcessRef,
        addresses: &[u64],
        lines: bool,
    ) -> Vec<FunctionAndLine> {
        if addresses.is_empty() {
            return Vec::new();
        }
        if let Some(all) = self.look_up_with(process, addresses, lines) {
            return all;
        }
        // One file that cannot be read, such as one whose debugging information is compressed in
        // another way, fails all addresses.
        let alone = |address: &u64| {
            let mut ways = lines.then_some(true).into_iter().chain([false]);
            let found = ways.find_map(|lines| self.look_up_with(process, &[*address], lines));
            // Without a name the frame still has its address.
            found.and_then(|mut all| all.pop()).unwrap_or_default()
        };
        addresses.iter().map(alone).collect()
    }

    fn look_up_with(
        &self,
        process: &ProcessRef,
        addresses: &[u64],
        lines: bool,
    ) -> Option<Vec<FunctionAndLine>> {
        let mut source = Process::new(process.id.pid.0.into());
        // Root opens the files that are mapped, not what the paths of another user name now, which
        // may be a pipe; `map_files` needs a capability that ordinary users lack.
        let is_root = rustix::process::geteuid().is_root();
        (source.map_files, source.perf_map) = (is_root, !is_root);
        source.debug_syms = lines;
        let named = self.symbolizer.symbolize(&Source::Process(source), Input::AbsAddr(addresses));
        Some(named.ok()?.into_iter().map(function_and_line).collect())
    }
}

type FunctionAndLine = (Option<Box<str>>, Option<Box<str>>);

fn function_and_line(found: Symbolized<'_>) -> FunctionAndLine {
    let Symbolized::Sym(symbol) = found else { return (None, None) };
    let code = symbol.code_info.as_ref();
    let line = code.and_then(|it| Some(format!("{}:{}", it.to_path().display(), it.line?).into()));
    (Some(symbol.name.into()), line)
}
