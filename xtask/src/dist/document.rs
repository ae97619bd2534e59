//! The documents that Debian wants in every package: its changelog and its copyright.
//!
//! In: the last commit, and the licence. Out: `usr/share/doc/PACKAGE` of a staged package.

use super::stage;
use crate::step;
use crate::verdict::Outcome;
use crate::workspace::root;
use std::path::Path;

/// Writes both into the tree of a package.
pub fn write(tree: &Path, package: &str, version: &str) -> Outcome {
    let folder = tree.join("usr/share/doc").join(package);
    stage::write(&folder.join("copyright"), copyright()?.as_bytes())?;
    stage::write_packed(&folder.join("changelog.gz"), &changelog(version)?)
}

/// The name and the address of the maintainer of the packages: `DEBFULLNAME` and `DEBEMAIL`, as for
/// Debian's own tools, else the author of the last commit.
pub fn maintainer() -> Result<String, String> {
    let of = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let given = of("DEBFULLNAME").zip(of("DEBEMAIL"));
    let given = given.map(|(name, address)| format!("{name} <{address}>"));
    given.or_else(|| last_commit("%an <%ae>")).ok_or_else(|| {
        "a package has a maintainer: set DEBFULLNAME and DEBEMAIL, or build it in a git clone"
            .into()
    })
}

/// The entry of this version. What has changed is in the changelog of the project, beside it.
fn changelog(version: &str) -> Result<String, String> {
    let now = || step::answer(step::fresh("date").arg("--rfc-email"));
    let date = last_commit("%aD").or_else(now).ok_or("`date` prints no date")?;
    Ok(format!(
        "monitor ({version}) unstable; urgency=medium\n\n  \
         * The changes are listed in CHANGELOG.md.gz, which is in the folder\n    \
         /usr/share/doc/monitor of the package monitor.\n\n \
         -- {}  {date}\n",
        maintainer()?
    ))
}

/// The licences: the text of one, and where Debian keeps the other.
fn copyright() -> Result<String, String> {
    let path = root().join("LICENSE");
    let text = std::fs::read_to_string(&path);
    let text = text.map_err(|error| crate::workspace::cannot("read", &path, &error))?;
    let mit = text.split("= MIT =").nth(1).and_then(|rest| rest.split("= Apache 2.0 =").next());
    let mit = mit.ok_or("LICENSE has no part for the MIT licence")?.trim_matches(['=', '\n']);
    let (notice, mit) = mit.split_once("\n\n").ok_or("the MIT licence has no notice")?;
    let holders = notice.trim_start_matches("Copyright (c) ");
    let indented = |line: &str| if line.is_empty() { " .\n".into() } else { format!(" {line}\n") };
    let mit: String = mit.lines().map(indented).collect();
    Ok(format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\
         Upstream-Name: monitor\n\n\
         Files: *\n\
         Copyright: {holders}\n\
         License: MIT or Apache-2.0\n\n\
         License: MIT\n{mit}\n\
         License: Apache-2.0\n \
         The text is in /usr/share/common-licenses/Apache-2.0.\n"
    ))
}

fn last_commit(format: &str) -> Option<String> {
    let printed =
        step::answer(step::fresh("git").args(["log", "-1", &format!("--format={format}")]));
    printed.filter(|text| !text.is_empty())
}
