//! The names that PMIx has for what we measure: `PMIX_PROC_RSS`, or its key `pmix.proc.rss`.
//!
//! Each is an alias of one of our fields wherever fields are named; and with `--pmix` a sample is
//! written under the keys, in the units of the Standard. What PMIx has no name for has one of
//! ours there, beginning with `monitor.`. What names an object, and when it was read, is told
//! whether asked for or not: such a name is known and adds nothing.

use super::field::{Category, DiskField, NetField, NodeField, ProcessField};

/// How PMIx gives a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// As we have it.
    Same,
    /// A floating number of units of 2^20 bytes, which PMIx calls MB.
    Mebibytes,
    /// `timeval`: seconds and microseconds.
    Timeval,
    /// Milliseconds.
    Milliseconds,
    /// Sectors of 512 bytes.
    Sectors,
}

/// A name of PMIx.
#[derive(Clone, Copy, Debug)]
pub struct Name<F> {
    /// The macro of `pmix_common.h`.
    pub constant: &'static str,
    /// The key that it stands for.
    pub key: &'static str,
    /// What it is with us.
    pub field: F,
    /// How its value is given.
    pub shape: Shape,
}

/// A category that PMIx has names for.
pub trait Named: Category {
    /// Its names, in the order of the Standard.
    const NAMES: &'static [Name<Self>];
    /// What it has no name for, and a sample of all has too.
    const MORE: &'static [Self];
    /// Macros and keys of what is always told.
    const GIVEN: &'static [(&'static str, &'static str)];
    /// The key of a container of them.
    const CONTAINER: &'static str;

    /// The field that is meant by a macro or a key.
    fn alias(name: &str) -> Option<Self> {
        let is = |it: &&Name<Self>| it.key == name || it.constant == name;
        let ours = || Self::named(name.strip_prefix("monitor.")?);
        Self::NAMES.iter().find(is).map(|it| it.field).or_else(ours)
    }

    /// Whether this is told whoever asks for it.
    fn is_given(name: &str) -> bool {
        Self::GIVEN.iter().any(|(constant, key)| *constant == name || *key == name)
    }

    /// All that a sample has under the names of PMIx, if nothing was chosen.
    fn all_of_pmix() -> Vec<Self> {
        Self::NAMES.iter().map(|it| it.field).chain(Self::MORE.iter().copied()).collect()
    }

    /// Its name in PMIx, if it has one.
    fn pmix(self) -> Option<&'static Name<Self>> {
        Self::NAMES.iter().find(|it| it.field == self)
    }
}

macro_rules! names {
    ($category:ident, $container:literal,
        $($constant:literal $key:literal $field:ident $shape:ident;)+
        more $($more:ident)*;
        given $($given:literal $given_key:literal;)*) => {
        impl Named for $category {
            const CONTAINER: &'static str = $container;
            const MORE: &'static [Self] = &[$($category::$more),*];
            const GIVEN: &'static [(&'static str, &'static str)] = &[$(($given, $given_key)),*];
            const NAMES: &'static [Name<Self>] = &[$(Name {
                constant: $constant,
                key: $key,
                field: $category::$field,
                shape: Shape::$shape,
            }),+];
        }
    };
}

names! { ProcessField, "pmix.proc.res",
    "PMIX_PROC_PID" "pmix.ppid" Pid Same;
    "PMIX_CMD_LINE" "pmix.cmd.line" Cmdline Same;
    "PMIX_PROC_OS_STATE" "pmix.proc.osstate" State Same;
    "PMIX_PROC_TIME" "pmix.proc.time" CpuTime Timeval;
    "PMIX_PROC_PERCENT_CPU" "pmix.proc.pcpu" CpuPercent Same;
    "PMIX_PROC_PRIORITY" "pmix.proc.pri" Priority Same;
    "PMIX_PROC_NUM_THREADS" "pmix.proc.nthr" Threads Same;
    "PMIX_PROC_CPU" "pmix.proc.cpu" Processor Same;
    "PMIX_PROC_PEAK_VSIZE" "pmix.proc.pkvsize" PeakVsize Mebibytes;
    "PMIX_PROC_VSIZE" "pmix.proc.vsize" Vsize Mebibytes;
    "PMIX_PROC_RSS" "pmix.proc.rss" Rss Mebibytes;
    "PMIX_PROC_PSS" "pmix.proc.pss" Pss Mebibytes;
    more ;
    given
    "PMIX_PROCID" "pmix.procid";
    "PMIX_HOSTNAME" "pmix.hname";
    "PMIX_PROC_SAMPLE_TIME" "pmix.proc.samptime";
}

names! { NodeField, "pmix.node.res",
    "PMIX_NODE_LOAD_AVG" "pmix.node.la" Load1 Same;
    "PMIX_NODE_LOAD_AVG5" "pmix.node.la5" Load5 Same;
    "PMIX_NODE_LOAD_AVG15" "pmix.node.la15" Load15 Same;
    "PMIX_NODE_MEM_TOTAL" "pmix.node.mtot" MemTotal Mebibytes;
    "PMIX_NODE_MEM_FREE" "pmix.node.mfree" MemFree Mebibytes;
    "PMIX_NODE_MEM_BUFFERS" "pmix.node.mbuf" MemBuffers Mebibytes;
    "PMIX_NODE_MEM_CACHED" "pmix.node.mcache" MemCached Mebibytes;
    "PMIX_NODE_MEM_SWAP_CACHED" "pmix.node.mswpc" SwapCached Mebibytes;
    "PMIX_NODE_MEM_SWAP_TOTAL" "pmix.node.mswpt" SwapTotal Mebibytes;
    "PMIX_NODE_MEM_SWAP_FREE" "pmix.node.mswpfree" SwapFree Mebibytes;
    "PMIX_NODE_MEM_MAPPED" "pmix.node.mmap" MemMapped Mebibytes;
    "MONITOR_NODE_MEM_AVAIL" "monitor.node.mavail" MemAvailable Mebibytes;
    more PsiCpuSome PsiMemorySome PsiMemoryFull PsiIoSome PsiIoFull;
    given
    "PMIX_HOSTNAME" "pmix.hname";
    "PMIX_NODEID" "pmix.nodeid";
    "PMIX_NODE_SAMPLE_TIME" "pmix.node.samptime";
}

names! { DiskField, "pmix.disk.res",
    "PMIX_DISK_ID" "pmix.disk.id" Device Same;
    "PMIX_DISK_READ_COMPLETED" "pmix.disk.rdscomp" Reads Same;
    "PMIX_DISK_READ_MERGED" "pmix.disk.rdsmrgd" ReadsMerged Same;
    "PMIX_DISK_READ_SECTORS" "pmix.disk.rdsct" ReadBytes Sectors;
    "PMIX_DISK_READ_MILLISEC" "pmix.disk.rdms" ReadTime Milliseconds;
    "PMIX_DISK_WRITE_COMPLETED" "pmix.disk.wtscomp" Writes Same;
    "PMIX_DISK_WRITE_MERGED" "pmix.disk.wtsmrgd" WritesMerged Same;
    "PMIX_DISK_WRITE_SECTORS" "pmix.disk.wtsct" WrittenBytes Sectors;
    "PMIX_DISK_WRITE_MILLISEC" "pmix.disk.wtms" WriteTime Milliseconds;
    "PMIX_DISK_IO_IN_PROGRESS" "pmix.disk.ios" InFlight Same;
    "PMIX_DISK_IO_MILLISEC" "pmix.disk.ioms" IoTime Milliseconds;
    "PMIX_DISK_IO_WEIGHTED" "pmix.disk.iowght" WeightedTime Milliseconds;
    more Discards DiscardsMerged DiscardedBytes DiscardTime Flushes FlushTime;
    given
    "PMIX_DISK_SAMPLE_TIME" "pmix.disk.samptime";
}

names! { NetField, "pmix.net.res",
    "PMIX_NETWORK_ID" "pmix.net.id" Interface Same;
    "PMIX_NET_RECVD_BYTES" "pmix.net.rcb" ReceivedBytes Same;
    "PMIX_NET_RECVD_PCKTS" "pmix.net.rcp" ReceivedPackets Same;
    "PMIX_NET_RECVD_ERRS" "pmix.net.rcerr" ReceivedErrors Same;
    "PMIX_NET_SENT_BYTES" "pmix.net.sntb" SentBytes Same;
    "PMIX_NET_SENT_PCKTS" "pmix.net.sntp" SentPackets Same;
    "PMIX_NET_SENT_ERRS" "pmix.net.snterr" SentErrors Same;
    more ReceivedDropped SentDropped;
    given
    "PMIX_NET_SAMPLE_TIME" "pmix.net.samptime";
}

/// The old macro of a value that the Standard calls otherwise.
const RENAMED: [(&str, &str); 1] = [("PMIX_NODE_SWAP_TOTAL", "PMIX_NODE_MEM_SWAP_TOTAL")];

/// The field that is meant: by our name, by a key or a macro of PMIx.
pub fn field<F: Named>(name: &str) -> Option<F> {
    let renamed = RENAMED.iter().find(|(old, _)| *old == name).map_or(name, |(_, new)| new);
    F::named(name).or_else(|| F::alias(renamed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_field_is_meant_by_three_names() {
        for name in ["rss_bytes", "pmix.proc.rss", "PMIX_PROC_RSS"] {
            assert_eq!(field(name), Some(ProcessField::Rss), "{name}");
        }
        assert_eq!(field("PMIX_NODE_SWAP_TOTAL"), Some(NodeField::SwapTotal));
        assert_eq!(field::<NodeField>("pmix.proc.rss"), None);
        assert_eq!(field("monitor.node.mavail"), Some(NodeField::MemAvailable));
        assert_eq!(field("monitor.discards"), Some(DiskField::Discards));
    }

    #[test]
    fn no_key_is_of_two_fields() {
        let keys = |all: &mut HashSet<_>, name: &'static str| assert!(all.insert(name), "{name}");
        let mut all = HashSet::new();
        ProcessField::NAMES.iter().for_each(|it| keys(&mut all, it.key));
        NodeField::NAMES.iter().for_each(|it| keys(&mut all, it.key));
        DiskField::NAMES.iter().for_each(|it| keys(&mut all, it.key));
        NetField::NAMES.iter().for_each(|it| keys(&mut all, it.key));
        let given =
            [ProcessField::GIVEN, &NodeField::GIVEN[1..], DiskField::GIVEN, NetField::GIVEN];
        given.into_iter().flatten().for_each(|(_, key)| keys(&mut all, key));
    }
}
