//! One BPF object: loaded independently, its programs attached one by one.
//!
//! In: the embedded object and the running kernel. Out: maps, rings and counts of losses.
//! A program that cannot be attached disables only its object's capability.

use crate::fdinfo;
use crate::kernel::{Constant, Kernel, MapSize};
use aya::maps::{Array, HashMap as Table, MapData, MapError, PerCpuArray, RingBuf};
use aya::programs::tp_btf::BtfTracePointLinkId;
use aya::programs::{BtfTracePoint, Program, ProgramError};
use aya::{Btf, Ebpf, EbpfError, Pod};
use aya_log::EbpfLogger;
use monitor_backend::Error;
use monitor_ebpf::abi::loss::{self, Loss};
use monitor_model::Health;
use rustix::io::Errno;
use std::{cell::RefCell, collections::BTreeMap, os::fd::AsFd};
use zerocopy::{FromBytes, IntoBytes};

include!(concat!(env!("OUT_DIR"), "/objects.rs"));

/// Wrapper of a shared record for aya's typed maps.
#[derive(Clone, Copy, Debug, Default)]
#[repr(transparent)]
pub struct Record<T>(pub T);

// SAFETY: zerocopy's derives prove that `T` is plain bytes without padding.
#[allow(unsafe_code, reason = "aya's marker trait for what zerocopy has already proved")]
unsafe impl<T: Plain> Pod for Record<T> {}

/// What a shared record is: bytes that may be copied.
pub trait Plain: Copy + 'static + FromBytes + IntoBytes {}
impl<T: Copy + 'static + FromBytes + IntoBytes> Plain for T {}

/// A loaded object.
pub struct Object {
    /// Name of the object.
    pub name: &'static str,
    /// Its programs and maps, for uses of a single capability.
    pub ebpf: Ebpf,
    /// The hooks that its programs are attached to.
    pub hooks: Vec<String>,
    /// Why it does not use the best hooks, if so.
    pub fallback: Option<Fallback>,
    /// Memory of the rings taken from it.
    pub ring_bytes: u64,
    diagnostics: RefCell<Option<EbpfLogger<&'static dyn log::Log>>>,
}

/// Other hooks than the best ones, which count less exactly.
pub struct Fallback {
    /// What they miss.
    pub misses: &'static str,
    /// Why the kernel refused better ones.
    pub refused: String,
}

impl Fallback {
    /// As the health of a capability.
    pub fn health(&self) -> Health {
        Health::Fallback { why: format!("{}; {}", self.misses, self.refused), exact: false }
    }
}

impl Object {
    /// Loads an object; nothing is attached yet.
    pub fn load(
        name: &'static str,
        kernel: &Kernel,
        constants: &[Constant],
        sizes: &[MapSize],
    ) -> Result<Self, Error> {
        let loaded = kernel.load(Self::bytes(name)?, constants, sizes);
        let mut ebpf = loaded.map_err(|error| refused_object(name, error))?;
        // An object without diagnostics has no such ring.
        let diagnostics =
            (kernel.log_level > 0).then(|| EbpfLogger::init(&mut ebpf).ok()).flatten().into();
        Ok(Self { name, ebpf, hooks: Vec::new(), ring_bytes: 0, fallback: None, diagnostics })
    }

    /// The bytes of an object.
    pub fn bytes(name: &'static str) -> Result<&'static [u8], Error> {
        let bytes = OBJECTS.iter().find(|(other, _)| *other == name).map(|(_, bytes)| *bytes);
        bytes.ok_or_else(|| {
            Error::unsupported(
                format!("the {name} program"),
                "this build has no such object",
                "run `cargo xtask build-ebpf` and build again",
            )
        })
    }

    /// Writes the programs' diagnostics to the log.
    pub fn flush_diagnostics(&self) {
        if let Some(diagnostics) = &mut *self.diagnostics.borrow_mut() {
            diagnostics.flush();
        }
    }

    /// Has the kernel verify programs for typed tracepoints and uprobes, all at the same time. One
    /// that it refuses is refused again when it is attached.
    pub fn verify(&mut self, programs: &BTreeMap<&str, Option<&str>>, types: &Btf) {
        std::thread::scope(|scope| {
            for (name, program) in self.ebpf.programs_mut() {
                if let Some(tracepoint) = programs.get(name) {
                    let _ = scope.spawn(move || verify(program, *tracepoint, types));
                }
            }
        });
    }

    /// Whether the kernel has verified a program.
    pub fn is_verified(&self, program: &str) -> bool {
        self.ebpf.program(program).is_some_and(|program| program.fd().is_ok())
    }

    /// Attaches a program to a typed tracepoint.
    pub fn attach(
        &mut self,
        program: &str,
        tracepoint: &str,
        types: &Btf,
    ) -> Result<BtfTracePointLinkId, Error> {
        let found: &mut BtfTracePoint = self.program(program)?;
        let loaded = found.load(tracepoint, types);
        loaded.map_err(|error| refused_program(tracepoint, error))?;
        self.attach_verified(program, tracepoint)
    }

    /// Attaches a program that was verified for a typed tracepoint.
    pub fn attach_verified(
        &mut self,
        program: &str,
        tracepoint: &str,
    ) -> Result<BtfTracePointLinkId, Error> {
        let found: &mut BtfTracePoint = self.program(program)?;
        let attached = found.attach().map_err(|error| refused_program(tracepoint, error))?;
        self.hooks.push(hook_name(tracepoint));
        Ok(attached)
    }

    /// Detaches a program from a typed tracepoint; it stays verified.
    pub fn detach(&mut self, program: &str, tracepoint: &str, link: BtfTracePointLinkId) {
        let hook = hook_name(tracepoint);
        if let Some(place) = self.hooks.iter().position(|it| *it == hook) {
            let _hook = self.hooks.remove(place);
        }
        let found = self.program::<BtfTracePoint>(program);
        // Closing the link cannot fail.
        let _detached = found.map(|program| program.detach(link));
    }

    /// Adds a hook that was not attached by [`Object::attach`], unless it was refused.
    pub fn add_attached(
        &mut self,
        hook: impl Into<String>,
        attached: Result<(), ProgramError>,
    ) -> Result<(), Error> {
        let hook = hook.into();
        attached.map_err(|error| refused_program(&hook, error))?;
        self.hooks.push(hook);
        Ok(())
    }

    /// Attaches the first of these programs that this kernel accepts. The error is that of the last
    /// tracepoint that exists in this kernel.
    pub fn attach_first(&mut self, choices: &[(&str, &str)], types: &Btf) -> Result<(), Error> {
        let mut outcome = Ok(());
        for (program, tracepoint) in choices {
            match self.attach(program, tracepoint, types) {
                Ok(_link) => return Ok(()),
                Err(error) if outcome.is_ok() || !is_absence(&error) => outcome = Err(error),
                Err(_) => {}
            }
        }
        outcome
    }

    /// The only element of one of its arrays.
    pub fn number(&self, map: &str) -> u64 {
        let array = self.ebpf.map(map).and_then(|map| Array::<_, u64>::try_from(map).ok());
        array.and_then(|array| array.get(&0, 0).ok()).unwrap_or(0)
    }

    /// Sets the only element of one of its arrays.
    pub fn set_number(&mut self, map: &str, value: u64) -> Result<(), Error> {
        let error = self.no_map(map);
        let array = self.ebpf.map_mut(map).and_then(|map| Array::<_, u64>::try_from(map).ok());
        array.and_then(|mut array| array.set(0, value, 0).ok()).ok_or(error)
    }

    /// Sets the first elements of one of its arrays, and the one after them, if any, to zero.
    pub fn set_list<T: Plain + Default>(
        &mut self,
        map: &str,
        elements: impl Iterator<Item = T>,
    ) -> Result<(), Error> {
        let error = self.no_map(map);
        let array =
            self.ebpf.map_mut(map).and_then(|map| Array::<_, Record<T>>::try_from(map).ok());
        let set = array.and_then(|mut array| {
            let mut all = (0..array.len()).zip(elements.chain(std::iter::once(T::default())));
            all.try_for_each(|(place, element)| array.set(place, Record(element), 0).ok())
        });
        set.ok_or(error)
    }

    /// Every row of one of its hash tables.
    pub fn rows<K: Plain, V: Plain>(&self, map: &str) -> Vec<(K, V)> {
        let table = |map| Table::<_, Record<K>, Record<V>>::try_from(map).ok();
        let Some(table) = self.ebpf.map(map).and_then(table) else { return Vec::new() };
        table.iter().flatten().map(|(Record(key), Record(value))| (key, value)).collect()
    }

    /// A row of one of its hash tables.
    pub fn row<K: Plain, V: Plain>(&self, map: &str, key: K) -> Option<V> {
        let table = Table::<_, Record<K>, Record<V>>::try_from(self.ebpf.map(map)?).ok()?;
        table.get(&Record(key), 0).ok().map(|Record(value)| value)
    }

    /// Inserts or replaces rows of one of its hash tables; rows that do not fit are skipped.
    pub fn set_rows<K: Plain, V: Plain>(&mut self, map: &str, rows: impl Iterator<Item = (K, V)>) {
        let table = |map| Table::<_, Record<K>, Record<V>>::try_from(map).ok();
        let Some(mut table) = self.ebpf.map_mut(map).and_then(table) else { return };
        for (key, value) in rows {
            let _ = table.insert(Record(key), Record(value), 0);
        }
    }

    /// Removes rows of one of its hash tables.
    pub fn remove_rows<K: Plain, V: Plain>(&mut self, map: &str, keys: impl Iterator<Item = K>) {
        let table = |map| Table::<_, Record<K>, Record<V>>::try_from(map).ok();
        let Some(mut table) = self.ebpf.map_mut(map).and_then(table) else { return };
        for key in keys {
            // It was just read, and only this code removes it.
            let _ = table.remove(&Record(key));
        }
    }

    /// One of its programs, by name.
    pub fn program<'a, P>(&'a mut self, name: &str) -> Result<&'a mut P, Error>
    where
        &'a mut P: TryFrom<&'a mut aya::programs::Program>,
    {
        let error = Error::malformed(
            format!("object {}", self.name),
            format!("a program {name} of the right type"),
        );
        let program = self.ebpf.program_mut(name);
        program.and_then(|it| it.try_into().ok()).ok_or(error)
    }

    /// Takes one of its ring buffers.
    pub fn ring(&mut self, map: &str) -> Result<RingBuf<MapData>, Error> {
        let error = self.no_map(map);
        let found = self.ebpf.take_map(map).and_then(|it| RingBuf::try_from(it).ok());
        let ring = found.ok_or(error)?;
        self.ring_bytes += fdinfo::memory(ring.as_fd());
        Ok(ring)
    }

    /// Losses and events of its programs, on all CPUs.
    pub fn loss(&self) -> Loss {
        let array = |map| PerCpuArray::<_, Record<Loss>>::try_from(map).ok();
        let values = self.ebpf.map(loss::MAP).and_then(array).and_then(|it| it.get(&0, 0).ok());
        let values = values.iter().flat_map(|values| values.iter());
        values.fold(Loss::default(), |sum, Record(cpu)| Loss {
            ring_full: sum.ring_full + cpu.ring_full,
            table_full: sum.table_full + cpu.table_full,
            events: sum.events + cpu.events,
        })
    }

    /// The error for a missing map.
    pub fn no_map(&self, map: &str) -> Error {
        Error::malformed(format!("object {}", self.name), format!("a map {map} of the right type"))
    }
}

/// The name of a typed tracepoint as a hook.
fn hook_name(tracepoint: &str) -> String {
    format!("tp_btf/{tracepoint}")
}

/// Loads a program into the kernel; its tracepoint if it is for one.
fn verify(program: &mut Program, tracepoint: Option<&str>, types: &Btf) {
    let loaded = match (program, tracepoint) {
        (Program::BtfTracePoint(it), Some(tracepoint)) => it.load(tracepoint, types),
        (Program::UProbe(it), None) => it.load(),
        _ => return,
    };
    if let Err(error) = loaded {
        tracing::debug!(%error, "a program was refused before it was attached");
    }
}

/// Reason for a hook that this kernel lacks.
const ABSENT_HOOK: &str = "this kernel does not have it";

/// Whether an error means that the hook does not exist, not that it was refused.
fn is_absence(error: &Error) -> bool {
    matches!(error, Error::Unsupported { why, .. } if why == ABSENT_HOOK)
}

/// The error for an object that the kernel refused.
fn refused_object(name: &str, error: EbpfError) -> Error {
    match &error {
        // The error for a map type that the kernel does not know.
        EbpfError::MapError(MapError::CreateError { io_error, name: map })
            if Errno::from_io_error(io_error) == Some(Errno::INVAL) =>
        {
            Error::unsupported(
                format!("the {name} program"),
                format!("this kernel lacks the map type of {map}"),
                "use a newer kernel",
            )
        }
        EbpfError::MapError(MapError::CreateError { io_error, .. }) => {
            refused(&format!("the {name} program"), io_error, &error.to_string())
        }
        _ => refused_otherwise(name, &error.to_string()),
    }
}

/// The error for a program that the kernel refused at a hook.
pub fn refused_program(hook: &str, error: ProgramError) -> Error {
    match &error {
        // With a log the verifier checked the program, so privilege is not the reason.
        ProgramError::LoadError { io_error, verifier_log } => match verifier_log.to_string() {
            log if log.is_empty() => refused(hook, io_error, "no reason given"),
            log => {
                tracing::debug!(hook, log, "the verifier refused a program");
                refused_otherwise(hook, &log)
            }
        },
        ProgramError::SyscallError(call) => refused(hook, &call.io_error, call.call),
        ProgramError::Btf(_) => Error::unsupported(hook, ABSENT_HOOK, "use a newer kernel"),
        _ => refused_otherwise(hook, &error.to_string()),
    }
}

/// The error for a call that the kernel refused.
pub fn refused(what: &str, io_error: &std::io::Error, detail: &str) -> Error {
    match Errno::from_io_error(io_error) {
        Some(Errno::PERM | Errno::ACCESS) => {
            Error::Denied { what: what.into(), need: "CAP_BPF and CAP_PERFMON".into() }
        }
        _ => refused_otherwise(what, &format!("{io_error} ({detail})")),
    }
}

fn refused_otherwise(what: &str, why: &str) -> Error {
    // 5.10 reports later helpers by number, not by name.
    if why.contains("unknown func") || why.contains("invalid func unknown") {
        return Error::unsupported(
            what,
            format!("this kernel lacks a helper that it calls: {}", last_line(why)),
            "use a newer kernel",
        );
    }
    Error::unsupported(
        what,
        format!("the kernel refused it: {}", last_line(why)),
        "report it with the kernel's release",
    )
}

/// The last meaningful line of a verifier log.
pub fn last_line(log: &str) -> String {
    /// Prefixes of the statistics that end every log.
    const STATISTICS: [&str; 3] = ["processed ", "stack depth ", "verification time "];
    let is_message = |line: &&str| {
        !line.trim().is_empty() && !STATISTICS.iter().any(|begin| line.starts_with(begin))
    };
    log.lines().rev().find(is_message).unwrap_or("no reason given").trim().to_owned()
}
