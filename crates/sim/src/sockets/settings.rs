//! Linux's names of what can be set for a whole host, and what they mean for ours.

use core::time::Duration;

use super::{Sockets, options};

/// Whether a setting was understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Set {
    /// It is in force.
    Done,
    /// Our stack has nothing of the kind.
    Unknown,
    /// The value makes no sense, or the first socket is open already.
    Refused(String),
}

impl Sockets {
    /// Sets something for the whole host, by Linux's name with or without `net.ipv4.` before it.
    /// Before the first socket or packet.
    pub fn set(&mut self, name: &str, value: &str) -> Set {
        if self.stack.is_some() {
            return Set::Refused(format!("{name}: there is a socket already"));
        }
        let Some(last) = value.split_whitespace().last() else {
            return Set::Refused(format!("{name} has no value"));
        };
        let short = name
            .trim_start_matches("net.ipv4.")
            .trim_start_matches("net.core.");
        if short == "tcp_congestion_control" {
            return match options::algorithm(last) {
                Some(algorithm) => {
                    self.defaults.congestion = algorithm;
                    Set::Done
                }
                None => Set::Refused(format!("{last}: no such congestion control")),
            };
        }
        let number = match last.strip_prefix("0x") {
            Some(digits) => u32::from_str_radix(digits, 16),
            None => last.parse(),
        };
        let Ok(number) = number else {
            return Set::Refused(format!("{name}: {last} is no number"));
        };
        self.set_number(short, number, value)
    }

    fn set_number(&mut self, name: &str, number: u32, value: &str) -> Set {
        let byte = u8::try_from(number).unwrap_or(u8::MAX);
        let short = u16::try_from(number).unwrap_or(u16::MAX).clamp(1, 32_767);
        let config = &mut self.config;
        let keep_alive = &mut self.defaults.keep_alive;
        match name {
            "mtu" => config.mtu = u16::try_from(number).unwrap_or(u16::MAX),
            "tcp_timestamps" => config.timestamps = number != 0,
            "tcp_sack" => config.selective_acks = number != 0,
            "tcp_ecn" => {
                config.ecn = match number {
                    0 => tcp::EcnPolicy::Off,
                    1 => tcp::EcnPolicy::On,
                    2 => tcp::EcnPolicy::Accept,
                    _ => return Set::Refused(format!("tcp_ecn={number} is not for us")),
                }
            }
            "tcp_fastopen" => {
                config.fast_open_client = number & 1 != 0;
                config.fast_open_server = number & 2 != 0;
            }
            "tcp_early_retrans" => config.tail_loss_probes = number != 0,
            "tcp_window_scaling" => config.window_scaling = number != 0,
            "tcp_syncookies" => config.syn_cookies = number != 0,
            "tcp_syn_retries" => config.syn_retries = byte,
            "tcp_synack_retries" => config.syn_ack_retries = byte,
            "tcp_retries2" => config.retries = byte,
            "tcp_orphan_retries" => config.orphan_retries = byte,
            "tcp_challenge_ack_limit" => config.challenge_acks_per_second = number,
            "tcp_keepalive_time" => keep_alive.idle = short,
            "tcp_keepalive_intvl" => keep_alive.interval = short,
            "tcp_keepalive_probes" => keep_alive.count = byte.clamp(1, 127),
            "tcp_fin_timeout" => {
                self.defaults.fin_wait_2_timeout = Duration::from_secs(number.into());
            }
            "tcp_wmem" => self.send_buffer = number as usize,
            "tcp_rmem" => {
                let middle = value.split_whitespace().nth(1).and_then(|n| n.parse().ok());
                config.max_receive_buffer = number;
                // As Linux: half of it is for what a segment costs beside its payload.
                self.defaults.receive_buffer = middle.unwrap_or(number) / 2;
            }
            "somaxconn" => self.somaxconn = number,
            "tcp_max_syn_backlog" => self.max_half_open = number,
            _ => return Set::Unknown,
        }
        Set::Done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_may_be_hexadecimal_as_in_linux() {
        let mut sockets = Sockets::new(Vec::new(), 1);
        assert_eq!(sockets.set("net.ipv4.tcp_syn_retries", "0x1f"), Set::Done);
        assert_eq!(sockets.config.syn_retries, 31);
        assert_eq!(sockets.set("tcp_syn_retries", "12"), Set::Done);
        assert_eq!(sockets.config.syn_retries, 12);
        let refused = sockets.set("tcp_syn_retries", "0xg");
        assert!(matches!(refused, Set::Refused(_)), "{refused:?}");
    }
}
