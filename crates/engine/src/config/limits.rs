//! Limits on what peers, hosts and the network can make the engine hold.

use serde::{Deserialize, Serialize};

use super::{OutOfRange, in_range};

/// Each limit is exact: what goes beyond is refused or dropped, and counted.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Connections, in all states but TIME-WAIT. An eighth is for root alone, and another, where several
    /// users have some, for those that have less than an equal share: new ones of the others are the kernel's.
    pub connections: u32,
    /// Connections that have not finished their handshake, over all listeners: beyond it, SYNs are answered by cookies.
    pub half_open: u32,
    /// Connections in TIME-WAIT: the oldest is forgotten first.
    pub time_wait: u32,
    /// Connections that their program has closed and their peer has not: beyond it, closing is by
    /// RST. An eighth is for root alone, and one for all others; of the rest, once a quarter is left, a user takes
    /// no more if it holds as much as is left, or, while nobody else has any, eight times as much.
    pub orphans: u32,
    /// Ranges that one connection holds out of order.
    pub out_of_order_ranges: u16,
    /// The same of all connections.
    pub out_of_order_ranges_in_total: u32,
    /// Segments that belong to no connection (RST, SYN-ACK) and wait to leave.
    pub control_segments: u16,
    /// Challenge acknowledgements a second (RFC 5961 §7).
    pub challenge_acks_per_second: u32,
    /// RSTs a second for segments that belong to nothing.
    pub resets_per_second: u32,
    /// Listeners; one user but root has at most half of them, and an eighth is for root alone.
    pub listeners: u32,
    /// Connections of one listener that wait for a process to accept them.
    pub accept_backlog: u32,
    /// Attached processes, and those that have ended while what they sent is still on its way. An eighth
    /// is for root alone.
    pub sessions: u32,
    /// The same of one user, once only a quarter of them is left.
    pub sessions_per_user: u32,
    /// Children of forks that have neither attached nor ended. An eighth is for root alone; once only a
    /// quarter is left, a user that has half of them gets no more.
    pub forks: u32,
    /// The same of connections on their way from one program to another (SCM_RIGHTS).
    pub tickets: u32,
    /// Bytes of a session's send area. Memory is used only as far as it is filled.
    pub send_area: u32,
    /// Bytes of a session's receive area. Memory is used only as far as it is filled.
    pub receive_area: u32,
    /// Bytes of all receive areas together that may be in use, beside 1 MiB of each (less where that and as much of
    /// each send area would be more than a quarter of the memory that there is, of all sessions together); what a send area
    /// holds beyond that counts, too, as far as there is something left of its user's. An eighth is for
    /// root alone; of the rest a user takes no more once it holds as much as is left. 0: half of what the
    /// machine has, or of what the engine's cgroup may have.
    pub receive_memory: u64,
    /// Entries of a session's rings, a power of two.
    pub ring_entries: u32,
    /// Bytes received for connections that no process has been handed yet, over all listeners. Users share it as they
    /// share [orphans](Self::orphans).
    pub unaccepted_bytes: u32,
    /// Frames that wait for their next hop to be resolved.
    pub held_frames: u32,
    /// Destinations whose next hop is remembered, so that for one that comes again the kernel need not be asked.
    pub paths: u32,
    /// Control connections, attached or not; one user but root has at most half of them, and an
    /// eighth is for root alone.
    pub control_connections: u32,
    /// Requests a second of each user but root on the control socket: those beyond it wait. To attach
    /// counts as ten, to ask for all counts or many connections as five.
    pub requests_per_second: u32,
    /// Ports leased from the kernel for connections that the engine opens.
    pub leased_ports: u32,
    /// Files that sessions send from, over all of them, and at most a quarter of what the engine may have
    /// open. One user but root has at most half of them, and an eighth is for root alone.
    pub files: u32,
    /// Reports of sockets that are not offloaded, kept for each process.
    pub reports: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 65_536,
            half_open: 4_096,
            time_wait: 65_536,
            orphans: 16_384,
            out_of_order_ranges: 1_024,
            out_of_order_ranges_in_total: 262_144,
            control_segments: 4_096,
            challenge_acks_per_second: 1_000,
            resets_per_second: 10_000,
            listeners: 256,
            accept_backlog: 4_096,
            sessions: 4_096,
            sessions_per_user: 1_024,
            forks: 4_096,
            tickets: 4_096,
            send_area: 64 << 20,
            receive_area: 64 << 20,
            receive_memory: 0,
            ring_entries: 16_384,
            unaccepted_bytes: 16 << 20,
            held_frames: 256,
            paths: 16_384,
            control_connections: 8_192,
            requests_per_second: 10_000,
            leased_ports: 8_192,
            files: 4_096,
            reports: 256,
        }
    }
}

impl Limits {
    pub(super) fn check(&self) -> Result<(), OutOfRange> {
        let of = |key, value: u32, low, high| in_range("limits", key, value.into(), low, high);
        of("connections", self.connections, 1, 1 << 24)?;
        of("half_open", self.half_open, 1, 1 << 20)?;
        of("time_wait", self.time_wait, 0, 1 << 24)?;
        of("orphans", self.orphans, 0, 1 << 24)?;
        of(
            "out_of_order_ranges",
            self.out_of_order_ranges.into(),
            1,
            65_535,
        )?;
        of(
            "out_of_order_ranges_in_total",
            self.out_of_order_ranges_in_total,
            1,
            1 << 28,
        )?;
        of("control_segments", self.control_segments.into(), 1, 65_535)?;
        of(
            "challenge_acks_per_second",
            self.challenge_acks_per_second,
            1,
            1 << 30,
        )?;
        of("resets_per_second", self.resets_per_second, 0, 1 << 30)?;
        of("listeners", self.listeners, 1, 65_535)?;
        of("accept_backlog", self.accept_backlog, 1, 65_535)?;
        of("sessions", self.sessions, 1, 4_096)?;
        of("sessions_per_user", self.sessions_per_user, 1, 4_096)?;
        of("forks", self.forks, 1, 65_536)?;
        of("tickets", self.tickets, 1, 65_536)?;
        of("send_area", self.send_area, 1 << 16, 1 << 31)?;
        of("receive_area", self.receive_area, 1 << 16, 1 << 31)?;
        in_range("limits", "receive_memory", self.receive_memory, 0, 1 << 50)?;
        of("ring_entries", self.ring_entries, 64, 1 << 16)?;
        if !self.ring_entries.is_power_of_two() {
            return Err(OutOfRange {
                table: "limits",
                key: "ring_entries",
                value: self.ring_entries.to_string(),
                allowed: "a power of two".to_owned(),
            });
        }
        of("unaccepted_bytes", self.unaccepted_bytes, 1 << 16, 1 << 31)?;
        of("held_frames", self.held_frames, 0, 65_536)?;
        of("paths", self.paths, 16, 1 << 20)?;
        of("control_connections", self.control_connections, 1, 65_536)?;
        of("requests_per_second", self.requests_per_second, 1, 1 << 30)?;
        of("leased_ports", self.leased_ports, 0, 28_000)?;
        of("files", self.files, 0, 65_536)?;
        of("reports", self.reports, 0, 65_536)
    }
}
