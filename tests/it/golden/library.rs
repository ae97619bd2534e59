//! The C library: its soname, its exported functions, and the declarations of its headers.

use super::{check, repository};
use object::{Object as _, ObjectSymbol as _};
use std::path::{Path, PathBuf};

/// The files of this name below a folder, build output and hidden folders left out.
fn found(folder: &Path, name: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|it| it.unwrap());
    let below = entries.flat_map(|entry| {
        let (path, own) = (entry.path(), entry.file_name());
        let skipped = own == "target" || own.to_string_lossy().starts_with('.');
        match entry.file_type().unwrap().is_dir() {
            true if skipped => Vec::new(),
            true => found(&path, name),
            false if own == name => vec![path],
            false => Vec::new(),
        }
    });
    below.collect()
}

/// The prototypes and macro names of a header, with their parameters.
fn declared(text: &str) -> String {
    let mut code = String::new();
    for (n, part) in text.split("/*").enumerate() {
        code += if n == 0 { part } else { part.split_once("*/").unwrap().1 };
    }
    let is_declaration = |line: &&str| line.ends_with(");") && !line.starts_with([' ', '#']);
    let is_macro = |line: &&str| line.starts_with("#define ");
    let mut lines: Vec<_> = code.lines().filter(|it| is_declaration(it) || is_macro(it)).collect();
    for line in &mut lines {
        // The body of a macro is not frozen.
        if let Some(rest) = line.strip_prefix("#define ") {
            let end = rest.find(')').map_or(rest.len(), |at| at + 1);
            *line = &line[..end + "#define ".len()];
        }
    }
    lines.sort_unstable();
    lines.dedup();
    lines.join("\n") + "\n"
}

#[test]
fn the_library_exports_two_procedures_and_its_soname() {
    let path = std::env::current_exe().unwrap().with_file_name("libomis.so");
    let bytes = std::fs::read(path).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let is_own = |it: &object::Symbol<'_, '_>| it.is_definition() && it.is_global();
    let symbols = file.dynamic_symbols().filter(is_own);
    let mut names: Vec<_> = symbols.map(|it| it.name().unwrap().to_owned()).collect();
    names.sort_unstable();
    // The soname is a string of the dynamic section, which `object` does not expose.
    let has_name = bytes.windows(13).any(|it| it == b"libomis.so.1\0");
    let out = format!("{}\nlibomis.so.1  {has_name}\n", names.join("\n"));
    check("library/symbols.txt", &out);
}

#[test]
fn the_headers_keep_their_declarations() {
    let mut out = String::new();
    for name in ["omis.h", "monitor_diag.h"] {
        let paths = found(&repository(), name);
        let path = paths.first().unwrap_or_else(|| panic!("{name} is nowhere"));
        out += &format!("{name}\n{}", declared(&std::fs::read_to_string(path).unwrap()));
    }
    check("library/headers.txt", &out);
}
