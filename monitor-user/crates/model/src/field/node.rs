//! The fields of the node, and of each of its processors.

use super::{Row, category};

/// The values of the node.
pub type NodeRow = Row<NodeField, { NodeField::COUNT }>;
/// The values of one processor.
pub type CpuRow = Row<CpuField, { CpuField::COUNT }>;

category! {
    /// A field of the node.
    NodeField {
        Uptime: "uptime_ns", "UP", Nanoseconds, Number, Gauge,
            "Time since boot, sleep included", "CLOCK_BOOTTIME", "CLOCK_BOOTTIME";
        Cpus: "cpus", "CPUS", Count, Number, Gauge,
            "Processors on line", "/proc/stat", "/proc/stat";
        Load1: "load1", "LOAD1", None, Float, Gauge,
            "Load average of 1 minute", "/proc/loadavg", "/proc/loadavg";
        Load5: "load5", "LOAD5", None, Float, Gauge,
            "Load average of 5 minutes", "/proc/loadavg", "/proc/loadavg";
        Load15: "load15", "LOAD15", None, Float, Gauge,
            "Load average of 15 minutes", "/proc/loadavg", "/proc/loadavg";
        MemTotal: "mem_total_bytes", "MEM", Bytes, Number, Gauge,
            "Usable memory", "meminfo MemTotal", "meminfo MemTotal";
        MemAvailable: "mem_available_bytes", "AVAIL", Bytes, Number, Gauge,
            "Memory available to new programs without swapping",
            "meminfo MemAvailable", "meminfo MemAvailable";
        MemFree: "mem_free_bytes", "FREE", Bytes, Number, Gauge,
            "Unused memory", "meminfo MemFree", "meminfo MemFree";
        MemBuffers: "mem_buffers_bytes", "BUF", Bytes, Number, Gauge,
            "Memory that caches block devices", "meminfo Buffers", "meminfo Buffers";
        MemCached: "mem_cached_bytes", "CACHE", Bytes, Number, Gauge,
            "Memory that caches files", "meminfo Cached", "meminfo Cached";
        MemMapped: "mem_mapped_bytes", "MMAPABLE", Bytes, Number, Gauge,
            "File memory mapped by processes", "meminfo Mapped", "meminfo Mapped";
        SwapCached: "swap_cached_bytes", "SWPC", Bytes, Number, Gauge,
            "Swapped memory that is also resident", "meminfo SwapCached", "meminfo SwapCached";
        SwapTotal: "swap_total_bytes", "SWAP", Bytes, Number, Gauge,
            "Swap space", "meminfo SwapTotal", "meminfo SwapTotal";
        SwapFree: "swap_free_bytes", "SWPF", Bytes, Number, Gauge,
            "Unused swap space", "meminfo SwapFree", "meminfo SwapFree";
        CpuUser: "cpu_user_ns", "USER", Nanoseconds, Number, Counter,
            "Time of all processors in user mode, nice not included",
            "/proc/stat user", "/proc/stat user";
        CpuNice: "cpu_nice_ns", "NICE", Nanoseconds, Number, Counter,
            "Time in user mode at low priority", "/proc/stat nice", "/proc/stat nice";
        CpuSystem: "cpu_system_ns", "SYS", Nanoseconds, Number, Counter,
            "Time in the kernel", "/proc/stat system", "/proc/stat system";
        CpuIdle: "cpu_idle_ns", "IDLE", Nanoseconds, Number, Counter,
            "Idle time", "/proc/stat idle", "/proc/stat idle";
        CpuIowait: "cpu_iowait_ns", "IOWAIT", Nanoseconds, Number, Counter,
            "Idle time with I/O outstanding", "/proc/stat iowait", "/proc/stat iowait";
        CpuIrq: "cpu_irq_ns", "IRQ", Nanoseconds, Number, Counter,
            "Time serving interrupts", "/proc/stat irq", "/proc/stat irq";
        CpuSoftirq: "cpu_softirq_ns", "SOFTIRQ", Nanoseconds, Number, Counter,
            "Time serving soft interrupts", "/proc/stat softirq", "/proc/stat softirq";
        CpuSteal: "cpu_steal_ns", "STEAL", Nanoseconds, Number, Counter,
            "Time stolen by the hypervisor for other virtual machines",
            "/proc/stat steal", "/proc/stat steal";
        ContextSwitches: "context_switches", "CSW", Count, Number, Counter,
            "Context switches since boot", "/proc/stat ctxt", "/proc/stat ctxt";
        Interrupts: "interrupts", "INTR", Count, Number, Counter,
            "Interrupts served since boot", "/proc/stat intr", "/proc/stat intr";
        ProcessesCreated: "processes_created", "FORKS", Count, Number, Counter,
            "Processes and threads created since boot",
            "/proc/stat processes", "/proc/stat processes";
        TasksRunning: "tasks_running", "RUN", Count, Number, Gauge,
            "Tasks ready to run or running",
            "/proc/stat procs_running", "/proc/stat procs_running";
        TasksBlocked: "tasks_blocked", "BLK", Count, Number, Gauge,
            "Tasks that wait for I/O", "/proc/stat procs_blocked", "/proc/stat procs_blocked";
        PsiCpuSome: "psi_cpu_some_ns", "PSI CPU", Nanoseconds, Number, Counter,
            "Time in which some task waited for a CPU", "/proc/pressure/cpu", "/proc/pressure/cpu";
        PsiMemorySome: "psi_memory_some_ns", "PSI MEM", Nanoseconds, Number, Counter,
            "Time in which some task waited for memory",
            "/proc/pressure/memory", "/proc/pressure/memory";
        PsiMemoryFull: "psi_memory_full_ns", "PSI MEM!", Nanoseconds, Number, Counter,
            "Time in which all tasks waited for memory",
            "/proc/pressure/memory", "/proc/pressure/memory";
        PsiIoSome: "psi_io_some_ns", "PSI IO", Nanoseconds, Number, Counter,
            "Time in which some task waited for I/O", "/proc/pressure/io", "/proc/pressure/io";
        PsiIoFull: "psi_io_full_ns", "PSI IO!", Nanoseconds, Number, Counter,
            "Time in which all tasks waited for I/O", "/proc/pressure/io", "/proc/pressure/io";
        UserPercent: "cpu_user_percent", "USER%", Percent, Float, RateOf(CpuUser),
            "Share of cpu_user_ns, 100 being one processor", "cpu_user_ns", "cpu_user_ns";
        SystemPercent: "cpu_system_percent", "SYS%", Percent, Float, RateOf(CpuSystem),
            "Share of cpu_system_ns, 100 being one processor", "cpu_system_ns", "cpu_system_ns";
        IdlePercent: "cpu_idle_percent", "IDLE%", Percent, Float, RateOf(CpuIdle),
            "Share of cpu_idle_ns, 100 being one processor", "cpu_idle_ns", "cpu_idle_ns";
        IowaitPercent: "cpu_iowait_percent", "IOW%", Percent, Float, RateOf(CpuIowait),
            "Share of cpu_iowait_ns, 100 being one processor", "cpu_iowait_ns", "cpu_iowait_ns";
        StealPercent: "cpu_steal_percent", "STEAL%", Percent, Float, RateOf(CpuSteal),
            "Share of cpu_steal_ns, 100 being one processor", "cpu_steal_ns", "cpu_steal_ns";
        PsiCpuPercent: "psi_cpu_some_percent", "PSI CPU%", Percent, Float, RateOf(PsiCpuSome),
            "Share of psi_cpu_some_ns", "psi_cpu_some_ns", "psi_cpu_some_ns";
        PsiMemoryPercent: "psi_memory_some_percent", "PSI MEM%", Percent, Float,
            RateOf(PsiMemorySome), "Share of psi_memory_some_ns",
            "psi_memory_some_ns", "psi_memory_some_ns";
        PsiIoPercent: "psi_io_some_percent", "PSI IO%", Percent, Float, RateOf(PsiIoSome),
            "Share of psi_io_some_ns", "psi_io_some_ns", "psi_io_some_ns";
        SwitchRate: "context_switches_per_s", "CSW/s", PerSecond, Float, RateOf(ContextSwitches),
            "Growth of context_switches", "context_switches", "context_switches";
        ForkRate: "processes_created_per_s", "FORK/s", PerSecond, Float, RateOf(ProcessesCreated),
            "Growth of processes_created", "processes_created", "processes_created";
    }
}

category! {
    /// A field of one processor; all are from its line in `/proc/stat`.
    CpuField {
        User: "user_ns", "USER", Nanoseconds, Number, Counter,
            "Time in user mode, nice not included", "/proc/stat", "/proc/stat";
        Nice: "nice_ns", "NICE", Nanoseconds, Number, Counter,
            "Time in user mode at low priority", "/proc/stat", "/proc/stat";
        System: "system_ns", "SYS", Nanoseconds, Number, Counter,
            "Time in the kernel", "/proc/stat", "/proc/stat";
        Idle: "idle_ns", "IDLE", Nanoseconds, Number, Counter,
            "Idle time", "/proc/stat", "/proc/stat";
        Iowait: "iowait_ns", "IOWAIT", Nanoseconds, Number, Counter,
            "Idle time with I/O outstanding", "/proc/stat", "/proc/stat";
        Irq: "irq_ns", "IRQ", Nanoseconds, Number, Counter,
            "Time serving interrupts", "/proc/stat", "/proc/stat";
        Softirq: "softirq_ns", "SOFTIRQ", Nanoseconds, Number, Counter,
            "Time serving soft interrupts", "/proc/stat", "/proc/stat";
        Steal: "steal_ns", "STEAL", Nanoseconds, Number, Counter,
            "Time stolen by the hypervisor for other virtual machines", "/proc/stat", "/proc/stat";
        UserPercent: "user_percent", "USER%", Percent, Float, RateOf(User),
            "Share of user_ns", "user_ns", "user_ns";
        SystemPercent: "system_percent", "SYS%", Percent, Float, RateOf(System),
            "Share of system_ns", "system_ns", "system_ns";
        IdlePercent: "idle_percent", "IDLE%", Percent, Float, RateOf(Idle),
            "Share of idle_ns", "idle_ns", "idle_ns";
    }
}
