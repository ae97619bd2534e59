//! A guest: its first file system, its disk, its boot, its status.
//!
//! In: packages, test binaries and a filter of tests. Out: what the guest prints, as it prints
//! it, and an error unless its tests passed. The guest's first program is `init.sh`.

use super::package::Packages;
use crate::debian::{entries, write};
use crate::step;
use crate::verdict::Outcome;
use crate::workspace::{cannot, root};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The first program of a guest.
const INIT: &str = include_str!("init.sh");
/// What the last line of a guest begins with; the status of its tests follows.
const STATUS: &str = "vm: status ";
/// Longest that a guest may take; an emulated processor is some twenty times slower than ours.
const DEADLINE: Duration = Duration::from_secs(30 * 60);

/// A test that takes longer is printed with its time.
const LONG_TEST: Duration = Duration::from_secs(10);

/// Modules that a guest loads; those that a kernel does not have are built in, or not needed
/// there. Their order is that of the alphabet, so `init.sh` tries again until nothing is new.
const MODULES: &[&str] = &[
    "virtio",
    "virtio_ring",
    "virtio_pci",
    "virtio_pci_legacy_dev",
    "virtio_pci_modern_dev",
    "virtio_blk",
    "netfs",
    "fscache",
    "9pnet",
    "9pnet_fd",
    "9pnet_virtio",
    "9p",
    "ext4",
    "jbd2",
    "mbcache",
    "crc16",
    "crc32c_generic",
    "crc32c-cryptoapi",
    "libcrc32c",
    "loop",
    "inet_diag",
    "tcp_diag",
    // CRIU asks for these, and refuses to work without `nf_tables`.
    "udp_diag",
    "unix_diag",
    "netlink_diag",
    "af_packet_diag",
    "raw_diag",
    "nfnetlink",
    "nf_tables",
    "tun",
    "mce-inject",
    "veth",
    // A test of several nodes joins their networks.
    "bridge",
    "stp",
    "llc",
];

/// What to boot.
pub struct Guest<'a> {
    /// Where its files are made.
    pub folder: &'a Path,
    /// What it is made of.
    pub packages: &'a Packages,
    /// The test binaries.
    pub tests: &'a [PathBuf],
    /// Which tests.
    pub filter: &'a str,
    /// Whether CRIU must work there.
    pub criu: bool,
}

/// Boots a guest, and waits until its tests have run.
pub fn boot(guest: &Guest<'_>) -> Outcome {
    let initrd = pack(guest)?;
    let disk = disk(guest.folder)?;
    let mut qemu = Command::new("qemu-system-x86_64");
    qemu.args(["-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "2048"])
        .args(["-nographic", "-no-reboot", "-nic", "none"])
        .arg("-kernel")
        .arg(&guest.packages.kernel)
        .arg("-initrd")
        .arg(initrd)
        .args(["-append", "console=ttyS0 quiet panic=-1 mitigations=off nokaslr tsc=reliable"])
        .args(["-drive", &format!("file={},if=virtio,format=raw", disk.display())])
        .args([
            "-virtfs",
            "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap",
        ]);
    let started = Instant::now();
    let child = qemu.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let status = follow(child.map_err(|error| format!("cannot run QEMU: {error}"))?)?;
    println!("vm: {:.0} s, status {status}", started.elapsed().as_secs_f64());
    if status == "0" { Ok(()) } else { Err("tests failed in the guest".into()) }
}

/// Prints what the guest prints; its status. A guest that does not end is ended.
fn follow(mut guest: Child) -> Result<String, String> {
    let console = guest.stdout.take().expect("QEMU was started with a pipe");
    let (done, ended) = std::sync::mpsc::channel::<()>();
    let watch = std::thread::spawn(move || {
        let late = ended.recv_timeout(DEADLINE).is_err();
        if late {
            let _ = guest.kill(); // It may just have ended by itself.
        }
        let _ = guest.wait();
        late
    });
    let (mut status, mut since) = (None, Instant::now());
    for line in BufReader::new(console).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line).trim_end_matches('\r').to_owned();
        match line.strip_prefix(STATUS) {
            Some(rest) => status = Some(rest.to_owned()),
            None => println!("{line}"),
        }
        if line.starts_with("test ") {
            if since.elapsed() > LONG_TEST {
                println!("    {:.0} s", since.elapsed().as_secs_f64());
            }
            since = Instant::now();
        }
    }
    let _ = done.send(());
    if watch.join().unwrap_or(false) {
        return Err(format!("the guest was ended after {} minutes", DEADLINE.as_secs() / 60));
    }
    status.ok_or_else(|| "the guest ended without a status; its output is above".into())
}

/// The guest's first file system: a shell, the modules, and what to run.
fn pack(guest: &Guest<'_>) -> Result<PathBuf, String> {
    let folder = guest.folder.join("initrd");
    let _ = fs::remove_dir_all(&folder); // The first time there is none.
    for below in ["bin", "modules", "proc", "sys", "dev", "host"] {
        let path = folder.join(below);
        fs::create_dir_all(&path).map_err(|error| cannot("make", &path, &error))?;
    }
    copy(&guest.packages.busybox, &folder.join("bin/busybox"))?;
    modules(guest, &folder.join("modules"))?;
    let (home, tests, filter) = (root(), copied(guest)?.join(" "), guest.filter);
    let criu = if guest.criu { "MONITOR_REQUIRE_CRIU=1" } else { "" };
    let run =
        format!("ROOT='{}'\nTESTS='{tests}'\nFILTER='{filter}'\nCRIU='{criu}'\n", home.display());
    write(&folder.join("run"), &run)?;
    write(&folder.join("init"), INIT)?;
    let archive = guest.folder.join("initrd.cpio");
    let pack = "chmod +x init && find . | cpio --quiet -o -H newc > ../initrd.cpio";
    let _ = step::output(Command::new("sh").args(["-c", pack]).current_dir(&folder))?;
    Ok(archive)
}

/// Copies of the test binaries, so that a build meanwhile does not take them from the guest.
fn copied(guest: &Guest<'_>) -> Result<Vec<String>, String> {
    let copy_of = |path: &PathBuf| {
        let to = guest.folder.join(path.file_name().unwrap_or_default());
        copy(path, &to).map(|()| to.display().to_string())
    };
    guest.tests.iter().map(copy_of).collect()
}

fn modules(guest: &Guest<'_>, into: &Path) -> Outcome {
    let mut folders = vec![guest.packages.modules.join("kernel")];
    while let Some(folder) = folders.pop() {
        for entry in entries(&folder)? {
            if entry.is_dir() {
                folders.push(entry);
                continue;
            }
            let name = entry.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let stem = name.split(".ko").next().unwrap_or_default();
            if MODULES.contains(&stem) {
                copy(&entry, &into.join(&name))?;
                if name.ends_with(".xz") {
                    let busybox = &guest.packages.busybox;
                    let _ = step::output(Command::new(busybox).arg("unxz").arg(into.join(&name)))?;
                }
            }
        }
    }
    Ok(())
}

/// A fresh disk, for tests that need one.
fn disk(folder: &Path) -> Result<PathBuf, String> {
    let path = folder.join("disk.img");
    let _ = fs::remove_file(&path); // The first time there is none.
    let file = fs::File::create(&path).map_err(|error| cannot("make", &path, &error))?;
    file.set_len(512 << 20).map_err(|error| cannot("size", &path, &error))?;
    let search = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let _ =
        step::output(Command::new("mkfs.ext4").env("PATH", search).args(["-q", "-F"]).arg(&path))?;
    Ok(path)
}

fn copy(from: &Path, to: &Path) -> Outcome {
    fs::copy(from, to).map(drop).map_err(|error| cannot("copy", from, &error))
}
