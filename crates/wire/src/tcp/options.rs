//! The options of a TCP header: maximum segment size (RFC 9293), window scale and timestamps
//! (RFC 7323), selective acknowledgement (RFC 2018), Fast Open (RFC 7413).
//!
//! Reading is forgiving, as RFC 9293 asks (MUST-4 to MUST-7): an unknown option is skipped, a known
//! one of the wrong length counts as unknown, and a length that cannot be right ends the list;
//! what was read before stays.

use super::fast_open::FastOpenCookie;
use crate::bytes::{u16_at, u32_at};
use crate::seq::SeqNumber;

/// The most bytes that options can take.
pub const MAX_OPTIONS_LEN: usize = 40;
/// The largest window scale (RFC 7323 section 2.3). Parsing turns greater ones into this.
pub const MAX_WINDOW_SCALE: u8 = 14;

const END: u8 = 0;
const NOP: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;
const FAST_OPEN: u8 = 34;

const MSS_LEN: usize = 4;
const WINDOW_SCALE_LEN: usize = 3;
const SACK_PERMITTED_LEN: usize = 2;
const TIMESTAMPS_LEN: usize = 10;
const SACK_BLOCK_LEN: usize = 8;
/// Two NOPs, kind and length.
const SACK_PREFIX_LEN: usize = 4;

/// The timestamps option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Timestamps {
    /// The sender's clock (TSval).
    pub value: u32,
    /// The clock value of the peer that it echoes (TSecr); means nothing without an ACK.
    pub echo: u32,
}

/// Bytes that were received out of order: from `left`, up to but not including `right`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SackBlock {
    /// The first number of the block.
    pub left: SeqNumber,
    /// The number after the last.
    pub right: SeqNumber,
}

/// Up to four SACK blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SackBlocks {
    len: u8,
    /// Those past `len` are zero, so that equality is that of the blocks.
    blocks: [SackBlock; Self::MAX],
}

impl SackBlocks {
    /// The most blocks that fit a header.
    pub const MAX: usize = 4;

    /// No blocks.
    pub const EMPTY: SackBlocks = SackBlocks {
        len: 0,
        blocks: [SackBlock {
            left: SeqNumber(0),
            right: SeqNumber(0),
        }; Self::MAX],
    };

    /// Adds a block at the end; returns whether there was room.
    #[inline]
    pub fn push(&mut self, block: SackBlock) -> bool {
        match self.blocks.get_mut(usize::from(self.len)) {
            Some(place) => {
                *place = block;
                self.len += 1;
                true
            }
            None => false,
        }
    }

    /// The blocks, in the order of the header.
    #[inline]
    pub fn as_slice(&self) -> &[SackBlock] {
        &self.blocks[..usize::from(self.len)]
    }

    /// Whether there are none.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// The options of a header that this TCP understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Options {
    /// The largest segment that the sender takes.
    pub mss: Option<u16>,
    /// How far the sender's windows are shifted; at most [`MAX_WINDOW_SCALE`] when parsed.
    pub window_scale: Option<u8>,
    /// Whether the sender understands SACK.
    pub sack_permitted: bool,
    /// Timestamps.
    pub timestamps: Option<Timestamps>,
    /// A Fast Open cookie, or the request for one; on SYNs alone.
    pub fast_open: Option<FastOpenCookie>,
    /// What the sender has received out of order. Emitting leaves out the last blocks if the other
    /// options leave no room for them: two always fit beside what is not a cookie, three beside
    /// timestamps alone.
    pub sack: SackBlocks,
}

impl Options {
    /// No options.
    pub const NONE: Options = Options {
        mss: None,
        window_scale: None,
        sack_permitted: false,
        timestamps: None,
        fast_open: None,
        sack: SackBlocks::EMPTY,
    };

    /// Reads the bytes between the fixed header and the payload.
    #[inline]
    //= RFC 9293 MUST-4, MUST-5, MUST-6, MUST-64
    pub fn parse(mut bytes: &[u8]) -> Options {
        // What nearly every segment of an established connection carries (RFC 7323 appendix A).
        if bytes.len() == 12 && bytes[..4] == [NOP, NOP, TIMESTAMPS, TIMESTAMPS_LEN as u8] {
            return Options {
                timestamps: Some(read_timestamps(&bytes[4..])),
                ..Options::NONE
            };
        }
        let mut options = Options::NONE;
        while let Some((&kind, rest)) = bytes.split_first() {
            match kind {
                END => break,
                NOP => bytes = rest,
                _ => {
                    let Some(&len) = rest.first() else { break };
                    let len = usize::from(len);
                    //= RFC 9293 MUST-7
                    if len < 2 || len > bytes.len() {
                        break;
                    }
                    options.read(kind, &bytes[2..len]);
                    bytes = &bytes[len..];
                }
            }
        }
        options
    }

    /// Takes up one option; `body` is what follows kind and length.
    fn read(&mut self, kind: u8, body: &[u8]) {
        match (kind, body.len() + 2) {
            (MSS, MSS_LEN) => self.mss = Some(u16_at(body, 0)),
            (WINDOW_SCALE, WINDOW_SCALE_LEN) => {
                //= RFC 7323 §2.3
                self.window_scale = Some(body[0].min(MAX_WINDOW_SCALE));
            }
            (SACK_PERMITTED, SACK_PERMITTED_LEN) => self.sack_permitted = true,
            (TIMESTAMPS, TIMESTAMPS_LEN) => self.timestamps = Some(read_timestamps(body)),
            (FAST_OPEN, _) => self.fast_open = FastOpenCookie::new(body).or(self.fast_open),
            (SACK, len) if len > 2 && (len - 2) % SACK_BLOCK_LEN == 0 => {
                //= RFC 2018 §3
                self.sack = SackBlocks::EMPTY;
                for block in body.chunks_exact(SACK_BLOCK_LEN) {
                    self.sack.push(SackBlock {
                        left: SeqNumber(u32_at(block, 0)),
                        right: SeqNumber(u32_at(block, 4)),
                    });
                }
            }
            _ => {}
        }
    }

    /// How many bytes the options take, padding included: a multiple of four, at most
    /// [`MAX_OPTIONS_LEN`].
    #[inline]
    pub fn len(&self) -> usize {
        self.len_without_sack() + self.sack_len()
    }

    /// Whether there are no options.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    fn len_without_sack(&self) -> usize {
        let mut len = 0;
        if self.mss.is_some() {
            len += 4;
        }
        // SACK-permitted takes the place of the two NOPs that align timestamps.
        if self.timestamps.is_some() {
            len += 12;
        } else if self.sack_permitted {
            len += 4;
        }
        if self.window_scale.is_some() {
            len += 4;
        }
        if let Some(cookie) = &self.fast_open {
            len += (2 + cookie.as_slice().len()).next_multiple_of(4);
        }
        len
    }

    #[inline]
    fn sack_len(&self) -> usize {
        match self.emitted_blocks() {
            0 => 0,
            blocks => SACK_PREFIX_LEN + blocks * SACK_BLOCK_LEN,
        }
    }

    /// How many SACK blocks there is room for, of those there are.
    #[inline]
    fn emitted_blocks(&self) -> usize {
        let room = MAX_OPTIONS_LEN.saturating_sub(self.len_without_sack() + SACK_PREFIX_LEN);
        usize::from(self.sack.len).min(room / SACK_BLOCK_LEN)
    }

    /// Writes the options to the front of `buffer`, every option aligned by NOPs; returns their
    /// length.
    ///
    /// # Panics
    /// If `buffer` is shorter than [`Options::len`].
    #[inline]
    //= RFC 9293 MUST-68, MUST-69
    pub fn emit(&self, buffer: &mut [u8]) -> usize {
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            buffer[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        if let Some(mss) = self.mss {
            put(&[MSS, MSS_LEN as u8]);
            put(&mss.to_be_bytes());
        }
        if self.sack_permitted {
            if self.timestamps.is_none() {
                put(&[NOP, NOP]);
            }
            put(&[SACK_PERMITTED, SACK_PERMITTED_LEN as u8]);
        }
        if let Some(timestamps) = self.timestamps {
            if !self.sack_permitted {
                put(&[NOP, NOP]);
            }
            put(&[TIMESTAMPS, TIMESTAMPS_LEN as u8]);
            put(&timestamps.value.to_be_bytes());
            put(&timestamps.echo.to_be_bytes());
        }
        if let Some(shift) = self.window_scale {
            put(&[NOP, WINDOW_SCALE, WINDOW_SCALE_LEN as u8, shift]);
        }
        if let Some(cookie) = &self.fast_open {
            let cookie = cookie.as_slice();
            put(&[FAST_OPEN, 2 + cookie.len() as u8]);
            put(cookie);
            // Whole words, as everywhere.
            if cookie.len().is_multiple_of(4) {
                put(&[NOP, NOP]);
            }
        }
        let blocks = &self.sack.as_slice()[..self.emitted_blocks()];
        if !blocks.is_empty() {
            put(&[NOP, NOP, SACK, (2 + blocks.len() * SACK_BLOCK_LEN) as u8]);
            for block in blocks {
                put(&block.left.0.to_be_bytes());
                put(&block.right.0.to_be_bytes());
            }
        }
        at
    }
}

#[inline]
fn read_timestamps(body: &[u8]) -> Timestamps {
    Timestamps {
        value: u32_at(body, 0),
        echo: u32_at(body, 4),
    }
}
