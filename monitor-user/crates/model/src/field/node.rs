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
            "Time since boot, sleep included", "CLOCK_BOOTTIME";
        OnlineCpus: "online_cpus", "CPUS", Count, Number, Gauge, "Processors on line", "/proc/stat";
        Load1: "load1", "LOAD1", None, Float, Gauge, "Load average of 1 minute", "/proc/loadavg";
        Load5: "load5", "LOAD5", None, Float, Gauge, "Load average of 5 minutes", "/proc/loadavg";
        Load15: "load15", "LOAD15", None, Float, Gauge,
            "Load average of 15 minutes", "/proc/loadavg";
        MemTotal: "mem_total_bytes", "MEM", Bytes, Number, Gauge,
            "Usable memory", "meminfo MemTotal";
        MemAvailable: "mem_available_bytes", "AVAIL", Bytes, Number, Gauge,
            "Memory available to new programs without swapping", "meminfo MemAvailable";
        MemFree: "mem_free_bytes", "FREE", Bytes, Number, Gauge, "Unused memory", "meminfo MemFree";
        MemBuffers: "mem_buffers_bytes", "BUF", Bytes, Number, Gauge,
            "Memory that caches block devices", "meminfo Buffers";
        MemCached: "mem_cached_bytes", "CACHE", Bytes, Number, Gauge,
            "Memory that caches files", "meminfo Cached";
        MemMapped: "mem_mapped_bytes", "MMAPABLE", Bytes, Number, Gauge,
            "File memory mapped by processes", "meminfo Mapped";
        SwapCached: "swap_cached_bytes", "SWPC", Bytes, Number, Gauge,
            "Swapped memory that is also resident", "meminfo SwapCached";
        SwapTotal: "swap_total_bytes", "SWAP", Bytes, Number, Gauge,
            "Swap space", "meminfo SwapTotal";
        SwapFree: "swap_free_bytes", "SWPF", Bytes, Number, Gauge,
            "Unused swap space", "meminfo SwapFree";
        CpuBusy: "cpu_busy_ns", "BUSY", Nanoseconds, Number, Counter,
            "Time in which processors ran tasks or served interrupts: exact, or cpu_busy_sampled",
            "cgroup v1 cpuacct.usage; v2 cpu.stat of top-level groups and the tasks in the root; \
             else /proc/stat";
        CpuBusySampled: "cpu_busy_sampled", "SAMPLED", None, Flag, Gauge,
            "Whether cpu_busy_ns is a sum of samples of the timer, as no cgroup has it", "cgroupfs";
        CpuTasks: "cpu_tasks_ns", "TASKS", Nanoseconds, Number, Counter,
            "CPU time of all tasks, as the scheduler accounts it; up to a tick per processor old",
            "cgroup v1 cpuacct.usage; v2 cpu.stat of top-level groups and the tasks in the root";
        CpuUser: "cpu_user_ns", "USER", Nanoseconds, Number, Counter,
            "Time in user mode, nice not included; sampled by the timer", "/proc/stat user";
        CpuNice: "cpu_nice_ns", "NICE", Nanoseconds, Number, Counter,
            "Time in user mode at low priority; sampled by the timer", "/proc/stat nice";
        CpuSystem: "cpu_system_ns", "SYS", Nanoseconds, Number, Counter,
            "Time in the kernel; sampled by the timer", "/proc/stat system";
        CpuIdle: "cpu_idle_ns", "IDLE", Nanoseconds, Number, Counter,
            "Idle time as the kernel counts it; sampled where the timer is not stopped when idle",
            "/proc/stat idle";
        CpuIowait: "cpu_iowait_ns", "IOWAIT", Nanoseconds, Number, Counter,
            "Idle time with I/O outstanding, as the kernel counts it", "/proc/stat iowait";
        CpuIrq: "cpu_irq_ns", "IRQ", Nanoseconds, Number, Counter,
            "Time serving interrupts; sampled by the timer unless IRQ_TIME_ACCOUNTING is on",
            "/proc/stat irq";
        CpuSoftirq: "cpu_softirq_ns", "SOFTIRQ", Nanoseconds, Number, Counter,
            "Time serving soft interrupts; sampled by the timer unless IRQ_TIME_ACCOUNTING is on",
            "/proc/stat softirq";
        CpuSteal: "cpu_steal_ns", "STEAL", Nanoseconds, Number, Counter,
            "Time stolen by the hypervisor for other virtual machines", "/proc/stat steal";
        ContextSwitches: "context_switches", "CSW", Count, Number, Counter,
            "Context switches since boot", "/proc/stat ctxt";
        Interrupts: "interrupts", "INTR", Count, Number, Counter,
            "Interrupts served since boot", "/proc/stat intr";
        ProcessesCreated: "processes_created", "FORKS", Count, Number, Counter,
            "Processes and threads created since boot", "/proc/stat processes";
        TasksRunning: "tasks_running", "RUN", Count, Number, Gauge,
            "Tasks ready to run or running", "/proc/stat procs_running";
        TasksBlocked: "tasks_blocked", "BLK", Count, Number, Gauge,
            "Tasks that wait for I/O", "/proc/stat procs_blocked";
        PsiCpuSome: "psi_cpu_some_ns", "PSI CPU", Nanoseconds, Number, Counter,
            "Time in which some task waited for a CPU", "/proc/pressure/cpu";
        PsiMemorySome: "psi_memory_some_ns", "PSI MEM", Nanoseconds, Number, Counter,
            "Time in which some task waited for memory", "/proc/pressure/memory";
        PsiMemoryFull: "psi_memory_full_ns", "PSI MEM!", Nanoseconds, Number, Counter,
            "Time in which all tasks waited for memory", "/proc/pressure/memory";
        PsiIoSome: "psi_io_some_ns", "PSI IO", Nanoseconds, Number, Counter,
            "Time in which some task waited for I/O", "/proc/pressure/io";
        PsiIoFull: "psi_io_full_ns", "PSI IO!", Nanoseconds, Number, Counter,
            "Time in which all tasks waited for I/O", "/proc/pressure/io";
        UnattributedPercent: "cpu_unattributed_percent", "OTHER%", Percent, Float, Gauge,
            "CPU time of tasks that is of no visible process: hidden, or ended unseen",
            "cpu_tasks_ns";
        BlockUnattributedBytes: "block_unattributed_bytes", "LATE", Bytes, Number, Counter,
            "Bytes of block_unattributed_requests", "block_rq_complete", "";
        BlockUnattributedRequests: "block_unattributed_requests", "LATEREQ", Count, Number, Counter,
            "Block requests completed after the end of their process was reported: pages written \
             back later; of the processes that ended while block I/O was counted",
            "block_rq_complete", "";
    }
    rates {
        BusyPercent: "cpu_busy_percent", "BUSY%", CpuBusy,
            "Share of cpu_busy_ns, 100 being one processor";
        TasksPercent: "cpu_tasks_percent", "TASKS%", CpuTasks,
            "Share of cpu_tasks_ns, 100 being one processor: the sum of all processes, hidden and \
             ended ones included";
        UserPercent: "cpu_user_percent", "USER%", CpuUser,
            "Part of cpu_busy_percent in user mode, nice not included; divided as sampled";
        NicePercent: "cpu_nice_percent", "NICE%", CpuNice,
            "Part of cpu_busy_percent in user mode at low priority; divided as sampled";
        SystemPercent: "cpu_system_percent", "SYS%", CpuSystem,
            "Part of cpu_busy_percent in the kernel; divided as sampled";
        IrqPercent: "cpu_irq_percent", "IRQ%", CpuIrq,
            "Part of cpu_busy_percent serving interrupts; divided as sampled";
        SoftirqPercent: "cpu_softirq_percent", "SIRQ%", CpuSoftirq,
            "Part of cpu_busy_percent serving soft interrupts; divided as sampled";
        IdlePercent: "cpu_idle_percent", "IDLE%", CpuIdle,
            "What remains of the processors: 100 for each, less busy, iowait and steal";
        IowaitPercent: "cpu_iowait_percent", "IOW%", CpuIowait,
            "Share of cpu_iowait_ns, 100 being one processor";
        StealPercent: "cpu_steal_percent", "STEAL%", CpuSteal,
            "Share of cpu_steal_ns, 100 being one processor";
        PsiCpuPercent: "psi_cpu_some_percent", "PSI CPU%", PsiCpuSome, "Share of psi_cpu_some_ns";
        PsiMemoryPercent: "psi_memory_some_percent", "PSI MEM%", PsiMemorySome,
            "Share of psi_memory_some_ns";
        PsiMemoryFullPercent: "psi_memory_full_percent", "PSI MEM!%", PsiMemoryFull,
            "Share of psi_memory_full_ns";
        PsiIoPercent: "psi_io_some_percent", "PSI IO%", PsiIoSome, "Share of psi_io_some_ns";
        PsiIoFullPercent: "psi_io_full_percent", "PSI IO!%", PsiIoFull, "Share of psi_io_full_ns";
        SwitchRate: "context_switches_per_s", "CSW/s", ContextSwitches,
            "Growth of context_switches";
        ForkRate: "processes_created_per_s", "FORK/s", ProcessesCreated,
            "Growth of processes_created";
    }
}

category! {
    /// A field of one processor; all but the busy time are from its line in `/proc/stat`.
    CpuField {
        Busy: "busy_ns", "BUSY", Nanoseconds, Number, Counter,
            "CPU time of tasks, as the scheduler accounts it", "cgroup v1 cpuacct.usage_percpu";
        User: "user_ns", "USER", Nanoseconds, Number, Counter,
            "Time in user mode, nice not included", "/proc/stat";
        Nice: "nice_ns", "NICE", Nanoseconds, Number, Counter,
            "Time in user mode at low priority", "/proc/stat";
        System: "system_ns", "SYS", Nanoseconds, Number, Counter,
            "Time in the kernel", "/proc/stat";
        Idle: "idle_ns", "IDLE", Nanoseconds, Number, Counter, "Idle time", "/proc/stat";
        Iowait: "iowait_ns", "IOWAIT", Nanoseconds, Number, Counter,
            "Idle time with I/O outstanding", "/proc/stat";
        Irq: "irq_ns", "IRQ", Nanoseconds, Number, Counter, "Time serving interrupts", "/proc/stat";
        Softirq: "softirq_ns", "SOFTIRQ", Nanoseconds, Number, Counter,
            "Time serving soft interrupts", "/proc/stat";
        Steal: "steal_ns", "STEAL", Nanoseconds, Number, Counter,
            "Time stolen by the hypervisor for other virtual machines", "/proc/stat";
    }
    rates {
        BusyPercent: "busy_percent", "BUSY%", Busy, "Share of busy_ns";
        UserPercent: "user_percent", "USER%", User, "Share of user_ns";
        SystemPercent: "system_percent", "SYS%", System, "Share of system_ns";
        IdlePercent: "idle_percent", "IDLE%", Idle,
            "What remains of the processor: 100 less busy, iowait and steal; without busy_ns, the \
             share of idle_ns";
        IowaitPercent: "iowait_percent", "IOW%", Iowait, "Share of iowait_ns";
        StealPercent: "steal_percent", "STEAL%", Steal, "Share of steal_ns";
    }
}
