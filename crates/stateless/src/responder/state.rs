//! Where an exchange stands, read from the numbers of one segment.
//!
//! Nothing is remembered between segments. What must be known of a connection is the *place*
//!
//! ```text
//! place = acknowledgement number − sequence number − hash(4-tuple)      (modulo 2^32)
//! ```
//!
//! of a segment that arrives: how far our numbers are ahead of the client's, with a secret taken
//! off. SYN counts one number on either side and cancels. Every response is padded so that it
//! moves the place by a multiple of [`STEP`] against the request that it answers, so the place's
//! low bits are the state; its high bits say how much more we have sent than the client, and are
//! bounded by [`WINDOW`], which is what makes a forged acknowledgement improbable.
//!
//! Taking the difference, and not our number alone, has two advantages. A segment that does not
//! begin where a request begins (the second half of one that was split) is seen not to be at a
//! state. And the initial number is the client's plus a hash: a reused port gets a new one.

/// Responses are padded to multiples of this against their requests, in bytes.
pub const STEP: u32 = 64;

/// Of the state, the values of each class of segment sizes.
const PHASES: u32 = 16;

/// The place (without state) that a connection begins at: as much may the client be ahead in the
/// end, if its requests are longer than our responses.
pub const START: u32 = 1 << 18;

/// Places of a connection lie below this. It bounds what a connection may carry (some 4 MB), and
/// with it how probable it is that a blind guess hits one: 2^-10, and 2^-14 where a request is
/// answered.
pub const WINDOW: u32 = 1 << 22;

/// From here on a response ends its connection: the next might leave the window.
pub const LAST: u32 = WINDOW - (1 << 17);

/// Below this, too.
pub const FIRST: u32 = 1 << 13;

/// Sizes of segments, in bytes with TCP options, that clients are sorted into. Four and not more:
/// every value of the state that means nothing is one more that a segment in the middle of a
/// request is recognised by.
pub const CLASSES: [u16; 4] = [256, 536, 1360, 1440];

/// The largest of them.
pub const LARGEST: u16 = CLASSES[CLASSES.len() - 1];

/// The size that is meant when a SYN names none (RFC 9293, 3.7.1), for either family: a client
/// behind IPv6 can take more, but did not say so.
pub const DEFAULT_MSS: u16 = 536;

/// What a segment at a place can mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The next request, or its acknowledgements.
    Ready,
    /// One number before: a keep-alive probe (RFC 9293, 3.8.4).
    Probe,
    /// The last response was acknowledged, its FIN was not. Also: both sides have closed.
    Closing,
    /// Our FIN was acknowledged.
    Closed,
}

/// How much a response moves the state if a FIN follows it.
pub const CLOSE_SHIFT: u32 = 4;

/// The state and the distance from the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place(u32);

impl Place {
    /// The place of a segment that arrived.
    pub const fn of(seq: u32, ack: u32, secret: u32) -> Self {
        Self(ack.wrapping_sub(seq).wrapping_sub(secret))
    }

    /// Whether a connection can be here.
    pub const fn is_genuine(self) -> bool {
        self.0 < WINDOW
    }

    /// Whether the next response has to be the last.
    pub const fn is_near_the_end(self) -> bool {
        self.0 >= LAST || self.0 < FIRST
    }

    /// What a segment means here; `None` where none should be.
    pub const fn phase(self) -> Option<Phase> {
        match self.0 % PHASES {
            0 => Some(Phase::Ready),
            1 => Some(Phase::Probe),
            CLOSE_SHIFT => Some(Phase::Closing),
            5 => Some(Phase::Closed),
            _ => None,
        }
    }

    /// The largest segment of the client's class, in bytes with TCP options.
    pub const fn segment(self) -> u16 {
        CLASSES[(self.0 % STEP / PHASES) as usize]
    }
}

/// The class for a client that takes segments of up to `mss` bytes; `None` if it is smaller than
/// the smallest.
pub fn class_of(mss: u16) -> Option<u32> {
    CLASSES
        .iter()
        .rposition(|size| *size <= mss)
        .map(|class| class as u32)
}

/// Our initial sequence number for a SYN.
pub const fn initial_sequence(seq: u32, secret: u32, class: u32) -> u32 {
    seq.wrapping_add(secret)
        .wrapping_add(START)
        .wrapping_add(class * PHASES)
}

/// How many bytes of padding bring a response of `length` bytes to a request of `consumed` bytes
/// (both with a FIN of the client's counted in) to the next state.
pub const fn padding(length: u32, consumed: u32, close: bool) -> u32 {
    let shift = if close { CLOSE_SHIFT } else { 0 };
    consumed.wrapping_add(shift).wrapping_sub(length) % STEP
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever the lengths, the places of an exchange are the states they should be.
        #[test]
        fn an_exchange_goes_from_state_to_state(
            client: u32, secret: u32, class in 0..4u32,
            request in 1..2000u32, response in 1..2000u32,
        ) {
            let ours = initial_sequence(client, secret, class);
            // Both SYNs.
            let (seq, ack) = (client.wrapping_add(1), ours.wrapping_add(1));
            let place = Place::of(seq, ack, secret);
            prop_assert!(place.is_genuine() && !place.is_near_the_end());
            prop_assert_eq!(place.phase(), Some(Phase::Ready));
            prop_assert_eq!(place.segment(), CLASSES[class as usize]);
            let probe = Place::of(seq.wrapping_sub(1), ack, secret);
            prop_assert_eq!(probe.phase(), Some(Phase::Probe));

            let after = seq.wrapping_add(request);
            let kept = ack.wrapping_add(response + padding(response, request, false));
            prop_assert_eq!(Place::of(after, kept, secret).phase(), Some(Phase::Ready));
            prop_assert_eq!(Place::of(after, kept, secret).segment(), CLASSES[class as usize]);

            let closed = ack.wrapping_add(response + padding(response, request, true));
            prop_assert_eq!(Place::of(after, closed, secret).phase(), Some(Phase::Closing));
            let fin = closed.wrapping_add(1);
            prop_assert_eq!(Place::of(after, fin, secret).phase(), Some(Phase::Closed));
            // And when the client has closed, too, nothing that would be answered.
            let both = Place::of(after.wrapping_add(1), fin, secret);
            prop_assert_eq!(both.phase(), Some(Phase::Closing));
        }
    }

    #[test]
    fn a_client_is_sorted_below_what_it_takes() {
        assert_eq!(class_of(1440), Some(3));
        assert_eq!(class_of(1439), Some(2));
        assert_eq!(class_of(256), Some(0));
        assert_eq!(class_of(255), None);
        assert_eq!(class_of(u16::MAX), Some(3));
    }
}
