//! The workloads: shell scripts with Debian's programs, each for a given time, in a folder of its
//! own.

use crate::program::Program;
use std::path::PathBuf;
use std::process::Command;

/// What runs, and what is compared besides CPU time.
pub struct Workload {
    /// Its name.
    pub name: &'static str,
    /// The programs that it needs.
    needs: &'static [&'static str],
    /// Run by `sh`, with `$SECONDS_LONG` and in an empty folder.
    script: &'static str,
    /// Names of the two ends of its TCP connections.
    pub ends: &'static [&'static str],
    /// Whether threads end all the time: their last slices belong to no process.
    pub threads: bool,
}

const FORKS: &str = "
for n in 1 2 3 4; do timeout $SECONDS_LONG sh -c 'while :; do /bin/true; done' & done; wait";
const THREADS: &str = "
stress-ng --pthread 4 --pthread-max 16 --timeout ${SECONDS_LONG}s";
const FIO: &str = "
fio --name=truth --rw=randrw --bs=64k --size=64m --direct=1 --ioengine=psync --numjobs=2 \
 --time_based --runtime=$SECONDS_LONG";
const POSTGRES: &str = "
bin=$(ls -d /usr/lib/postgresql/*/bin | tail -1); chown postgres .
as() { setpriv --reuid postgres --regid postgres --clear-groups \"$@\"; }
as $bin/initdb -D $PWD/data >/dev/null
as timeout $((SECONDS_LONG + 5)) $bin/postgres -D $PWD/data -k $PWD -h '' &
until as $bin/pg_isready -q -h $PWD; do sleep 0.1; done
as $bin/createdb -h $PWD truth; as $bin/pgbench -q -i -h $PWD truth
as $bin/pgbench -C -c 4 -T $SECONDS_LONG -h $PWD truth; wait";
const IPERF: &str = "
timeout $((SECONDS_LONG + 5)) iperf3 -s -1 -p 5299 -B 127.0.0.1 & sleep 1
iperf3 --json -c 127.0.0.1 -p 5299 -t $((SECONDS_LONG - 2)) -P 2 >report.json; wait";
const REDIS: &str = "
timeout $((SECONDS_LONG + 2)) redis-server --port 5298 --bind 127.0.0.1 --save '' & sleep 1
end=$(($(date +%s) + SECONDS_LONG - 2))
while [ $(date +%s) -lt $end ]; do redis-benchmark -p 5298 -t set,get -n 20000 -q; done; wait";
const COMPILER: &str = "
printf '#include <stdio.h>\\nint main(void) { puts(\"x\"); }\\n' > a.c
for n in 1 2 3; do
 timeout $SECONDS_LONG sh -c \"while :; do cc -O2 -o a$n a.c; done\" &
done; wait";

const fn plain(
    name: &'static str,
    needs: &'static [&'static str],
    script: &'static str,
) -> Workload {
    Workload { name, needs, script, ends: &[], threads: false }
}

/// All of them.
pub const ALL: &[Workload] = &[
    plain("fork storm", &["timeout"], FORKS),
    Workload { threads: true, ..plain("thread storm", &["stress-ng"], THREADS) },
    plain("fio", &["fio"], FIO),
    plain("PostgreSQL", &["pg_ctlcluster", "setpriv"], POSTGRES),
    Workload { ends: &["iperf3"], ..plain("iperf3", &["iperf3"], IPERF) },
    Workload {
        ends: &["redis-server", "redis-benchmark"],
        ..plain("redis", &["redis-server", "redis-benchmark"], REDIS)
    },
    plain("compiler", &["cc"], COMPILER),
];

/// A workload that runs, in a folder that ends with it.
pub struct Running {
    _program: Program,
    folder: PathBuf,
}

impl Running {
    /// Payload that the sender wrote and the receiver did not read, as iperf3 reports it: it ends a
    /// test at its time, and closes its sockets with what they hold.
    pub fn unread_bytes(&self) -> u64 {
        let Ok(text) = std::fs::read(self.folder.join("report.json")) else { return 0 };
        let report: serde_json::Value = serde_json::from_slice(&text).unwrap();
        let bytes = |sum: &str| report["end"][sum]["bytes"].as_u64().unwrap();
        bytes("sum_sent") - bytes("sum_received")
    }
}

impl Workload {
    /// The program that it lacks.
    pub fn lacks(&self) -> Option<&'static str> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders: Vec<_> = std::env::split_paths(&path).collect();
        let is_there = |name: &str| folders.iter().any(|it| it.join(name).exists());
        self.needs.iter().find(|name| !is_there(name)).copied()
    }

    /// Starts it.
    pub fn start(&self, seconds: u64) -> Running {
        let folder = PathBuf::from(format!("{}/truth", env!("CARGO_TARGET_TMPDIR")));
        let folder =
            if self.name == "PostgreSQL" { "/var/tmp/monitor-truth".into() } else { folder };
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", self.script]).current_dir(&folder);
        command.env("SECONDS_LONG", seconds.to_string());
        Running { _program: Program::start(&mut command).unwrap(), folder }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
