//! The connection as a value (see [`crate::snapshot`]).

use core::net::SocketAddr;

use super::{Connection, ReceiveVars, SendVars, Timer, TimestampVars, milliseconds, seconds};
use crate::Instant;
use crate::fast_open::FastOpen;
use crate::recovery::Pool;
use crate::snapshot::{
    Agreed, Ecn, Owner, Path, ReceiveSide, SendSide, Snapshot, TimestampClock, Totals, VERSION,
    Waits,
};
use crate::time::Nanos;

impl Connection {
    /// It is somebody else's now: what it has borrowed from the stack goes back.
    pub(crate) fn give_back_flight(&mut self, pool: &mut Pool) {
        self.recovery.release(pool);
    }

    /// Everything that another stack needs to go on. Each field is named here, so that whoever adds one
    /// decides what becomes of it.
    pub(crate) fn export(&self, now: Instant) -> Snapshot {
        let Connection {
            state,
            // These follow from the rest, or are those of this stack.
            wants_transmit: _,
            changed: _,
            in_ready: _,
            in_events: _,
            in_flows: _,
            admission: _,
            counted_ranges: _,
            reset_due: _,
            accepted: _,
            failed: _,
            // The persist timer comes again, a tail loss probe too.
            sws_override: _,
            tlp_due: _,
            // Whoever imports it asks for its payload again.
            payload_away: _,
            // Measured again.
            validation: _,
            delivery_rate: _,
            // At worst an unacceptable segment is answered once more.
            answered_at: _,
            ack_now,
            duplicates_owed,
            syn_due,
            window_or_keep_alive_probe_due,
            shutdown,
            read_shut,
            fin_sent,
            orphan,
            connected,
            no_delay,
            cork,
            more,
            selective,
            fast_open,
            syn_data,
            soft_error,
            key,
            snd,
            rcv,
            ts,
            ecn,
            path,
            timers,
            tuning,
            reassembly,
            queue,
            recovery,
            rtt,
            congestion,
            backoff,
            unanswered,
            keep_alive_probes,
            stalled_since,
            pushed,
            keep_alive,
            local_mss,
            user_timeout,
            fin_wait_2_timeout,
            retransmits,
            segments_in,
            segments_out,
            data_segments_in,
            data_segments_out,
            bytes_retransmitted,
            last_sent_ms,
            last_received_ms,
        } = self;
        let SendVars {
            una,
            nxt,
            wnd,
            max_wnd,
            wl1,
            wl2,
            sml,
            mss: _,
            peer_mss,
            sent_us: _,
            scale,
            scaling,
        } = *snd;
        let ReceiveVars {
            nxt: rcv_nxt,
            adv,
            acked,
            mss,
            scale: rcv_scale,
            quick,
            buffer,
            limit: _,
            dsack,
            received,
            consumed,
            fin_at,
        } = *rcv;
        let TimestampVars {
            recent,
            recent_at,
            offset: _,
            retransmitted,
            enabled,
        } = *ts;
        let left = |timer: Timer| {
            let left = timers.left(timer, now);
            let nanos = u64::try_from(left.as_nanos()).unwrap_or(u64::MAX);
            timers.is_set(timer).then_some(nanos)
        };
        let told = dsack.left == dsack.right && *duplicates_owed == 0;
        let [srtt, rttvar, min_rtt] = rtt.estimates().map(Nanos::get);
        Snapshot {
            version: VERSION,
            local: SocketAddr::new(key.local, key.local_port),
            remote: SocketAddr::new(key.remote, key.remote_port),
            state: *state,
            agreed: Agreed {
                window_scales: scaling.then_some((scale, rcv_scale)),
                timestamps: enabled.then(|| TimestampClock {
                    recent,
                    recent_age_seconds: seconds(now).wrapping_sub(recent_at),
                    retransmitted,
                }),
                timestamp_now: self.timestamp(now),
                selective_acks: *selective,
                ecn: ecn.enabled.then_some(Ecn {
                    echo: ecn.echo,
                    reduced: ecn.reduced,
                    until: ecn.until.0,
                }),
                peer_mss,
            },
            send: SendSide {
                una: una.0,
                nxt: nxt.0,
                wnd,
                max_wnd,
                wl1: wl1.0,
                wl2: wl2.0,
                sml: sml.0,
                acked: queue.start(),
                extents: queue.iter().collect(),
                pushed: *pushed,
                shutdown: *shutdown,
                fin_sent: *fin_sent,
                // One that waits for data is not waited for elsewhere: the stack that imports it may know no cookie.
                syn_due: *syn_due || *fast_open == FastOpen::Held,
                syn_data: *syn_data,
                fast_open: match fast_open {
                    FastOpen::Held => FastOpen::Wanted,
                    other => *other,
                },
                window_or_keep_alive_probe_due: *window_or_keep_alive_probe_due,
            },
            receive: ReceiveSide {
                nxt: rcv_nxt.0,
                adv: adv.0,
                mss,
                ack_owed: *ack_now || acked != rcv_nxt || !told,
                quick,
                buffer,
                tuned: tuning.on,
                sender_rtt_ms: tuning.rtt_ms,
                received,
                consumed,
                fin_at: (fin_at != u64::MAX).then_some(fin_at),
                shutdown: *read_shut,
                held: reassembly
                    .ranges()
                    .map(|range| (range.start, range.end))
                    .collect(),
            },
            path: Path {
                mtu: path.mtu,
                too_big: path.too_big,
                look_in_seconds: path.look_at.wrapping_sub(seconds(now)) as i32,
                guessed: path.guessed,
                local_mss: *local_mss,
                srtt,
                rttvar,
                min_rtt,
                soft_error: *soft_error,
            },
            congestion: congestion.export(),
            recovery: recovery.export(now),
            waits: Waits {
                rto_or_persist: recovery
                    .rto_left(now)
                    .filter(|_| !fast_open.is_pending())
                    .map(Nanos::get)
                    .or_else(|| left(Timer::Transmit)),
                keep_alive: left(Timer::KeepAlive),
                cork_or_fin_wait_2: left(Timer::CorkOrFinWait2),
                backoff: *backoff,
                unanswered: *unanswered,
                keep_alive_probes: *keep_alive_probes,
                stalled: now.since(*stalled_since).get(),
                silent_ms: milliseconds(now).wrapping_sub(*last_sent_ms),
                deaf_ms: milliseconds(now).wrapping_sub(*last_received_ms),
            },
            owner: Owner {
                orphan: *orphan,
                connected: *connected,
                cork: *cork,
                more: *more,
                no_delay: *no_delay,
                keep_alive: *keep_alive,
                user_timeout_ms: user_timeout.count(),
                fin_wait_2_timeout_ms: fin_wait_2_timeout.count(),
            },
            totals: Totals {
                retransmits: *retransmits,
                segments_in: *segments_in,
                segments_out: *segments_out,
                data_segments_in: *data_segments_in,
                data_segments_out: *data_segments_out,
                bytes_retransmitted: *bytes_retransmitted,
            },
        }
    }
}
