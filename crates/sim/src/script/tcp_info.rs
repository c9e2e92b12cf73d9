//! `struct tcp_info` of `linux/tcp.h`: what stands where in it. The kernel only ever adds to its end.

use super::Info;

/// How long the structure is, as far as it is known here.
const LEN: usize = 232;

/// Fields of one byte.
const BYTES: &[(&str, usize)] = &[
    ("tcpi_state", 0),
    ("tcpi_ca_state", 1),
    ("tcpi_retransmits", 2),
    ("tcpi_probes", 3),
    ("tcpi_backoff", 4),
    ("tcpi_options", 5),
];

/// The byte that holds both window scales, the peer's in its low half.
const SCALES: usize = 6;

/// Fields of 32 bits.
const WORDS: &[(&str, usize)] = &[
    ("tcpi_rto", 8),
    ("tcpi_ato", 12),
    ("tcpi_snd_mss", 16),
    ("tcpi_rcv_mss", 20),
    ("tcpi_unacked", 24),
    ("tcpi_sacked", 28),
    ("tcpi_lost", 32),
    ("tcpi_retrans", 36),
    ("tcpi_last_data_sent", 44),
    ("tcpi_last_data_recv", 52),
    ("tcpi_last_ack_recv", 56),
    ("tcpi_pmtu", 60),
    ("tcpi_rcv_ssthresh", 64),
    ("tcpi_rtt", 68),
    ("tcpi_rttvar", 72),
    ("tcpi_snd_ssthresh", 76),
    ("tcpi_snd_cwnd", 80),
    ("tcpi_advmss", 84),
    ("tcpi_reordering", 88),
    ("tcpi_total_retrans", 100),
    ("tcpi_segs_out", 136),
    ("tcpi_segs_in", 140),
    ("tcpi_notsent_bytes", 144),
    ("tcpi_min_rtt", 148),
    ("tcpi_data_segs_in", 152),
    ("tcpi_data_segs_out", 156),
    ("tcpi_delivered", 192),
    ("tcpi_delivered_ce", 196),
    ("tcpi_dsack_dups", 216),
    ("tcpi_reord_seen", 220),
    ("tcpi_snd_wnd", 228),
];

/// Fields of 64 bits.
const LONG_WORDS: &[(&str, usize)] = &[
    ("tcpi_bytes_acked", 120),
    ("tcpi_bytes_received", 128),
    ("tcpi_bytes_sent", 200),
    ("tcpi_bytes_retrans", 208),
];

/// The fields that are there.
pub fn decode(bytes: &[u8]) -> Info {
    let byte = |at: usize| i64::from(bytes.get(at).copied().unwrap_or(0));
    let mut info = Info::from([
        ("tcpi_snd_wscale", byte(SCALES) & 15),
        ("tcpi_rcv_wscale", byte(SCALES) >> 4),
    ]);
    for &(name, at) in BYTES {
        info.insert(name, byte(at));
    }
    for &(name, at) in WORDS {
        if let Some(word) = bytes.get(at..at + 4) {
            let word = u32::from_ne_bytes([word[0], word[1], word[2], word[3]]);
            info.insert(name, word.into());
        }
    }
    for &(name, at) in LONG_WORDS {
        if let Some(word) = bytes.get(at..at + 8) {
            let word = word.iter().rev().fold(0, |sum, &b| sum << 8 | u64::from(b));
            info.insert(name, i64::try_from(word).unwrap_or(i64::MAX));
        }
    }
    info
}

/// The structure with these fields; zero where there is none.
pub fn encode(info: &Info) -> Vec<u8> {
    let value = |name: &str| info.get(name).copied().unwrap_or(0);
    let mut bytes = vec![0; LEN];
    for &(name, at) in BYTES {
        bytes[at] = u8::try_from(value(name)).unwrap_or(u8::MAX);
    }
    let scales = value("tcpi_rcv_wscale") << 4 | value("tcpi_snd_wscale") & 15;
    bytes[SCALES] = u8::try_from(scales).unwrap_or(0);
    for &(name, at) in WORDS {
        let word = u32::try_from(value(name)).unwrap_or(u32::MAX);
        bytes[at..at + 4].copy_from_slice(&word.to_ne_bytes());
    }
    for &(name, at) in LONG_WORDS {
        bytes[at..at + 8].copy_from_slice(&value(name).to_ne_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let info = Info::from([
            ("tcpi_state", 8),
            ("tcpi_snd_wscale", 3),
            ("tcpi_rcv_wscale", 7),
            ("tcpi_snd_cwnd", 10),
            ("tcpi_bytes_acked", 1 << 40),
        ]);
        let read = decode(&encode(&info));
        for (name, value) in info {
            assert_eq!(read[name], value, "{name}");
        }
    }
}
