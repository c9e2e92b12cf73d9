//! The client's cache (RFC 7413 §4.1.3): the cookies that servers have given, with their MSS, and servers
//! that do not answer SYNs with data, or that stand behind middleboxes which drop them.

use std::collections::HashMap;

use core::net::IpAddr;
use core::time::Duration;

use wire::tcp::FastOpenCookie;

use crate::Instant;
use crate::aging::Aging;

/// For how long a cookie is remembered. A server that has changed its key gives another.
const LIFETIME: Duration = Duration::from_secs(24 * 3600);
/// For how long Fast Open is not tried with a server after a SYN with the option got no answer.
const PAUSE: Duration = Duration::from_secs(3600);

/// The two lists: cookies that servers have given, and servers that are avoided.
const GIVEN: u8 = 0;
const AVOIDED: u8 = 1;

/// What a SYN to a server should carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// Nothing special.
    Nothing,
    /// The request for a cookie.
    Request,
    /// This cookie, and data of no more than the server's MSS.
    Cookie(FastOpenCookie, u16),
}

pub(crate) struct Remembered {
    /// By the server's address; `None` where it is not to be tried.
    known: Aging<(IpAddr, Option<(FastOpenCookie, u16)>)>,
    by_remote: HashMap<IpAddr, u32>,
    limit: u32,
}

impl Remembered {
    pub(super) fn new(limit: u32) -> Self {
        Self {
            known: Aging::new([LIFETIME, PAUSE]),
            by_remote: HashMap::new(),
            limit,
        }
    }

    /// Whether it keeps to its limit, and each will be forgotten.
    pub(crate) fn is_bounded(&self) -> bool {
        self.known.len() <= self.limit
            && self.by_remote.len() == self.known.len() as usize
            && self.known.is_in_order()
    }

    //= RFC 7413 §4.1.3
    pub(crate) fn ask(&mut self, now: Instant, remote: IpAddr) -> Asked {
        self.forget_old(now);
        let known = self.by_remote.get(&remote).copied();
        match known.and_then(|index| self.known.get_mut(index)) {
            None => Asked::Request,
            Some((_, None)) => Asked::Nothing,
            Some((_, Some((cookie, mss)))) => Asked::Cookie(*cookie, *mss),
        }
    }

    /// A server has given a cookie, and announced its MSS.
    //= RFC 7413 §4.1.3
    pub(crate) fn learn(&mut self, now: Instant, remote: IpAddr, cookie: FastOpenCookie, mss: u16) {
        self.note(now, GIVEN, (remote, Some((cookie, mss))));
    }

    /// A SYN with the option got no answer in time.
    //= RFC 7413 §4.1.3
    pub(crate) fn avoid(&mut self, now: Instant, remote: IpAddr) {
        self.note(now, AVOIDED, (remote, None));
    }

    /// Puts an entry on a list. If there are too many, the oldest is forgotten.
    fn note(&mut self, now: Instant, list: u8, entry: (IpAddr, Option<(FastOpenCookie, u16)>)) {
        self.forget_old(now);
        if let Some(&index) = self.by_remote.get(&entry.0) {
            self.forget(index);
        }
        if self.known.len() >= self.limit
            && let Some(oldest) = self.known.first()
        {
            self.forget(oldest);
        }
        if self.known.len() < self.limit {
            let index = self.known.insert(now, list, entry);
            self.by_remote.insert(entry.0, index);
        }
    }

    fn forget_old(&mut self, now: Instant) {
        while let Some((index, _)) = self.known.expired(now) {
            self.forget(index);
        }
    }

    fn forget(&mut self, index: u32) {
        if let Some((remote, _)) = self.known.remove(index) {
            self.by_remote.remove(&remote);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(n: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, n])
    }

    //~ RFC 7413 §4.1.3
    #[test]
    fn a_cookie_is_kept_for_a_day_and_silence_for_an_hour() {
        let at = Instant::from_secs;
        let mut r = Remembered::new(2);
        let cookie = FastOpenCookie::new(&[1, 2, 3, 4]).unwrap();
        assert_eq!(r.ask(at(0), server(1)), Asked::Request);
        r.learn(at(0), server(1), cookie, 1400);
        r.avoid(at(0), server(2));
        assert_eq!(r.ask(at(3599), server(2)), Asked::Nothing);
        assert_eq!(r.ask(at(3600), server(2)), Asked::Request);
        assert_eq!(r.ask(at(86_399), server(1)), Asked::Cookie(cookie, 1400));
        assert_eq!(r.ask(at(86_400), server(1)), Asked::Request);
        // One entry a server, and the oldest makes room.
        r.learn(at(90_000), server(1), cookie, 1);
        r.learn(at(90_001), server(1), cookie, 2);
        r.learn(at(90_002), server(2), cookie, 3);
        assert_eq!(r.ask(at(90_002), server(1)), Asked::Cookie(cookie, 2));
        r.learn(at(90_003), server(3), cookie, 4);
        assert_eq!(r.ask(at(90_003), server(1)), Asked::Request);
        assert_eq!(r.ask(at(90_003), server(2)), Asked::Cookie(cookie, 3));
        r.avoid(at(90_004), server(3));
        assert_eq!(r.ask(at(90_004), server(3)), Asked::Nothing);
        assert_eq!(Remembered::new(0).ask(at(0), server(1)), Asked::Request);
    }
}
