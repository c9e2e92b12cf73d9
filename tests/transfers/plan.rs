//! What a transfer is to be: drawn from the seed and its number, so both ends know it.

use sim::Rng;

/// Which end of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It connected.
    Client,
    /// It accepted.
    Server,
}

impl End {
    pub fn other(self) -> End {
        match self {
            End::Client => End::Server,
            End::Server => End::Client,
        }
    }
}

/// One connection and what passes over it.
#[derive(Clone, Debug)]
pub struct Transfer {
    pub id: u64,
    pub seed: u64,
    pub kind: Kind,
    /// Bytes that the client sends, and the server; an abort ends that before.
    pub up: u64,
    pub down: u64,
}

#[derive(Clone, Debug)]
pub enum Kind {
    /// Both send at once; each half-closes when it has sent all.
    BothWays,
    /// One sends all and half-closes, and then the other.
    InTurn(End),
    /// The client sends a part and the server answers by one, so many times.
    PingPong(u64),
    /// Both send, and this end is slow to read.
    Slow(End),
    /// This end closes when it has read so much of an endless stream: by RST, since there is more
    /// that it has not read.
    Abort(End, u64),
}

/// More than any window and buffer holds.
const ENDLESS: u64 = 64 << 20;

impl Transfer {
    /// The transfer of that number.
    pub fn new(seed: u64, id: u64) -> Transfer {
        let mut rng = Rng::new(seed ^ id.wrapping_mul(0xd134_2543_de82_ef95));
        let end = rng.pick(&[End::Client, End::Server]);
        let small = |rng: &mut Rng| rng.magnitude(2 << 20);
        let (kind, up, down) = match rng.below(10) {
            0..4 => (Kind::BothWays, small(&mut rng), small(&mut rng)),
            4..6 => (Kind::InTurn(end), small(&mut rng), small(&mut rng)),
            6 => {
                let turns = rng.between(1, 30);
                let part = |rng: &mut Rng| rng.magnitude(20_000);
                (Kind::PingPong(turns), part(&mut rng), part(&mut rng))
            }
            7 => {
                // More than windows hold, so that the sender has to wait.
                let (much, little) = (rng.between(1 << 20, 3 << 20), small(&mut rng));
                match end {
                    End::Client => (Kind::Slow(end), little, much),
                    End::Server => (Kind::Slow(end), much, little),
                }
            }
            _ => {
                // One at least, or the connection might be over before its number has arrived.
                let kind = Kind::Abort(end, 1 + rng.magnitude(400_000));
                // The one who aborts may be sending, too.
                let other = rng.magnitude(100_000);
                match end {
                    End::Client => (kind, other, ENDLESS),
                    End::Server => (kind, ENDLESS, other),
                }
            }
        };
        Transfer {
            id,
            seed,
            kind,
            up,
            down,
        }
    }

    /// Bytes that an end sends if nothing stops it.
    pub fn sends(&self, end: End) -> u64 {
        let turns = match self.kind {
            Kind::PingPong(turns) => turns,
            _ => 1,
        };
        turns
            * match end {
                End::Client => self.up,
                End::Server => self.down,
            }
    }

    /// Whether it is meant to end by a reset.
    pub fn aborts(&self) -> bool {
        matches!(self.kind, Kind::Abort(..))
    }
}

/// What an end sends: bytes that cannot be guessed, the same for the same transfer. It hashes what it
/// has made.
pub struct Content {
    rng: Rng,
    word: [u8; 8],
    used: usize,
    pub hash: Hash,
}

impl Content {
    pub fn new(transfer: &Transfer, end: End) -> Content {
        let salt = match end {
            End::Client => 0x5eed,
            End::Server => 0xface,
        };
        Content {
            rng: Rng::new(transfer.seed.rotate_left(32) ^ (transfer.id << 16) ^ salt),
            word: [0; 8],
            used: 8,
            hash: Hash::new(),
        }
    }

    pub fn fill(&mut self, buffer: &mut [u8]) {
        for byte in buffer.iter_mut() {
            if self.used == 8 {
                self.word = self.rng.next_u64().to_le_bytes();
                self.used = 0;
            }
            *byte = self.word[self.used];
            self.used += 1;
        }
        self.hash.update(buffer);
    }

    /// The hash of the first so many bytes.
    pub fn hash_of(transfer: &Transfer, end: End, mut length: u64) -> u64 {
        let mut content = Content::new(transfer, end);
        let mut buffer = vec![0; 64 << 10];
        while length > 0 {
            let piece = length.min(buffer.len() as u64);
            content.fill(&mut buffer[..piece as usize]);
            length -= piece;
        }
        content.hash.value()
    }
}

/// FNV-1a, of 64 bits: it tells apart what chance can mix up.
#[derive(Clone, Copy)]
pub struct Hash(u64);

impl Hash {
    pub fn new() -> Hash {
        Hash(0xcbf2_9ce4_8422_2325)
    }

    pub fn update(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    pub fn value(self) -> u64 {
        self.0
    }
}
