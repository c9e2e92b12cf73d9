//! What every algorithm keeps: cwnd, ssthresh, segment size; and slow start, which is the same
//! for all.

/// The largest congestion window, in bytes: no peer can offer more (RFC 7323 section 2.3).
pub const MAX_WINDOW: u32 = 1 << 30;

/// L of appropriate byte counting (ABC, RFC 3465 section 2.3): how many segments' worth one acknowledgement
/// may add in slow start after a timeout. Then one may cover much that was received long ago, and does not
/// say that as much has left the network now. Before a timeout there is no such limit: receivers
/// acknowledge whole batches at once, and a limit would keep slow start slow.
const ABC_LIMIT: u32 = 8;

/// A congestion window, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    cwnd: u32,
    ssthresh: u32,
    mss: u16,
    /// In slow start after a timeout.
    collapsed: bool,
}

impl Window {
    /// The initial window of RFC 6928: ten segments, or 14,600 bytes of large ones, but two at
    /// least.
    pub fn new(mss: u16) -> Window {
        let mss = mss.max(1);
        Window {
            cwnd: initial_window(mss),
            ssthresh: u32::MAX,
            mss,
            collapsed: false,
        }
    }

    /// A window that goes on from where another stood. After congestion slow start is careful, as after
    /// a timeout.
    pub(super) fn resume(mss: u16, cwnd: u32, ssthresh: Option<u32>) -> Window {
        let mut window = Window::new(mss);
        window.set_cwnd(cwnd);
        if let Some(bytes) = ssthresh {
            window.set_ssthresh(bytes);
            window.collapsed = true;
        }
        window
    }

    /// cwnd: how much may be in flight, in bytes.
    #[inline]
    pub const fn cwnd(&self) -> u32 {
        self.cwnd
    }

    /// ssthresh: below this many bytes, the window grows by slow start; `u32::MAX` until there was
    /// congestion.
    #[inline]
    pub const fn ssthresh(&self) -> u32 {
        self.ssthresh
    }

    /// Whether the window grows by slow start.
    #[inline]
    pub const fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// The payload of a full segment, in bytes; at least one.
    #[inline]
    pub const fn mss(&self) -> u16 {
        self.mss
    }

    /// Sets the segment size. The window stays.
    pub fn set_mss(&mut self, mss: u16) {
        self.mss = mss.max(1);
    }

    /// Sets cwnd: at least one segment, at most [`MAX_WINDOW`].
    #[inline]
    pub fn set_cwnd(&mut self, bytes: u32) {
        self.cwnd = bytes.clamp(self.mss.into(), MAX_WINDOW);
    }

    /// Sets ssthresh: at least two segments (RFC 5681 equation 4).
    pub(super) fn set_ssthresh(&mut self, bytes: u32) {
        self.ssthresh = bytes.max(2 * u32::from(self.mss));
    }

    /// FlightSize, by which ssthresh is set: what is in flight, and not cwnd, which may never have been
    /// used (RFC 5681 section 3.1); but recovery's own extra segments do not count.
    pub(super) fn flight(&self, in_flight: u32) -> u32 {
        in_flight.min(self.cwnd)
    }

    /// Grows by slow start for an acknowledgement of `acked` bytes, up to ssthresh; returns
    /// the bytes that are left for congestion avoidance.
    #[inline]
    pub(super) fn slow_start(&mut self, acked: u32) -> u32 {
        if !self.in_slow_start() {
            return acked;
        }
        let room = self.ssthresh - self.cwnd;
        let growth = if self.collapsed {
            acked.min(ABC_LIMIT * u32::from(self.mss))
        } else {
            acked
        };
        if growth < room {
            self.set_cwnd(self.cwnd.saturating_add(growth));
            0
        } else {
            self.collapsed = false;
            self.set_cwnd(self.ssthresh);
            growth - room
        }
    }

    /// After a timeout: one segment, the loss window of RFC 5681 section 3.1.
    pub(super) fn collapse(&mut self) {
        self.cwnd = self.mss.into();
        self.collapsed = true;
    }

    /// Slow start has found as much as it can.
    pub(super) fn end_slow_start(&mut self) {
        self.set_ssthresh(self.cwnd);
    }

    /// A window that was not in use for long is worth half, but not less than the initial window; as
    /// far as three quarters of what it was it may come back by slow start (RFC 7661 §4.4.2). Returns
    /// whether there was anything to take.
    pub(super) fn devalue(&mut self) -> bool {
        let least = initial_window(self.mss);
        if self.cwnd <= least {
            return false;
        }
        self.ssthresh = self.ssthresh.max(self.cwnd / 4 * 3);
        self.set_cwnd((self.cwnd / 2).max(least));
        true
    }
}

/// RFC 6928 section 2.
//= RFC 6928 §2
fn initial_window(mss: u16) -> u32 {
    let mss = u32::from(mss);
    (10 * mss).min(14_600.max(2 * mss))
}
