//! Endpoints of listeners: which of the kernel's sockets they have, and whether the kernel has connections there.
//!
//! A program listens by a socket of the kernel's, and shows it to the engine. What is new goes to the engine while the
//! kernel would give it to such a socket: the program asks the kernel at each SYN, and compares cookies (SO_COOKIE),
//! which no two sockets have in common. So it does not matter when the engine hears that a socket was closed, or
//! that another program has its port by now.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use aya::maps::{self, MapData};

use super::layout::{Endpoint, MAX_ENDPOINTS};
use super::words::Words;
use super::{Steering, SteeringError};

/// The global of the program that says whether it compares cookies.
pub(super) const COMPARES: &str = "compares_cookies";

/// Sockets that can be shown at a time.
pub const MAX_SHOWN: u32 = MAX_ENDPOINTS;

/// For how long the kernel may have nothing to show of a SYN that it was left: while that is on its way there, and
/// until it is sent again, if it was lost behind here.
const UNDER_WAY: Duration = Duration::from_secs(2);

/// The sockets that were shown.
pub(super) struct Shown {
    cookies: maps::HashMap<MapData, u64, u8>,
    compares: bool,
}

impl Shown {
    pub fn new(cookies: maps::HashMap<MapData, u64, u8>, compares: bool) -> Self {
        Self { cookies, compares }
    }
}

/// The endpoints, and when the program has left the kernel a new connection at each.
pub(super) struct Left {
    /// Of each the number of its word.
    numbers: HashMap<Endpoint, u32>,
    /// Numbers below `next` that are nobody's.
    free: Vec<u32>,
    next: u32,
    words: Words,
}

impl Left {
    pub fn new(map: MapData) -> Result<Self, SteeringError> {
        Ok(Self {
            numbers: HashMap::new(),
            free: Vec::new(),
            next: 0,
            words: Words::map(map, MAX_ENDPOINTS, size_of::<u64>())?,
        })
    }

    pub fn contains(&self, endpoint: Endpoint) -> bool {
        self.numbers.contains_key(&endpoint)
    }

    /// The number that an endpoint has or is to have; `None` if all are taken. Of a new one the kernel was left
    /// nothing.
    pub fn number(&self, endpoint: Endpoint) -> Option<u32> {
        if let Some(number) = self.numbers.get(&endpoint) {
            return Some(*number);
        }
        let unused = (self.next < MAX_ENDPOINTS).then_some(self.next);
        let number = self.free.last().copied().or(unused)?;
        self.words.of(number).store(0, Ordering::Relaxed);
        Some(number)
    }

    /// An endpoint has the number that was said.
    pub fn insert(&mut self, endpoint: Endpoint, number: u32) {
        if self.numbers.insert(endpoint, number).is_none() && self.free.pop().is_none() {
            self.next += 1;
        }
    }

    /// An endpoint that the program does not find any more has no number. Its word is made new for the next, and not
    /// here: who found the endpoint a moment ago may still read it, and keeps the kernel's connections apart by it.
    pub fn remove(&mut self, endpoint: Endpoint) {
        self.free.extend(self.numbers.remove(&endpoint));
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = Endpoint> {
        self.numbers.keys().copied()
    }

    /// When the kernel was last left something at an endpoint, if that is not forgotten.
    fn noted(&self, endpoint: Endpoint) -> Option<u64> {
        let number = self.numbers.get(&endpoint)?;
        let when = self.words.of(*number).load(Ordering::Relaxed);
        (when != 0).then_some(when)
    }

    /// What was left until `as_of` is over. False if there was something since, or may have been.
    fn forget(&self, endpoint: Endpoint, as_of: u64) -> bool {
        let Some(number) = self.numbers.get(&endpoint) else {
            return true;
        };
        let word = self.words.of(*number);
        let when = word.load(Ordering::Relaxed);
        let is_over = when.saturating_add(UNDER_WAY.as_nanos() as u64) < as_of;
        let forget = || word.compare_exchange(when, 0, Ordering::Relaxed, Ordering::Relaxed);
        when == 0 || is_over && forget().is_ok()
    }
}

impl Steering {
    /// Whether sockets are told apart by their cookies. If not, new connections come to the endpoint of a listener
    /// while any socket of the kernel's listens there.
    pub fn tells_sockets_apart(&self) -> bool {
        self.shown.compares
    }

    /// New connections that the kernel would give to the socket with this cookie (SO_COOKIE) are the engine's, on the
    /// endpoints of listeners.
    ///
    /// # Errors
    /// [`SteeringError::Map`]: there are [`MAX_SHOWN`] already, among other things.
    pub fn show_socket(&mut self, cookie: u64) -> Result<(), SteeringError> {
        Ok(self.shown.cookies.insert(cookie, 0, 0)?)
    }

    /// Not any more.
    ///
    /// # Errors
    /// [`SteeringError::Map`]: it was not shown, among other things.
    pub fn hide_socket(&mut self, cookie: u64) -> Result<(), SteeringError> {
        Ok(self.shown.cookies.remove(&cookie)?)
    }

    /// When the kernel was last left a new connection at an endpoint, by [`now_ns`](super::now_ns), if it was since
    /// [`forget_left`](Self::forget_left): then that is mixed, however it is said to be shared.
    pub fn noted(&self, endpoint: Endpoint) -> Option<u64> {
        self.present.noted(endpoint)
    }

    /// The kernel has no connections at an endpoint of what it was left until `as_of`, by
    /// [`now_ns`](super::now_ns), or older ones. False if it was left some since, or a moment before: that has still to
    /// be looked for, and the endpoint stays mixed.
    pub fn forget_left(&self, endpoint: Endpoint, as_of: u64) -> bool {
        self.present.forget(endpoint, as_of)
    }
}
