//! From a name to places for probes.
//!
//! In: a process or a file, and what is wanted. Out: sites, one for each place in code, however
//! many names it has; or why there is none. Found is what is there now.

use super::elf::{Image, Kind, Symbol};
use super::error::Error;
use super::mapped;
use super::opened::Opened;
use super::site::{self, Site};
use super::wanted::{Place, Wanted};
use monitor_model::id::Pid;
use monitor_model::name::nearest;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

/// The sites in the files that a process has mapped.
pub fn in_process(proc: &Path, pid: Pid, wanted: &Wanted) -> Result<Vec<Site>, Error> {
    let (files, mut failed) = mapped::files(proc, pid)?;
    let (mut sites, mut near) = (Vec::new(), Vec::new());
    for file in files.iter().filter(|it| wanted.accepts(&it.image.file.path)) {
        match in_image(&file.image, wanted) {
            Ok(found) => sites.extend(found),
            Err(Error::Missing { hint, .. }) => near.push(hint),
            Err(error) => failed.insert(0, error),
        }
    }
    if !sites.is_empty() {
        return Ok(sites);
    }
    // A file that has it and is no place for a probe says more than those that lack it.
    if !failed.is_empty() {
        return Err(failed.swap_remove(0));
    }
    let mapped = files.iter().map(|it| it.image.file.name()).collect::<Vec<_>>().join(", ");
    if let Some(library) = &wanted.file
        && !files.iter().any(|it| wanted.accepts(&it.image.file.path))
    {
        return Err(Error::Unloaded { pid: pid.0, library: library.clone(), mapped });
    }
    let place = format!("process {}", pid.0);
    let hint = near.into_iter().find(|hint| !hint.is_empty());
    let hint = hint.unwrap_or_else(|| format!("; it has mapped {mapped}"));
    Err(Error::Missing { name: said(wanted), place, hint })
}

/// The sites in a file.
pub fn in_file(path: &Path, wanted: &Wanted) -> Result<Vec<Site>, Error> {
    in_image(&Image::read(Arc::new(Opened::open(path, path)?))?, wanted)
}

/// Where a variable of a library is in a process.
pub fn variable(proc: &Path, pid: Pid, library: &str, name: &str) -> Result<u64, Error> {
    let wanted = Wanted::from_text(&format!("{library}:{name}"))?;
    let names = HashSet::from([name]);
    let found = variables(proc, pid, &names, |path| wanted.accepts(path))?;
    found.get(name).copied().ok_or_else(|| Error::Missing {
        name: name.to_owned(),
        place: format!("process {}", pid.0),
        hint: String::new(),
    })
}

/// Where variables are in a process, in its program or in the libraries that are accepted.
pub fn variables(
    proc: &Path,
    pid: Pid,
    names: &HashSet<&str>,
    accepts: impl Fn(&Path) -> bool,
) -> Result<HashMap<String, u64>, Error> {
    addresses(proc, pid, names, accepts, |kind| kind == Kind::Variable)
}

/// Where functions are in a process, likewise.
pub fn procedures(
    proc: &Path,
    pid: Pid,
    names: &HashSet<&str>,
    accepts: impl Fn(&Path) -> bool,
) -> Result<HashMap<String, u64>, Error> {
    addresses(proc, pid, names, accepts, |kind| kind == Kind::Function)
}

fn addresses(
    proc: &Path,
    pid: Pid,
    names: &HashSet<&str>,
    accepts: impl Fn(&Path) -> bool,
    is_meant: impl Fn(Kind) -> bool,
) -> Result<HashMap<String, u64>, Error> {
    let (files, _) = mapped::files(proc, pid)?;
    let mut found = HashMap::new();
    // The linker may have given the program a copy, which then is the one in use. Programs are
    // mapped below their libraries.
    let libraries = files.iter().skip(1).filter(|it| accepts(&it.image.file.path));
    for file in files.iter().take(1).chain(libraries) {
        let all = file.image.symbols(|name| names.contains(name)).unwrap_or_default();
        for symbol in all.into_iter().filter(|it| is_meant(it.kind)) {
            let address = file.bias.wrapping_add(symbol.address);
            _ = found.entry(symbol.name).or_insert(address);
        }
    }
    Ok(found)
}

fn in_image(image: &Image, wanted: &Wanted) -> Result<Vec<Site>, Error> {
    match &wanted.place {
        Place::Offset(offset) => {
            let address = image.code_address(*offset);
            let address = address.ok_or_else(|| Error::Missing {
                name: format!("{offset:#x}"),
                place: image.file.path.display().to_string(),
                hint: "; that offset of the file is no code".into(),
            })?;
            Ok(vec![site::inside(image, address)?])
        }
        Place::Function { name, version, distance } => {
            let mut symbols = image.symbols(|other| name.split('|').any(|name| name == other))?;
            symbols.retain(|it| !matches!(it.kind, Kind::Variable | Kind::ThreadVariable));
            let is_meant = |it: &Symbol| version.is_none() || it.version == *version;
            // The table for debuggers may leave the version out.
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

/// One site for each address.
fn sites(image: &Image, symbols: &[Symbol], distance: Option<u64>) -> Result<Vec<Site>, Error> {
    let mut seen = HashSet::new();
    let places = symbols.iter().filter(|it| seen.insert(it.address));
    let found = places.map(|symbol| match (symbol.kind, distance) {
        (Kind::Chooser, _) => Err(Error::Unsafe {
            place: format!("{}:{}", image.file.path.display(), symbol.name),
            why: "this name is chosen when the program is loaded (an IFUNC), and what would be \
                  seen is the choice; name the function that was chosen, or its offset"
                .into(),
        }),
        (_, None) => site::entry(image, symbol),
        (_, Some(distance)) => site::inside(image, symbol.address.saturating_add(distance)),
    });
    found.collect()
}

fn said(wanted: &Wanted) -> String {
    match &wanted.place {
        Place::Offset(offset) => format!("at {offset:#x}"),
        Place::Function { name, version: Some(version), .. } => format!("{name}@{version}"),
        Place::Function { name, version: None, .. } => name.clone(),
    }
}

/// The file lacks it; what else it has.
fn missing(image: &Image, wanted: &Wanted) -> Error {
    let (name, place) = (said(wanted), image.file.path.display().to_string());
    if image.is_stripped() {
        let hint = "; its names were stripped: give an offset, FILE:0xOFFSET".into();
        return Error::Missing { name, place, hint };
    }
    let all = image.symbols(|_| true).unwrap_or_default();
    let functions = all.iter().filter(|it| matches!(it.kind, Kind::Function | Kind::Chooser));
    let near = nearest(functions.map(|it| it.name.as_str()), &name).filter(|it| is_near(it, &name));
    let hint = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
    Error::Missing { name, place, hint }
}

/// Among thousands of names something is always a little alike.
fn is_near(name: &str, written: &str) -> bool {
    const ENOUGH: f64 = 0.9;
    monitor_model::name::likeness(name, written) >= ENOUGH
}
