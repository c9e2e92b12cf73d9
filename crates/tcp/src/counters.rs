//! Everything that is counted; above all, every segment that was not used, by reason.

use crate::Histogram;

/// Declares the reasons once: the enum, the list and the stable names.
macro_rules! drop_reasons {
    ($($(#[$doc:meta])+ $variant:ident = $name:literal,)+) => {
        /// Why a segment, or part of it, was not used.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum DropReason { $($(#[$doc])+ $variant,)+ }

        impl DropReason {
            /// Every reason, in the order of their discriminants.
            pub const ALL: &'static [DropReason] = &[$(DropReason::$variant,)+];

            /// A stable name in snake_case, for counters and captures.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(DropReason::$variant => $name,)+ }
            }
        }
    };
}

drop_reasons! {
    /// Nothing listens there; answered by RST.
    NoListener = "no_listener",
    /// An address that no segment may come from or go to (RFC 1122 3.2.1.3), port zero, or source
    /// and destination alike.
    BadAddress = "bad_address",
    /// SYN with RST; at a listener SYN with FIN, or no flag at all.
    BadFlags = "bad_flags",
    /// RST for no connection.
    StrayReset = "stray_reset",
    /// SYN while the listener holds its limit of half-open connections, or the stack its own, and
    /// without cookies.
    HalfOpenFull = "half_open_full",
    /// SYN that a cookie would have answered, while more of them arrive than can be answered.
    CookieWithheld = "cookie_withheld",
    /// SYN or final ACK of a handshake while the accept queue is full.
    AcceptQueueFull = "accept_queue_full",
    /// The stack holds its limit of connections.
    ConnectionsFull = "connections_full",
    /// SYN while a listener has had as many connections lately as its program lets it have.
    AdmissionRate = "admission_rate",
    /// SYN or final ACK while a listener has as many connections as its program lets it have.
    AdmissionInFlight = "admission_in_flight",
    /// The same of the prefix from which it comes.
    AdmissionPrefix = "admission_prefix",
    /// The handshake's ACK acknowledges something else than our SYN.
    BadHandshakeAck = "bad_handshake_ack",
    /// PAWS: the timestamp is older than one already seen (RFC 7323 5).
    Paws = "paws",
    /// A segment without timestamp on a connection that agreed on them (RFC 7323 3.2).
    TimestampMissing = "timestamp_missing",
    /// Entirely before the window: received already.
    OldDuplicate = "old_duplicate",
    /// Entirely beyond the window.
    BeyondWindow = "beyond_window",
    /// RST outside the window, or inside but not exact (RFC 5961 3).
    UnacceptableReset = "unacceptable_reset",
    /// SYN on a synchronized connection (RFC 5961 4).
    UnexpectedSyn = "unexpected_syn",
    /// Acknowledges what is older than anything the peer can mean (RFC 5961 5).
    AckTooOld = "ack_too_old",
    /// Acknowledges what was never sent.
    AckOfUnsent = "ack_of_unsent",
    /// No ACK flag where one is required.
    NoAck = "no_ack",
    /// Payload received already (the rest of the segment was used).
    DuplicateData = "duplicate_data",
    /// The store had no memory for the payload.
    NoMemory = "no_memory",
    /// Too many separate ranges out of order, of the connection or of all.
    OutOfOrderFull = "out_of_order_full",
    /// Payload for an owner that has closed, or shut down both directions; answered by RST (RFC 2525 2.17).
    DataAfterClose = "data_after_close",
    /// Payload after the peer's own FIN.
    DataAfterFin = "data_after_fin",
    /// The connection has ended, and its RST waits for room to leave.
    Closed = "closed",
    /// An ICMP error about what is no connection (any more).
    IcmpNoConnection = "icmp_no_connection",
    /// An ICMP error about a segment that is not in flight (RFC 5927 §4).
    IcmpOutOfWindow = "icmp_out_of_window",
    /// An ICMP error that says nothing new, or nothing that can be.
    IcmpIgnored = "icmp_ignored",
    /// A segment for a pair in TIME-WAIT.
    TimeWait = "time_wait",
}

/// Counts since the stack was made. Monotonic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Segments that arrived.
    pub segments_in: u64,
    /// Segments that left; a burst counts each of its segments.
    pub segments_out: u64,
    /// Emissions; a burst counts once.
    pub emissions: u64,
    /// Segments with data that arrived for connections.
    pub data_segments_in: u64,
    /// Of these, those that came so soon after data were sent on their connection that they must be answers:
    /// their sender had waited.
    pub prompt_segments_in: u64,
    /// Bytes of payload that arrived in order.
    pub bytes_in: u64,
    /// Bytes of payload that left, retransmissions included.
    pub bytes_out: u64,
    /// Handshakes begun by us.
    pub active_opens: u64,
    /// Handshakes begun by peers that completed.
    pub passive_opens: u64,
    /// Connections that failed, by RST or time.
    pub failures: u64,
    /// Segments retransmitted.
    pub retransmitted_segments: u64,
    /// Bytes retransmitted.
    pub retransmitted_bytes: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Recoveries entered by duplicate or selective acknowledgements.
    pub fast_recoveries: u64,
    /// Connections that a SYN alone has opened (Fast Open, RFC 7413).
    pub fast_opens_in: u64,
    /// SYNs of ours that left with data.
    pub fast_opens_out: u64,
    /// SYNs with a good Fast Open cookie that got an ordinary handshake for lack of room.
    pub fast_opens_refused: u64,
    /// Fast Open cookies given.
    pub fast_open_cookies: u64,
    /// SYNs answered by a cookie (RFC 4987 §3.6).
    pub cookies_sent: u64,
    /// Connections made of a cookie that came back.
    pub cookies_accepted: u64,
    /// Acknowledgements at a listener under cookies that brought none of ours; answered by RST.
    pub cookies_refused: u64,
    /// ICMP errors that arrived.
    pub icmp_errors_in: u64,
    /// Path MTUs that fell by a router's word.
    pub path_mtu_reductions: u64,
    /// Path MTU probes sent (PLPMTUD, RFC 4821).
    pub path_mtu_probes: u64,
    /// Path MTU probes that were lost while nothing else was.
    pub path_mtu_probes_lost: u64,
    /// Path MTUs that fell because nothing full-sized got through.
    pub path_mtu_black_holes: u64,
    /// Tail loss probes due (RFC 8985 §7).
    pub tail_loss_probes: u64,
    /// Responses to loss taken back, because nothing had been lost.
    pub spurious_recoveries: u64,
    /// DSACK: ranges that peers told us they received twice (RFC 2883).
    pub dsacks_in: u64,
    /// Segments that arrived marked for congestion (RFC 3168).
    pub congestion_marks: u64,
    /// Windows reduced because a peer echoed such a mark.
    pub congestion_echoes: u64,
    /// SYN-ACKs retransmitted.
    pub syn_acks_retransmitted: u64,
    /// Zero-window probes sent.
    pub window_probes: u64,
    /// Keep-alive probes sent (RFC 9293 3.8.4).
    pub keep_alive_probes: u64,
    /// Delayed ACKs that waited until their timer expired.
    pub delayed_acks: u64,
    /// Acknowledgements without payload sent.
    pub pure_acks: u64,
    /// Segments that arrived ahead of a hole and were kept.
    pub out_of_order_segments: u64,
    /// Bytes out of order that were given up under memory pressure.
    pub out_of_order_shed: u64,
    /// Transmissions whose window was smaller than the buffer, because memory was scarce.
    pub windows_limited: u64,
    /// Segments with URG; the data is ordinary data to us.
    pub urgent_segments: u64,
    /// RSTs sent.
    pub resets_out: u64,
    /// RSTs that ended a connection.
    pub resets_in: u64,
    /// Challenge acknowledgements sent (RFC 5961).
    pub challenge_acks: u64,
    /// Challenge acknowledgements and RSTs withheld by their rate limit.
    pub rate_limited: u64,
    /// Segments for no connection that found their queue full.
    pub control_overflows: u64,
    /// Pairs that entered TIME-WAIT.
    pub time_waits: u64,
    /// Pairs recycled before their time because the table was full.
    pub time_wait_recycled: u64,
    /// Pairs in TIME-WAIT taken over by a new connection (RFC 6191).
    pub time_wait_reused: u64,
    /// Half-open connections that ran out of SYN-ACKs.
    pub half_open_timeouts: u64,
    /// Orphans ended by RST or by time before both FINs were acknowledged, or at once because there were too many.
    pub orphans_killed: u64,
    /// Round-trip times as they count for the timeout: one a window at most (RFC 6298 §3).
    pub round_trips: Histogram,
    drops: [u64; DropReason::ALL.len()],
}

impl Counters {
    /// What another has counted, too.
    pub fn add(&mut self, other: &Self) {
        let Self {
            segments_in,
            segments_out,
            emissions,
            data_segments_in,
            prompt_segments_in,
            bytes_in,
            bytes_out,
            active_opens,
            passive_opens,
            failures,
            retransmitted_segments,
            retransmitted_bytes,
            timeouts,
            fast_recoveries,
            fast_opens_in,
            fast_opens_out,
            fast_opens_refused,
            fast_open_cookies,
            cookies_sent,
            cookies_accepted,
            cookies_refused,
            icmp_errors_in,
            path_mtu_reductions,
            path_mtu_probes,
            path_mtu_probes_lost,
            path_mtu_black_holes,
            tail_loss_probes,
            spurious_recoveries,
            dsacks_in,
            congestion_marks,
            congestion_echoes,
            syn_acks_retransmitted,
            window_probes,
            keep_alive_probes,
            delayed_acks,
            pure_acks,
            out_of_order_segments,
            out_of_order_shed,
            windows_limited,
            urgent_segments,
            resets_out,
            resets_in,
            challenge_acks,
            rate_limited,
            control_overflows,
            time_waits,
            time_wait_recycled,
            time_wait_reused,
            half_open_timeouts,
            orphans_killed,
            round_trips,
            drops,
        } = other;
        for (count, more) in [
            (&mut self.segments_in, segments_in),
            (&mut self.segments_out, segments_out),
            (&mut self.emissions, emissions),
            (&mut self.data_segments_in, data_segments_in),
            (&mut self.prompt_segments_in, prompt_segments_in),
            (&mut self.bytes_in, bytes_in),
            (&mut self.bytes_out, bytes_out),
            (&mut self.active_opens, active_opens),
            (&mut self.passive_opens, passive_opens),
            (&mut self.failures, failures),
            (&mut self.retransmitted_segments, retransmitted_segments),
            (&mut self.retransmitted_bytes, retransmitted_bytes),
            (&mut self.timeouts, timeouts),
            (&mut self.fast_recoveries, fast_recoveries),
            (&mut self.fast_opens_in, fast_opens_in),
            (&mut self.fast_opens_out, fast_opens_out),
            (&mut self.fast_opens_refused, fast_opens_refused),
            (&mut self.fast_open_cookies, fast_open_cookies),
            (&mut self.cookies_sent, cookies_sent),
            (&mut self.cookies_accepted, cookies_accepted),
            (&mut self.cookies_refused, cookies_refused),
            (&mut self.icmp_errors_in, icmp_errors_in),
            (&mut self.path_mtu_reductions, path_mtu_reductions),
            (&mut self.path_mtu_probes, path_mtu_probes),
            (&mut self.path_mtu_probes_lost, path_mtu_probes_lost),
            (&mut self.path_mtu_black_holes, path_mtu_black_holes),
            (&mut self.tail_loss_probes, tail_loss_probes),
            (&mut self.spurious_recoveries, spurious_recoveries),
            (&mut self.dsacks_in, dsacks_in),
            (&mut self.congestion_marks, congestion_marks),
            (&mut self.congestion_echoes, congestion_echoes),
            (&mut self.syn_acks_retransmitted, syn_acks_retransmitted),
            (&mut self.window_probes, window_probes),
            (&mut self.keep_alive_probes, keep_alive_probes),
            (&mut self.delayed_acks, delayed_acks),
            (&mut self.pure_acks, pure_acks),
            (&mut self.out_of_order_segments, out_of_order_segments),
            (&mut self.out_of_order_shed, out_of_order_shed),
            (&mut self.windows_limited, windows_limited),
            (&mut self.urgent_segments, urgent_segments),
            (&mut self.resets_out, resets_out),
            (&mut self.resets_in, resets_in),
            (&mut self.challenge_acks, challenge_acks),
            (&mut self.rate_limited, rate_limited),
            (&mut self.control_overflows, control_overflows),
            (&mut self.time_waits, time_waits),
            (&mut self.time_wait_recycled, time_wait_recycled),
            (&mut self.time_wait_reused, time_wait_reused),
            (&mut self.half_open_timeouts, half_open_timeouts),
            (&mut self.orphans_killed, orphans_killed),
        ] {
            *count += more;
        }
        self.round_trips.add(round_trips);
        for (count, more) in self.drops.iter_mut().zip(drops) {
            *count += more;
        }
    }

    /// Segments not used for this reason.
    #[must_use]
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.drops[reason as usize]
    }

    /// Every reason with its count.
    pub fn drops(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        DropReason::ALL.iter().map(|&r| (r, self.dropped(r)))
    }

    pub(crate) fn drop_segment(&mut self, reason: DropReason) {
        self.drops[reason as usize] += 1;
    }
}
