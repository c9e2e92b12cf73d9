//! The options of a TCP header byte by byte, in the order and with the padding that a script asks
//! for, sense or nonsense.

use super::packet::TcpOption;

const END: u8 = 0;
const NOP: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;
const FAST_OPEN: u8 = 34;

impl TcpOption {
    /// How many bytes it takes.
    pub(super) fn encoded_len(&self) -> usize {
        match self {
            TcpOption::End | TcpOption::Nop => 1,
            TcpOption::SackPermitted => 2,
            TcpOption::WindowScale(_) => 3,
            TcpOption::Mss(_) => 4,
            TcpOption::Timestamps { .. } => 10,
            TcpOption::Sack(blocks) => 2 + 8 * blocks.len(),
            TcpOption::FastOpen(body) | TcpOption::Unknown(_, body) => 2 + body.len(),
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let len = self.encoded_len() as u8;
        match self {
            TcpOption::End => out.push(END),
            TcpOption::Nop => out.push(NOP),
            TcpOption::SackPermitted => out.extend([SACK_PERMITTED, len]),
            TcpOption::WindowScale(shift) => out.extend([WINDOW_SCALE, len, *shift]),
            TcpOption::Mss(mss) => {
                out.extend([MSS, len]);
                out.extend(mss.to_be_bytes());
            }
            TcpOption::Timestamps { value, echo } => {
                out.extend([TIMESTAMPS, len]);
                out.extend(value.to_be_bytes());
                out.extend(echo.to_be_bytes());
            }
            TcpOption::Sack(blocks) => {
                out.extend([SACK, len]);
                for (left, right) in blocks {
                    out.extend(left.to_be_bytes());
                    out.extend(right.to_be_bytes());
                }
            }
            TcpOption::FastOpen(cookie) => {
                out.extend([FAST_OPEN, len]);
                out.extend(cookie);
            }
            TcpOption::Unknown(kind, body) => {
                out.extend([*kind, len]);
                out.extend(body);
            }
        }
    }
}

/// The bytes of options, filled up with zeros to a multiple of four.
pub(super) fn encode(options: &[TcpOption]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for option in options {
        option.encode(&mut bytes);
    }
    bytes.resize(bytes.len().next_multiple_of(4), END);
    bytes
}

/// What stands between the fixed header and the payload; `None` if a length cannot be right. What
/// follows the end of the list is padding.
pub(super) fn decode(mut bytes: &[u8]) -> Option<Vec<TcpOption>> {
    let mut options = Vec::new();
    while let Some((&kind, rest)) = bytes.split_first() {
        if kind == END {
            break;
        }
        if kind == NOP {
            options.push(TcpOption::Nop);
            bytes = rest;
            continue;
        }
        let len = usize::from(*rest.first()?);
        let body = bytes.get(2..len)?;
        bytes = bytes.get(len..)?;
        options.push(one(kind, body));
    }
    Some(options)
}

fn one(kind: u8, body: &[u8]) -> TcpOption {
    let u32_at = |at: usize| {
        let bytes = body.get(at..at + 4).unwrap_or_default();
        bytes.iter().fold(0, |sum, &b| sum << 8 | u32::from(b))
    };
    match (kind, body.len()) {
        (MSS, 2) => TcpOption::Mss(u16::from_be_bytes([body[0], body[1]])),
        (WINDOW_SCALE, 1) => TcpOption::WindowScale(body[0]),
        (SACK_PERMITTED, 0) => TcpOption::SackPermitted,
        (TIMESTAMPS, 8) => TcpOption::Timestamps {
            value: u32_at(0),
            echo: u32_at(4),
        },
        (SACK, len) if len % 8 == 0 => {
            let block = |index: usize| (u32_at(index * 8), u32_at(index * 8 + 4));
            TcpOption::Sack((0..len / 8).map(block).collect())
        }
        (FAST_OPEN, _) => TcpOption::FastOpen(body.to_vec()),
        _ => TcpOption::Unknown(kind, body.to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let options = vec![
            TcpOption::Mss(1460),
            TcpOption::SackPermitted,
            TcpOption::Timestamps { value: 7, echo: 9 },
            TcpOption::Nop,
            TcpOption::WindowScale(14),
            TcpOption::Sack(vec![(1, 2)]),
            TcpOption::Unknown(254, vec![1]),
            TcpOption::FastOpen(vec![1, 2]),
        ];
        let bytes = encode(&options);
        assert_eq!(bytes.len() % 4, 0);
        assert_eq!(decode(&bytes), Some(options));
    }

    #[test]
    fn lengths_that_cannot_be_right_are_refused() {
        assert_eq!(decode(&[MSS]), None);
        assert_eq!(decode(&[MSS, 1]), None);
        assert_eq!(decode(&[MSS, 9, 1]), None);
        assert_eq!(decode(&[NOP, END, MSS]), Some(vec![TcpOption::Nop]));
    }
}
