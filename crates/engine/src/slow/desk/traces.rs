//! What a worker keeps of the next sends: begun for who may ask, and told page by page.

use std::collections::VecDeque;

use queue_pair::control::Reply;
use rustix::io::Errno;

use super::Desk;
use super::requests::{Prepared, refuse};
use crate::exchange::Ask;
use crate::slow::control::Pending;
use crate::trace::{Course, MAX_SENDS};

/// Moments that are told at once: one takes less than a hundred bytes, and a message has 64 KB.
const PAGE: usize = 512;

impl Desk {
    /// To follow so many sends.
    pub(super) fn prepare_trace(&mut self, sends: u32) -> Prepared {
        if self.crew.working().len() > 1 {
            // Which worker has the next connection that sends nobody knows.
            return refuse(
                Errno::OPNOTSUPP,
                "sends of several workers cannot be followed at once",
            );
        }
        if !(1..=MAX_SENDS).contains(&sends) {
            let message = format!("from 1 to {MAX_SENDS} sends can be followed");
            return refuse(Errno::INVAL, message);
        }
        let course = Box::new(Course::of(sends));
        Ok((Ask::Trace(Some(course)), Pending::Trace))
    }

    /// Whether there is something to tell to a client that the worker has no more.
    pub(super) fn has_traced(&mut self, slot: u32) -> bool {
        let client = self.control.client(slot);
        client.is_some_and(|client| !client.traced.is_empty())
    }

    /// The first page of what was kept; the rest is told next, to the same client and to nobody else.
    pub(super) fn first_traced(&mut self, slot: u32, course: Option<Box<Course>>) -> Reply {
        if let (Some(client), Some(course)) = (self.control.client(slot), course) {
            client.traced = course.moments().to_vec().into();
        }
        self.more_traced(slot)
    }

    /// The next page.
    pub(super) fn more_traced(&mut self, slot: u32) -> Reply {
        let Some(client) = self.control.client(slot) else {
            return Reply::Done;
        };
        let page = client.traced.len().min(PAGE);
        let moments = client.traced.drain(..page).collect();
        let more = !client.traced.is_empty();
        if !more {
            client.traced = VecDeque::new();
        }
        Reply::Traced { moments, more }
    }
}
