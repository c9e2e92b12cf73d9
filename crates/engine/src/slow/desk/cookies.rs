//! SYN cookies that the kernel has sent and that may still be answered: who answers one has a connection of which the
//! kernel knows nothing until then, and which is its own.

use std::time::Instant;

use crate::network::COOKIE_LIFE;

/// What is known of them.
#[derive(Debug, Default)]
pub(super) struct Cookies {
    /// How many had been sent when it was looked last.
    sent: Option<u64>,
    /// Until when the last of those may be answered.
    until: Option<Instant>,
}

impl Cookies {
    /// Whether some may be answered, where so many were sent so far; more than none if it is not known.
    pub fn may_be_answered(&mut self, sent: Option<u64>, now: Instant) -> bool {
        // Of those that were there before it was looked first nobody knows when they were sent.
        let more = sent.is_none_or(|sent| sent != self.sent.unwrap_or(0));
        if more {
            self.until = Some(now + COOKIE_LIFE);
        }
        self.sent = sent.or(self.sent);
        self.until.is_some_and(|until| now < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_cookie_may_be_answered_for_as_long_as_it_lives() {
        let (mut cookies, begin) = (Cookies::default(), Instant::now());
        let mut at = |seconds, sent| {
            let now = begin + Duration::from_secs(seconds);
            cookies.may_be_answered(sent, now)
        };
        assert!(!at(0, Some(0)), "none was sent");
        assert!(at(1, Some(3)));
        assert!(at(120, Some(3)));
        assert!(!at(121, Some(3)), "they are void");
        assert!(at(122, Some(4)));
        assert!(at(200, None), "it is not known");
        assert!(at(319, Some(4)));
        assert!(!at(320, Some(4)));
        let of_before = Cookies::default().may_be_answered(Some(9), begin);
        assert!(of_before, "nobody knows when those were sent");
    }
}
