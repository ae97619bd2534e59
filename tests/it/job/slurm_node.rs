//! Slurm for one node, or two, in a folder of its own: munged, slurmctld and a slurmd for each
//! node, which end with the test, and steps with all their processes. Both nodes are this machine.
//!
//! In: nothing but Debian's packages. Out: commands such as `srun` that use it. With cgroups of
//! version 1 steps are in cgroups, as on a cluster; without them Slurm follows processes by itself.

use crate::deadline;
use crate::root::privilege::{granted, skip};
use crate::root::workload::Guarded;
use crate::served::{Folder, write};
use monitor_model::id::Pid;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What is needed, and where it comes from.
const PROGRAMS: [&str; 4] =
    ["/usr/sbin/munged", "/usr/sbin/slurmctld", "/usr/sbin/slurmd", "/usr/bin/srun"];
const PACKAGES: &str = "Slurm (apt install slurmctld slurmd slurm-client munge)";
/// Hierarchies of version 1 that Slurm uses.
const HIERARCHIES: [&str; 3] = ["freezer", "cpuacct", "memory"];
const CGROUPS: &str = "/sys/fs/cgroup";
/// Tasks that run at the same time, whatever the number of processors.
const CPUS: u32 = 16;

/// A node that is idle.
pub struct SlurmNode {
    pub folder: Folder,
    /// Whether steps are in cgroups.
    pub has_cgroups: bool,
    names: Vec<String>,
    daemons: Vec<Guarded>,
}

impl SlurmNode {
    /// Starts it. Without the packages or root the test is skipped, or fails if skips are not
    /// allowed.
    pub fn start(test: &str) -> Option<Self> {
        Self::begin(test, &["n"])
    }

    /// The same with two nodes.
    pub fn start_two(test: &str) -> Option<Self> {
        Self::begin(test, &["n", "m"])
    }

    fn begin(test: &str, letters: &[&str]) -> Option<Self> {
        if !PROGRAMS.iter().all(|it| Path::new(it).exists()) {
            skip(test, &format!("needs {PACKAGES}"));
            return None;
        }
        if !granted(test) {
            return None;
        }
        let folder = Folder::new();
        let name = |letter: &&str| format!("{letter}{}", std::process::id());
        let names: Vec<String> = letters.iter().map(name).collect();
        let has_cgroups =
            HIERARCHIES.iter().all(|it| Path::new(CGROUPS).join(it).join("tasks").exists());
        let mut node = Self { folder, has_cgroups, names, daemons: Vec::new() };
        node.configure();
        let path = |name: &str| node.folder.join(name).display().to_string();
        let munged = [
            "--foreground".to_owned(),
            format!("--socket={}", path("munge/socket")),
            format!("--key-file={}", path("key/munge.key")),
            format!("--pid-file={}", path("munge/pid")),
            format!("--seed-file={}", path("key/seed")),
        ];
        let (socket, conf) = (node.folder.join("munge/socket"), path("slurm.conf"));
        node.run(PROGRAMS[0], &munged);
        deadline::until(|| socket.exists().then_some(()));
        node.run(PROGRAMS[1], &["-D".to_owned(), "-f".to_owned(), conf.clone()]);
        for name in node.names.clone() {
            node.run(PROGRAMS[2], &["-D", "-f", &conf, "-N", &name].map(str::to_owned));
        }
        let idle = vec!["idle"; node.names.len()].join("\n");
        deadline::until(|| {
            (node.printed("sinfo", &["-N", "-h", "-o", "%t"]) == idle).then_some(())
        });
        Some(node)
    }

    /// Writes its files.
    fn configure(&self) {
        // A step that is killed leaves its folder in `TmpFS`, and a later step with its number,
        // also one of another test, would fail there.
        for (name, mode) in
            [("key", 0o700), ("munge", 0o755), ("state", 0o700), ("spool", 0o755), ("tmp", 0o1777)]
        {
            fs::create_dir(self.folder.join(name)).unwrap();
            fs::set_permissions(self.folder.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        for name in &self.names {
            fs::create_dir(self.folder.join("spool").join(name)).unwrap();
        }
        let key = self.folder.join("key/munge.key");
        write(&key, &"a key of a test\n".repeat(8));
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
        // All are free at once, and differ.
        let ports = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let [control, ports @ ..] = ports.map(|it| it.local_addr().unwrap().port());
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let host = host.trim().split('.').next().unwrap();
        let (track, gather) = match self.has_cgroups {
            true => ("cgroup", "cgroup"),
            false => ("linuxproc", "none"),
        };
        let folder = self.folder.path().display();
        let conf = format!(
            "ClusterName=test\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={control}\n\
             SlurmUser=root\nSlurmdUser=root\nAuthType=auth/munge\nCredType=cred/munge\n\
             AuthInfo=socket={folder}/munge/socket\nMpiDefault=none\n\
             StateSaveLocation={folder}/state\nSlurmdSpoolDir={folder}/spool/%n\n\
             TmpFS={folder}/tmp\n\
             SlurmctldPidFile={folder}/slurmctld.pid\nSlurmdPidFile={folder}/%n.pid\n\
             SlurmctldLogFile={folder}/slurmctld.log\nSlurmdLogFile={folder}/%n.log\n\
             ProctrackType=proctrack/{track}\nJobAcctGatherType=jobacct_gather/{gather}\n\
             TaskPlugin=task/none\nSwitchType=switch/none\nSelectType=select/cons_tres\n\
             SelectTypeParameters=CR_Core\nSlurmdParameters=config_overrides\n\
             SchedulerParameters=bf_interval=1\n\
             PartitionName=test Nodes={} Default=YES\n",
            self.names.join(",")
        );
        let node = |(name, port): (&String, u16)| {
            format!(
                "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={CPUS}\n"
            )
        };
        let nodes: String = self.names.iter().zip(ports).map(node).collect();
        // Partitions name nodes that are defined before.
        let conf = conf.replace("PartitionName", &format!("{nodes}PartitionName"));
        write(&self.folder.join("slurm.conf"), &conf);
        let cgroup = format!("CgroupPlugin=cgroup/v1\nCgroupMountpoint={CGROUPS}\n");
        write(&self.folder.join("cgroup.conf"), &cgroup);
    }

    fn run(&mut self, program: &str, words: &[String]) {
        let log = fs::File::create(self.folder.join("daemons.log")).unwrap();
        let mut command = self.command(program);
        command.args(words).stderr(log);
        self.daemons.push(Guarded::run(&mut command));
    }

    /// A command that uses this Slurm.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        self.set_environment(command.current_dir("/").stdin(Stdio::null()));
        command
    }

    /// Makes commands that this one runs use this Slurm.
    pub fn set_environment(&self, command: &mut Command) {
        command.env("SLURM_CONF", self.conf());
    }

    /// What such a command prints, without the end of the line.
    pub fn printed(&self, program: &str, words: &[&str]) -> String {
        let got = self.command(program).args(words).output().unwrap();
        String::from_utf8(got.stdout).unwrap().trim_end().to_owned()
    }

    /// A step of `n` tasks in a job of its own, each of which runs a shell script.
    pub fn step(&self, n: usize, options: &[&str], script: &str) -> Guarded {
        let mut command = self.command("srun");
        command.args(["-n", &n.to_string()]).args(options).args(["sh", "-c", script]);
        Guarded::run(&mut command)
    }

    fn conf(&self) -> PathBuf {
        self.folder.join("slurm.conf")
    }

    /// Processes of it, and of its steps: all inherit where its configuration is.
    fn processes(&self) -> Vec<Pid> {
        let variable = format!("SLURM_CONF={}", self.conf().display());
        let is_own = |it: &procfs::process::Process| {
            let environ = fs::read(format!("/proc/{}/environ", it.pid)).unwrap_or_default();
            environ.split(|byte| *byte == 0).any(|it| it == variable.as_bytes())
        };
        let all = procfs::process::all_processes().unwrap().flatten();
        all.filter(is_own).map(|it| Pid(it.pid.cast_unsigned())).collect()
    }
}

impl Drop for SlurmNode {
    fn drop(&mut self) {
        // Those that start others end first, so that the next look sees what they left.
        self.daemons.clear();
        for _ in 0..100 {
            let left = self.processes();
            if left.is_empty() {
                break;
            }
            left.into_iter().for_each(super::kill);
        }
        for hierarchy in HIERARCHIES {
            for name in &self.names {
                remove_tree(&Path::new(CGROUPS).join(hierarchy).join(format!("slurm_{name}")));
            }
        }
    }
}

/// Removes the cgroups that a killed step has left.
fn remove_tree(cgroup: &Path) {
    for below in fs::read_dir(cgroup).into_iter().flatten().flatten() {
        if below.path().is_dir() {
            remove_tree(&below.path());
        }
    }
    // One that has a process is left.
    let _removed = fs::remove_dir(cgroup);
}
