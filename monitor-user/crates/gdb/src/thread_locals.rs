//! The addresses of thread-local variables, from the tables of glibc.
//!
//! ```text
//!  fs_base -> struct pthread -> dtv[module] -> block of the module --- + offset --> variable
//!  link map -> number of the module              \--> no block: fs_base - offset of static storage
//! ```
//!
//! In: `qSymbol`, with which gdb looks up the symbols of nptl_db/structs.def, and `qGetTLSAddr`.
//! Out: an address. Each `_thread_db_…` describes a member of a structure of glibc by its numbers:
//! bits of an element, number of elements, offset. The walk is that of nptl_db/td_thr_tlsbase.c,
//! and so are the failures. A program of another C library has none of the symbols.

use crate::packet::{from_hex, hex_number};
use crate::session::CallError;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The symbols that gdb is asked for. The first is in every glibc: a program without it is not
/// asked for the others.
const SYMBOLS: &[&str] = &[
    MODULE,
    STATIC_OFFSET,
    VECTOR,
    ENTRY,
    COUNTER,
    POINTER,
    LIST_LENGTH,
    LIST_NEXT,
    SLOT,
    SLOT_GENERATION,
    SHARED_LIST,
    SHARED_LIST_MEMBER,
    STATIC_LIST,
    STATIC_LIST_MEMBER,
];
const MODULE: &str = "_thread_db_link_map_l_tls_modid";
const STATIC_OFFSET: &str = "_thread_db_link_map_l_tls_offset";
const VECTOR: &str = "_thread_db_pthread_dtvp";
const ENTRY: &str = "_thread_db_dtv_dtv";
const COUNTER: &str = "_thread_db_dtv_t_counter";
const POINTER: &str = "_thread_db_dtv_t_pointer_val";
const LIST_LENGTH: &str = "_thread_db_dtv_slotinfo_list_len";
const LIST_NEXT: &str = "_thread_db_dtv_slotinfo_list_next";
const SLOT: &str = "_thread_db_dtv_slotinfo_list_slotinfo";
const SLOT_GENERATION: &str = "_thread_db_dtv_slotinfo_gen";
/// The list of modules, in the dynamic loader, and where a program is linked statically.
const SHARED_LIST: &str = "_rtld_global";
const SHARED_LIST_MEMBER: &str = "_thread_db_rtld_global__dl_tls_dtv_slotinfo_list";
const STATIC_LIST: &str = "_dl_tls_dtv_slotinfo_list";
const STATIC_LIST_MEMBER: &str = "_thread_db__dl_tls_dtv_slotinfo_list";

/// Bytes of a description: three numbers of 32 bits.
const DESCRIPTION_BYTES: usize = 12;
/// Most parts of the list of modules, which a program may have damaged.
const MAX_LISTS: usize = 1000;
/// `l_tls_offset` of a module without static storage, and of one that must not use it.
const NO_STATIC: [u64; 2] = [0, u64::MAX];

/// What gdb has answered.
#[derive(Debug, Default)]
pub struct ThreadLocals {
    symbols: BTreeMap<&'static str, u64>,
    members: BTreeMap<&'static str, Member>,
    /// The index of the next symbol to ask for.
    next: usize,
}

/// A member of a structure of glibc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Member {
    bytes: u64,
    offset: u64,
}

/// Why a variable has no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NoAddress {
    /// The tables are unknown or cannot be read.
    Unknown,
    /// The thread has not allocated the storage of the module yet.
    NotAllocated,
    /// The module has no thread-local variables.
    NoVariables,
}

/// Either failure of a look-up: the one that gdb gets, or the end of the session.
enum Failure {
    Answer(NoAddress),
    Lost(CallError),
}

impl From<NoAddress> for Failure {
    fn from(why: NoAddress) -> Self {
        Self::Answer(why)
    }
}

impl ThreadLocals {
    /// Answers `qSymbol:VALUE:NAME`, which begins with both empty: asks for the next symbol.
    pub fn symbol(&mut self, answer: &str) -> Vec<u8> {
        match answer.split_once(':') {
            Some(("", "")) | None => self.next = 0,
            Some((value, name)) => self.add(hex_number(value), name),
        }
        while let Some(name) = SYMBOLS.get(self.next) {
            self.next += 1;
            if !self.symbols.contains_key(name) {
                return ask(name);
            }
        }
        b"OK".to_vec()
    }

    fn add(&mut self, value: Option<u64>, name: &str) {
        let is_named = |own: &&&str| from_hex(name).is_some_and(|it| it == own.as_bytes());
        let known = SYMBOLS.iter().find(is_named);
        match known.zip(value) {
            Some((name, value)) => _ = self.symbols.insert(name, value),
            None if known == Some(&MODULE) => self.next = SYMBOLS.len(),
            None => {}
        }
    }
}

/// The packet that asks gdb for a symbol.
fn ask(name: &str) -> Vec<u8> {
    let mut packet = String::from("qSymbol:");
    for byte in name.bytes() {
        // Writing to a `String` cannot fail.
        let _ = write!(packet, "{byte:02x}");
    }
    packet.into_bytes()
}

/// Reads a number of bytes of the program; fewer, if a page is not mapped.
pub type ReadMemory<'r> = dyn FnMut(u64, usize) -> Result<Vec<u8>, CallError> + 'r;

/// A look-up for one thread.
struct Lookup<'l> {
    locals: &'l mut ThreadLocals,
    read: &'l mut ReadMemory<'l>,
}

/// The place in `qGetTLSAddr:THREAD,OFFSET,LINKMAP`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable {
    /// The thread id.
    pub tid: u32,
    /// The offset in the storage of the module.
    pub offset: u64,
    /// The `struct link_map` of the module; 0 is the program itself, if it is linked statically.
    pub link_map: u64,
}

impl Variable {
    /// Of the text behind the colon.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(',');
        let tid = parts.next().and_then(|it| it.rsplit('.').next())?;
        let tid = hex_number(tid.trim_start_matches('p')).and_then(|it| u32::try_from(it).ok())?;
        let mut number = || parts.next().and_then(hex_number);
        Some(Self { tid, offset: number()?, link_map: number()? })
    }
}

impl ThreadLocals {
    /// The address of a variable in the thread whose `struct pthread` is at an address, as the
    /// reply of `qGetTLSAddr`.
    ///
    /// # Errors
    /// If the session is lost.
    pub fn address<'l>(
        &'l mut self,
        pthread: u64,
        variable: Variable,
        read: &'l mut ReadMemory<'l>,
    ) -> Result<Vec<u8>, CallError> {
        match (Lookup { locals: self, read }).block(pthread, variable.link_map) {
            Ok(block) => Ok(format!("{:x}", block.wrapping_add(variable.offset)).into_bytes()),
            Err(Failure::Answer(why)) => Ok(format!("E{:02x}", why.code()).into_bytes()),
            Err(Failure::Lost(why)) => Err(why),
        }
    }
}

impl Lookup<'_> {
    /// Where the thread has the variables of a module.
    fn block(&mut self, pthread: u64, link_map: u64) -> Result<u64, Failure> {
        let module = match link_map {
            0 => 1,
            map => self.value(map, MODULE)?,
        };
        if module == 0 {
            return Err(NoAddress::NoVariables.into());
        }
        let vector = self.value(pthread, VECTOR)?;
        let entry = self.member(ENTRY)?;
        // A thread adapts its vector to new modules when it uses one of them.
        let own = self.value(vector.wrapping_add(entry.offset), COUNTER)?;
        if own >= self.generation(module)? {
            let at = vector.wrapping_add(entry.offset + module * entry.bytes);
            let block = self.value(at, POINTER)?;
            if block & 1 == 0 {
                return Ok(block);
            }
        }
        let offset = match link_map {
            0 => 0,
            map => self.value(map, STATIC_OFFSET)?,
        };
        match NO_STATIC.contains(&offset) {
            true => Err(NoAddress::NotAllocated.into()),
            false => Ok(pthread.wrapping_sub(offset)),
        }
    }

    /// The generation of the list of modules in which a module was added.
    fn generation(&mut self, module: u64) -> Result<u64, Failure> {
        let symbols = &self.locals.symbols;
        let (shared, fixed) = (symbols.get(SHARED_LIST), symbols.get(STATIC_LIST));
        let mut list = match (shared.copied(), fixed.copied()) {
            (Some(loader), _) => self.value(loader, SHARED_LIST_MEMBER)?,
            (None, Some(list)) => self.value(list, STATIC_LIST_MEMBER)?,
            (None, None) => return Err(NoAddress::Unknown.into()),
        };
        let mut before = 0;
        for _ in 0..MAX_LISTS {
            let length = self.value(list, LIST_LENGTH)?;
            if let Some(index) = module.checked_sub(before).filter(|it| *it < length) {
                let slot = self.member(SLOT)?;
                let slot = list.wrapping_add(slot.offset + index * slot.bytes);
                return self.value(slot, SLOT_GENERATION);
            }
            before += length;
            list = self.value(list, LIST_NEXT)?;
            if list == 0 {
                break;
            }
        }
        Err(NoAddress::Unknown.into())
    }

    /// The value of a member of the structure at an address.
    fn value(&mut self, at: u64, name: &'static str) -> Result<u64, Failure> {
        let member = self.member(name)?;
        let length = usize::try_from(member.bytes).ok().filter(|it| (1..=8).contains(it));
        let mut read = self.bytes(at.wrapping_add(member.offset), length.unwrap_or(0))?;
        read.resize(8, 0);
        Ok(read.try_into().map_or(0, u64::from_le_bytes))
    }

    /// The description of a member, which is read once.
    fn member(&mut self, name: &'static str) -> Result<Member, Failure> {
        if let Some(known) = self.locals.members.get(name) {
            return Ok(*known);
        }
        let at = *self.locals.symbols.get(name).ok_or(NoAddress::Unknown)?;
        let read = self.bytes(at, DESCRIPTION_BYTES)?;
        let member = Member::from_bytes(&read).ok_or(NoAddress::Unknown)?;
        let _none = self.locals.members.insert(name, member);
        Ok(member)
    }

    fn bytes(&mut self, at: u64, length: usize) -> Result<Vec<u8>, Failure> {
        match (self.read)(at, length) {
            Ok(read) if read.len() == length && length > 0 => Ok(read),
            Ok(_) | Err(CallError::Refused { .. }) => Err(NoAddress::Unknown.into()),
            Err(lost) => Err(Failure::Lost(lost)),
        }
    }
}

impl NoAddress {
    /// Its value in `td_err_e`.
    const fn code(self) -> u8 {
        match self {
            Self::Unknown => 1,
            Self::NotAllocated => 21,
            Self::NoVariables => 23,
        }
    }
}

impl Member {
    /// Of the three numbers in memory.
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let number = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
        let (bits, offset) = (number(0)?, number(8)?);
        bits.is_multiple_of(8).then(|| Self { bytes: (bits / 8).into(), offset: offset.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(reply: Vec<u8>) -> String {
        String::from_utf8(reply).unwrap()
    }

    /// The name that a packet asks for.
    fn asked(packet: &str) -> String {
        text(from_hex(packet.strip_prefix("qSymbol:").unwrap()).unwrap())
    }

    #[test]
    fn each_symbol_is_asked_for_until_it_is_known() {
        let mut locals = ThreadLocals::default();
        let mut packet = text(locals.symbol(":"));
        let mut names = Vec::new();
        while packet != "OK" {
            let name = packet["qSymbol:".len()..].to_owned();
            names.push(asked(&packet));
            let value = if names.len() == 2 { "" } else { "1000" };
            packet = text(locals.symbol(&format!("{value}:{name}")));
        }
        assert_eq!(names, SYMBOLS);
        assert_eq!(asked(&text(locals.symbol(":"))), SYMBOLS[1]);
    }

    #[test]
    fn a_program_of_another_c_library_is_asked_once() {
        let mut locals = ThreadLocals::default();
        let packet = text(locals.symbol(":"));
        assert_eq!(text(locals.symbol(&format!(":{}", &packet["qSymbol:".len()..]))), "OK");
    }

    #[test]
    fn a_member_has_whole_bytes() {
        let bytes = [64, 0, 0, 0, 1, 0, 0, 0, 0x10, 1, 0, 0];
        assert_eq!(Member::from_bytes(&bytes), Some(Member { bytes: 8, offset: 0x110 }));
        assert_eq!(Member::from_bytes(&[1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]), None);
        assert_eq!(Member::from_bytes(&bytes[..11]), None);
    }

    /// The address that is found in this memory, words by their address; the reply, else.
    fn found(words: &[(u64, u64)], link_map: u64) -> String {
        // Each member: its name, its offset, its bytes. A description is at 0x100 * its index.
        let members: &[(&str, u64, u64)] = &[
            (MODULE, 8, 8),
            (STATIC_OFFSET, 16, 8),
            (VECTOR, 8, 8),
            (ENTRY, 0, 16),
            (COUNTER, 0, 8),
            (POINTER, 0, 8),
            (LIST_LENGTH, 0, 8),
            (LIST_NEXT, 8, 8),
            (SLOT, 16, 16),
            (SLOT_GENERATION, 0, 8),
            (STATIC_LIST_MEMBER, 0, 8),
        ];
        let mut locals = ThreadLocals::default();
        let places = (1..).zip(members).map(|(index, member)| (member.0, index * 0x100));
        locals.symbols.extend(places.chain([(STATIC_LIST, 0x7000)]));
        let mut memory = BTreeMap::new();
        for (name, offset, bytes) in members {
            let at = locals.symbols[name];
            _ = memory.insert(at, [(1 << 32) | (bytes * 8), *offset]);
        }
        let mut read = |at: u64, length: usize| {
            let words = words.iter().find(|it| it.0 == at).map(|it| [it.1, 0]);
            let bytes = memory.get(&at).copied().or(words).map(|it| it.map(u64::to_le_bytes));
            Ok(bytes.map(|it| it.concat()[..length].to_vec()).unwrap_or_default())
        };
        let variable = Variable { tid: 1, offset: 4, link_map };
        text(locals.address(0x9000, variable, &mut read).unwrap())
    }

    /// A thread with the vector at 0x5000 of generation 3; a list of two modules and one of two
    /// more, of which module 2 is of generation 3 and module 3 of generation 4.
    const MEMORY: &[(u64, u64)] = &[
        (0x9008, 0x5000),
        (0x5000, 3),
        (0x5010, 0x6000),
        (0x5020, u64::MAX),
        (0x5030, 0x6100),
        (0x7000, 0x7100),
        (0x7100, 2),
        (0x7108, 0x7200),
        (0x7120, 0),
        (0x7200, 2),
        (0x7208, 0),
        (0x7210, 3),
        (0x7220, 4),
        // Link maps: of module 1, of module 2 with static storage, of 3 and 4, and of none.
        (0x8008, 1),
        (0x8108, 2),
        (0x8110, 0x40),
        (0x8208, 3),
        (0x8210, u64::MAX),
        (0x8308, 4),
        (0x8408, 0),
    ];

    #[test]
    fn a_variable_is_in_the_storage_of_its_module() {
        assert_eq!(found(MEMORY, 0x8000), "6004");
        assert_eq!(found(MEMORY, 0), "6004");
    }

    #[test]
    fn a_module_without_a_slot_may_have_static_storage() {
        assert_eq!(found(MEMORY, 0x8100), format!("{:x}", 0x9000 - 0x40 + 4));
        assert_eq!(found(MEMORY, 0x8200), "E15");
    }

    #[test]
    fn what_is_not_in_the_tables_has_no_address() {
        assert_eq!(found(MEMORY, 0x8300), "E01");
        assert_eq!(found(MEMORY, 0x8400), "E17");
        assert_eq!(found(&[], 0x8000), "E01");
    }

    #[test]
    fn a_variable_is_named_by_thread_offset_and_link_map() {
        let variable = Variable { tid: 0x12, offset: 0x10, link_map: 0x7f00 };
        assert_eq!(Variable::parse("p10.12,10,7f00"), Some(variable));
        assert_eq!(Variable::parse("12,10,7f00"), Some(variable));
        assert_eq!((Variable::parse("p10.12,10"), Variable::parse("")), (None, None));
    }
}
