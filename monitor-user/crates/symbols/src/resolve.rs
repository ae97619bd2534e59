//! Resolves a function spec to probe sites, and names to addresses.
//!
//! In: a process or a file, and a spec. Out: sites, one for each address, however many names it
//! has; or why there is none. Libraries that are loaded later are not found.

use super::elf::{ElfImage, Symbol, SymbolKind};
use super::{
    FunctionSpec, ProbeSite, SymbolError,
    function_spec::CodePlace,
    mapped_files::{self, MappedFile},
    object_file::ObjectFile,
    site,
};
use monitor_model::Pid;
use std::collections::{HashMap, HashSet};
use std::{ops::ControlFlow, path::Path, sync::Arc};

/// How a hint with a similar name begins.
const SUGGESTION: &str = "; did you mean ";
/// How similar a name must be to be suggested; among thousands of names some are always similar.
const ENOUGH: f64 = 0.9;

/// The sites in the files that a process has mapped.
pub fn in_process(
    proc: &Path,
    pid: Pid,
    wanted: &FunctionSpec,
) -> Result<Vec<ProbeSite>, SymbolError> {
    let (files, failed) = mapped_files::files(proc, pid)?;
    let sites = in_files(pid, (&files, failed), wanted)?;
    Ok(sites.into_iter().map(|(site, _)| site).collect())
}

/// The sites in these files of a process, each with its file; and the errors of other files.
pub(super) fn in_files<'f>(
    pid: Pid,
    (files, mut failed): (&'f [MappedFile], Vec<SymbolError>),
    wanted: &FunctionSpec,
) -> Result<Vec<(ProbeSite, &'f MappedFile)>, SymbolError> {
    let (mut sites, mut near) = (Vec::new(), Vec::new());
    for file in files.iter().filter(|it| wanted.matches_file(&it.image.file.path)) {
        match in_image(&file.image, wanted) {
            Ok(found) => sites.extend(found.into_iter().map(|site| (site, file))),
            Err(SymbolError::NotFound { hint, .. }) => near.push(hint),
            Err(error) => failed.insert(0, error),
        }
    }
    if !sites.is_empty() {
        return Ok(sites);
    }
    // A process that ends has no memory.
    if files.is_empty() && failed.is_empty() {
        return Err(SymbolError::Gone { pid: pid.0 });
    }
    // A file that has the function but cannot be probed explains more than files that lack it.
    if !failed.is_empty() {
        return Err(failed.swap_remove(0));
    }
    let name = |it: &MappedFile| it.image.file.name().to_owned();
    if let Some(library) = &wanted.file
        && !files.iter().any(|it| wanted.matches_file(&it.image.file.path))
    {
        let mapped = files.iter().map(name).collect::<Vec<_>>().join(", ");
        return Err(SymbolError::NotLoaded { pid: pid.0, library: library.clone(), mapped });
    }
    // A similar name in one file says more than that another file has no names.
    near.sort_by_key(|hint: &String| !hint.starts_with(SUGGESTION));
    let hint = near.into_iter().find(|hint| match wanted.file {
        Some(_) => !hint.is_empty(),
        None => hint.starts_with(SUGGESTION),
    });
    let hint = hint.unwrap_or_else(|| {
        let mark = |it: &MappedFile| if it.image.is_stripped() { " (stripped)" } else { "" };
        let mapped = files.iter().map(|it| name(it) + mark(it)).collect::<Vec<_>>();
        format!("; it has mapped {}", mapped.join(", "))
    });
    let place = format!("process {}", pid.0);
    Err(SymbolError::NotFound { name: spec_text(wanted), place, hint })
}

/// The sites in a file.
pub fn in_file(path: &Path, wanted: &FunctionSpec) -> Result<Vec<ProbeSite>, SymbolError> {
    in_image(&ElfImage::read(Arc::new(ObjectFile::open(path, path)?))?, wanted)
}

/// The address of a variable of a library in a process.
pub fn variable(proc: &Path, pid: Pid, library: &str, name: &str) -> Result<u64, SymbolError> {
    let wanted = FunctionSpec::from_text(&format!("{library}:{name}"))?;
    let names = HashSet::from([name]);
    let is_library = |path: &Path| wanted.matches_file(path);
    let found = addresses((proc, pid), SymbolKind::Variable, &names, is_library)?;
    found.get(name).copied().ok_or_else(|| SymbolError::NotFound {
        name: name.to_owned(),
        place: format!("process {}", pid.0),
        hint: String::new(),
    })
}

/// Addresses of variables or functions in a process: in its program and in the accepted libraries.
///
/// # Errors
/// If the process has ended, or its mappings cannot be read.
pub fn addresses(
    (proc, pid): (&Path, Pid),
    kind: SymbolKind,
    names: &HashSet<&str>,
    accepts: impl Fn(&Path) -> bool,
) -> Result<HashMap<String, u64>, SymbolError> {
    let (files, _) = mapped_files::files(proc, pid)?;
    let mut found = HashMap::new();
    // With a copy relocation the program's copy is the one in use, so the program comes first; it
    // is mapped below its libraries.
    let libraries = files.iter().skip(1).filter(|it| accepts(&it.image.file.path));
    for file in files.iter().take(1).chain(libraries) {
        let all = file.image.symbols(|name| names.contains(name)).unwrap_or_default();
        for symbol in all.into_iter().filter(|it| it.kind == kind) {
            let address = file.bias.wrapping_add(symbol.address);
            _ = found.entry(symbol.name).or_insert(address);
        }
    }
    Ok(found)
}

fn in_image(image: &ElfImage, wanted: &FunctionSpec) -> Result<Vec<ProbeSite>, SymbolError> {
    match &wanted.place {
        CodePlace::Offset(offset) => {
            let address = image.code_address(*offset);
            let address = address.ok_or_else(|| SymbolError::NotFound {
                name: format!("{offset:#x}"),
                place: image.file.path.display().to_string(),
                hint: "; no code at that file offset".into(),
            })?;
            Ok(vec![site::inside(image, address)?])
        }
        CodePlace::Function { name, version, distance } => {
            let mut symbols = image.symbols(|other| name.split('|').any(|name| name == other))?;
            symbols
                .retain(|it| !matches!(it.kind, SymbolKind::Variable | SymbolKind::ThreadVariable));
            let is_meant = |it: &Symbol| version.is_none() || it.version == *version;
            // The debug symbol table may lack versions.
            if symbols.iter().any(is_meant) {
                symbols.retain(is_meant);
            } else {
                symbols.clear();
            }
            if symbols.is_empty() {
                return Err(missing(image, wanted));
            }
            sites(image, &symbols, *distance)
        }
    }
}

/// One site per address.
fn sites(
    image: &ElfImage,
    symbols: &[Symbol],
    distance: Option<u64>,
) -> Result<Vec<ProbeSite>, SymbolError> {
    let mut seen = HashSet::new();
    let places = symbols.iter().filter(|it| seen.insert(it.address));
    let found = places.map(|symbol| match (symbol.kind, distance) {
        (SymbolKind::Ifunc, _) => Err(SymbolError::Unsafe {
            place: format!("{}:{}", image.file.path.display(), symbol.name),
            why: "the symbol is an IFUNC, and a probe would only see its resolver; \
                  name the selected function, or give its offset"
                .into(),
        }),
        (_, None) => site::entry(image, symbol),
        (_, Some(distance)) => site::inside(image, symbol.address.saturating_add(distance)),
    });
    found.collect()
}

fn spec_text(wanted: &FunctionSpec) -> String {
    match &wanted.place {
        CodePlace::Offset(offset) => format!("at {offset:#x}"),
        CodePlace::Function { name, version: Some(version), .. } => format!("{name}@{version}"),
        CodePlace::Function { name, version: None, .. } => name.clone(),
    }
}

/// The file does not define it; suggests a similar name.
fn missing(image: &ElfImage, wanted: &FunctionSpec) -> SymbolError {
    let (name, place) = (spec_text(wanted), image.file.path.display().to_string());
    if image.is_stripped() {
        let file = image.file.name();
        let hint = format!("; the symbols of {file} are stripped: give an offset, FILE:0xOFFSET");
        return SymbolError::NotFound { name, place, hint };
    }
    let hint = similar(image, &name).map(|near| format!("{SUGGESTION}{near}?"));
    let hint = hint.unwrap_or_default();
    SymbolError::NotFound { name, place, hint }
}

/// The most similar name of a function, if it is similar enough.
fn similar(image: &ElfImage, name: &str) -> Option<String> {
    // A comparison takes the product of the lengths.
    const LONGEST: usize = 256;
    let mut best: Option<(f64, String)> = None;
    let read = image.each_symbol(|symbol| {
        let is_code = matches!(symbol.kind, SymbolKind::Function | SymbolKind::Ifunc);
        if is_code && symbol.name.len().max(name.len()) <= LONGEST {
            let likeness = monitor_model::name::likeness(symbol.name, name);
            if likeness >= ENOUGH && best.as_ref().is_none_or(|(most, _)| likeness >= *most) {
                best = Some((likeness, symbol.name.to_owned()));
            }
        }
        Ok(ControlFlow::Continue(()))
    });
    read.ok()?;
    best.map(|(_, name)| name)
}
