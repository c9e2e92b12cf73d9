//! What the owner asks for (RFC 9293 3.10.2 to 3.10.5), and options.

use core::time::Duration;

use super::{Connection, Context, Timer};
use crate::Instant;
use crate::event::Failure;
use crate::info::State;
use crate::request::{ConnOption, Extent, Request, RequestError};
use crate::send_queue::MOST_QUEUED;

impl Connection {
    /// `may_orphan` says whether the stack can keep one more orphan.
    pub(crate) fn on_request(
        &mut self,
        request: Request,
        may_orphan: bool,
        cx: &mut Context<'_>,
    ) -> Result<(), RequestError> {
        if self.orphan {
            return Err(RequestError::AfterClose);
        }
        match request {
            Request::Send { extent, more } => self.send(extent, more, cx),
            Request::Consumed(total) => self.consume(total, cx),
            Request::Open => {
                self.let_syn_go();
                Ok(())
            }
            Request::ShutdownWrite => {
                if self.failed.is_some() {
                    return Err(RequestError::Failed);
                }
                self.shut_down();
                Ok(())
            }
            Request::ShutdownRead => self.shut_down_reading(),
            Request::Close => {
                self.close(may_orphan, cx);
                Ok(())
            }
            Request::Abort => {
                self.abort(cx);
                Ok(())
            }
            Request::SetOption(option) => self.set_option(option, cx.now),
        }
    }

    //= RFC 9293 §3.10.2
    fn send(&mut self, extent: Extent, more: bool, cx: &Context<'_>) -> Result<(), RequestError> {
        if self.failed.is_some() {
            return Err(RequestError::Failed);
        }
        if self.shutdown || self.state == State::Closed {
            return Err(RequestError::SendAfterShutdown);
        }
        if extent.len == 0 || extent.addr.checked_add(extent.len.into()).is_none() {
            return Err(RequestError::BadExtent);
        }
        let many = self.queue.extents() >= cx.common.config.max_send_extents as usize;
        if many || self.queue.len() + u64::from(extent.len) > MOST_QUEUED {
            return Err(RequestError::TooManyExtents);
        }
        self.queue.push(extent);
        self.more = more;
        self.let_syn_go();
        self.wants_transmit |= self.may_transmit();
        Ok(())
    }

    //= RFC 9293 §3.10.3
    fn consume(&mut self, total: u64, cx: &Context<'_>) -> Result<(), RequestError> {
        if total < self.rcv.consumed || total > self.rcv.received {
            return Err(RequestError::BadConsumed);
        }
        self.rcv.consumed = total;
        self.tune_receive_buffer(cx.now, &cx.common.config);
        self.update_window();
        Ok(())
    }

    /// FIN follows the last byte that was queued.
    fn shut_down(&mut self) {
        if self.shutdown {
            return;
        }
        self.shutdown = true;
        self.let_syn_go();
        if matches!(self.state, State::Established | State::CloseWait) {
            self.state = self.state.after_shutdown();
            self.push();
        }
    }

    /// Nothing that is yet to come will be read. What follows is for `on_payload` to say.
    #[cold]
    fn shut_down_reading(&mut self) -> Result<(), RequestError> {
        if self.failed.is_some() {
            return Err(RequestError::Failed);
        }
        self.read_shut = true;
        Ok(())
    }

    //= RFC 9293 §3.10.4
    fn close(&mut self, may_orphan: bool, cx: &mut Context<'_>) {
        self.changed = false;
        if matches!(self.state, State::SynSent) {
            self.finish();
        } else if self.state != State::Closed {
            let open = self.state.is_synchronized() || self.fast_open.is_pending();
            let unread = self.unread() > 0 && open;
            if unread || !may_orphan {
                cx.common.counters.orphans_killed += u64::from(!unread);
                self.reset(&mut cx.common.counters);
            } else {
                self.shut_down();
                if self.state == State::FinWait2 {
                    self.timers
                        .set(Timer::CorkOrFinWait2, cx.now, self.fin_wait_2_timeout.get());
                }
            }
        }
        self.orphan = true;
    }

    //= RFC 9293 §3.10.5
    fn abort(&mut self, cx: &mut Context<'_>) {
        if matches!(self.state, State::SynSent) {
            self.finish();
        } else if self.state != State::Closed {
            self.reset(&mut cx.common.counters);
        }
        self.orphan = true;
    }

    /// The stack ends the connection itself: its listener is gone before it was accepted.
    pub(crate) fn discard(&mut self, cx: &mut Context<'_>) {
        self.abort(cx);
    }

    /// The owner has learned that the peer cannot be reached: final for an attempt to connect, a
    /// reason to be named if patience runs out for anything else (RFC 9293 3.9.2.2).
    //= RFC 9293 MUST-56
    pub(crate) fn on_unreachable(&mut self, failure: Failure, cx: &mut Context<'_>) {
        if self.state == State::SynSent {
            self.fail(failure, &mut cx.common.counters);
        } else {
            self.soft_error = Some(failure);
        }
    }

    /// Pushes what has been handed over so far: neither Nagle's algorithm nor a cork holds it back any more.
    pub(super) fn push(&mut self) {
        self.timers.clear(Timer::CorkOrFinWait2);
        self.pushed = u32::try_from(self.queue.len()).unwrap_or(u32::MAX);
        self.wants_transmit = true;
    }

    fn set_option(&mut self, option: ConnOption, now: Instant) -> Result<(), RequestError> {
        match option {
            ConnOption::NoDelay(on) => {
                //= RFC 9293 MUST-17
                self.no_delay = on;
                // As Linux: what waits goes, even what a cork holds; the cork stays in for the rest.
                if on {
                    self.push();
                }
            }
            ConnOption::Cork(on) => {
                self.cork = on;
                if !on {
                    self.more = false;
                    self.push();
                }
            }
            ConnOption::QuickAck(on) => {
                self.rcv.quick = if on { u8::MAX } else { 0 };
                if on && self.rcv.acked != self.rcv.nxt && self.state.is_synchronized() {
                    self.ack_now = true;
                    self.wants_transmit = true;
                }
            }
            ConnOption::KeepAlive(on) => {
                //= RFC 9293 MUST-24
                self.keep_alive.enabled = on;
                self.restart_keep_alive(now);
            }
            ConnOption::KeepAliveIdle(idle) => {
                //= RFC 9293 MUST-27
                self.keep_alive.idle = whole_seconds(idle)?;
                self.restart_keep_alive(now);
            }
            ConnOption::KeepAliveInterval(interval) => {
                self.keep_alive.interval = whole_seconds(interval)?;
            }
            ConnOption::KeepAliveCount(count @ 1..=127) => self.keep_alive.count = count,
            ConnOption::KeepAliveCount(_) => return Err(RequestError::BadOption),
            //= RFC 9293 MUST-21
            //= RFC 5482 §3
            ConnOption::UserTimeout(timeout) => self.user_timeout = timeout.into(),
            ConnOption::FinWait2Timeout(timeout) => self.fin_wait_2_timeout = timeout.into(),
            ConnOption::Congestion(algorithm) => self.congestion.set_algorithm(algorithm),
            ConnOption::MaxSegment(bytes) => {
                if bytes < super::MIN_MSS {
                    return Err(RequestError::BadOption);
                }
                self.local_mss = self.local_mss.min(bytes);
                self.update_mss();
            }
        }
        Ok(())
    }

    /// The owner offers another amount of memory, and fixes it. A window once offered is kept.
    pub(crate) fn set_receive_buffer(&mut self, bytes: u32) {
        self.rcv.buffer = bytes;
        self.tuning.stop();
        self.update_window();
    }
}

fn whole_seconds(span: Duration) -> Result<u16, RequestError> {
    u16::try_from(span.as_secs())
        .ok()
        .filter(|s| (1..=32_767).contains(s))
        .ok_or(RequestError::BadOption)
}
