//! TCP_INFO and the names of congestion controls.

use core::mem::size_of;

use host::Socket;
use rustix::io::Errno;

/// The states' numbers in the kernel.
const STATES: [(&str, u8); 11] = [
    ("ESTABLISHED", 1),
    ("SYN-SENT", 2),
    ("SYN-RECEIVED", 3),
    ("FIN-WAIT-1", 4),
    ("FIN-WAIT-2", 5),
    ("TIME-WAIT", 6),
    ("CLOSED", 7),
    ("CLOSE-WAIT", 8),
    ("LAST-ACK", 9),
    ("LISTEN", 10),
    ("CLOSING", 11),
];

/// TCP_INFO, as far as the engine tells.
pub fn tcp_info(socket: &Socket) -> Result<libc::tcp_info, Errno> {
    // SAFETY: the structure is made of integers, of which zero is one.
    let mut info: libc::tcp_info = unsafe { core::mem::zeroed() };
    const { assert!(size_of::<libc::tcp_info>() >= 104) };
    let facts = match socket.info() {
        Ok(facts) => facts,
        Err(Errno::NOTCONN) => {
            info.tcpi_state = if socket.is_connected() { 1 } else { 7 };
            return Ok(info);
        }
        Err(error) => return Err(error),
    };
    let number = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    let mss = facts.send_mss.max(1);
    info.tcpi_state = STATES
        .iter()
        .find(|(name, _)| *name == facts.state)
        .map_or(1, |(_, number)| *number);
    info.tcpi_rto = facts.rto_us;
    info.tcpi_snd_mss = facts.send_mss;
    info.tcpi_rcv_mss = facts.send_mss;
    info.tcpi_unacked = number(facts.in_flight.div_ceil(mss.into()));
    info.tcpi_rtt = facts.rtt_us;
    info.tcpi_rttvar = facts.rtt_var_us;
    info.tcpi_snd_ssthresh = facts.slow_start_threshold / mss;
    info.tcpi_snd_cwnd = facts.congestion_window / mss;
    info.tcpi_advmss = facts.send_mss;
    info.tcpi_rcv_space = facts.receive_window;
    info.tcpi_total_retrans = number(facts.retransmits);
    Ok(info)
}

/// The engine's number for a congestion control.
pub fn congestion_code(name: &[u8]) -> Option<u32> {
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    match name {
        b"reno" => Some(0),
        b"cubic" => Some(1),
        _ => None,
    }
}

/// The name of a congestion control, as long as the kernel's buffer for it.
pub fn congestion_name(code: Option<u32>) -> [u8; 16] {
    let mut name = [0; 16];
    let given: &[u8] = if code == Some(0) { b"reno" } else { b"cubic" };
    name[..given.len()].copy_from_slice(given);
    name
}
