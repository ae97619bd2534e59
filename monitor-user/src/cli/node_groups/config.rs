//! Which sources of groups there are: `groups.conf` of ClusterShell, and what it names.
//!
//! In: the files `groups.conf` of the host and of the user, of which a later one replaces keys of
//! an earlier one, as ClusterShell 1.9.1 reads them; `*.conf` of the folders in `confdir`, `*.yaml`
//! of those in `autodir`. Out: all sources, and the default one. Files that may not be read are
//! left out, as there. Without the key `default`, the default source is the first one.

use super::source::{GroupSource, Origin, Upcalls, substituted};
use super::yaml;
use configparser::ini::{Ini, IniDefault};
use monitor_model::name::nearest;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The section that is no source.
const MAIN: &str = "Main";

/// The sources of groups.
#[derive(Debug, Default)]
pub struct Groups {
    sources: Vec<GroupSource>,
    /// The name of the source of `@group`.
    default: Option<String>,
    /// The files in which there could have been some.
    sought: Vec<PathBuf>,
}

impl Groups {
    /// Those of this user.
    ///
    /// # Errors
    /// A file is not what it should be; which, and why.
    pub fn read() -> Result<Self, String> {
        Self::from_files(search_path(|name| std::env::var_os(name)))
    }

    /// Those of these files, of which a later one has priority; some may not exist.
    ///
    /// # Errors
    /// A file is not what it should be; which, and why.
    pub fn from_files(sought: Vec<PathBuf>) -> Result<Self, String> {
        let (mut merged, mut folder) = (empty_ini(), None);
        for path in &sought {
            let Some(text) = readable(path)? else { continue };
            let failed = |why| format!("{}: {why}", path.display());
            drop(merged.read_and_append(text).map_err(failed)?);
            folder = path.parent();
        }
        let mut groups = Self { sought: sought.clone(), ..Self::default() };
        let Some(folder) = folder else { return Ok(groups) };
        let main = |key| value(&merged, MAIN, key).unwrap_or_default();
        let confdir = if main("groupsdir").is_empty() { "confdir" } else { "groupsdir" };
        for folder in folders(&main(confdir), folder)? {
            for path in files(&folder, "conf")? {
                let mut ini = empty_ini();
                let Some(text) = readable(&path)? else { continue };
                let failed = |why| format!("{}: {why}", path.display());
                drop(ini.read(text).map_err(failed)?);
                groups.add_upcalls(&ini, &folder).map_err(failed)?;
            }
        }
        for folder in folders(&main("autodir"), folder)? {
            for path in files(&folder, "yaml")? {
                let Some(text) = readable(&path)? else { continue };
                let failed = |why| format!("{}: {why}", path.display());
                for source in yaml::sources(&text).map_err(failed)? {
                    groups.add(source).map_err(failed)?;
                }
            }
        }
        let failed = |why| format!("{}: {why}", folder.join("groups.conf").display());
        groups.add_upcalls(&merged, folder).map_err(failed)?;
        let named = main("default");
        if named.is_empty() {
            groups.default = groups.sources.first().map(|it| it.name.clone());
        } else {
            if let Err(why) = groups.source(Some(&named)) {
                return Err(failed(format!("default: {why}")));
            }
            groups.default = Some(named);
        }
        Ok(groups)
    }

    /// A source, or the default one.
    ///
    /// # Errors
    /// There is no such source; where it was looked for, or what is near.
    pub fn source(&self, name: Option<&str>) -> Result<&GroupSource, String> {
        let Some(name) = name.or(self.default.as_deref()) else {
            let sought: Vec<_> = self.sought.iter().map(|it| it.display().to_string()).collect();
            return Err(format!("no groups are configured in {}", sought.join(", ")));
        };
        self.sources.iter().find(|it| it.name == name).ok_or_else(|| {
            let near = nearest(self.sources.iter().map(|it| it.name.as_str()), name);
            let near = near.map(|it| format!(": the nearest is {it:?}")).unwrap_or_default();
            format!("there is no source {name:?} of groups{near}")
        })
    }

    fn add(&mut self, source: GroupSource) -> Result<(), String> {
        if self.sources.iter().any(|it| it.name == source.name) {
            return Err(format!("there is another source {:?}: rename one of them", source.name));
        }
        self.sources.push(source);
        Ok(())
    }

    /// The sources of a file: a section each, or several with their names joined by commas.
    fn add_upcalls(&mut self, ini: &Ini, folder: &Path) -> Result<(), String> {
        let mut sections = ini.sections();
        sections.sort();
        for section in sections {
            for name in section.split(',').filter(|name| !name.is_empty() && *name != MAIN) {
                let map = value(ini, &section, "map");
                let map = map.ok_or_else(|| format!("source {name:?} has no key \"map\""))?;
                let upcalls = Upcalls {
                    map,
                    all: value(ini, &section, "all").filter(|it| !it.is_empty()),
                    list: value(ini, &section, "list").filter(|it| !it.is_empty()),
                    folder: folder.to_owned(),
                };
                let origin = Origin::Upcalls(upcalls);
                self.add(GroupSource { name: name.to_owned(), origin })?;
            }
        }
        Ok(())
    }
}

/// The files `groups.conf`, the last one with the highest priority.
fn search_path(variable: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let set = |name: &str| variable(name).filter(|it| !it.is_empty()).map(PathBuf::from);
    let home = set("HOME");
    let mut folders = vec![PathBuf::from("/etc/clustershell")];
    folders.extend(home.as_ref().map(|home| home.join(".local/etc/clustershell")));
    // A virtual environment of Python may have its own.
    folders.extend(set("VIRTUAL_ENV").map(|prefix| prefix.join("etc/clustershell")));
    let config = set("XDG_CONFIG_HOME").or_else(|| home.map(|home| home.join(".config")));
    folders.extend(config.map(|config| config.join("clustershell")));
    folders.extend(set("CLUSTERSHELL_CFGDIR"));
    folders.iter().map(|folder| folder.join("groups.conf")).collect()
}

/// As Python's `ConfigParser` reads: sections differ by case, values have comments and go on in
/// lines that are indented.
fn empty_ini() -> Ini {
    let mut defaults = IniDefault::default();
    defaults.case_sensitive = true;
    defaults.multiline = true;
    defaults.enable_inline_comments = false;
    Ini::new_from_defaults(defaults)
}

/// The value of a key, which is the same key in capitals.
fn value(ini: &Ini, section: &str, key: &str) -> Option<String> {
    let section = ini.get_map_ref().get(section)?;
    section.iter().find(|(name, _)| name.eq_ignore_ascii_case(key))?.1.clone()
}

/// The text of a file; `None` if it is not there, or may not be read.
fn readable(path: &Path) -> Result<Option<String>, String> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(None),
        Err(error) => Err(format!("cannot read {}: {error}", path.display())),
    }
}

/// The folders of a value, in its order and each once; spaces are between them.
fn folders(value: &str, config: &Path) -> Result<Vec<PathBuf>, String> {
    let mut seen = BTreeSet::new();
    let config = config.to_string_lossy();
    let path = |word: &str| PathBuf::from(substituted(word, &[("CFGDIR", &config)]));
    let paths = value.split_whitespace().map(path);
    let mut folders = Vec::new();
    for path in paths.filter(|path| seen.insert(path.clone())) {
        if path.is_dir() {
            folders.push(path);
        } else if path.exists() {
            return Err(format!("{} is no folder", path.display()));
        }
    }
    Ok(folders)
}

/// The files of a folder whose names end with an extension, by name, without hidden ones.
fn files(folder: &Path, extension: &str) -> Result<Vec<PathBuf>, String> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(Vec::new()),
        Err(error) => return Err(format!("cannot read {}: {error}", folder.display())),
    };
    let is_hidden = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
    };
    // An entry that has gone meanwhile is none.
    let paths = entries.flatten().map(|entry| entry.path());
    let mut paths: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|it| it == extension) && !is_hidden(path))
        .collect();
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_the_variable_is_the_last_one() {
        let path = |variables: &[(&str, &str)]| -> Vec<String> {
            let variable = |name: &str| {
                let found = variables.iter().find(|(key, _)| *key == name);
                found.map(|(_, value)| OsString::from(value))
            };
            search_path(variable).iter().map(|it| it.display().to_string()).collect()
        };
        assert_eq!(path(&[]), ["/etc/clustershell/groups.conf"]);
        let home = path(&[("HOME", "/h"), ("CLUSTERSHELL_CFGDIR", "/c")]);
        assert_eq!(
            home,
            [
                "/etc/clustershell/groups.conf",
                "/h/.local/etc/clustershell/groups.conf",
                "/h/.config/clustershell/groups.conf",
                "/c/groups.conf",
            ]
        );
        assert_eq!(path(&[("XDG_CONFIG_HOME", "/x")])[1], "/x/clustershell/groups.conf");
    }
}
