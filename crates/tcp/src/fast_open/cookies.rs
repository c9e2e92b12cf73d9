//! The server's cookies (RFC 7413 §4.1.2): eight bytes of SipHash over both addresses, by a key that
//! rotates. A cookie is good for one to two periods; a client that brings one of the old key gets a new
//! one with the SYN-ACK.

use core::net::IpAddr;
use core::time::Duration;

use wire::flow::{FlowKey, FlowMac};
use wire::tcp::FastOpenCookie;

use crate::Instant;

/// For how long a key makes new cookies; for as long again these are still accepted.
const PERIOD: Duration = Duration::from_secs(3600);

/// What a cookie is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Nothing: it asks for one, or is none of ours.
    Unknown,
    /// It is of the key before this one.
    Old,
    /// It is what the peer would be given now.
    Current,
}

pub(crate) struct Cookies {
    master: FlowMac,
    /// The period of the keys below.
    period: u64,
    current: FlowMac,
    previous: FlowMac,
}

impl Cookies {
    pub(super) fn new(key: [u8; 16]) -> Self {
        let master = FlowMac::new(key);
        Self {
            master,
            period: 0,
            current: master.derive(0),
            previous: master.derive(u64::MAX),
        }
    }

    fn rotate(&mut self, now: Instant) {
        let period = now.as_nanos() / PERIOD.as_nanos() as u64;
        if period != self.period {
            self.current = self.master.derive(period);
            self.previous = self.master.derive(period.wrapping_sub(1));
            self.period = period;
        }
    }

    /// The cookie of a peer.
    //= RFC 7413 §4.1.2
    pub(crate) fn make(&mut self, now: Instant, local: IpAddr, remote: IpAddr) -> FastOpenCookie {
        self.rotate(now);
        cookie(&self.current, local, remote)
    }

    /// What a cookie is worth that a peer has brought.
    //= RFC 7413 §4.1.2
    pub(crate) fn standing(
        &mut self,
        now: Instant,
        (local, remote): (IpAddr, IpAddr),
        brought: &FastOpenCookie,
    ) -> Standing {
        if brought.is_request() {
            return Standing::Unknown;
        }
        self.rotate(now);
        if *brought == cookie(&self.current, local, remote) {
            Standing::Current
        } else if *brought == cookie(&self.previous, local, remote) {
            Standing::Old
        } else {
            Standing::Unknown
        }
    }
}

fn cookie(key: &FlowMac, local: IpAddr, remote: IpAddr) -> FastOpenCookie {
    let both = FlowKey {
        local,
        remote,
        local_port: 0,
        remote_port: 0,
    };
    FastOpenCookie::new(&key.tag(&both, 0).to_be_bytes()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCAL: IpAddr = IpAddr::V4(core::net::Ipv4Addr::new(192, 0, 2, 1));
    const REMOTE: IpAddr = IpAddr::V4(core::net::Ipv4Addr::new(198, 51, 100, 7));

    //~ RFC 7413 §4.1.2
    #[test]
    fn a_cookie_is_the_peers_own_and_good_for_one_to_two_periods() {
        let mut c = Cookies::new([3; 16]);
        let at = |seconds: u64| Instant::from_secs(7200 + seconds);
        let given = c.make(at(10), LOCAL, REMOTE);
        assert_eq!(given.as_slice().len(), 8);
        let standing =
            |c: &mut Cookies, seconds, from, to| c.standing(at(seconds), (to, from), &given);
        assert_eq!(standing(&mut c, 3599, REMOTE, LOCAL), Standing::Current);
        assert_eq!(standing(&mut c, 3600, REMOTE, LOCAL), Standing::Old);
        assert_eq!(standing(&mut c, 7199, REMOTE, LOCAL), Standing::Old);
        assert_eq!(standing(&mut c, 7200, REMOTE, LOCAL), Standing::Unknown);
        assert_eq!(standing(&mut c, 20, LOCAL, LOCAL), Standing::Unknown);
        assert_eq!(standing(&mut c, 20, REMOTE, REMOTE), Standing::Unknown);
        let other = Cookies::new([4; 16]).standing(at(20), (LOCAL, REMOTE), &given);
        assert_eq!(other, Standing::Unknown);
        let request = FastOpenCookie::REQUEST;
        let asked = c.standing(at(20), (LOCAL, REMOTE), &request);
        assert_eq!(asked, Standing::Unknown);
    }
}
