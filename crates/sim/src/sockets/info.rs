//! `TCP_INFO`, by the names of its fields.

use tcp::{ConnInfo, State};

use super::{Attempt, Fd, Role, Sockets};
use crate::script::{Errno, Info};

impl Sockets {
    /// Bytes that wait to be read, and bytes written and not acknowledged (SIOCINQ, SIOCOUTQ).
    ///
    /// # Errors
    /// It is no connection.
    pub fn queues(&mut self, fd: Fd) -> Attempt<(u64, u64)> {
        let Role::Connection(connection) = &self.socket(fd)?.role else {
            return Err(Errno::EINVAL.into());
        };
        let update = &connection.update;
        Ok((
            update.received - connection.consumed,
            connection.written - update.acked,
        ))
    }

    /// What `TCP_INFO` says of a connection. Windows and thresholds are in segments, times in
    /// microseconds, as on Linux.
    ///
    /// # Errors
    /// It is no connection, or the stack has forgotten it.
    pub fn info(&mut self, fd: Fd) -> Attempt<Info> {
        let now = self.now;
        let Role::Connection(connection) = &self.socket(fd)?.role else {
            return Err(Errno::EINVAL.into());
        };
        let id = connection.id;
        let info = self.stack().info(now, id).ok_or(Errno::EINVAL)?;
        Ok(fields(&info))
    }
}

fn fields(info: &ConnInfo) -> Info {
    let mss = u32::from(info.send_mss).max(1);
    let micros = |span: Option<core::time::Duration>| span.map_or(0, |s| s.as_micros() as i64);
    let scales = info.window_scales.unwrap_or((0, 0));
    let options = i64::from(info.timestamps)
        | i64::from(info.selective_acks) << 1
        | i64::from(info.window_scales.is_some()) << 2
        | i64::from(info.fast_open) << 5;
    Info::from([
        ("tcpi_state", state(info.state)),
        ("tcpi_options", options),
        ("tcpi_backoff", info.backoff.into()),
        ("tcpi_snd_wscale", scales.0.into()),
        ("tcpi_rcv_wscale", scales.1.into()),
        ("tcpi_rto", micros(Some(info.rto))),
        ("tcpi_snd_mss", info.send_mss.into()),
        ("tcpi_rcv_mss", info.receive_mss.into()),
        ("tcpi_unacked", info.in_flight.div_ceil(mss).into()),
        ("tcpi_rtt", micros(info.srtt)),
        ("tcpi_rttvar", micros(info.rttvar)),
        ("tcpi_min_rtt", micros(info.min_rtt)),
        ("tcpi_snd_cwnd", (info.cwnd / mss).into()),
        (
            "tcpi_snd_ssthresh",
            info.ssthresh
                .map_or(0x7fff_ffff, |bytes| i64::from(bytes / mss)),
        ),
        ("tcpi_total_retrans", info.retransmits.into()),
        ("tcpi_bytes_acked", info.bytes_acked as i64),
        ("tcpi_bytes_received", info.bytes_received as i64),
        ("tcpi_snd_wnd", info.send_window.into()),
        ("tcpi_retransmits", info.unanswered.into()),
        ("tcpi_probes", info.keep_alive_probes.into()),
        ("tcpi_lost", info.lost.div_ceil(mss).into()),
        ("tcpi_sacked", info.sacked.div_ceil(mss).into()),
        ("tcpi_retrans", info.retransmitted.div_ceil(mss).into()),
        ("tcpi_reordering", info.reordering.into()),
        ("tcpi_advmss", info.announced_mss.into()),
        ("tcpi_pmtu", info.path_mtu.into()),
        ("tcpi_segs_in", info.segments_in.into()),
        ("tcpi_segs_out", info.segments_out.into()),
        ("tcpi_data_segs_in", info.data_segments_in.into()),
        ("tcpi_data_segs_out", info.data_segments_out.into()),
        ("tcpi_bytes_sent", info.bytes_sent as i64),
        ("tcpi_bytes_retrans", info.bytes_retransmitted as i64),
    ])
}

/// The number that Linux has for a state.
fn state(state: State) -> i64 {
    match state {
        State::Established => 1,
        State::SynSent => 2,
        State::SynReceived => 3,
        State::FinWait1 => 4,
        State::FinWait2 => 5,
        State::TimeWait => 6,
        State::Closed => 7,
        State::CloseWait => 8,
        State::LastAck => 9,
        State::Closing => 11,
    }
}
