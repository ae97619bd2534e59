//! The fields of a process; those that apply to a thread are set in the rows of threads too.

use super::{Row, category};

/// The values of one process.
pub type ProcessRow = Row<ProcessField, { ProcessField::COUNT }>;

impl ProcessField {
    /// The counters of `/proc/<pid>/io`, in the order of `task_io_accounting`.
    pub const IO: [Self; 7] = [
        Self::ReadChars,
        Self::WrittenChars,
        Self::ReadCalls,
        Self::WriteCalls,
        Self::ReadBytes,
        Self::WrittenBytes,
        Self::CancelledBytes,
    ];
}

category! {
    /// A field of a process.
    ProcessField {
        Pid: "pid", "PID", None, Number, Label,
            "Process id in the host's pid namespace", "task->tgid", "name of /proc/<pid>";
        Tid: "tid", "TID", None, Number, Label,
            "Thread id, in rows of threads only", "task->pid", "name of /proc/<pid>/task/<tid>";
        Ppid: "ppid", "PPID", None, Number, Label,
            "Process id of the parent; for an ended process, the one that waited for it",
            "task->real_parent->tgid", "stat 4";
        NsPid: "ns_pid", "NSPID", None, Number, Label,
            "Process id inside its innermost pid namespace, absent in the host's own",
            "task->thread_pid->numbers", "status NSpid";
        Uid: "uid", "UID", None, Number, Label, "Real user id", "task->cred->uid", "status Uid";
        Gid: "gid", "GID", None, Number, Label, "Real group id", "task->cred->gid", "status Gid";
        User: "user", "USER", None, Text, Label,
            "Name of the real user, or the uid if it has no name; read only on request",
            "getpwuid_r(3)";
        Comm: "comm", "COMMAND", None, Text, Label,
            "Command name, at most 15 bytes", "task->comm", "stat 2";
        Cmdline: "cmdline", "COMMAND LINE", None, Text, Label,
            "Command line, arguments joined by spaces; read when first seen and after each exec",
            "/proc/<pid>/cmdline";
        Path: "path", "PATH", None, Text, Label,
            "Path of the last executed file as passed to execve, if seen",
            "bprm->filename at sched_process_exec", "";
        Cgroup: "cgroup", "CGROUP", None, Text, Label,
            "Path of its cgroup: in the unified hierarchy, or in the one of version 1 that names \
             its container",
            "path of cgroup_id", "/proc/<pid>/cgroup";
        Job: "job", "JOB", None, Text, Label,
            "Batch job, MPI namespace, pod, container, login session or unit that it belongs to; \
             read only on request",
            "/proc/<pid>/cgroup and environ";
        CgroupId: "cgroup_id", "CGROUP ID", None, Number, Label,
            "Id of the cgroup in the unified hierarchy", "task->cgroups->dfl_cgrp->kn->id", "";
        ExecId: "exec_id", "EXECS", None, Number, Label,
            "Number of execs so far; changes whenever the command line does",
            "task->self_exec_id", "";
        State: "state", "S", None, Letter, Gauge,
            "State as ps(1) prints it: R S D T t I Z X",
            "task->__state | exit_state, on_cpu", "stat 3, syscall";
        Threads: "threads", "THR", Count, Number, Gauge,
            "Live threads", "signal->nr_threads", "stat 20";
        EndedThreads: "ended_threads", "THR END", Count, Number, Counter,
            "Threads that ended, since its start or since the monitor attached",
            "sched_process_exit", "";
        Priority: "priority", "PRI", None, Signed, Gauge,
            "Kernel priority as proc_pid_stat(5) gives it", "task->prio - 100", "stat 18";
        Nice: "nice", "NI", None, Signed, Gauge, "Nice value", "task->static_prio - 120", "stat 19";
        Policy: "policy", "POL", None, Number, Gauge,
            "Scheduling policy, SCHED_* of sched(7)", "task->policy", "stat 41";
        Processor: "processor", "CPU#", None, Number, Gauge,
            "Processor it runs on or last ran on", "task->thread_info.cpu", "stat 39";
        KernelThread: "kernel_thread", "KT", None, Flag, Label,
            "Whether it is a thread of the kernel", "task->flags & PF_KTHREAD", "stat 9";
        StartTime: "start_time_ns", "START", Nanoseconds, Number, Label,
            "Start time since boot; from /proc only to the tick", "task->start_boottime", "stat 22";
        CountedSince: "counted_since_ns", "SINCE", Nanoseconds, Number, Label,
            "Time since boot from which block and network counters count, if after the start",
            "time of attaching", "";
        Ended: "ended", "END", None, Flag, Gauge,
            "Whether it has ended; its numbers are then its last",
            "exit_state of a process named as a target, else sched_process_free",
            "stat 3 of a process named as a target";
        Approximate: "approximate", "APPROX", None, Flag, Gauge,
            "Whether its totals lack something: its final record was lost (they are those at its \
             exit, up to a tick early), it ended between two readings, or threads ended as it was \
             read",
            "sched_process_exit instead of sched_process_free; threads without a record", "";
        ExitCode: "exit_code", "EXIT", None, Number, Gauge,
            "Exit code, or 128 and the number of the signal that ended it",
            "signal->group_exit_code or task->exit_code", "stat 52 of a zombie";
        CpuTime: "cpu_ns", "TIME", Nanoseconds, Number, Counter,
            "Time on a CPU, all threads, ended ones included",
            "se.sum_exec_runtime and signal->sum_sched_runtime",
            "stat 14 and 15, or schedstat 1 of each thread where that is more";
        UserTime: "user_ns", "USER", Nanoseconds, Number, Counter,
            "Time in user mode: cpu_ns divided as the tick sampled it; all of it if no tick did",
            "utime", "stat 14";
        SystemTime: "system_ns", "SYSTEM", Nanoseconds, Number, Counter,
            "Time in the kernel: cpu_ns divided as the tick sampled it", "stime", "stat 15";
        ExactCpu: "exact_cpu_ns", "EXACT", Nanoseconds, Number, Counter,
            "Time on a CPU counted at each switch, including the running slice (--exact-cpu)",
            "sched_switch", "";
        RunDelay: "run_delay_ns", "DELAY", Nanoseconds, Number, Counter,
            "Time spent ready to run, waiting for a CPU, all threads",
            "task->sched_info.run_delay", "schedstat 2 of each thread";
        RunCount: "run_count", "RUNS", Count, Number, Counter,
            "Times a thread was given a CPU",
            "task->sched_info.pcount", "schedstat 3 of each thread";
        VoluntarySwitches: "voluntary_switches", "VCSW", Count, Number, Counter,
            "Context switches because it waited", "nvcsw", "status of each thread";
        InvoluntarySwitches: "involuntary_switches", "ICSW", Count, Number, Counter,
            "Context switches because it was preempted", "nivcsw", "status of each thread";
        MinorFaults: "minor_faults", "MINFL", Count, Number, Counter,
            "Page faults served without I/O", "min_flt", "stat 10";
        MajorFaults: "major_faults", "MAJFL", Count, Number, Counter,
            "Page faults that needed I/O", "maj_flt", "stat 12";
        Rss: "rss_bytes", "RSS", Bytes, Number, Gauge,
            "Resident memory: file, anonymous and shared", "mm->rss_stat", "status VmRSS";
        RssAnon: "rss_anon_bytes", "ANON", Bytes, Number, Gauge,
            "Resident anonymous memory", "mm->rss_stat", "status RssAnon";
        RssFile: "rss_file_bytes", "FILE", Bytes, Number, Gauge,
            "Resident memory backed by files", "mm->rss_stat", "status RssFile";
        RssShmem: "rss_shmem_bytes", "SHMEM", Bytes, Number, Gauge,
            "Resident shared memory", "mm->rss_stat", "status RssShmem";
        Swap: "swap_bytes", "SWAP", Bytes, Number, Gauge,
            "Anonymous memory in swap", "mm->rss_stat", "status VmSwap";
        Pss: "pss_bytes", "PSS", Bytes, Number, Gauge,
            "Proportional share of resident memory; costly, read only on request",
            "/proc/<pid>/smaps_rollup";
        Vsize: "vsize_bytes", "VSIZE", Bytes, Number, Gauge,
            "Mapped address space", "mm->total_vm", "status VmSize";
        PeakRss: "peak_rss_bytes", "PEAK RSS", Bytes, Number, Gauge,
            "Highest resident memory; for an ended process, of the programs it executed, before \
             Linux 6.16 at least that of the process it was forked from",
            "mm->hiwater_rss, signal->maxrss", "status VmHWM";
        PeakVsize: "peak_vsize_bytes", "PEAK VSIZE", Bytes, Number, Gauge,
            "Highest mapped address space", "mm->hiwater_vm", "status VmPeak";
        ReadBytes: "read_bytes", "READ", Bytes, Number, Counter,
            "Bytes that it and the children it has waited for caused to be fetched from storage",
            "ioac.read_bytes", "io read_bytes";
        WrittenBytes: "written_bytes", "WRITTEN", Bytes, Number, Counter,
            "Bytes that it and the children it has waited for made dirty, to be sent to storage",
            "ioac.write_bytes", "io write_bytes";
        CancelledBytes: "cancelled_write_bytes", "CANCELLED", Bytes, Number, Counter,
            "Bytes of written_bytes that never reached storage, as the file was truncated",
            "ioac.cancelled_write_bytes", "io cancelled_write_bytes";
        ReadCalls: "read_calls", "RCALLS", Count, Number, Counter,
            "read(2) and the like", "ioac.syscr", "io syscr";
        WriteCalls: "write_calls", "WCALLS", Count, Number, Counter,
            "write(2) and the like", "ioac.syscw", "io syscw";
        ReadChars: "read_call_bytes", "RCHAR", Bytes, Number, Counter,
            "Bytes that read(2) and the like returned, including those from the page cache",
            "ioac.rchar", "io rchar";
        WrittenChars: "write_call_bytes", "WCHAR", Bytes, Number, Counter,
            "Bytes passed to write(2) and the like", "ioac.wchar", "io wchar";
        BlockReadBytes: "block_read_bytes", "BREAD", Bytes, Number, Counter,
            "Bytes that block devices read for it, counted where they are carried out: not on md, \
             dm and multipath disks, but on those below",
            "block_rq_complete, owner at submission; block_bio_queue without requests", "";
        BlockWrittenBytes: "block_written_bytes", "BWRITE", Bytes, Number, Counter,
            "Bytes that block devices wrote for it, counted likewise",
            "block_rq_complete, owner at submission; block_bio_queue without requests", "";
        BlockDiscardedBytes: "block_discarded_bytes", "BDISC", Bytes, Number, Counter,
            "Bytes that block devices discarded for it", "block_rq_complete", "";
        BlockReads: "block_reads", "BR", Count, Number, Counter,
            "Read requests completed", "block_rq_complete", "";
        BlockWrites: "block_writes", "BW", Count, Number, Counter,
            "Write requests completed", "block_rq_complete", "";
        BlockDiscards: "block_discards", "BD", Count, Number, Counter,
            "Discard requests completed", "block_rq_complete", "";
        BlockFlushes: "block_flushes", "BF", Count, Number, Counter,
            "Flushes that it requested, completed; the device carries several out as one",
            "block_rq_complete", "";
        BlockReadP50: "block_read_p50_ns", "BR P50", Nanoseconds, Number, Gauge,
            "Median latency of read requests since counting began", "block_rq_complete", "";
        BlockReadP99: "block_read_p99_ns", "BR P99", Nanoseconds, Number, Gauge,
            "99th percentile of the latency of read requests", "block_rq_complete", "";
        BlockWriteP50: "block_write_p50_ns", "BW P50", Nanoseconds, Number, Gauge,
            "Median latency of write requests since counting began", "block_rq_complete", "";
        BlockWriteP99: "block_write_p99_ns", "BW P99", Nanoseconds, Number, Gauge,
            "99th percentile of the latency of write requests", "block_rq_complete", "";
        TcpSent: "tcp_sent_bytes", "TCP OUT", Bytes, Number, Counter,
            "TCP and MPTCP payload written to its sockets, v4 and v6, acknowledged or not; what a \
             socket carried since the last reading counts for the oldest process that holds it, \
             and at last for the one that closes it",
            "tcp_sock of open sockets, inet_sock_set_state at close", "inet_diag";
        TcpReceived: "tcp_received_bytes", "TCP IN", Bytes, Number, Counter,
            "TCP and MPTCP payload that arrived in order at its sockets, v4 and v6, read or not",
            "tcp_sock of open sockets, inet_sock_set_state at close", "inet_diag";
        Tcp6Sent: "tcp6_sent_bytes", "TCP6 OUT", Bytes, Number, Counter,
            "Part of tcp_sent_bytes sent over IPv6; a v4-mapped address counts as v4",
            "tcp_sock", "inet_diag";
        Tcp6Received: "tcp6_received_bytes", "TCP6 IN", Bytes, Number, Counter,
            "Part of tcp_received_bytes received over IPv6", "tcp_sock", "inet_diag";
        TcpSegmentsOut: "tcp_sent_segments", "SEG OUT", Count, Number, Counter,
            "TCP segments sent, without MPTCP; the kernel's counter has 32 bits per socket",
            "tcp_sock.segs_out", "inet_diag";
        TcpSegmentsIn: "tcp_received_segments", "SEG IN", Count, Number, Counter,
            "TCP segments received", "tcp_sock.segs_in", "inet_diag";
        TcpRetransmits: "tcp_retransmits", "RETR", Count, Number, Counter,
            "TCP segments retransmitted", "tcp_sock.total_retrans", "inet_diag";
        TcpSockets: "tcp_sockets", "TCP#", Count, Number, Gauge,
            "Open TCP sockets; a shared one counts only for its oldest holder",
            "iter/task_file", "inet_diag";
        TcpRtt: "tcp_rtt_ns", "RTT", Nanoseconds, Number, Gauge,
            "Smoothed round-trip time, mean of its open connections",
            "tcp_sock.srtt_us", "inet_diag";
        UdpSent: "udp_sent_bytes", "UDP OUT", Bytes, Number, Counter,
            "UDP payload sent, v4 and v6 (--net)", "sock_send_length", "";
        UdpReceived: "udp_received_bytes", "UDP IN", Bytes, Number, Counter,
            "UDP payload received, v4 and v6 (--net)", "sock_recv_length", "";
        Udp6Sent: "udp6_sent_bytes", "UDP6 OUT", Bytes, Number, Counter,
            "Part of udp_sent_bytes over IPv6; absent if it used sockets that are for both and \
             have neither a peer nor an address",
            "sock_send_length", "";
        Udp6Received: "udp6_received_bytes", "UDP6 IN", Bytes, Number, Counter,
            "Part of udp_received_bytes received over IPv6; absent likewise",
            "sock_recv_length", "";
        SocketSendCalls: "socket_send_calls", "SENDS", Count, Number, Counter,
            "Successful sends on any socket (--net)", "sock_send_length", "";
        SocketReceiveCalls: "socket_receive_calls", "RECVS", Count, Number, Counter,
            "Successful receives on any socket (--net)", "sock_recv_length", "";
        SocketSent: "socket_sent_bytes", "SOCK OUT", Bytes, Number, Counter,
            "Payload sent on sockets of any family (--net)", "sock_send_length", "";
        SocketReceived: "socket_received_bytes", "SOCK IN", Bytes, Number, Counter,
            "Payload received on sockets of any family, by any call on TCP; splice from a UNIX \
             socket is not seen since 6.3 (--net)",
            "sock_recv_length, tcp_rcv_space_adjust", "";
        RunQueueP50: "run_queue_p50_ns", "RQ P50", Nanoseconds, Number, Gauge,
            "Median wait for a CPU since counting began (--runqlat)", "sched_switch", "";
        RunQueueP99: "run_queue_p99_ns", "RQ P99", Nanoseconds, Number, Gauge,
            "99th percentile of the wait for a CPU (--runqlat)", "sched_switch", "";
    }
    rates {
        CpuPercent: "cpu_percent", "CPU%", CpuTime,
            "CPU used over the interval, 100 being one processor";
        RunDelayPercent: "run_delay_percent", "DLY%", RunDelay,
            "Waiting for a CPU over the interval, 100 being one thread always waiting";
        ReadRate: "read_bytes_per_s", "READ/s", ReadBytes, "Growth of read_bytes";
        WrittenRate: "written_bytes_per_s", "WRITE/s", WrittenBytes, "Growth of written_bytes";
        BlockReadRate: "block_read_bytes_per_s", "BREAD/s", BlockReadBytes,
            "Growth of block_read_bytes";
        BlockWrittenRate: "block_written_bytes_per_s", "BWRITE/s", BlockWrittenBytes,
            "Growth of block_written_bytes";
        TcpSentRate: "tcp_sent_bytes_per_s", "TCP>/s", TcpSent, "Growth of tcp_sent_bytes";
        TcpReceivedRate: "tcp_received_bytes_per_s", "TCP</s", TcpReceived,
            "Growth of tcp_received_bytes";
        UdpSentRate: "udp_sent_bytes_per_s", "UDP>/s", UdpSent, "Growth of udp_sent_bytes";
        UdpReceivedRate: "udp_received_bytes_per_s", "UDP</s", UdpReceived,
            "Growth of udp_received_bytes";
        VoluntaryRate: "voluntary_switches_per_s", "VCSW/s", VoluntarySwitches,
            "Growth of voluntary_switches";
        InvoluntaryRate: "involuntary_switches_per_s", "ICSW/s", InvoluntarySwitches,
            "Growth of involuntary_switches";
        MinorRate: "minor_faults_per_s", "MINFL/s", MinorFaults, "Growth of minor_faults";
        MajorRate: "major_faults_per_s", "MAJFL/s", MajorFaults, "Growth of major_faults";
    }
}
