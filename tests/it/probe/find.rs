//! Functions are resolved in processes: by library, in a library loaded later, in a deleted one.

use super::fixture::{Build, folder, sites};
use crate::root::privilege::granted;
use crate::root::workload::Guarded;
use monitor_model::id::Pid;
use monitor_symbols::{FunctionSpec, ProbeSite, SymbolError, resolve};
use std::path::Path;
use std::process::Command;

fn found(pid: Pid, name: &str) -> Result<Vec<ProbeSite>, SymbolError> {
    resolve::in_process(Path::new("/proc"), pid, &FunctionSpec::from_text(name).unwrap())
}

/// Starts the program that loads libraries on request.
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
    // The path leads to the open file, whatever its name.
    let attached = std::fs::metadata(here[0].file.attach_path()).unwrap();
    use std::os::unix::fs::MetadataExt as _;
    assert_eq!((attached.dev(), attached.ino()), here[0].file.identity);
}

#[test]
fn an_unknown_function_is_reported_with_similar_names_and_mapped_files() {
    const TEST: &str = "an_unknown_function_is_reported_with_similar_names_and_mapped_files";
    let Some(program) = program(TEST) else { return };
    let error = found(program.pid(), "markd").unwrap_err().to_string();
    assert!(error.contains("did you mean marked?"), "{error}");
    let error = found(program.pid(), "libmpi:MPI_Send").unwrap_err().to_string();
    assert!(error.contains("it has mapped marked") && error.contains("libc.so.6"), "{error}");
    let gone = found(Pid(4_194_305), "marked").unwrap_err();
    assert!(matches!(gone, SymbolError::Gone { .. }), "{gone}");
}

#[test]
fn root_a_function_is_found_in_a_library_loaded_later_and_after_its_deletion() {
    const TEST: &str = "root_a_function_is_found_in_a_library_loaded_later_and_after_its_deletion";
    if !granted(TEST) {
        return;
    }
    let (Some(mut program), Some(built)) = (program(TEST), sites(TEST)) else { return };
    let library = folder(TEST).join("libloaded later.so");
    let _length = std::fs::copy(built, &library).unwrap();
    assert!(matches!(found(program.pid(), "padded"), Err(SymbolError::NotFound { .. })));
    program.send_line(&format!("load {}", library.display()));
    assert_eq!(program.line(), "2");
    let before = found(program.pid(), "padded").unwrap();
    std::fs::remove_file(&library).unwrap();
    // A new file of the same name is not the one that is mapped.
    std::fs::write(&library, "another file").unwrap();
    let after = found(program.pid(), "padded").unwrap();
    assert_eq!(after[0].file.identity, before[0].file.identity);
    assert_eq!(
        (after[0].offset, after[0].file.path.as_path()),
        (before[0].offset, library.as_path())
    );
}

#[test]
fn root_a_function_is_found_in_the_mount_namespace_of_a_container() {
    const TEST: &str = "root_a_function_is_found_in_the_mount_namespace_of_a_container";
    if !granted(TEST) {
        return;
    }
    let words = ["-O1", "-static", "-DSTATIC"];
    let build = Build { test: TEST, source: "marked.c", product: "marked", words: &words };
    let Some(path) = build.done() else { return };
    // Its root directory is on a file system that no other process sees.
    let script = "mount -t tmpfs none /mnt && cp $0 /mnt/marked && exec chroot /mnt /marked";
    let mut command = Command::new("unshare");
    let mut program = Guarded::run(command.args(["--mount", "sh", "-c", script]).arg(&path));
    assert_eq!(program.line(), "ready");
    assert!(!Path::new("/mnt/marked").exists());
    let site = &found(program.pid(), "marked").unwrap()[0];
    let same = &resolve::in_file(&path, &FunctionSpec::from_text("marked").unwrap()).unwrap()[0];
    assert_eq!((site.file.name(), site.offset), ("marked", same.offset));
}
