//! Finding functions in processes: by library, after a library was loaded, and after it was
//! deleted.

use super::fixture::{Build, folder, sites};
use crate::root::privilege::granted;
use crate::root::workload::Guarded;
use monitor_model::id::Pid;
use monitor_symbols::{Error, Site, Wanted, find};
use std::path::Path;
use std::process::Command;

fn found(pid: Pid, name: &str) -> Result<Vec<Site>, Error> {
    find::in_process(Path::new("/proc"), pid, &Wanted::from_text(name).unwrap())
}

/// A program that loads what it is told to.
fn program(test: &str) -> Option<Guarded> {
    let words = ["-O1"];
    let path = Build { test, source: "marked.c", product: "marked", words: &words }.done()?;
    let mut program = Guarded::run(&mut Command::new(path));
    assert_eq!(program.line(), "ready");
    Some(program)
}

#[test]
fn a_function_is_found_in_the_program_and_in_its_libraries() {
    const TEST: &str = "a_function_is_found_in_the_program_and_in_its_libraries";
    let Some(program) = program(TEST) else { return };
    let here = found(program.pid(), "marked").unwrap();
    assert_eq!(here.len(), 1);
    assert!(here[0].file.path.ends_with(format!("{TEST}/marked")));
    let libc = found(program.pid(), "libc:fgets").unwrap();
    assert_eq!(libc[0].file.name(), "libc.so.6");
    assert_eq!(libc.len(), found(program.pid(), "fgets").unwrap().len());
    // The path leads to the file that is held, whatever its name.
    let attached = std::fs::metadata(here[0].file.attach_path()).unwrap();
    use std::os::unix::fs::MetadataExt as _;
    assert_eq!((attached.dev(), attached.ino()), here[0].file.identity);
}

#[test]
fn what_is_missing_is_told_with_what_there_is() {
    let Some(program) = program("what_is_missing_is_told_with_what_there_is") else { return };
    let error = found(program.pid(), "markd").unwrap_err().to_string();
    assert!(error.contains("did you mean marked?"), "{error}");
    let error = found(program.pid(), "libmpi:MPI_Send").unwrap_err().to_string();
    assert!(error.contains("it has mapped marked") && error.contains("libc.so.6"), "{error}");
    let gone = found(Pid(4_194_305), "marked").unwrap_err();
    assert!(matches!(gone, Error::Gone { .. }), "{gone}");
}

#[test]
fn root_a_library_is_found_once_it_is_loaded_and_still_when_it_is_deleted() {
    const TEST: &str = "root_a_library_is_found_once_it_is_loaded_and_still_when_it_is_deleted";
    if !granted(TEST) {
        return;
    }
    let (Some(mut program), Some(built)) = (program(TEST), sites(TEST)) else { return };
    let library = folder(TEST).join("libloaded later.so");
    let _length = std::fs::copy(built, &library).unwrap();
    assert!(matches!(found(program.pid(), "padded"), Err(Error::Missing { .. })));
    program.tell(&format!("load {}", library.display()));
    assert_eq!(program.line(), "2");
    let before = found(program.pid(), "padded").unwrap();
    std::fs::remove_file(&library).unwrap();
    // Another file that takes its name is not the one that runs.
    std::fs::write(&library, "not it").unwrap();
    let after = found(program.pid(), "padded").unwrap();
    assert_eq!(after[0].file.identity, before[0].file.identity);
    assert_eq!(
        (after[0].offset, after[0].file.path.as_path()),
        (before[0].offset, library.as_path())
    );
}

#[test]
fn root_a_program_of_a_container_is_found_by_the_path_that_it_sees() {
    const TEST: &str = "root_a_program_of_a_container_is_found_by_the_path_that_it_sees";
    if !granted(TEST) {
        return;
    }
    let words = ["-O1", "-static", "-DSTATIC"];
    let build = Build { test: TEST, source: "marked.c", product: "marked", words: &words };
    let Some(path) = build.done() else { return };
    // A root of its own, on a file system that nobody else sees.
    let script = "mount -t tmpfs none /mnt && cp $0 /mnt/marked && exec chroot /mnt /marked";
    let mut command = Command::new("unshare");
    let mut program = Guarded::run(command.args(["--mount", "sh", "-c", script]).arg(&path));
    assert_eq!(program.line(), "ready");
    assert!(!Path::new("/mnt/marked").exists());
    let site = &found(program.pid(), "marked").unwrap()[0];
    let same = &find::in_file(&path, &Wanted::from_text("marked").unwrap()).unwrap()[0];
    assert_eq!((site.file.name(), site.offset), ("marked", same.offset));
}
