//! PMIx names of our fields: `PMIX_PROC_RSS`, or its key `pmix.proc.rss`.
//!
//! Each is an alias of a field wherever fields are named; with `--pmix` a sample is written with
//! these keys and in the units of the Standard. Fields without a PMIx name get one that begins with
//! `monitor.`. The identity of an object and the time of the sample are always written: requesting
//! them is accepted and adds nothing.

use super::{Category, DiskField, NetField, NodeField, ProcessField};

/// Encoding of a value in PMIx.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PmixEncoding {
    /// Unchanged.
    Same,
    /// Floating-point number of 2^20 bytes, which PMIx calls MB.
    Mebibytes,
    /// `timeval`: seconds and microseconds.
    Timeval,
    /// Milliseconds.
    Milliseconds,
    /// Sectors of 512 bytes.
    Sectors,
}

/// A PMIx name of a field.
#[derive(Clone, Copy, Debug)]
pub struct PmixName<F> {
    /// Macro in `pmix_common.h`.
    pub constant: &'static str,
    /// Key that the macro expands to.
    pub key: &'static str,
    /// Our field.
    pub field: F,
    /// Encoding of the value.
    pub encoding: PmixEncoding,
}

/// A category whose fields have PMIx names.
pub trait PmixNamed: Category {
    /// The names, in the order of the Standard.
    const NAMES: &'static [PmixName<Self>];
    /// Fields without a PMIx name that a full sample contains too.
    const WITHOUT_PMIX_NAME: &'static [Self];
    /// Macros and keys of values that every sample contains.
    const ALWAYS_PRESENT: &'static [(&'static str, &'static str)];
    /// Key of the container of such objects.
    const CONTAINER: &'static str;

    /// The field of a macro or key.
    fn alias(name: &str) -> Option<Self> {
        let is = |it: &&PmixName<Self>| it.key == name || it.constant == name;
        let ours = || Self::from_name(name.strip_prefix("monitor.")?);
        Self::NAMES.iter().find(is).map(|it| it.field).or_else(ours)
    }

    /// Whether every sample contains this value.
    fn is_always_present(name: &str) -> bool {
        Self::ALWAYS_PRESENT.iter().any(|(constant, key)| *constant == name || *key == name)
    }

    /// The fields of a PMIx sample, if none were selected.
    fn all_with_pmix() -> Vec<Self> {
        let named = Self::NAMES.iter().map(|it| it.field);
        named.chain(Self::WITHOUT_PMIX_NAME.iter().copied()).collect()
    }

    /// PMIx name of the field, if it has one.
    fn pmix(self) -> Option<&'static PmixName<Self>> {
        Self::NAMES.iter().find(|it| it.field == self)
    }
}

macro_rules! names {
    ($category:ident, $container:literal,
        $($constant:literal $key:literal $field:ident $encoding:ident;)+
        more $($more:ident)*;
        given $($given:literal $given_key:literal;)*) => {
        impl PmixNamed for $category {
            const CONTAINER: &'static str = $container;
            const WITHOUT_PMIX_NAME: &'static [Self] = &[$($category::$more),*];
            const ALWAYS_PRESENT: &'static [(&'static str, &'static str)] =
                &[$(($given, $given_key)),*];
            const NAMES: &'static [PmixName<Self>] = &[$(PmixName {
                constant: $constant,
                key: $key,
                field: $category::$field,
                encoding: PmixEncoding::$encoding,
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

/// Old macros that the Standard has renamed.
const RENAMED: [(&str, &str); 1] = [("PMIX_NODE_SWAP_TOTAL", "PMIX_NODE_MEM_SWAP_TOTAL")];

/// The field with this name: our own, a PMIx key or a PMIx macro.
pub fn field<F: PmixNamed>(name: &str) -> Option<F> {
    let renamed = RENAMED.iter().find(|(old, _)| *old == name).map_or(name, |(_, new)| new);
    F::from_name(name).or_else(|| F::alias(renamed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_field_is_found_by_three_names() {
        for name in ["rss_bytes", "pmix.proc.rss", "PMIX_PROC_RSS"] {
            assert_eq!(field(name), Some(ProcessField::Rss), "{name}");
        }
        assert_eq!(field("PMIX_NODE_SWAP_TOTAL"), Some(NodeField::SwapTotal));
        assert_eq!(field::<NodeField>("pmix.proc.rss"), None);
        assert_eq!(field("monitor.node.mavail"), Some(NodeField::MemAvailable));
        assert_eq!(field("monitor.discards"), Some(DiskField::Discards));
    }

    #[test]
    fn no_key_belongs_to_two_fields() {
        let keys = |all: &mut HashSet<_>, name: &'static str| assert!(all.insert(name), "{name}");
        let mut all = HashSet::new();
        ProcessField::NAMES.iter().for_each(|it| keys(&mut all, it.key));
        NodeField::NAMES.iter().for_each(|it| keys(&mut all, it.key));
        DiskField::NAMES.iter().for_each(|it| keys(&mut all, it.key));
        NetField::NAMES.iter().for_each(|it| keys(&mut all, it.key));
        let given = [ProcessField::ALWAYS_PRESENT, &NodeField::ALWAYS_PRESENT[1..]]
            .into_iter()
            .chain([DiskField::ALWAYS_PRESENT, NetField::ALWAYS_PRESENT]);
        given.flatten().for_each(|(_, key)| keys(&mut all, key));
    }
}
