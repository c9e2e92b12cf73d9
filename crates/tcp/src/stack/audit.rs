//! What always holds of a stack between two calls.

use std::collections::{HashMap, HashSet};

use super::Stack;
use crate::ConnId;

impl Stack {
    /// Looks at everything that the stack holds and says what is wrong, if anything is. Simulations
    /// and fuzzers ask after every step. It costs as much as there are connections, so the engine
    /// never does.
    ///
    /// - A connection that is neither closed nor idle by right has a timer that the wheel knows, or
    ///   stands on the ready list: whatever the peer does or leaves undone, it ends. What is half-open
    ///   or in TIME-WAIT has a deadline.
    /// - What peers can make the stack hold is within the limits of [`Config`](crate::Config), and
    ///   every count of it is right.
    ///
    /// # Errors
    /// The first rule that is broken, in words.
    pub fn audit(&self) -> Result<(), String> {
        let config = &self.common.config;
        let ready: HashSet<u32> = self.lists.ready.iter().copied().collect();
        // An eighth for what the window's scale cannot express.
        let most = u64::from(config.max_receive_buffer.max(u16::MAX.into())) * 9 / 8;
        let (mut orphans, mut in_flows, mut ranges, mut pending) = (0, 0, 0, 0);
        let mut admitted: HashMap<u32, u32> = HashMap::new();
        for (index, generation, c) in self.connections.iter() {
            let id = ConnId { index, generation };
            let broken = |rule: &str| Err(format!("{id:?} in {}: {rule}", c.state.name()));
            if let Err(rule) = c.audit() {
                return broken(rule);
            }
            if c.in_ready && !ready.contains(&index) {
                return broken("not on the ready list that it thinks it is on");
            }
            if c.timers.wheel() != self.lists.wheel.scheduled(index) {
                return broken("the wheel has another deadline than it thinks");
            }
            if let Some(at) = c.timers.earliest()
                // It calls at even nanoseconds only.
                && c.timers
                    .wheel()
                    .is_none_or(|call| call.as_nanos() > at.as_nanos() + 1)
            {
                return broken("the wheel calls too late, or not at all");
            }
            if c.exposure() > most {
                return broken("it offers a larger window than is allowed");
            }
            if c.out_of_order_ranges() > config.max_out_of_order_ranges {
                return broken("it holds more ranges out of order than are allowed");
            }
            *admitted.entry(c.admission).or_default() += 1;
            orphans += u32::from(c.orphan);
            pending += u32::from(c.fast_open.is_pending());
            in_flows += usize::from(c.in_flows);
            ranges += u32::from(c.out_of_order_ranges());
        }
        let half_open = self.half_opens.len();
        let time_wait = self.time_wait.len();
        let waiting = |l: &crate::listener::Listener| l.queue.len() > l.spec.backlog as usize + 1;
        let crowded = |l: &crate::listener::Listener| l.half_open > l.spec.max_half_open;
        let miscounted = |l: &crate::listener::Listener| {
            l.admitted()
                .is_some_and(|(number, count)| admitted.get(&number).copied().unwrap_or(0) != count)
        };
        let flows = in_flows + half_open as usize + time_wait as usize;
        for (broken, rule) in [
            (orphans != self.orphans, "orphans are miscounted"),
            (orphans > config.max_orphans, "more orphans than allowed"),
            (
                pending != self.common.fast_opens.pending,
                "pending Fast Opens are miscounted",
            ),
            (
                pending > config.max_fast_opens,
                "more pending Fast Opens than allowed",
            ),
            (
                ranges != self.common.out_of_order_ranges,
                "ranges out of order are miscounted",
            ),
            (
                ranges > config.max_out_of_order_ranges_in_total,
                "more ranges out of order than allowed for all",
            ),
            (flows != self.flows.len(), "flows are miscounted"),
            (
                !self.half_opens.is_in_order() || !self.time_wait.is_in_order(),
                "a half-open connection or a pair in TIME-WAIT has no deadline",
            ),
            (
                !self.common.path_mtus.is_bounded()
                    || !self.common.fast_opens.remembered.is_bounded(),
                "more is remembered of paths and servers than allowed",
            ),
            (
                self.connections.len() > config.max_connections,
                "more connections than allowed",
            ),
            (
                half_open > config.max_half_open,
                "more half-open connections than allowed",
            ),
            (
                time_wait > config.max_time_wait,
                "more pairs in TIME-WAIT than allowed",
            ),
            (
                self.listeners.iter().any(crowded),
                "more half-open connections at a listener than it allows",
            ),
            (
                self.listeners.iter().any(waiting),
                "more connections wait than the backlog allows",
            ),
            (
                self.listeners.iter().any(miscounted),
                "connections that were admitted are miscounted",
            ),
            (
                self.control.len() > usize::from(config.max_control_segments),
                "more segments wait than allowed",
            ),
        ] {
            if broken {
                return Err(rule.into());
            }
        }
        Ok(())
    }
}
