//! Packets of the remote protocol as bytes: found in what gdb sends, made and amended for it.
//!
//! In: bytes as they arrive. Out: whole packets, acknowledgements, interrupts. Knows the frame
//! `$data#checksum` only ("Overview" of the remote protocol in gdb's manual).

/// What gdb sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A packet, with its frame.
    Packet(Vec<u8>),
    /// Anything between packets: acknowledgements.
    Other(u8),
    /// The interrupt, outside a packet.
    Interrupt,
}

/// The byte of an interrupt.
pub const INTERRUPT: u8 = 0x03;
/// Most bytes of a packet; longer ones are cut, and their checksum fails.
const MAX_PACKET: usize = 1 << 20;

/// Splits what arrives into items.
#[derive(Debug, Default)]
pub struct Splitter {
    packet: Vec<u8>,
    /// Bytes of the checksum that are missing, once its `#` was found.
    left: Option<usize>,
}

impl Splitter {
    /// Adds a byte; returns the item that it completes.
    pub fn add(&mut self, byte: u8) -> Option<Item> {
        if self.packet.is_empty() && byte != b'$' {
            return Some(if byte == INTERRUPT { Item::Interrupt } else { Item::Other(byte) });
        }
        if self.packet.len() < MAX_PACKET || self.left.is_some() {
            self.packet.push(byte);
        }
        self.left = match self.left {
            None => (byte == b'#').then_some(2),
            Some(left) => Some(left - 1),
        };
        (self.left == Some(0)).then(|| {
            self.left = None;
            Item::Packet(std::mem::take(&mut self.packet))
        })
    }
}

/// The data of a packet with its frame.
pub fn data(packet: &[u8]) -> &[u8] {
    let end = packet.len().saturating_sub(3);
    packet.get(1..end).unwrap_or_default()
}

/// A packet with these bytes, of which those with a meaning in frames are escaped.
pub fn framed(data: &[u8]) -> Vec<u8> {
    let mut body = Vec::with_capacity(data.len());
    for byte in data {
        match byte {
            b'#' | b'$' | b'}' | b'*' => body.extend([b'}', byte ^ 0x20]),
            other => body.push(*other),
        }
    }
    with_frame(&body)
}

/// The last packet in what is to be sent, with text behind its data, which nothing escapes.
pub fn amended(sent: &[u8], more: &str) -> Option<Vec<u8>> {
    let start = sent.iter().rposition(|byte| *byte == b'$')?;
    let mut amended = sent[..start].to_vec();
    let body = [data(&sent[start..]), more.as_bytes()].concat();
    amended.extend(with_frame(&body));
    Some(amended)
}

fn with_frame(body: &[u8]) -> Vec<u8> {
    let sum = body.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
    [b"$", body, b"#", format!("{sum:02x}").as_bytes()].concat()
}

/// The bytes that hexadecimal digits stand for.
pub fn from_hex(digits: &str) -> Option<Vec<u8>> {
    let digits = digits.as_bytes();
    let pairs = digits.chunks_exact(2).map(|pair| {
        let pair = std::str::from_utf8(pair).ok()?;
        u8::from_str_radix(pair, 16).ok()
    });
    digits.len().is_multiple_of(2).then(|| pairs.collect())?
}

/// A hexadecimal number.
pub fn hex_number(digits: &str) -> Option<u64> {
    u64::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(bytes: &[u8]) -> Vec<Item> {
        let mut splitter = Splitter::default();
        bytes.iter().filter_map(|byte| splitter.add(*byte)).collect()
    }

    #[test]
    fn an_interrupt_inside_a_packet_is_data() {
        let packet = Item::Packet(b"$X\x03#5b".to_vec());
        assert_eq!(items(b"+$X\x03#5b\x03"), [Item::Other(b'+'), packet, Item::Interrupt]);
        assert_eq!(items(b"$m1,2#"), []);
    }

    #[test]
    fn a_packet_has_the_sum_of_its_bytes() {
        assert_eq!(framed(b"OK"), b"$OK#9a");
        assert_eq!(framed(b"l#}"), [b"$l}\x03}]#", &b"c6"[..]].concat());
        assert_eq!(data(b"$OK#9a"), b"OK");
        assert_eq!(data(b"$"), b"");
    }

    #[test]
    fn a_reply_is_amended_behind_its_data() {
        assert_eq!(amended(b"+$a#61", ";b").unwrap(), b"+$a;b#fe");
        assert_eq!(amended(b"+", "x"), None);
    }

    #[test]
    fn hexadecimal_digits_come_in_pairs() {
        assert_eq!(from_hex("0aff"), Some(vec![10, 255]));
        assert_eq!((from_hex("0"), from_hex("xx")), (None, None));
    }
}
