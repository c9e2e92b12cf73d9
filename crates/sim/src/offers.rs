//! What a host's stack has promised its peers, held against all that it sends: the right edge of an offered
//! window never moves back (RFC 9293 §3.8.6), and what was acknowledged stays acknowledged.
//!
//! This sees what the peer sees, segments, and knows of no connection of a stack. So a promise outlives the
//! stack that gave it: connections that move to another one, and one whose buffer was made smaller, are held
//! to what was said before.

use std::collections::HashMap;

use tcp::{ConnId, Outgoing};
use wire::flow::FlowKey;
use wire::segment::Segment;
use wire::seq::SeqNumber;
use wire::tcp::{Flags, Repr};

/// All that a host has promised, by flow as the host names it.
#[derive(Debug, Default)]
pub struct Offers {
    flows: HashMap<FlowKey, Offer>,
}

/// What was promised on one flow since its last new SYN.
#[derive(Clone, Copy, Debug)]
struct Offer {
    /// The number of our SYN, which tells this connection from others of the same ports.
    iss: SeqNumber,
    /// The end of our SYN and of what it has carried.
    syn_end: SeqNumber,
    /// The window scale that our SYN offers.
    scale: Option<u8>,
    /// Whether our SYN-ACK has timestamps, which the connection that it opens then has, too.
    timestamps: Option<bool>,
    /// The window of our SYN, while the peer's number is not known.
    window: u16,
    /// How our windows are shifted, once both SYNs are known.
    shift: Option<u8>,
    /// The last acknowledgement, and the farthest edge.
    told: Option<(SeqNumber, SeqNumber)>,
    /// What the stack calls the connection, once something else than a SYN has left of it. What belongs to none
    /// after that is TIME-WAIT's, or another handshake's.
    conn: Option<ConnId>,
}

impl Offers {
    /// A segment arrives, and will be passed to the stack.
    pub fn on_arrival(&mut self, segment: &Segment<'_>) {
        let tcp = &segment.tcp;
        let Some(offer) = self.flows.get_mut(&segment.flow()) else {
            return;
        };
        let answers = |ack: SeqNumber| ack.after(offer.iss) && ack.at_or_before(offer.syn_end);
        let opens = tcp.flags.contains(Flags::SYN)
            && !tcp.flags.contains(Flags::RST)
            && tcp.ack.is_none_or(answers);
        if !opens || offer.told.is_some() {
            return;
        }
        // The window in our SYN begins after the peer's.
        let begin = tcp.seq + 1;
        offer.told = Some((begin, begin + u32::from(offer.window)));
        if tcp.ack.is_some() {
            let both = tcp.options.window_scale.and(offer.scale);
            offer.shift = Some(both.unwrap_or(0));
        }
    }

    /// A segment has left, or a burst of them, which all say the same.
    ///
    /// # Panics
    /// If it takes back what an earlier one has said.
    pub fn on_sent(&mut self, out: &Outgoing<'_>) {
        let tcp = &out.tcp;
        // A RST offers nothing, whatever its window says.
        if tcp.flags.contains(Flags::RST) {
            return;
        }
        let flow = FlowKey {
            local: out.src,
            remote: out.dst,
            local_port: tcp.src_port,
            remote_port: tcp.dst_port,
        };
        let syn = tcp.flags.contains(Flags::SYN);
        if syn {
            self.on_syn(flow, out);
        }
        // Without a SYN in this world nothing is known of the scale.
        let Some(offer) = self.flows.get_mut(&flow) else {
            return;
        };
        let time_wait = out.conn.is_none() && offer.conn.is_some();
        if !syn && out.conn.is_some() && out.conn != offer.conn {
            let begins = tcp.seq.after(offer.iss) && tcp.seq.at_or_before(offer.syn_end);
            let has_timestamps = tcp.options.timestamps.is_some();
            if !begins || offer.timestamps.is_some_and(|had| had != has_timestamps) {
                // An earlier SYN-ACK, with a cookie, was answered before this one, perhaps of the same number:
                // nothing is known of the scale.
                self.flows.remove(&flow);
                return;
            }
            if offer.conn.is_some() {
                // A late copy of what has brought a cookie begins the connection again when that is over,
                // from the same numbers and without a SYN.
                offer.told = None;
            }
            offer.conn = out.conn;
        }
        let (Some(ack), Some(shift)) = (tcp.ack, offer.shift) else {
            return;
        };
        let (edge, unit) = if syn {
            // Never scaled (RFC 7323 §2.2).
            (ack + u32::from(tcp.window), 1)
        } else {
            (ack + (u32::from(tcp.window) << shift), 1 << shift)
        };
        let Some((last, farthest)) = offer.told else {
            offer.told = Some((ack, edge));
            return;
        };
        assert!(
            last.at_or_before(ack),
            "an acknowledgement is taken back: {last:?} was told before {out:?}"
        );
        offer.told = Some((ack, farthest.max(edge)));
        // TIME-WAIT remembers how large the buffer is, not what was offered. A peer whose FIN is
        // acknowledged has nothing to send that a window could be for.
        if time_wait {
            return;
        }
        // The window of a SYN says no more than its field can, which takes nothing back.
        let promised = if syn {
            farthest.min(ack + u32::from(u16::MAX))
        } else {
            farthest
        };
        // What a scale cannot express may be missing (RFC 7323 §2.4).
        let back = promised.distance_from(edge);
        assert!(
            back < unit,
            "the window retreats by {back} bytes from {promised:?}: {out:?}"
        );
    }

    /// A connection has moved, and its stack calls it by another name.
    pub(crate) fn rename(&mut self, flow: &FlowKey, new: ConnId) {
        if let Some(Offer {
            conn: Some(conn), ..
        }) = self.flows.get_mut(flow)
        {
            *conn = new;
        }
    }

    /// Our SYN: of a new connection, or the same again.
    fn on_syn(&mut self, flow: FlowKey, out: &Outgoing<'_>) {
        let Repr {
            seq, ack, window, ..
        } = out.tcp;
        let scale = out.tcp.options.window_scale;
        let new = Offer {
            iss: seq,
            syn_end: seq + 1,
            scale,
            timestamps: None,
            window: 0,
            shift: None,
            told: None,
            conn: None,
        };
        let offer = self.flows.entry(flow).or_insert(new);
        // A cookie may be what it was in a connection that is over: a handshake after that is another.
        if offer.iss != seq || (offer.conn.is_some() && out.conn.is_none()) {
            *offer = new;
        }
        offer.syn_end = offer.syn_end.max(seq + 1 + out.payload_len as u32);
        if ack.is_some() {
            // It knows what the peer's SYN has said of scales.
            offer.shift = Some(scale.unwrap_or(0));
            offer.timestamps = Some(out.tcp.options.timestamps.is_some());
        } else {
            // The peer may have the first one.
            assert!(
                window >= offer.window,
                "the SYN again offers less than {}: {out:?}",
                offer.window
            );
            offer.window = window;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::ip::Ecn;
    use wire::segment::Link;
    use wire::tcp::{Options, Timestamps};

    const CONN: Option<ConnId> = Some(ConnId {
        index: 0,
        generation: 0,
    });

    fn flow() -> FlowKey {
        FlowKey {
            local: [10, 0, 0, 1].into(),
            remote: [10, 0, 0, 2].into(),
            local_port: 80,
            remote_port: 40_000,
        }
    }

    /// A header of `flow`, as its sender names that.
    fn header(flow: FlowKey, seq: u32, flags: Flags, ack: u32) -> Repr {
        Repr {
            src_port: flow.local_port,
            dst_port: flow.remote_port,
            seq: SeqNumber(seq),
            ack: flags.contains(Flags::ACK).then_some(SeqNumber(ack)),
            flags,
            window: 0,
            options: Options::NONE,
        }
    }

    /// We send, from sequence number 1 on, or a SYN before that.
    fn send(offers: &mut Offers, conn: Option<ConnId>, flags: Flags, ack: u32, window: u16) {
        let syn = flags.contains(Flags::SYN);
        let mut tcp = header(flow(), u32::from(!syn), flags, ack);
        tcp.window = window;
        tcp.options.window_scale = syn.then_some(7);
        leave(offers, conn, tcp);
    }

    fn leave(offers: &mut Offers, conn: Option<ConnId>, tcp: Repr) {
        offers.on_sent(&Outgoing {
            conn,
            answers: None,
            src: flow().local,
            dst: flow().remote,
            tcp,
            payload: &[],
            payload_len: 0,
            gso_size: 0,
            ecn: Ecn::NotCapable,
        });
    }

    /// The peer accepts our SYN.
    fn accepted(offers: &mut Offers, window_scale: Option<u8>) {
        let mut tcp = header(flow().reversed(), 1_000, SYN_ACK, 1);
        tcp.options.window_scale = window_scale;
        offers.on_arrival(&Segment {
            link: Link::default(),
            src: flow().remote,
            dst: flow().local,
            hop_limit: 64,
            ecn: Ecn::NotCapable,
            tcp,
            payload: &[],
        });
    }

    const SYN_ACK: Flags = Flags::from_bits(Flags::SYN.bits() | Flags::ACK.bits());

    /// A connection that the peer has opened by 1,000, and whose window ends at 1,001 + 100 × 128.
    fn opened() -> Offers {
        let mut offers = Offers::default();
        send(&mut offers, None, SYN_ACK, 1_001, 10_000);
        send(&mut offers, CONN, Flags::ACK, 1_001, 100);
        offers
    }

    #[test]
    fn what_keeps_its_word_passes() {
        let mut offers = opened();
        // 129 bytes came, which the scale cannot express; then there is more room.
        send(&mut offers, CONN, Flags::ACK, 1_130, 99);
        send(&mut offers, CONN, Flags::ACK, 1_130, 200);
        // A RST says 0, and the SYN-ACK again no more than it can.
        send(&mut offers, CONN, Flags::ACK, 1_130, 60_000);
        send(&mut offers, CONN, Flags::RST | Flags::ACK, 1_130, 0);
        send(&mut offers, CONN, SYN_ACK, 1_130, u16::MAX);
    }

    #[test]
    #[should_panic(expected = "retreats by 128 bytes")]
    fn a_window_that_retreats_by_a_unit_does_not() {
        send(&mut opened(), CONN, Flags::ACK, 1_001, 99);
    }

    #[test]
    #[should_panic(expected = "retreats by 128 bytes")]
    fn nor_does_one_that_retreats_by_less_at_a_time() {
        let mut offers = opened();
        send(&mut offers, CONN, Flags::ACK, 1_065, 99);
        send(&mut offers, CONN, Flags::ACK, 1_129, 98);
    }

    #[test]
    #[should_panic(expected = "acknowledgement is taken back")]
    fn nor_does_what_acknowledges_less() {
        let mut offers = opened();
        send(&mut offers, CONN, Flags::ACK, 1_500, 100);
        send(&mut offers, CONN, Flags::ACK, 1_499, 200);
    }

    #[test]
    #[should_panic(expected = "retreats")]
    fn what_a_syn_offers_counts() {
        let mut offers = Offers::default();
        send(&mut offers, CONN, Flags::SYN, 0, 65_535);
        accepted(&mut offers, Some(3));
        send(&mut offers, CONN, Flags::ACK, 1_001, 2_000 >> 7);
    }

    #[test]
    #[should_panic(expected = "offers less than 65535")]
    fn a_syn_offers_no_less_when_it_is_sent_again() {
        let mut offers = Offers::default();
        send(&mut offers, CONN, Flags::SYN, 0, 65_535);
        send(&mut offers, CONN, Flags::SYN, 0, 2_000);
    }

    #[test]
    #[should_panic(expected = "retreats")]
    fn without_the_peers_scale_nothing_is_scaled() {
        let mut offers = Offers::default();
        send(&mut offers, CONN, Flags::SYN, 0, 1_000);
        accepted(&mut offers, None);
        send(&mut offers, CONN, Flags::ACK, 1_001, 999);
    }

    #[test]
    fn another_connection_of_the_same_ports_has_promised_nothing() {
        let mut offers = opened();
        // From the same number, as a cookie may.
        send(&mut offers, None, SYN_ACK, 501, 1_000);
        send(&mut offers, CONN, Flags::ACK, 501, 10);
    }

    const OTHER: Option<ConnId> = Some(ConnId {
        index: 0,
        generation: 1,
    });

    #[test]
    fn nor_has_one_that_a_late_cookie_begins_again() {
        let mut offers = opened();
        send(&mut offers, CONN, Flags::ACK, 1_500, 100);
        send(&mut offers, OTHER, Flags::ACK, 1_100, 90);
    }

    #[test]
    fn nor_has_one_that_an_earlier_cookie_has_begun() {
        let mut offers = Offers::default();
        let mut syn_ack = header(flow(), 5_000, SYN_ACK, 1_001);
        (syn_ack.window, syn_ack.options.window_scale) = (10_000, Some(7));
        leave(&mut offers, None, syn_ack);
        send(&mut offers, CONN, Flags::ACK, 1_101, 9_900);
        send(&mut offers, CONN, Flags::ACK, 1_301, 9_700);
    }

    #[test]
    fn nor_has_one_of_the_same_number_but_without_what_the_last_syn_ack_has_offered() {
        let mut offers = Offers::default();
        let mut syn_ack = header(flow(), 0, SYN_ACK, 1_001);
        syn_ack.window = 10_000;
        syn_ack.options.window_scale = Some(7);
        syn_ack.options.timestamps = Some(Timestamps { value: 1, echo: 1 });
        leave(&mut offers, None, syn_ack);
        // 1,000 bytes less, of a window that is not scaled.
        send(&mut offers, CONN, Flags::ACK, 1_001, 10_000);
        send(&mut offers, CONN, Flags::ACK, 2_001, 9_000);
    }

    #[test]
    #[should_panic(expected = "acknowledgement is taken back")]
    fn one_that_has_moved_has() {
        let mut offers = opened();
        send(&mut offers, CONN, Flags::ACK, 1_500, 100);
        offers.rename(&flow(), OTHER.unwrap());
        send(&mut offers, OTHER, Flags::ACK, 1_100, 200);
    }

    #[test]
    fn in_time_wait_the_window_means_nothing() {
        let mut offers = opened();
        send(&mut offers, CONN, Flags::FIN | Flags::ACK, 1_002, 100);
        send(&mut offers, None, Flags::ACK, 1_002, 16);
    }
}
