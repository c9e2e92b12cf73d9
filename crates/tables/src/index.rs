//! Numbers by keys: a hash table in pieces (extendible hashing).
//!
//! A piece is an open hash table of at most [`PIECE`] slots, with linear probing, in an array of eight-byte
//! slots beside the keys: a search that fails stays in a cache line or two of slots, one that succeeds
//! touches one key. Removing moves later entries of the run back instead of leaving tombstones, so a
//! piece is as fast after a million entries as before the first.
//!
//! Which piece a key belongs to, the *directory* says, by the highest bits of the hash. A piece that is full
//! is split in two by one bit more, which moves its own entries and no others; where that bit is new to
//! the directory, it doubles: four bytes for each [`PIECE`] slots. Two pieces that have become almost empty
//! are joined. So the longest step is that of one piece, however much is in the table.

/// The most slots of a piece; a power of two.
const PIECE: usize = 1024;
/// The least.
const LEAST: usize = 16;
/// Bits of a hash that tell keys apart.
const BITS: u32 = 31;
/// Beyond so many bits pieces are not split but grow: nobody has so much memory, unless hashes are all alike.
const DEEPEST: u8 = 20;

/// As much of a key's hash as a table uses: who has looked a key up can file something under it without
/// hashing again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hash(u32);

impl Hash {
    /// Set in every hash, and never in what marks a free slot.
    const TAKEN: u32 = 1 << BITS;
    /// No key's.
    pub const NONE: Hash = Hash(0);

    /// From a hash that is as good as random in its low 31 bits.
    #[inline]
    #[must_use]
    pub fn new(hash: u64) -> Self {
        Hash(hash as u32 | Self::TAKEN)
    }

    /// What the directory goes by.
    #[inline]
    fn high(self) -> u32 {
        self.0 & !Self::TAKEN
    }
}

/// One place in a piece.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// The key's hash: its low bits say where it belongs, the others save looking at most of the other
    /// keys, and all of them hashing anew what is moved.
    hash: Hash,
    value: u32,
}

impl Slot {
    const FREE: Slot = Slot {
        hash: Hash::NONE,
        value: 0,
    };

    #[inline]
    fn is_free(self) -> bool {
        self.hash == Hash::NONE
    }
}

/// The outcome of a search: an index into the slots.
enum Found {
    At(usize),
    FreeAt(usize),
}

#[derive(Clone, Debug)]
struct Piece<K> {
    /// A power of two of them, at most three quarters taken.
    slots: Box<[Slot]>,
    /// The key of each slot that is taken; anything where it is free.
    keys: Box<[K]>,
    len: usize,
    /// How many of the highest bits of the hash all its keys have in common.
    depth: u8,
}

impl<K: Copy + Eq> Piece<K> {
    fn new(slots: usize, depth: u8, vacant: K) -> Self {
        Self {
            slots: vec![Slot::FREE; slots].into(),
            keys: vec![vacant; slots].into(),
            len: 0,
            depth,
        }
    }

    /// Where `key` is, or would go. There is always a free slot, so the search ends.
    #[inline]
    fn find(&self, key: &K, hash: Hash) -> Found {
        let mask = self.slots.len() - 1;
        let mut at = hash.0 as usize & mask;
        loop {
            let slot = self.slots[at];
            if slot.is_free() {
                return Found::FreeAt(at);
            }
            if slot.hash == hash && self.keys[at] == *key {
                return Found::At(at);
            }
            at = (at + 1) & mask;
        }
    }

    fn is_full(&self) -> bool {
        (self.len + 1) * 4 > self.slots.len() * 3
    }

    /// Takes over an entry whose key is not here.
    fn put(&mut self, slot: Slot, key: K) {
        if let Found::FreeAt(at) = self.find(&key, slot.hash) {
            self.slots[at] = slot;
            self.keys[at] = key;
            self.len += 1;
        }
    }

    /// Frees the slot `gap`, and moves into it the next entry of the run that may stand there; and
    /// so on with the gap that this one leaves.
    fn close_gap(&mut self, mut gap: usize) {
        let mask = self.slots.len() - 1;
        let mut at = gap;
        loop {
            at = (at + 1) & mask;
            if self.slots[at].is_free() {
                break;
            }
            let home = self.slots[at].hash.0 as usize & mask;
            // An entry may go no further back than to its home.
            let (from_home, from_gap) = (at.wrapping_sub(home) & mask, at.wrapping_sub(gap) & mask);
            if from_home >= from_gap {
                self.slots[gap] = self.slots[at];
                self.keys[gap] = self.keys[at];
                gap = at;
            }
        }
        self.slots[gap] = Slot::FREE;
        self.len -= 1;
    }

    fn entries(&self) -> impl Iterator<Item = (Slot, K)> {
        let all = self.slots.iter().copied().zip(self.keys.iter().copied());
        all.filter(|(slot, _)| !slot.is_free())
    }
}

/// Values of 32 bits, by key.
///
/// It grows and shrinks with its content, which its owner bounds. Whoever sends packets cannot choose keys
/// that collide, if the owner's hash is keyed.
#[derive(Clone, Debug)]
pub struct Index<K> {
    /// The piece of each value of the highest `depth` bits of a hash.
    directory: Vec<u32>,
    depth: u8,
    pieces: Vec<Piece<K>>,
    /// Numbers of pieces that are not in use.
    spare: Vec<u32>,
    /// How many pieces there are of each depth.
    of_depth: [u32; DEEPEST as usize + 1],
    len: usize,
    /// What stands where a slot is free.
    vacant: K,
    /// Pieces are joined down to this depth, and have so many slots at least.
    least: (u8, usize),
    /// Entries that were moved to make room, or to give it back, since the table began.
    moved: u64,
}

impl<K: Copy + Eq> Index<K> {
    /// An empty table that holds about `capacity` keys before it grows, and never shrinks below that. `vacant`
    /// is any key.
    #[must_use]
    pub fn with_capacity(capacity: usize, vacant: K) -> Self {
        let slots = (capacity + capacity / 3 + 1).next_power_of_two().max(LEAST);
        let depth = (slots / PIECE).max(1).ilog2().min(DEEPEST.into()) as u8;
        let slots = slots.min(PIECE);
        let count = 1_u32 << depth;
        let mut of_depth = [0; DEEPEST as usize + 1];
        of_depth[usize::from(depth)] = count;
        Self {
            directory: (0..count).collect(),
            depth,
            pieces: (0..count)
                .map(|_| Piece::new(slots, depth, vacant))
                .collect(),
            spare: Vec::new(),
            of_depth,
            len: 0,
            vacant,
            least: (depth, slots),
            moved: 0,
        }
    }

    /// How many keys are in the table.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many slots there are, taken or not.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.pieces.iter().map(|piece| piece.slots.len()).sum()
    }

    /// Entries that were moved to make room or to give it back, since the table began: a measure of work
    /// that, unlike time, is the same in every run.
    #[must_use]
    pub fn moved(&self) -> u64 {
        self.moved
    }

    /// The number of the piece that a hash belongs to.
    #[inline]
    fn place(&self, hash: Hash) -> usize {
        let at = hash.high() >> (BITS - u32::from(self.depth));
        self.directory[at as usize] as usize
    }

    /// What is filed under `key`.
    #[inline]
    #[must_use]
    pub fn get(&self, key: &K, hash: Hash) -> Option<u32> {
        let piece = &self.pieces[self.place(hash)];
        match piece.find(key, hash) {
            Found::At(at) => Some(piece.slots[at].value),
            Found::FreeAt(_) => None,
        }
    }

    /// Files `value` under `key`; returns what was filed there before.
    pub fn insert(&mut self, key: K, hash: Hash, value: u32) -> Option<u32> {
        let mut number = self.place(hash);
        while self.pieces[number].is_full() {
            self.make_room(number, hash);
            number = self.place(hash);
        }
        let piece = &mut self.pieces[number];
        match piece.find(&key, hash) {
            Found::At(at) => Some(core::mem::replace(&mut piece.slots[at].value, value)),
            Found::FreeAt(at) => {
                piece.slots[at] = Slot { hash, value };
                piece.keys[at] = key;
                piece.len += 1;
                self.len += 1;
                None
            }
        }
    }

    /// Takes out what is filed under `key`, and returns it.
    pub fn remove(&mut self, key: &K, hash: Hash) -> Option<u32> {
        let number = self.place(hash);
        let piece = &mut self.pieces[number];
        let Found::At(at) = piece.find(key, hash) else {
            return None;
        };
        let value = piece.slots[at].value;
        piece.close_gap(at);
        self.len -= 1;
        if piece.len * 8 < piece.slots.len() {
            self.give_room_back(number, hash);
        }
        Some(value)
    }

    /// A piece is full: it grows, or is split.
    #[cold]
    fn make_room(&mut self, number: usize, hash: Hash) {
        let piece = &self.pieces[number];
        if piece.slots.len() < PIECE || piece.depth == DEEPEST {
            self.resize(number, piece.slots.len() * 2);
        } else {
            self.split(number, hash);
        }
    }

    /// A piece is almost empty: it is joined with the one that it was split from, or shrinks.
    #[cold]
    fn give_room_back(&mut self, number: usize, hash: Hash) {
        let piece = &self.pieces[number];
        if piece.slots.len() > PIECE || piece.depth == self.least.0 {
            let slots = piece.slots.len() / 2;
            if slots >= self.least.1 {
                self.resize(number, slots);
            }
            return;
        }
        // The other half: it differs in the last bit that all keys of the piece have in common.
        let last = 1 << (BITS - u32::from(piece.depth));
        let other = self.place(Hash::new(u64::from(hash.high() ^ last)));
        let twin = &self.pieces[other];
        if twin.depth == piece.depth && (piece.len + twin.len) * 4 <= PIECE {
            self.join(number, other, hash);
        }
    }

    fn resize(&mut self, number: usize, slots: usize) {
        let piece = &mut self.pieces[number];
        let old = core::mem::replace(piece, Piece::new(slots, piece.depth, self.vacant));
        for (slot, key) in old.entries() {
            piece.put(slot, key);
        }
        self.moved += piece.len as u64;
    }

    fn split(&mut self, number: usize, hash: Hash) {
        let old = core::mem::replace(&mut self.pieces[number], Piece::new(0, 0, self.vacant));
        let depth = old.depth + 1;
        if depth > self.depth {
            self.directory = self.directory.iter().flat_map(|&of| [of, of]).collect();
            self.depth = depth;
        }
        let bit = 1 << (BITS - u32::from(depth));
        let mut halves = [(); 2].map(|()| Piece::new(PIECE, depth, self.vacant));
        for (slot, key) in old.entries() {
            halves[usize::from(slot.hash.high() & bit != 0)].put(slot, key);
        }
        self.moved += old.len as u64;
        let [low, high] = halves;
        self.pieces[number] = low;
        let new = match self.spare.pop() {
            Some(spare) => {
                self.pieces[spare as usize] = high;
                spare
            }
            None => {
                self.pieces.push(high);
                self.pieces.len() as u32 - 1
            }
        };
        self.of_depth[usize::from(depth) - 1] -= 1;
        self.of_depth[usize::from(depth)] += 2;
        self.point(hash.high() | bit, depth, new);
    }

    fn join(&mut self, number: usize, other: usize, hash: Hash) {
        let vacant = self.vacant;
        let [first, second] = [number, other]
            .map(|number| core::mem::replace(&mut self.pieces[number], Piece::new(0, 0, vacant)));
        let depth = first.depth;
        let mut both = Piece::new(PIECE, depth - 1, vacant);
        for (slot, key) in first.entries().chain(second.entries()) {
            both.put(slot, key);
        }
        self.moved += both.len as u64;
        self.pieces[number] = both;
        self.spare.push(other as u32);
        self.of_depth[usize::from(depth)] -= 2;
        self.of_depth[usize::from(depth) - 1] += 1;
        self.point(hash.high(), depth - 1, number as u32);
        while self.depth > self.least.0 && self.of_depth[usize::from(self.depth)] == 0 {
            self.directory = self.directory.iter().copied().step_by(2).collect();
            self.depth -= 1;
        }
    }

    /// Hashes that have their highest `depth` bits in common with `high` belong to a piece from now on.
    fn point(&mut self, high: u32, depth: u8, piece: u32) {
        let within = self.depth - depth;
        let first = (high >> (BITS - u32::from(depth))) << within;
        let range = first as usize..first as usize + (1 << within);
        self.directory[range].fill(piece);
    }
}

#[cfg(test)]
mod tests;
