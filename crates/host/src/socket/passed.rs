//! What was passed to other programs.

use queue_pair::position;

/// What was passed, as far as the engine's word that nobody else has the connection is concerned.
#[derive(Debug, Default)]
pub(super) struct Passed {
    /// Tickets that were asked for and have not come.
    pub(super) asked: u32,
    /// The grant when the last one came: older ones know nothing of it.
    pub(super) under: Option<u16>,
}

impl Passed {
    /// Whether a grant is later than every ticket, so that what it says of others still holds.
    pub(super) fn is_before(&self, grant: u16) -> bool {
        let later = |under| {
            let ahead = (grant.wrapping_sub(under)) % position::GRANTS;
            (1..position::GRANTS / 2).contains(&ahead)
        };
        self.asked == 0 && self.under.is_none_or(later)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_before_a_ticket_says_nothing_of_whom_it_went_to() {
        let mut passed = Passed::default();
        assert!(passed.is_before(7), "nothing was passed");
        passed.under = Some(7);
        assert!(!passed.is_before(7) && !passed.is_before(6));
        assert!(passed.is_before(8));
        passed.under = Some(position::GRANTS - 1);
        assert!(passed.is_before(0), "grants begin anew");
        passed.asked = 1;
        assert!(!passed.is_before(0));
    }
}
