//! What became of the frames, by reason.

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal),+ $(,)?) => {
        /// What is counted. The numbers are those of `bpf/responder.bpf.c`.
        #[repr(usize)]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Counter {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Counter {
            /// All of them, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// A stable name for statistics.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }

            /// What it says, for people.
            pub const fn help(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc),+),)+ }
            }
        }
    };
}

counters! {
    /// SYNs that were answered.
    Syns = "syns",
    /// Segments with requests that were answered.
    Requests = "requests",
    /// Responses: one for each request of a segment.
    Responses = "responses",
    /// FINs of clients that were answered.
    Fins = "fins",
    /// Keep-alive probes that were answered.
    Probes = "probes",
    /// Acknowledgements, which want no answer.
    Acks = "acks",
    /// Resets of clients.
    ResetsReceived = "resets_received",
    /// Resets sent, by the fast way to close.
    ResetsSent = "resets_sent",
    /// Connections that were ended by a FIN with the response.
    Closes = "closes",
    /// Connections among these that were ended before their numbers run out of the window.
    WornOut = "closes_worn_out",
    /// Responses that were made shorter to fit the client's window or segments.
    Clipped = "clipped",
    /// Payload bytes of answered requests.
    BytesIn = "bytes_in",
    /// Payload bytes sent.
    BytesOut = "bytes_out",
    /// Frames sent.
    FramesOut = "frames_out",
    /// Frames that had no room for the answer, and got it by another way.
    Detours = "detours",
    /// Dropped: not a TCP segment that can be read.
    Malformed = "dropped_malformed",
    /// Dropped: the TCP checksum is wrong.
    Checksum = "dropped_checksum",
    /// Dropped: longer than a request may be.
    TooLong = "dropped_too_long",
    /// Dropped: from a port that is served here, or from its own destination.
    Loop = "dropped_loop",
    /// Dropped: a SYN with an acknowledgement.
    SynAck = "dropped_syn_ack",
    /// Dropped: flags that mean nothing together.
    Flags = "dropped_flags",
    /// Dropped: a SYN of a client whose segments are too small for a response.
    SmallMss = "dropped_small_mss",
    /// Dropped: an acknowledgement outside the window of the keyed hash.
    Forged = "dropped_forged",
    /// Dropped: not at a state, as the rest of a request that was split.
    Misplaced = "dropped_misplaced",
    /// Dropped: the blank line after the request is not there.
    Incomplete = "dropped_incomplete",
    /// Dropped: the client's window has no room for a response.
    SmallWindow = "dropped_small_window",
    /// Dropped: no room for the answer, and no other way.
    NoRoom = "dropped_no_room",
    /// Dropped: from an address or port that no client has: 0/8, 127/8 (but on the loopback), 240/4,
    /// ::1, a broadcast address of the interface, port 0.
    Martian = "dropped_martian",
    /// Segments of a response that were sent again, because one was not acknowledged.
    Repairs = "repairs",
    /// Responses of several segments that were forgotten before all of them was acknowledged.
    Forgotten = "forgotten",
}

/// How many there are.
pub const COUNTERS: usize = Counter::ALL.len();

/// All counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts(pub [u64; COUNTERS]);

impl Counts {
    /// One of them.
    pub const fn get(&self, counter: Counter) -> u64 {
        self.0[counter as usize]
    }

    /// Counts `n` more.
    pub const fn add(&mut self, counter: Counter, n: u64) {
        self.0[counter as usize] += n;
    }

    /// All of them, named.
    pub fn iter(&self) -> impl Iterator<Item = (Counter, u64)> + use<> {
        Counter::ALL.iter().copied().zip(self.0)
    }

    /// What was counted since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self(std::array::from_fn(|index| {
            self.0[index].wrapping_sub(earlier.0[index])
        }))
    }

    /// The sum with `other`, which counted other frames.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|index| self.0[index] + other.0[index]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_named_apart() {
        let names: std::collections::HashSet<_> = Counter::ALL.iter().map(|c| c.name()).collect();
        assert_eq!(names.len(), COUNTERS);
    }
}
