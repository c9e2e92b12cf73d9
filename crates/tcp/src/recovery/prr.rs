//! Proportional rate reduction: how much may be sent during a recovery (RFC 6937, which RFC 9937
//! obsoletes).
//!
//! A window that is cut in one step lets nothing go until the flight has shrunk below it, and then
//! as much as whatever happens to arrive. Here each acknowledgement lets its share go, so that the
//! flight has shrunk to ssthresh just when the recovery ends. Where losses have taken it below
//! ssthresh, it grows back: by what has arrived, and by a segment more an acknowledgement, as in
//! slow start, while the repair goes well (RFC 6937 §3.1's slow-start reduction bound, and the
//! conservative bound while losses go on, as RFC 9937 chooses between the two).

/// The books of one recovery, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Prr {
    /// What was in flight when it began (RecoverFS).
    recover_fs: u32,
    /// What has arrived since (prr_delivered).
    prr_delivered: u32,
    /// What was sent since (prr_out).
    prr_out: u32,
}

impl Prr {
    pub(super) fn new(flight: u32) -> Prr {
        Prr {
            recover_fs: flight.max(1),
            ..Prr::default()
        }
    }

    pub(super) fn on_sent(&mut self, bytes: u32) {
        self.prr_out = self.prr_out.saturating_add(bytes);
    }

    /// `delivered` bytes have arrived, and `pipe` are in flight: how many may be sent now. `safe`
    /// tells that the cumulative acknowledgement has moved and no loss was found.
    //= RFC 6937 §3
    pub(super) fn on_ack(
        &mut self,
        delivered: u32,
        pipe: u32,
        ssthresh: u32,
        mss: u16,
        safe: bool,
    ) -> u32 {
        let mss = u32::from(mss);
        self.prr_delivered = self.prr_delivered.saturating_add(delivered);
        let quota = if pipe > ssthresh {
            let share = u64::from(self.prr_delivered) * u64::from(ssthresh);
            let share = share.div_ceil(u64::from(self.recover_fs));
            u32::try_from(share)
                .unwrap_or(u32::MAX)
                .saturating_sub(self.prr_out)
        } else {
            let owed = self
                .prr_delivered
                .saturating_sub(self.prr_out)
                .max(delivered);
            (owed + if safe { mss } else { 0 }).min(ssthresh - pipe)
        };
        // The first segment of a recovery goes at once.
        if self.prr_out == 0 {
            quota.max(mss)
        } else {
            quota
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Forty segments, one lost, ssthresh half: half of what arrives is let go, evenly.
    #[test]
    fn a_single_loss_halves_the_rate_evenly() {
        let mut prr = Prr::new(40_000);
        let (mut pipe, mut sent) = (39_000, Vec::new());
        for _ in 0..39 {
            pipe -= 1_000;
            let quota = prr.on_ack(1_000, pipe, 20_000, 1_000, false);
            let send = quota / 1_000 * 1_000;
            prr.on_sent(send);
            sent.push(send / 1_000);
            pipe += send;
        }
        assert_eq!(sent[..6], [1, 0, 0, 1, 0, 1]);
        assert!(
            sent[2..34].windows(2).all(|two| two[0] + two[1] == 1),
            "{sent:?}"
        );
        assert_eq!(pipe, 20_000);
    }

    #[test]
    fn after_many_losses_the_flight_grows_back_no_faster_than_slow_start() {
        let mut prr = Prr::new(20_000);
        prr.on_sent(1_000);
        // Losses have left three in flight, and ssthresh is ten.
        assert_eq!(prr.on_ack(1_000, 3_000, 10_000, 1_000, false), 1_000);
        assert_eq!(prr.on_ack(1_000, 3_000, 10_000, 1_000, true), 2_000);
        assert_eq!(prr.on_ack(5_000, 9_500, 10_000, 1_000, true), 500);
    }
}
