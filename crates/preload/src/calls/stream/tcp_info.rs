//! TCP_INFO, as linux/tcp.h has it.

use host::{BbrInfo, ConnInfo, Socket};
use rustix::io::Errno;

use crate::kernel::option::Plain;

/// `struct tcp_info`, up to and including what Linux 6.7 added. A program that was built against
/// an older header gets as much as it has room for.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpInfo {
    state: u8,
    ca_state: u8,
    retransmits: u8,
    probes: u8,
    backoff: u8,
    options: u8,
    /// The peer's in the low half, ours in the high.
    wscales: u8,
    /// Bit 0: the delivery rate was limited by the program.
    flags: u8,

    rto: u32,
    ato: u32,
    snd_mss: u32,
    rcv_mss: u32,

    unacked: u32,
    sacked: u32,
    lost: u32,
    retrans: u32,
    fackets: u32,

    last_data_sent: u32,
    last_ack_sent: u32,
    last_data_recv: u32,
    last_ack_recv: u32,

    pmtu: u32,
    rcv_ssthresh: u32,
    rtt: u32,
    rttvar: u32,
    snd_ssthresh: u32,
    snd_cwnd: u32,
    advmss: u32,
    reordering: u32,

    rcv_rtt: u32,
    rcv_space: u32,

    total_retrans: u32,

    pacing_rate: u64,
    max_pacing_rate: u64,
    bytes_acked: u64,
    bytes_received: u64,
    segs_out: u32,
    segs_in: u32,

    notsent_bytes: u32,
    min_rtt: u32,
    data_segs_in: u32,
    data_segs_out: u32,

    delivery_rate: u64,

    busy_time: u64,
    rwnd_limited: u64,
    sndbuf_limited: u64,

    delivered: u32,
    delivered_ce: u32,

    bytes_sent: u64,
    bytes_retrans: u64,
    dsack_dups: u32,
    reord_seen: u32,

    rcv_ooopack: u32,

    snd_wnd: u32,
    rcv_wnd: u32,
    rehash: u32,

    total_rto: u16,
    total_rto_recoveries: u16,
    total_rto_time: u32,
}

// SAFETY: made of integers.
unsafe impl Plain for TcpInfo {}

const _: () = assert!(size_of::<TcpInfo>() == 248);

/// `struct tcp_bbr_info`: the rate in bytes a second, low half first, the round trip in microseconds, and the
/// gains in steps of 1/256.
pub fn bbr_info(bbr: &BbrInfo) -> [u32; 5] {
    let gain = |percent: u16| u32::from(percent) * 256 / 100;
    [
        bbr.bandwidth as u32,
        (bbr.bandwidth >> 32) as u32,
        bbr.min_rtt_us,
        gain(bbr.pacing_gain),
        gain(bbr.cwnd_gain),
    ]
}

/// The states' numbers in the kernel.
const STATES: [(&str, u8); 11] = [
    ("ESTABLISHED", ESTABLISHED),
    ("SYN-SENT", 2),
    ("SYN-RECEIVED", 3),
    ("FIN-WAIT-1", 4),
    ("FIN-WAIT-2", 5),
    ("TIME-WAIT", 6),
    ("CLOSED", CLOSED),
    ("CLOSE-WAIT", 8),
    ("LAST-ACK", 9),
    ("LISTEN", 10),
    ("CLOSING", 11),
];
const ESTABLISHED: u8 = 1;
const CLOSED: u8 = 7;

/// Bits of `options`.
const TIMESTAMPS: u8 = 1;
const SACK: u8 = 2;
const WINDOW_SCALE: u8 = 4;
/// Data of the SYN was taken.
const SYN_DATA: u8 = 32;

/// What `ca_state` says: all is well, or what was lost is being repaired, fast or after a timeout.
const CA_OPEN: u8 = 0;
const CA_RECOVERY: u8 = 3;
const CA_LOSS: u8 = 4;

/// The threshold while nothing was lost, in the kernel.
const NO_THRESHOLD: u32 = 0x7fff_ffff;

/// TCP_INFO of a socket of the engine's.
pub fn tcp_info(socket: &Socket) -> Result<TcpInfo, Errno> {
    match socket.info() {
        Ok(facts) => Ok(of(&facts)),
        // Or the engine does not run just now: no more is known.
        Err(Errno::NOTCONN | Errno::TIMEDOUT) => Ok(TcpInfo {
            state: if socket.is_connected() {
                ESTABLISHED
            } else {
                CLOSED
            },
            ..TcpInfo::default()
        }),
        Err(error) => Err(error),
    }
}

/// What the engine tells, in the kernel's units: microseconds, windows of sending in segments, of
/// receiving in bytes. What it does not know is zero, as in an older kernel.
fn of(facts: &ConnInfo) -> TcpInfo {
    let number = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    let mss = facts.send_mss.max(1);
    let (theirs, ours) = facts.window_scales.unwrap_or((0, 0));
    let option = |bit, on: bool| if on { bit } else { 0 };
    TcpInfo {
        state: STATES
            .iter()
            .find(|(name, _)| *name == facts.state)
            .map_or(ESTABLISHED, |(_, number)| *number),
        ca_state: match (facts.recovering, facts.backoff) {
            (false, _) => CA_OPEN,
            (true, 0) => CA_RECOVERY,
            (true, _) => CA_LOSS,
        },
        retransmits: facts.unanswered,
        probes: facts.probes,
        backoff: facts.backoff,
        options: option(TIMESTAMPS, facts.timestamps)
            | option(SACK, facts.selective_acks)
            | option(WINDOW_SCALE, facts.window_scales.is_some())
            | option(SYN_DATA, facts.fast_open),
        wscales: theirs & 0x0f | ours << 4,
        rto: facts.rto_us,
        snd_mss: facts.send_mss,
        rcv_mss: facts.receive_mss,
        unacked: number(facts.in_flight.div_ceil(mss.into())),
        sacked: facts.reported.div_ceil(mss),
        lost: facts.lost.div_ceil(mss),
        retrans: facts.resent.div_ceil(mss),
        last_data_sent: facts.since_sent_ms,
        last_data_recv: facts.since_received_ms,
        last_ack_recv: facts.since_received_ms,
        pmtu: facts.path_mtu,
        rcv_ssthresh: facts.receive_window,
        rtt: facts.rtt_us,
        rttvar: facts.rtt_var_us,
        snd_ssthresh: if facts.slow_start_threshold > NO_THRESHOLD {
            NO_THRESHOLD
        } else {
            facts.slow_start_threshold / mss
        },
        snd_cwnd: facts.congestion_window / mss,
        // Less the timestamps of every segment.
        advmss: facts
            .announced_mss
            .saturating_sub(if facts.timestamps { 12 } else { 0 }),
        reordering: facts.reordering,
        rcv_space: facts.receive_window,
        total_retrans: number(facts.retransmits),
        // The kernel says all ones, too, of what is not paced.
        pacing_rate: facts.pacing_rate.unwrap_or(u64::MAX),
        max_pacing_rate: u64::MAX,
        bytes_acked: facts.bytes_acked,
        bytes_received: facts.bytes_received,
        segs_out: facts.segments_out,
        segs_in: facts.segments_in,
        notsent_bytes: number(facts.unacked.saturating_sub(facts.in_flight)),
        // The kernel says all ones, too, when it has measured none.
        min_rtt: if facts.min_rtt_us == 0 {
            u32::MAX
        } else {
            facts.min_rtt_us
        },
        data_segs_in: facts.data_segments_in,
        data_segs_out: facts.data_segments_out,
        delivery_rate: facts.delivery_rate,
        bytes_sent: facts.bytes_sent,
        bytes_retrans: facts.bytes_resent,
        snd_wnd: facts.send_window,
        rcv_wnd: facts.receive_window,
        ..TcpInfo::default()
    }
}
