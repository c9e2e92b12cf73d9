//! Options that the engine has not got, and what becomes of a socket on which the program sets one
//! while it is the kernel's, before it connects or listens.
//!
//! - What changes whom it talks to, or what stands in its packets, only the kernel can do: such a
//!   socket stays with it, and explain names the option.
//! - What is a hint is told of once, and without effect.
//! - A program for the kernel that chooses among the sockets of a port is refused: it would see none of
//!   the connections that the engine shares out.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU64, Ordering};

use libc::{IPPROTO_IP, IPPROTO_IPV6, IPPROTO_TCP, SOL_SOCKET, socklen_t};
use rustix::io::Errno;

use crate::engine::{report, settings};

/// What is done about an option.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Treatment {
    /// The socket is the kernel's.
    Kernel,
    /// It has no effect.
    Hint,
    /// It is refused, as by a kernel that has not got it.
    Refused,
}

struct Special {
    level: c_int,
    name: c_int,
    /// What is said: a reason for a line of explain.
    said: &'static str,
    treatment: Treatment,
}

macro_rules! special {
    ($($treatment:ident $level:ident $name:literal = $value:expr;)*) => {
        [$(Special {
            level: $level,
            name: $value,
            said: said!($treatment $name),
            treatment: Treatment::$treatment,
        }),*]
    };
}

macro_rules! said {
    (Kernel $name:literal) => {
        concat!(
            "its program has set ",
            $name,
            ", which the engine has not got"
        )
    };
    (Hint $name:literal) => {
        concat!($name, " has no effect on connections of the engine's")
    };
    (Refused $name:literal) => {
        concat!(
            $name,
            " is refused: the engine shares connections out by itself"
        )
    };
}

/// All of them. Numbers that libc does not name are those of asm-generic/socket.h, linux/tcp.h and
/// linux/in.h.
static ALL: [Special; 35] = special! {
    Kernel SOL_SOCKET "SO_MARK" = libc::SO_MARK;
    Kernel SOL_SOCKET "SO_DONTROUTE" = libc::SO_DONTROUTE;
    Kernel SOL_SOCKET "SO_MAX_PACING_RATE" = libc::SO_MAX_PACING_RATE;
    Kernel SOL_SOCKET "SO_ATTACH_FILTER" = libc::SO_ATTACH_FILTER;
    Kernel SOL_SOCKET "SO_ATTACH_BPF" = libc::SO_ATTACH_BPF;
    Kernel SOL_SOCKET "SO_TIMESTAMP" = libc::SO_TIMESTAMP;
    Kernel SOL_SOCKET "SO_TIMESTAMPNS" = libc::SO_TIMESTAMPNS;
    Kernel SOL_SOCKET "SO_TIMESTAMPING" = libc::SO_TIMESTAMPING;
    Kernel SOL_SOCKET "SO_TXTIME" = libc::SO_TXTIME;
    Kernel SOL_SOCKET "SO_PEEK_OFF" = libc::SO_PEEK_OFF;
    Kernel IPPROTO_TCP "TCP_MD5SIG" = libc::TCP_MD5SIG;
    Kernel IPPROTO_TCP "TCP_MD5SIG_EXT" = 32;
    Kernel IPPROTO_TCP "TCP_AO_ADD_KEY" = 38;
    Kernel IPPROTO_TCP "TCP_REPAIR" = libc::TCP_REPAIR;
    Kernel IPPROTO_TCP "TCP_SAVE_SYN" = 27;
    Kernel IPPROTO_TCP "TCP_TX_DELAY" = 37;
    Kernel IPPROTO_TCP "TCP_INQ" = 36;
    Kernel IPPROTO_IP "IP_TTL" = libc::IP_TTL;
    Kernel IPPROTO_IP "IP_MINTTL" = libc::IP_MINTTL;
    Kernel IPPROTO_IP "IP_OPTIONS" = libc::IP_OPTIONS;
    Kernel IPPROTO_IP "IP_TRANSPARENT" = libc::IP_TRANSPARENT;
    Kernel IPPROTO_IP "IP_UNICAST_IF" = 50;
    Kernel IPPROTO_IP "IP_IPSEC_POLICY" = 16;
    Kernel IPPROTO_IP "IP_XFRM_POLICY" = 17;
    Kernel IPPROTO_IPV6 "IPV6_UNICAST_HOPS" = libc::IPV6_UNICAST_HOPS;
    Kernel IPPROTO_IPV6 "IPV6_MINHOPCOUNT" = 73;
    Kernel IPPROTO_IPV6 "IPV6_TRANSPARENT" = 75;
    Kernel IPPROTO_IPV6 "IPV6_RTHDR" = libc::IPV6_RTHDR;
    Kernel IPPROTO_IPV6 "IPV6_XFRM_POLICY" = 35;
    Hint SOL_SOCKET "SO_PRIORITY" = libc::SO_PRIORITY;
    Hint SOL_SOCKET "SO_INCOMING_CPU" = libc::SO_INCOMING_CPU;
    Hint IPPROTO_TCP "TCP_SYNCNT" = libc::TCP_SYNCNT;
    Hint IPPROTO_TCP "TCP_WINDOW_CLAMP" = libc::TCP_WINDOW_CLAMP;
    Refused SOL_SOCKET "SO_ATTACH_REUSEPORT_CBPF" = libc::SO_ATTACH_REUSEPORT_CBPF;
    Refused SOL_SOCKET "SO_ATTACH_REUSEPORT_EBPF" = libc::SO_ATTACH_REUSEPORT_EBPF;
};

fn find(level: c_int, name: c_int) -> Option<(usize, &'static Special)> {
    let is = |special: &&Special| (special.level, special.name) == (level, name);
    let index = ALL.iter().position(|special| is(&special))?;
    Some((index, &ALL[index]))
}

/// Which of them are set on one socket.
#[derive(Default)]
pub struct Specials(AtomicU64);

impl Clone for Specials {
    fn clone(&self) -> Self {
        Self(AtomicU64::new(self.0.load(Ordering::Relaxed)))
    }
}

impl Specials {
    /// The kernel has taken an option.
    ///
    /// # Safety
    /// `length` bytes at `value` are readable.
    pub unsafe fn set(&self, level: c_int, name: c_int, value: *const c_void, length: socklen_t) {
        let Some((index, _)) = find(level, name) else {
            return;
        };
        // What is an integer is switched off by 0; of IP_TTL and its like, −1 is the default.
        let integer = length as usize == size_of::<c_int>() && !value.is_null();
        // SAFETY: as the caller promises.
        let off = integer && matches!(unsafe { value.cast::<c_int>().read_unaligned() }, 0 | -1);
        if off {
            self.0.fetch_and(!(1 << index), Ordering::Relaxed);
        } else {
            self.0.fetch_or(1 << index, Ordering::Relaxed);
        }
    }

    /// Why the socket is the kernel's, if it is for one of them.
    pub fn reason(&self) -> Option<&'static str> {
        let mut set = self.those();
        let found = set.find(|special| special.treatment == Treatment::Kernel);
        found.map(|special| special.said)
    }

    /// The socket is the engine's: says which of them have no effect.
    pub fn tell(&self) {
        for special in self.those() {
            if special.treatment == Treatment::Hint {
                report::remark(special.said);
            }
        }
    }

    fn those(&self) -> impl Iterator<Item = &'static Special> {
        let set = self.0.load(Ordering::Relaxed);
        let is_set = move |(index, _): &(usize, _)| set & 1 << index != 0;
        ALL.iter()
            .enumerate()
            .filter(is_set)
            .map(|(_, special)| special)
    }
}

/// Whether a socket that connects or listens later, or listens already, may have an option.
///
/// # Errors
/// `ENOPROTOOPT`, which is told: the engine has not got it, and the program would not notice.
pub fn check(level: c_int, name: c_int, listens_here: bool) -> Result<(), Errno> {
    let Some((_, special)) = find(level, name).filter(|_| settings::get().is_some()) else {
        return Ok(());
    };
    let too_late = special.treatment == Treatment::Kernel && listens_here;
    if special.treatment == Treatment::Refused || too_late {
        report::remark(special.said);
        return Err(Errno::NOPROTOOPT);
    }
    Ok(())
}

/// An option is set on a connection of the engine's that has no effect there: it is told of, if it
/// might be missed.
pub fn without_effect(level: c_int, name: c_int) {
    if let Some((_, special)) = find(level, name) {
        report::remark(special.said);
    }
}

/// What a refused option is called.
pub fn title(level: c_int, name: c_int) -> String {
    match find(level, name) {
        Some((_, special)) => {
            let words = special.said.split(&[' ', ','][..]);
            let mut names = words.filter(|word| word.contains('_'));
            names.next().unwrap_or_default().to_owned()
        }
        None => format!("number {name} of level {level}"),
    }
}
