//! Profiles of library calls: counts and times of the functions that user space probes.
//!
//! Four programs: at the first instruction of a function, at its return instructions, at its jumps
//! to other functions, which return in its place at a time that is not seen, and at the kernel's
//! trampoline, to which a call returns whose return address the kernel has replaced. The cookie
//! says which function of which process (`abi::call_profile`). Functions of a library call each
//! other; only the outermost call of a thread is counted, so that times can be added up.
#![cfg_attr(target_arch = "bpf", no_std, no_main)]
#![allow(unsafe_code, reason = "a BPF program reads kernel memory; the verifier proves each read")]

#[cfg(not(target_arch = "bpf"))]
fn main() {}

#[cfg(target_arch = "bpf")]
mod program {
    use aya_ebpf::helpers::generated::{bpf_get_attach_cookie, bpf_ktime_get_boot_ns};
    use aya_ebpf::helpers::{bpf_get_current_pid_tgid, bpf_probe_read_user};
    use aya_ebpf::macros::map;
    use aya_ebpf::maps::{Array, HashMap};
    use monitor_ebpf::abi::call_profile::{
        BY_TRAMPOLINE, CallSite, CallSums, MAX_FUNCTIONS, MAX_PROCESSES, MAX_SITES, MAX_THREADS,
        NO_ARGUMENT, NOT_TIMED, OpenCall, ProbeOwner, ProfiledFunction,
    };
    use monitor_ebpf::kernel::{atomic, load, loss, probe, table, x86_registers};

    #[map]
    static FUNCTIONS: Array<ProfiledFunction> = Array::with_max_entries(MAX_FUNCTIONS, 0);
    #[map]
    static GENERATIONS: Array<u32> = Array::with_max_entries(MAX_PROCESSES, 0);
    #[map]
    static SITES: HashMap<CallSite, CallSums> = HashMap::with_max_entries(MAX_SITES, 0);
    #[map]
    static OPEN_CALLS: HashMap<u32, OpenCall> = HashMap::with_max_entries(MAX_THREADS, 0);

    /// The registers of a probed call.
    type Registers = *const u8;

    /// Attempts to update a maximum: each but the first was disturbed by another CPU.
    const ATTEMPTS: usize = 4;
    /// Bytes of a return address on the stack.
    const WORD: u64 = 8;
    /// Bytes of a page.
    const PAGE: u64 = 4096;

    #[unsafe(no_mangle)]
    #[unsafe(link_section = "uprobe")]
    fn begin(registers: Registers) -> u32 {
        let Some((process, function)) = owner(registers) else { return 0 };
        let stack: u64 = load(registers, x86_registers::SP);
        let Some(open) = table::row(&OPEN_CALLS, &thread()) else {
            loss::table_full();
            return 0;
        };
        // SAFETY: a row lives as long as the map, and only its thread writes it.
        let open = unsafe { &mut *open };
        // One whose ends are no longer probed has ended, for all that is known.
        let before = if open.since_ns == 0 { NOT_TIMED } else { ends(open.site.function) };
        if before != NOT_TIMED {
            if is_within(open, stack, before) {
                return 0;
            }
            if let Some(sums) = sums(&open.site) {
                atomic::add(&mut sums.left, 1);
            }
        }
        let (element_type, elements) = elements(registers, function);
        let site = CallSite { process, function, return_address: word_at(stack), element_type };
        (open.site, open.stack, open.since_ns) = (site, stack, 0);
        let Some(sums) = sums(&site) else {
            loss::table_full();
            return 0;
        };
        atomic::add(&mut sums.calls, 1);
        atomic::add(&mut sums.elements, elements);
        if ends(function) != NOT_TIMED {
            open.since_ns = now_ns();
        }
        0
    }

    /// Whether a call is within the last one of its thread, which has not ended: the return address
    /// of that is still there, or the trampoline. That is the beginning of a page, which the return
    /// address of a call is not: in front of it is the call. A function to which another one has
    /// jumped finds the trampoline as its return address.
    #[inline(always)]
    fn is_within(open: &OpenCall, stack: u64, ends: u8) -> bool {
        let word = word_at(open.stack);
        match ends {
            BY_TRAMPOLINE => stack <= open.stack && word != 0 && word.is_multiple_of(PAGE),
            _ => stack < open.stack && word == open.site.return_address,
        }
    }

    /// At a return instruction.
    #[unsafe(no_mangle)]
    #[unsafe(link_section = "uprobe")]
    fn end(registers: Registers) -> u32 {
        let now_ns = now_ns();
        add_time(ended(registers, load(registers, x86_registers::SP)), now_ns)
    }

    /// At the trampoline: the return address is not on the stack any more.
    #[unsafe(no_mangle)]
    #[unsafe(link_section = "uprobe")]
    fn returned(registers: Registers) -> u32 {
        let now_ns = now_ns();
        let stack: u64 = load(registers, x86_registers::SP);
        add_time(ended(registers, stack.wrapping_sub(WORD)), now_ns)
    }

    #[inline(always)]
    fn add_time(open: Option<&'static mut OpenCall>, now_ns: u64) -> u32 {
        let Some(open) = open else { return 0 };
        let time_ns = now_ns.wrapping_sub(open.since_ns);
        open.since_ns = 0;
        if let Some(sums) = sums(&open.site) {
            atomic::add(&mut sums.ended, 1);
            atomic::add(&mut sums.time_ns, time_ns);
            raise(&mut sums.max_ns, time_ns);
        }
        0
    }

    /// At a jump to another function.
    #[unsafe(no_mangle)]
    #[unsafe(link_section = "uprobe")]
    fn jump(registers: Registers) -> u32 {
        let stack: u64 = load(registers, x86_registers::SP);
        let Some(open) = ended(registers, stack) else { return 0 };
        open.since_ns = 0;
        if let Some(sums) = sums(&open.site) {
            atomic::add(&mut sums.left, 1);
        }
        0
    }

    /// The call whose return address is at this address of the stack and that ends at a probe;
    /// `None` if it is one within another call, or one that began before it was watched.
    #[inline(always)]
    fn ended(registers: Registers, stack: u64) -> Option<&'static mut OpenCall> {
        let (process, function) = owner(registers)?;
        // The row of a thread that had none keeps user space from inserting the call that ends. If
        // there is no room, its start was counted as lost.
        let open = table::row(&OPEN_CALLS, &thread())?;
        // SAFETY: a row lives as long as the map, and only its thread writes it.
        let open = unsafe { &mut *open };
        let is_it = open.stack == stack
            && open.site.process == process
            && open.site.function == function
            && open.since_ns != 0;
        is_it.then_some(open)
    }

    /// The process and the function of a probe; `None` if probes of its generation do not count.
    #[inline(always)]
    fn owner(registers: Registers) -> Option<(u32, u32)> {
        // SAFETY: the helper takes what the program was called with.
        let cookie = unsafe { bpf_get_attach_cookie(registers.cast_mut().cast()) };
        let ProbeOwner { process, generation, function } = ProbeOwner::of_cookie(cookie);
        let counts = GENERATIONS.get(process).is_some_and(|it| *it == generation);
        counts.then_some((process, function))
    }

    #[inline(always)]
    fn thread() -> u32 {
        bpf_get_current_pid_tgid() as u32
    }

    #[inline(always)]
    fn now_ns() -> u64 {
        // SAFETY: the helper has no arguments.
        unsafe { bpf_ktime_get_boot_ns() }
    }

    #[inline(always)]
    fn word_at(address: u64) -> u64 {
        // SAFETY: the helper checks the address.
        unsafe { bpf_probe_read_user(address as *const u64) }.unwrap_or(0)
    }

    #[inline(always)]
    fn sums(site: &CallSite) -> Option<&'static mut CallSums> {
        // SAFETY: a row lives as long as the map; its words are changed atomically.
        table::row(&SITES, site).map(|sums| unsafe { &mut *sums })
    }

    #[inline(always)]
    fn described(function: u32) -> Option<ProfiledFunction> {
        FUNCTIONS.get(function).copied()
    }

    #[inline(always)]
    fn ends(function: u32) -> u8 {
        described(function).map_or(NOT_TIMED, |it| it.ends)
    }

    /// The type of the elements that the call transfers, and their number, an `int`.
    #[inline(always)]
    fn elements(registers: Registers, function: u32) -> (u64, u64) {
        let Some(it) = described(function).filter(|it| it.count_argument != NO_ARGUMENT) else {
            return (0, 0);
        };
        let count = argument(registers, it.count_argument) as i32;
        let count = if count < 0 { 0 } else { count as u64 };
        (argument(registers, it.type_argument), count)
    }

    /// An argument by its index.
    #[inline(always)]
    fn argument(registers: Registers, index: u8) -> u64 {
        let [a, b, c, d, e, f] = x86_registers::ARGUMENTS;
        let offset = match index {
            0 => a,
            1 => b,
            2 => c,
            3 => d,
            4 => e,
            _ => f,
        };
        probe(registers, offset)
    }

    /// Stores a value if it is larger.
    #[inline(always)]
    fn raise(maximum: &mut u64, mut value: u64) {
        for _ in 0..ATTEMPTS {
            // SAFETY: a reference is valid; another CPU may have changed the number.
            let now = unsafe { core::ptr::read_volatile(maximum) };
            if value <= now {
                return;
            }
            // What another CPU stored meanwhile may be larger: then it is put back.
            value = atomic::exchange(maximum, value);
            if value == now {
                return;
            }
        }
    }

    monitor_ebpf::object!();
}
