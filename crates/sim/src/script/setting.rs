//! What scripts may set: names of Linux's that both stacks understand.

/// A name and its value, `net.ipv4.tcp_sack=0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// One of [`NAMES`].
    pub name: &'static str,
    /// Numbers separated by blanks, or a word.
    pub value: String,
}

impl Setting {
    /// The value as one number.
    pub fn number(&self) -> Option<u64> {
        self.value.parse().ok()
    }

    /// The last of the numbers of the value: of three, the maximum.
    pub fn last_number(&self) -> Option<u64> {
        self.value.split_whitespace().last()?.parse().ok()
    }
}

/// Every name that a script may set.
pub const NAMES: &[&str] = &[
    "net.core.somaxconn",
    "net.ipv4.tcp_abort_on_overflow",
    "net.ipv4.tcp_challenge_ack_limit",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_early_retrans",
    "net.ipv4.tcp_ecn",
    "net.ipv4.tcp_fastopen",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_frto",
    "net.ipv4.tcp_invalid_ratelimit",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_mtu_probing",
    "net.ipv4.tcp_orphan_retries",
    "net.ipv4.tcp_recovery",
    "net.ipv4.tcp_retries2",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_syn_linear_timeouts",
    "net.ipv4.tcp_syn_retries",
    "net.ipv4.tcp_synack_retries",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_tw_reuse",
    "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_wmem",
];

/// The entry of [`NAMES`] that is spelled like this.
pub fn known(name: &str) -> Option<&'static str> {
    NAMES.iter().find(|known| **known == name).copied()
}
