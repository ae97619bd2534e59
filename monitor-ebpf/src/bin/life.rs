//! Lives of processes: three rare hooks, one ring buffer.
//!
//! At `sched_process_exit` the CPU sums are stale, so the totals are taken at
//! `sched_process_free`, when every thread is added up. Run-queue delay is the exception: the
//! kernel forgets it with the thread, so each thread's share is kept as it exits.
#![cfg_attr(target_arch = "bpf", no_std, no_main)]
#![allow(unsafe_code, reason = "a BPF program reads kernel memory; the verifier proves each read")]

#[cfg(not(target_arch = "bpf"))]
fn main() {}

#[cfg(target_arch = "bpf")]
mod program {
    use aya_ebpf::bindings::{BPF_F_NO_PREALLOC, BPF_NOEXIST};
    use aya_ebpf::helpers::generated::{bpf_ktime_get_boot_ns, bpf_probe_read_kernel_str};
    use aya_ebpf::macros::map;
    use aya_ebpf::maps::{HashMap, RingBuf};
    use aya_log_ebpf::debug;
    use monitor_ebpf::abi::Owner;
    use monitor_ebpf::abi::life::{
        End, Exec, Fork, KIND_END, KIND_EXEC, KIND_EXIT, KIND_FORK, PATH_BYTES, ProgramOffsets,
        Waited,
    };
    use monitor_ebpf::kernel::iter::Step;
    use monitor_ebpf::kernel::{atomic, constant, load, loss, ring, rss, table, task::Task};

    /// What an insertion gives when the table is full: `E2BIG`.
    const NO_ROOM: i32 = -7;

    /// Set by the loader.
    #[unsafe(no_mangle)]
    static PROGRAM: ProgramOffsets = ProgramOffsets::ABSENT;

    /// The loader sets the size.
    #[map]
    static LIFE: RingBuf = RingBuf::with_byte_size(1 << 20, 0);

    /// What ended threads waited; the row goes when the process is freed.
    #[map]
    static WAITED: HashMap<Owner, Waited> = HashMap::with_max_entries(4096, 0);

    /// Last words of processes whose final record is to come. Few at a time, so each row is made
    /// when it is needed.
    #[map]
    static EXITED: HashMap<Owner, End> = HashMap::with_max_entries(4096, BPF_F_NO_PREALLOC);

    /// Peaks, in pages, that processes had as they executed their first program: those of whom
    /// they are copies. Few at a time, as above.
    #[map]
    static INHERITED: HashMap<Owner, u64> = HashMap::with_max_entries(4096, BPF_F_NO_PREALLOC);

    /// Learns where each CPU counts its share of resident pages; runs once.
    #[unsafe(no_mangle)]
    #[unsafe(link_section = "iter/task")]
    fn learn(step: &Step) -> i32 {
        if step.meta.seq_num == 0 {
            rss::learn_cpu_offsets();
        }
        0
    }

    #[unsafe(no_mangle)]
    #[unsafe(link_section = "tp_btf/sched_process_fork")]
    fn fork(&[parent, child]: &[u64; 2]) -> i32 {
        let (Some(parent), Some(child)) = (Task::from_argument(parent), Task::from_argument(child))
        else {
            return 0;
        };
        if child.is_leader() {
            let record =
                Fork { kind: KIND_FORK, zero: 0, parent: parent.owner(), child: child.owner() };
            emit(|slot| *slot = record);
        }
        0
    }

    #[unsafe(no_mangle)]
    #[unsafe(link_section = "tp_btf/sched_process_exec")]
    fn exec(&[changed, _, program]: &[u64; 3]) -> i32 {
        let Some(task) = Task::from_argument(changed) else { return 0 };
        // The third argument is a `struct linux_binprm *`.
        let path: *const u8 = load(program as *const u8, constant!(PROGRAM.filename));
        let owner = task.owner();
        debug!((), "exec in process {}", owner.tgid);
        if INHERITED.insert(owner, task.max_rss_pages(), BPF_NOEXIST.into()) == Err(NO_ROOM) {
            loss::table_full();
        }
        emit::<Exec>(|slot| {
            slot.kind = KIND_EXEC;
            slot.owner = owner;
            // SAFETY: the helper writes at most `PATH_BYTES`, and a NUL.
            let length = unsafe {
                bpf_probe_read_kernel_str(
                    slot.path.as_mut_ptr().cast(),
                    PATH_BYTES as u32,
                    path.cast(),
                )
            };
            slot.path_bytes = if length > 0 { length as u32 - 1 } else { 0 };
        });
        0
    }

    #[unsafe(no_mangle)]
    #[unsafe(link_section = "tp_btf/sched_process_exit")]
    fn exit(&[exiting]: &[u64; 1]) -> i32 {
        let Some(task) = Task::from_argument(exiting) else { return 0 };
        if !task.is_leader() {
            keep_waits(task); // A leader's own can still be read when it is freed.
        }
        if task.group_is_dead() {
            keep_last_words(task);
        }
        0
    }

    #[inline(always)]
    fn keep_waits(task: Task) {
        let Some(row) = table::row(&WAITED, &task.owner()) else { return loss::table_full() };
        // SAFETY: the row lives until the process is freed.
        let Waited { run_delay_ns, run_count } = unsafe { &mut *row };
        // Two threads of one process may exit on two CPUs at once.
        atomic::add(run_delay_ns, task.run_delay_ns());
        atomic::add(run_count, task.run_count());
    }

    /// The final record can be lost: to a full ring, or where no program may run.
    #[inline(always)]
    fn keep_last_words(task: Task) {
        let leader = task.leader();
        let owner = leader.owner();
        // A process exits once; should it fail, there are no last words.
        let _ = EXITED.insert(owner, &End::ZERO, 0);
        let Some(row) = EXITED.get_ptr_mut(owner) else { return loss::table_full() };
        // SAFETY: the row lives until the process is freed, and nobody else writes it.
        let end = unsafe { &mut *row };
        fill(end, leader, Waited::NONE);
        end.kind = KIND_EXIT;
        end.max_rss_pages = own_peak(task, owner);
        if !task.is_leader() {
            end.process.dead.add(&task.sums());
        }
    }

    /// What its programs reached. The kernel's peak begins with the copy that the process was
    /// before it executed any; where that was larger, the memory of the last program is looked at,
    /// which is still there at this hook since 6.16.
    #[inline(always)]
    fn own_peak(task: Task, owner: Owner) -> u64 {
        let most = task.max_rss_pages();
        // SAFETY: a number.
        let inherited = INHERITED.get_ptr(owner).map_or(0, |row| unsafe { *row });
        if most > inherited { most } else { task.resident_pages().unwrap_or(most) }
    }

    #[unsafe(no_mangle)]
    #[unsafe(link_section = "tp_btf/sched_process_free")]
    fn free(&[freed]: &[u64; 1]) -> i32 {
        let Some(task) = Task::from_argument(freed) else { return 0 };
        if task.is_leader() {
            let owner = task.leader().owner();
            // SAFETY: a row is plain integers, and no thread of a freed process can change it.
            let waited = WAITED.get_ptr(owner).map_or(Waited::NONE, |row| unsafe { *row });
            debug!((), "end of process {}", owner.tgid);
            // SAFETY: as above; without a row it was to exit before the hook was attached.
            let peak = EXITED.get_ptr(owner).map(|row| unsafe { (*row).max_rss_pages });
            let is_told = emit(|slot| {
                fill(slot, task, waited);
                slot.max_rss_pages = peak.unwrap_or(slot.max_rss_pages);
            });
            // A process that never ended a thread, or never executed a program, has no row.
            let _ = WAITED.remove(owner);
            let _ = INHERITED.remove(owner);
            if is_told {
                // None if it was to exit before the hook was attached.
                let _ = EXITED.remove(owner);
            }
        }
        0
    }

    #[inline(always)]
    fn fill(end: &mut End, task: Task, waited: Waited) {
        end.kind = KIND_END;
        end.zero = 0;
        // SAFETY: the helper has no arguments.
        end.at_boottime_ns = unsafe { bpf_ktime_get_boot_ns() };
        end.max_rss_pages = task.max_rss_pages();
        end.waited = waited;
        task.read_thread(&mut end.process.leader);
        task.read_group(&mut end.process);
        end.process.clear_memory();
    }

    /// Puts one record into the ring, and wakes the reader when a quarter of it is used:
    /// below that the reader comes by itself, at its next tick.
    #[inline(always)]
    fn emit<T: 'static>(fill: impl FnOnce(&mut T)) -> bool {
        loss::event();
        let Some(mut slot) = LIFE.reserve::<T>(0) else {
            loss::ring_full();
            return false;
        };
        // SAFETY: `fill` writes every member before anything reads the record.
        fill(unsafe { &mut *slot.as_mut_ptr() });
        slot.submit(ring::wake_flags(&LIFE));
        true
    }

    monitor_ebpf::object!();
}
