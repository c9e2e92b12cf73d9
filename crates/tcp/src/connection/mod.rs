//! One connection: the transmission control block of RFC 9293 3.3.1 and what it does.
//!
//! | file | what |
//! | --- | --- |
//! | `state` | the states, and what each permits |
//! | `open` | how a connection begins: actively, or out of a half-open one |
//! | `receive` | SEGMENT ARRIVES (RFC 9293 3.10.7), in its order of checks |
//! | `prediction` | the same, briefly, for the segments that are most of all |
//! | `synsent` | the same for a connection whose SYN is out |
//! | `acknowledge` | what an acceptable ACK means: send queue, round trip, congestion, recovery |
//! | `payload` | payload and FIN: reassembly, the received stream |
//! | `transmit` | what may be sent now: retransmissions, new data, FIN, acknowledgements |
//! | `bare` | segments without payload: ACK (delayed ACK), zero-window and keep-alive probe, SYN, RST |
//! | `ecn` | explicit congestion notification (RFC 3168) |
//! | `fast_open` | data in the SYN (TCP Fast Open, RFC 7413) |
//! | `tlp` | tail loss probes (TLP, RFC 8985 §7.3) |
//! | `pacing` | how fast it may be sent |
//! | `bbr` | what BBR is told |
//! | `context` | what it is told when it is worked on, and what it shares with the others |
//! | `buffers` | how much is worth buffering, received and to be sent |
//! | `header` | the header of a segment about to leave, and the window that it offers |
//! | `timeout` | what each timer does |
//! | `path_mtu` | ICMP errors, and how large segments may be |
//! | `mtu_probe` | path MTU probes (RFC 4821): one segment larger than the others |
//! | `request` | what the owner asks for; closing |
//! | `report` | what the owner is told |
//! | `export` | the connection as a value |
//! | `import` | a connection out of such a value |
//! | `audit` | what always holds, for tests to ask |
//!
//! Nothing here reaches outside the connection. The stack looks at it afterwards (`settle`) and
//! does what follows: ready list, events, timer wheel, flow table.

mod acknowledge;
mod audit;
mod bare;
mod bbr;
mod buffers;
mod context;
mod ecn;
mod export;
mod fast_open;
mod header;
mod import;
mod mtu_probe;
mod one_segment;
mod open;
mod pacing;
mod path_mtu;
mod payload;
mod prediction;
mod promptness;
mod receive;
mod report;
mod request;
mod state;
mod synsent;
mod timeout;
mod timers;
mod tlp;
mod transmit;

pub(crate) use context::{Common, Context};
pub(crate) use open::{Handshake, announced_mss, initial_window, window_scale};
pub(crate) use timers::{Timer, Timers};
pub(crate) use transmit::TransmitContext;

use wire::flow::FlowKey;
use wire::seq::SeqNumber;
use wire::tcp::SackBlock;

use crate::Instant;
use crate::config::KeepAlive;
use crate::congestion::{Controller, Validation};
use crate::event::Failure;
use crate::fast_open::FastOpen;
use crate::info::State;
use crate::reassembly::Reassembly;
use crate::recovery::Recovery;
use crate::recovery::rtt::RttEstimator;
use crate::send_queue::SendQueue;
use crate::time::{Millis, Nanos};
use context::{microseconds, milliseconds, seconds};

/// Send sequence variables.
pub(crate) struct SendVars {
    /// Oldest sequence number not acknowledged (SND.UNA).
    pub(crate) una: SeqNumber,
    /// After the last sequence number sent (SND.NXT; retransmission does not move it back).
    pub(crate) nxt: SeqNumber,
    /// The peer's window (SND.WND), scaled.
    pub(crate) wnd: u32,
    /// The largest that it ever was.
    pub(crate) max_wnd: u32,
    /// Sequence and acknowledgement number of the segment that last set the window.
    pub(crate) wl1: SeqNumber,
    pub(crate) wl2: SeqNumber,
    /// SND.SML: after the last segment sent that was not full (Minshall's rule for Nagle's algorithm).
    pub(crate) sml: SeqNumber,
    /// Payload of a full segment, options of every segment subtracted.
    pub(crate) mss: u16,
    /// The MSS that the peer announced (RFC 9293 3.7.1).
    pub(crate) peer_mss: u16,
    /// When data were last sent, in microseconds that go round: see [`promptness`].
    pub(crate) sent_us: u16,
    /// How the peer's windows are to be shifted.
    pub(crate) scale: u8,
    /// Both sides agreed on window scaling.
    pub(crate) scaling: bool,
}

/// Receive sequence variables.
pub(crate) struct ReceiveVars {
    /// The next sequence number expected (RCV.NXT).
    pub(crate) nxt: SeqNumber,
    /// The advertised edge: after the last sequence number that the peer was ever allowed
    /// (RCV.NXT + RCV.WND). Never moves back.
    pub(crate) adv: SeqNumber,
    /// What the last segment that we sent acknowledged (Last.ACK.sent).
    pub(crate) acked: SeqNumber,
    /// Payload of a full segment of the peer's, as observed.
    pub(crate) mss: u16,
    /// How our windows are shifted.
    pub(crate) scale: u8,
    /// Quick ACKs: how many more full segments are acknowledged at once, without delayed ACK.
    pub(crate) quick: u8,
    /// Bytes that may wait for the owner.
    pub(crate) buffer: u32,
    /// The largest window that memory allows now.
    pub(crate) limit: u32,
    /// DSACK (RFC 2883): what was received twice and the peer has not been told of; empty if nothing
    /// was.
    pub(crate) dsack: SackBlock,
    /// Bytes in order, in total.
    pub(crate) received: u64,
    /// Bytes that the owner has consumed, in total.
    pub(crate) consumed: u64,
    /// Length of the peer's stream, once its FIN has been seen; `u64::MAX` before.
    pub(crate) fin_at: u64,
}

/// Timestamps (RFC 7323 3, 4).
pub(crate) struct TimestampVars {
    /// TS.Recent (RFC 7323 §4.3): the peer's latest TSval, which our TSecr echoes.
    pub(crate) recent: u32,
    /// When it was last updated, in whole seconds of the stack's clock.
    pub(crate) recent_at: u32,
    /// What is added to the clock, so that it tells nothing (RFC 7323 7.1).
    pub(crate) offset: u32,
    /// Our TSval at the last retransmission.
    pub(crate) retransmitted: u32,
    /// Both sides agreed.
    pub(crate) enabled: bool,
}

pub(crate) struct Connection {
    // What decides where it belongs: looked at after every change.
    pub(crate) state: State,
    /// Something to send, or to decide about acknowledging: wants to be on the ready list.
    pub(crate) wants_transmit: bool,
    /// Something that the owner has not been told.
    pub(crate) changed: bool,
    /// On the ready list.
    pub(crate) in_ready: bool,
    /// On the event list.
    pub(crate) in_events: bool,
    /// Found by the flow table under its key.
    pub(crate) in_flows: bool,
    /// Acknowledge in the next transmission, no matter what.
    ack_now: bool,
    /// Segments out of order since the last acknowledgement, if the peer has to count duplicates
    /// because it is not told ranges (RFC 5681 4.2).
    duplicates_owed: u8,
    /// Ranges out of order that the stack has counted.
    pub(crate) counted_ranges: u16,
    /// Send our SYN (again), with or without ACK by the state.
    syn_due: bool,
    /// Send a zero-window probe or a keepalive probe: an ACK from below SND.UNA, which wants an answer.
    window_or_keep_alive_probe_due: bool,
    /// Send a tail loss probe (RFC 8985 §7.3).
    tlp_due: bool,
    /// What is to be sent is being fetched by the owner: nothing of the stream leaves before it is there.
    pub(crate) payload_away: bool,
    /// Send RST, then forget everything.
    pub(crate) reset_due: bool,
    /// The owner has shut down its sending side; FIN follows the last byte.
    shutdown: bool,
    /// The owner reads no more of what is yet to come.
    read_shut: bool,
    /// FIN has been sent at least once.
    fin_sent: bool,
    /// The owner has closed it and hears no more.
    pub(crate) orphan: bool,
    /// The owner has been given it; until then it waits in a listener's queue.
    pub(crate) accepted: bool,
    connected: bool,
    no_delay: bool,
    cork: bool,
    /// The last send said that more would follow.
    more: bool,
    /// The persist timer has run out, which is the override timeout of SWS avoidance (RFC 9293
    /// 3.8.6.2.1): a segment that the peer's window makes small may leave.
    sws_override: bool,
    selective: bool,
    /// What it has to do with Fast Open (RFC 7413).
    pub(crate) fast_open: FastOpen,
    pub(crate) failed: Option<Failure>,
    /// What an ICMP error or the owner said of the path, without ending the connection.
    soft_error: Option<Failure>,

    /// Under which [admission](crate::Admission) it counts; 0: none, or no more.
    pub(crate) admission: u32,
    pub(crate) key: FlowKey,
    pub(crate) snd: SendVars,
    pub(crate) rcv: ReceiveVars,
    pub(crate) ts: TimestampVars,
    pub(crate) ecn: ecn::EcnVars,
    path: path_mtu::PathMtu,
    pub(crate) timers: Timers,
    /// How the receive buffer grows.
    tuning: buffers::ReceiveTuning,
    reassembly: Reassembly,
    queue: SendQueue,
    recovery: Recovery,
    rtt: RttEstimator,
    congestion: Controller,
    validation: Validation,
    /// Consecutive timeouts without progress: the exponent of the RTO's back-off (RFC 6298 §5.5).
    backoff: u8,
    /// Timeouts and zero-window probes that the peer has left without any answer.
    unanswered: u8,
    keep_alive_probes: u8,
    /// Since when what was sent, or waits for the window, has made no progress.
    stalled_since: Instant,
    /// How many bytes of what is not acknowledged are pushed: neither a cork nor Nagle's algorithm holds
    /// them back.
    pushed: u32,

    // What only settings, keepalive, path MTU discovery and queries touch.
    /// Bytes of data that our SYN carried, until it is acknowledged.
    syn_data: u16,
    keep_alive: KeepAlive,
    /// Bound of segments by the path and by TCP_MAXSEG.
    local_mss: u16,
    user_timeout: Millis,
    fin_wait_2_timeout: Millis,
    retransmits: u32,
    segments_in: u32,
    segments_out: u32,
    data_segments_in: u32,
    data_segments_out: u32,
    bytes_retransmitted: u32,
    delivery_rate: crate::recovery::delivery::DeliveryRate,
    /// When the last answer to an unacceptable segment went out, in milliseconds of the clock.
    answered_at: u32,
    /// When something was last sent, likewise.
    last_sent_ms: u32,
    /// When something acceptable was last received, likewise.
    last_received_ms: u32,
}

impl Connection {
    /// Offset in our stream of a sequence number that is not before SND.UNA.
    fn send_offset(&self, seq: SeqNumber) -> u64 {
        self.queue.start() + u64::from(seq.distance_from(self.snd.una).max(0) as u32)
    }

    /// Offset of the first byte never sent. Our FIN, once sent, takes a number of its own.
    fn unsent(&self) -> u64 {
        self.send_offset(self.snd.nxt) - u64::from(self.fin_in_flight())
    }

    /// FIN is the last thing ever sent: if anything is in flight, it is.
    fn fin_in_flight(&self) -> bool {
        self.fin_sent && self.in_flight() > 0
    }

    /// FlightSize, the flight size of RFC 5681 §2: what has been sent and not been acknowledged
    /// cumulatively, in bytes; SYN and FIN count as one.
    fn in_flight(&self) -> u32 {
        self.snd.nxt.distance_from(self.snd.una).max(0) as u32
    }

    /// Bytes of the peer's stream that wait for the owner.
    fn unread(&self) -> u64 {
        self.rcv.received - self.rcv.consumed
    }

    /// The window that the peer may use now (RCV.WND).
    fn receive_window(&self) -> u32 {
        self.rcv.adv.distance_from(self.rcv.nxt).max(0) as u32
    }

    /// The value of our timestamp clock: milliseconds (RFC 7323 5.4).
    //= RFC 7323 §5.4
    fn timestamp(&self, now: Instant) -> u32 {
        (now.as_millis() as u32).wrapping_add(self.ts.offset)
    }

    /// Payload of a full segment under the current options.
    //= RFC 9293 MUST-16
    fn update_mss(&mut self) {
        let options = self.every_options();
        self.snd.mss = self
            .snd
            .peer_mss
            .min(self.local_mss)
            .min(self.path_mss())
            .saturating_sub(options)
            .max(MIN_MSS);
        self.congestion.set_mss(self.snd.mss);
    }

    /// We may still have data to send, or FIN.
    #[inline]
    fn may_transmit(&self) -> bool {
        self.state.may_transmit() || self.fast_open.is_pending()
    }

    /// RTO: the retransmission timeout with its back-off (RFC 6298 5.5).
    fn rto(&self) -> Nanos {
        self.rtt.backed_off_rto(self.backoff.into())
    }
}

/// Smallest payload of a segment that we cut, however small the peer says its MSS is: below this
/// the headers eat the processor (Linux's TCP_MIN_SND_MSS is of the same order).
pub(crate) const MIN_MSS: u16 = 36;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_small() {
        // One struct a connection, and nothing else while it is idle; what the tables take on top of it
        // `tests/memory.rs` holds.
        let size = size_of::<Connection>();
        assert!(size <= 512, "{size} bytes");
    }
}
