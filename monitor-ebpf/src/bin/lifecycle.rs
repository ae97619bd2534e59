//! Lifecycle of processes: rare hooks at fork, exec, exit and free, and one ring buffer.
//!
//! At `sched_process_exit` the CPU sums are stale, so the totals are read at `sched_process_free`,
//! when all threads are added up. Run-queue delay is the exception: the kernel discards it with the
//! thread, so each thread's share is saved when it exits.
//!
//! Between its parent's wait and its end a process is in no list: `released` reads it by the
//! address that the exit hook saved.
#![cfg_attr(target_arch = "bpf", no_std, no_main)]
#![allow(unsafe_code, reason = "a BPF program reads kernel memory; the verifier proves each read")]

#[cfg(not(target_arch = "bpf"))]
fn main() {}

#[cfg(target_arch = "bpf")]
mod program {
    use aya_ebpf::bindings::{BPF_F_NO_PREALLOC, BPF_NOEXIST};
    use aya_ebpf::helpers::generated::{bpf_ktime_get_boot_ns, bpf_probe_read_kernel_str};
    use aya_ebpf::macros::map;
    use aya_ebpf::maps::{Array, HashMap, RingBuf};
    use aya_log_ebpf::debug;
    use monitor_ebpf::abi::Owner;
    use monitor_ebpf::abi::lifecycle::{
        BinprmOffsets, EndedWaits, ExecRecord, ExitRecord, ForkRecord, KIND_EXEC, KIND_EXIT,
        KIND_FORK, KIND_FREE, PATH_BYTES, RELEASED_AT_ONCE, ReleasedRecord, ThreadTails,
        ThreadWaits,
    };
    use monitor_ebpf::kernel::iter::{Meta, Step};
    use monitor_ebpf::kernel::{atomic, constant, load, loss, ring, rss, table};
    use monitor_ebpf::kernel::{released::Released, task::Task};

    /// Error of an insertion into a full table.
    const E2BIG: i32 = -7;

    /// A thread that has ended is freed within this time.
    const FREED_WITHIN_NS: u64 = 2_000_000_000;

    /// Set by the loader.
    #[unsafe(no_mangle)]
    static PROGRAM: BinprmOffsets = BinprmOffsets::ABSENT;

    /// The loader sets the size.
    #[map]
    static LIFECYCLE: RingBuf = RingBuf::with_byte_size(1 << 20, 0);

    /// Set by the loader before processes are read: when the hooks were attached.
    #[map]
    static ATTACHED_NS: Array<u64> = Array::with_max_entries(1, 0);

    /// Waits of ended threads; the row is removed when the process is freed.
    #[map]
    static THREAD_WAITS: HashMap<Owner, EndedWaits> = HashMap::with_max_entries(4096, 0);

    /// Exit records of processes whose final record is still to come. Few at a time, so rows are
    /// allocated on demand.
    #[map]
    static EXIT_RECORDS: HashMap<Owner, ExitRecord> =
        HashMap::with_max_entries(4096, BPF_F_NO_PREALLOC);

    /// Peaks, in pages, of processes at their first exec: those inherited from their parents. Few
    /// at a time, as above.
    #[map]
    static INHERITED_PEAKS: HashMap<Owner, u64> =
        HashMap::with_max_entries(4096, BPF_F_NO_PREALLOC);

    /// Set by the loader: the processes that `released` reads, up to the first that is zero.
    #[map]
    static RELEASED_OWNERS: Array<Owner> = Array::with_max_entries(RELEASED_AT_ONCE, 0);

    /// Determines the per-CPU offsets of resident page counts; runs once.
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
            let record = ForkRecord {
                kind: KIND_FORK,
                zero: 0,
                parent: parent.owner(),
                child: child.owner(),
            };
            emit(|slot| *slot = record);
        }
        0
    }

    #[unsafe(no_mangle)]
    #[unsafe(link_section = "tp_btf/sched_process_exec")]
    fn exec(&[changed, old_tid, program]: &[u64; 3]) -> i32 {
        let Some(task) = Task::from_argument(changed) else { return 0 };
        // The third argument is a `struct linux_binprm *`.
        let path: *const u8 = load(program as *const u8, constant!(PROGRAM.filename));
        let owner = task.owner();
        debug!((), "exec in process {}", owner.tgid);
        if old_tid as u32 != owner.tgid {
            keep_waits_of_old_leader(owner);
        }
        if INHERITED_PEAKS.insert(owner, task.max_rss_pages(), BPF_NOEXIST.into()) == Err(E2BIG) {
            loss::table_full();
        }
        emit::<ExecRecord>(|slot| {
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
        let is_last = task.group_is_dead();
        if !task.is_leader() || !is_last {
            save_waits(task); // A leader that is the last can be read when it is freed.
        }
        if is_last {
            save_exit_record(task);
        }
        0
    }

    #[inline(always)]
    fn save_waits(task: Task) {
        let owner = task.owner();
        let tails = ThreadTails { base_ns: tails_base_ns(task, owner), ..ThreadTails::NONE };
        let first = EndedWaits { tails, ..EndedWaits::NONE };
        let Some(row) = table::row_like(&THREAD_WAITS, &owner, &first) else {
            return loss::table_full();
        };
        // SAFETY: the row lives until the process is freed.
        let EndedWaits { threads, leader, ended_threads, .. } = unsafe { &mut *row };
        let (run_delay_ns, run_count) = (task.run_delay_ns(), task.run_count());
        if task.is_leader() {
            *leader = ThreadWaits { run_delay_ns, run_count };
            return;
        }
        // Two threads of one process may exit on two CPUs at once.
        atomic::add(&mut threads.run_delay_ns, run_delay_ns);
        atomic::add(&mut threads.run_count, run_count);
        atomic::add(ended_threads, 1);
    }

    /// What the kernel has added up before this thread ends, if all that is freed later ends later.
    #[inline(always)]
    fn tails_base_ns(task: Task, owner: Owner) -> u64 {
        let attached = ATTACHED_NS.get(0).copied().unwrap_or(0);
        // SAFETY: the helper has no arguments.
        let now = unsafe { bpf_ktime_get_boot_ns() };
        let is_younger = owner.start_boottime_ns >= attached;
        if attached != 0 && (is_younger || now >= attached + FREED_WITHIN_NS) {
            task.group_exec_ns()
        } else {
            ThreadTails::UNKNOWN
        }
    }

    /// A thread is freed: its CPU time is complete. What the kernel has added is read after what
    /// freed threads have, so each of these is in it.
    #[inline(always)]
    fn add_tail(thread: Task) {
        // Absent if the process is freed already: the kernel may do that in any order.
        let Some(row) = THREAD_WAITS.get_ptr_mut(thread.owner()) else { return };
        // SAFETY: the row lives until the process is freed.
        let ThreadTails { base_ns, freed_ns, missing_ns } = unsafe { &mut (*row).tails };
        atomic::add(freed_ns, thread.exec_ns());
        // SAFETY: a number, which the other CPUs may add to.
        let freed = unsafe { (&raw const *freed_ns).read_volatile() };
        let added = thread.group_exec_ns().saturating_sub(*base_ns);
        let missing = freed.saturating_sub(added);
        if *base_ns != ThreadTails::UNKNOWN && missing > *missing_ns {
            *missing_ns = missing;
        }
    }

    /// A thread that executes a program takes the place of the leader, whose task is released.
    #[inline(always)]
    fn keep_waits_of_old_leader(owner: Owner) {
        // Absent if the leader ended before the hook was attached.
        let Some(row) = THREAD_WAITS.get_ptr_mut(owner) else { return };
        // SAFETY: the row lives until the process is freed, which has this one thread now.
        let EndedWaits { threads, leader, ended_threads, .. } = unsafe { &mut *row };
        *ended_threads += 1;
        threads.run_delay_ns += leader.run_delay_ns;
        threads.run_count += leader.run_count;
        *leader = ThreadWaits::NONE;
    }

    /// Saves an exit record, because the final record can be lost: to a full ring, or where no
    /// program may run.
    #[inline(always)]
    fn save_exit_record(task: Task) {
        let leader = task.leader();
        let owner = leader.owner();
        // A process exits once; if this fails, there is no exit record.
        let _ = EXIT_RECORDS.insert(owner, &ExitRecord::ZERO, 0);
        let Some(row) = EXIT_RECORDS.get_ptr_mut(owner) else { return loss::table_full() };
        // SAFETY: the row lives until the process is freed, and no other program writes it.
        let end = unsafe { &mut *row };
        fill(end, leader, &EndedWaits::NONE);
        end.leader = leader.as_ptr() as u64;
        end.kind = KIND_EXIT;
        end.max_rss_pages = own_peak(task, owner);
        if !task.is_leader() {
            end.process.dead.add(&task.sums());
        }
    }

    /// Peak of its programs. The kernel's peak starts with that of the process it was forked from;
    /// if that was larger, the memory of the last program is read, which still exists at this hook
    /// since
    /// 6.16.
    #[inline(always)]
    fn own_peak(task: Task, owner: Owner) -> u64 {
        let peak = task.max_rss_pages();
        // SAFETY: a number.
        let inherited = INHERITED_PEAKS.get_ptr(owner).map_or(0, |row| unsafe { *row });
        if peak > inherited { peak } else { task.resident_pages().unwrap_or(peak) }
    }

    #[unsafe(no_mangle)]
    #[unsafe(link_section = "tp_btf/sched_process_free")]
    fn free(&[freed]: &[u64; 1]) -> i32 {
        let Some(task) = Task::from_argument(freed) else { return 0 };
        if task.is_leader() {
            let owner = task.leader().owner();
            // SAFETY: a row is plain integers, and no thread of a freed process can change it.
            let waited =
                THREAD_WAITS.get_ptr(owner).map_or(EndedWaits::NONE, |row| unsafe { *row });
            debug!((), "end of process {}", owner.tgid);
            let peak = end_release(owner);
            let is_sent = emit(|slot| {
                fill(slot, task, &waited);
                slot.max_rss_pages = peak.unwrap_or(slot.max_rss_pages);
            });
            // A process that never ended a thread, or never executed a program, has no row.
            let _ = THREAD_WAITS.remove(owner);
            let _ = INHERITED_PEAKS.remove(owner);
            if is_sent {
                // Absent if it exited before the hook was attached.
                let _ = EXIT_RECORDS.remove(owner);
            }
        } else {
            add_tail(task);
        }
        0
    }

    /// Forgets the address of a leader, which is about to be freed, and returns its peak; there is
    /// no row if it exited before the hook was attached.
    #[inline(always)]
    fn end_release(owner: Owner) -> Option<u64> {
        let row = EXIT_RECORDS.get_ptr_mut(owner)?;
        // SAFETY: a row is plain integers, and no other program writes it any more.
        let end = unsafe { &mut *row };
        end.leader = 0;
        Some(end.max_rss_pages)
    }

    /// The final sums of the named processes that the kernel has removed from its lists and not
    /// freed yet. An iteration is how a program runs on request; the tasks are not read.
    #[unsafe(no_mangle)]
    #[unsafe(link_section = "iter/task")]
    fn released(step: &Step) -> i32 {
        if step.meta.seq_num != 0 {
            return 0;
        }
        for place in 0..RELEASED_AT_ONCE {
            let Some(owner) = RELEASED_OWNERS.get(place).copied() else { break };
            if owner.start_boottime_ns == 0 {
                break;
            }
            write_released(step.meta, owner);
        }
        0
    }

    #[inline(always)]
    fn write_released(stream: &Meta, owner: Owner) {
        let Some(leader) = leader_of(owner) else { return };
        if let Some((sums, waited)) = Released::new(leader, owner).and_then(Released::totals)
            && leader_of(owner) == Some(leader)
        {
            stream.write(&ReleasedRecord { owner, sums, waited });
        }
    }

    /// The address of a leader that is not freed yet.
    #[inline(always)]
    fn leader_of(owner: Owner) -> Option<u64> {
        let row = EXIT_RECORDS.get_ptr(owner)?;
        // SAFETY: a pointer into the map, which lives as long as the program.
        let leader = unsafe { &raw const (*row).leader };
        // SAFETY: a number, which the hook may write meanwhile.
        Some(unsafe { leader.read_volatile() })
    }

    #[inline(always)]
    fn fill(end: &mut ExitRecord, task: Task, ended: &EndedWaits) {
        end.kind = KIND_FREE;
        end.zero = 0;
        end.leader = 0;
        // SAFETY: the helper has no arguments.
        end.at_boottime_ns = unsafe { bpf_ktime_get_boot_ns() };
        end.max_rss_pages = task.max_rss_pages();
        end.waited = ended.threads;
        end.ended_threads = ended.ended_threads;
        end.missing_ns = ended.tails.missing_ns;
        task.read_thread(&mut end.process.leader);
        task.read_group(task.parts(), &mut end.process);
        end.process.clear_memory();
    }

    /// Writes a record to the ring, and wakes the reader when a quarter of the ring is used;
    /// otherwise the reader reads at its next tick.
    #[inline(always)]
    fn emit<T: 'static>(fill: impl FnOnce(&mut T)) -> bool {
        loss::event();
        let Some(mut slot) = LIFECYCLE.reserve::<T>(0) else {
            loss::ring_full();
            return false;
        };
        // SAFETY: `fill` writes every member before anything reads the record.
        fill(unsafe { &mut *slot.as_mut_ptr() });
        slot.submit(ring::wake_flags(&LIFECYCLE));
        true
    }

    monitor_ebpf::object!();
}
