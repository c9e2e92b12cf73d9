//! A sans-IO TCP: bytes and time in, bytes and events out.
//!
//! A [`Stack`] holds the connections of one core. It never sees a clock, a ring, a descriptor or a
//! thread: its owner tells it what time it is, gives it segments and requests, and takes segments
//! and events from it. So it runs the same in an engine and in a simulation, and a run can be
//! repeated from its seed.
//!
//! # Order of calls
//!
//! The owner's loop looks like this; each step may be left out when it has nothing to do:
//!
//! 1. [`on_segment`](Stack::on_segment) for each segment of a receive batch. Nothing is sent yet:
//!    a batch ends in one acknowledgement decision per connection.
//! 2. [`on_request`](Stack::on_request) for what hosts want; [`connect`](Stack::connect),
//!    [`listen`](Stack::listen), [`accept`](Stack::accept).
//! 3. [`on_timeout`](Stack::on_timeout) when [`next_timeout`](Stack::next_timeout) has come.
//! 4. [`poll_transmit`](Stack::poll_transmit), until the budget, the sink or the work is used up.
//! 5. [`poll_event`](Stack::poll_event), until there is none.
//!
//! After any call of 1 to 3 there may be work for 4 and 5, and `next_timeout` may have changed.
//! Time must not run backwards.
//!
//! # The life of a connection
//!
//! A [`ConnId`] begins with `connect` or `accept` (or earlier, in the store, for payload that comes
//! before anyone has accepted), and ends with [`Event::Released`]. In between:
//!
//! - The owner says [`Close`](Request::Close) or [`Abort`](Request::Abort) exactly once; until then
//!   the name stays valid whatever happens on the wire, a failure included.
//! - After `Close` the connection is an orphan: what is pending is sent and FIN with it, and send
//!   memory is needed until [`acked`](ConnUpdate::acked) has passed it or the name is released.
//! - [`export`](Stack::export) ends the name, too: the connection goes on in another stack, as a
//!   [value](snapshot) in between.
//! - TIME-WAIT outlives the name: only addresses and a few numbers are kept, in a bounded table.
//!
//! # What things cost
//!
//! Work is found through lists (ready to transmit, events, timer wheel, queues that age), so its
//! cost follows the work that is there and never the number of connections. A connection is one
//! struct of a fixed size, asserted in a test; memory beyond it is held only while data is in
//! flight or out of order, and nothing is allocated for a segment in the steady state.
//!
//! # What a peer can make us hold
//!
//! Everything has a limit in [`Config`], and every segment that is not used is counted by
//! [`DropReason`].
#![forbid(unsafe_code)]

mod aging;
mod config;
pub mod congestion;
mod connection;
mod counters;
mod event;
mod fast_open;
mod flow_table;
mod histogram;
mod id;
mod info;
mod io;
mod isn;
mod listener;
mod path_mtus;
mod port_counts;
mod reassembly;
mod recovery;
mod request;
mod send_queue;
mod slab;
pub mod snapshot;
mod stack;
mod time;
mod time_wait;
mod timer_wheel;

pub use config::{Config, ConnOptions, EcnPolicy, KeepAlive, ListenSpec};
pub use congestion::Algorithm;
pub use counters::{Counters, DropReason};
pub use event::{ConnUpdate, Event, Failure};
pub use histogram::Histogram;
pub use id::{ConnId, ListenerId};
pub use info::{BbrInfo, ConnInfo, PairInfo, State};
pub use io::{FrameSink, Outgoing, PayloadStore, SinkFull};
pub use listener::ListenerCounts;
pub use listener::admission::{Admission, AdmissionLimit, AdmissionPolicy};
pub use request::{ConnOption, ConnectError, Extent, ListenError, Request, RequestError};
pub use snapshot::{ExportError, ImportError, Snapshot};
pub use stack::{Stack, key_for};
pub use time::Instant;
