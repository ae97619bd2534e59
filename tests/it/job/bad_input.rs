//! What `job` commands refuse, or what fails under them: each says why and what to do, and harms no
//! job. Rendezvous files are in the crate `pmix`, and jobs of launchers that fail in `launch.rs`.

use super::launch::launch;
use super::{HYDRA, OPEN_MPI, failed, printed};
use crate::deadline::until;
use crate::golden::as_other_user;
use crate::root::privilege::{able, skip};
use crate::root::workload::Guarded;
use crate::served::{Folder, monitor, write};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;

#[test]
fn a_launcher_that_is_not_installed_is_named_and_what_to_install() {
    let empty = Folder::new();
    let (code, message) = failed(launch(&[], &["mpirun", "./a"]).env("PATH", empty.path()));
    let want = "monitor: cannot run mpirun: No such file or directory (os error 2)\n\
                monitor: install an MPI (Debian: apt install openmpi-bin, or mpich), load its \
                module, or start ranks without a launcher (-n); monitor job doctor shows what is \
                here\n";
    assert_eq!((code, message.as_str()), (Some(127), want));
}

#[test]
fn a_pmix_that_is_not_installed_is_named_and_what_to_install() {
    let folder = Folder::new();
    // The dynamic linker searches no further.
    write(&folder.join("libpmix.so.2"), "");
    let mut command = launch(&["-n", "2"], &["true"]);
    command.env("LD_LIBRARY_PATH", folder.path()).env("SLURM_JOB_ID", "7");
    command.env("TMPDIR", folder.join(""));
    let (code, message) = failed(&mut command);
    assert_eq!(code, Some(1), "{message}");
    let end = "file too short; install PMIx (Debian: apt install libpmix2)\n";
    assert!(message.contains("cannot open libpmix.so.2: ") && message.ends_with(end), "{message}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn directives_for_the_dynamic_linker_are_refused_for_set_id_programs() {
    let folder = Folder::new();
    let program = folder.join("program");
    let _bytes = fs::copy("/bin/true", &program).unwrap();
    let path = program.to_str().unwrap();
    for (mode, is_refused) in [(0o755, false), (0o4755, true), (0o2755, true)] {
        fs::set_permissions(&program, fs::Permissions::from_mode(mode)).unwrap();
        let mut by_name = launch(&["--env", "prepend:LD_LIBRARY_PATH=/x"], &["program"]);
        by_name.env("PATH", folder.path());
        for command in [&mut launch(&["--env", "set:LD_BIND_NOW=1"], &[path]), &mut by_name] {
            let (code, message) = failed(command);
            assert_eq!(code, Some(if is_refused { 2 } else { 0 }), "{mode:o} {message}");
            let why = "is a set-user-ID or set-group-ID program, whose dynamic linker ignores it\n";
            assert!(!is_refused || message.ends_with(why), "{message}");
        }
        let (code, _) = failed(&mut launch(&["--env", "set:LDFLAGS=1"], &[path]));
        assert_eq!(code, Some(0));
    }
}

#[test]
fn a_name_is_neither_empty_nor_has_it_a_nul() {
    // A NUL cannot be in an argument; in a file it ends a variable.
    for directive in ["set:=1", "unset:", "add", "none:A=1"] {
        let (code, message) = failed(&mut launch(&["--env", directive], &["true"]));
        assert_eq!(code, Some(2), "{directive}: {message}");
    }
}

#[test]
fn root_ranks_of_another_user_are_refused_and_named() {
    const TEST: &str = "root_ranks_of_another_user_are_refused_and_named";
    if !able(TEST) {
        return;
    }
    let Some(job) = OPEN_MPI.start(TEST, 2, "exec sleep 1000") else { return };
    let rank = job.ranks()[0].0.to_string();
    let folder = Folder::new();
    let commands: [&[&str]; 6] = [
        &["stacks"],
        &["show"],
        &["attach", "--hold", "--daemon", "true"],
        &["hold"],
        &["signal", "USR1"],
        &["end"],
    ];
    for words in commands {
        let all = [&["job", words[0], &rank], &words[1..]].concat();
        let (code, message) = failed(&mut as_other_user(&folder, &all));
        assert_eq!(code, Some(5), "{words:?}: {message}");
        assert!(message.contains(&rank) && message.contains("root"), "{words:?}: {message}");
    }
    assert!(job.ranks().iter().all(|it| super::state(*it) == 'S'));
}

/// A job that ends at a random moment while commands attach to it: each command ends, with the
/// exit code for a job or ranks that are gone, and leaves nothing.
#[test]
fn a_job_may_end_while_a_command_attaches_to_it() {
    const TEST: &str = "a_job_may_end_while_a_command_attaches_to_it";
    if !Path::new("/usr/bin/mpiexec.mpich").exists() {
        return skip(TEST, "needs MPICH (apt install mpich)");
    }
    let commands: [&[&str]; 4] = [
        &["stacks", "--threads"],
        &["attach", "--daemon", "true"],
        &["attach", "--hold", "--daemon", "true"],
        &["show", "--for", "10ms", "--backend", "procfs"],
    ];
    let folder = Folder::new();
    for round in 0..24_u32 {
        let gate = folder.join(&round.to_string());
        let script = format!("until [ -e {} ]; do sleep 0.01; done", gate.display());
        let words = commands[usize::try_from(round).unwrap() % commands.len()];
        let Some(mut job) = HYDRA.start(TEST, 2, &script) else { return };
        let mut command = monitor();
        command.args(["job", words[0], &job.pid()]).args(&words[1..]);
        let mut attaching = Guarded::run(command.stderr(Stdio::piped()));
        // It has read a few pages of the list of processes, or all of it.
        let pause = std::time::Duration::from_millis(u64::from(round) * 3);
        let begun = std::time::Instant::now();
        until(|| (begun.elapsed() >= pause).then_some(()));
        write(&gate, "");
        let status = until(|| attaching.0.try_wait().unwrap());
        assert!(matches!(status.code(), Some(0 | 4 | 6)), "{words:?}: {status}");
        let ended = until(|| job.launcher.0.try_wait().unwrap());
        assert_eq!(ended.code(), Some(0), "{words:?}");
    }
    assert!(!printed(&["job", "list"]).contains("stopped"));
}
