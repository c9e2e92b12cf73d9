//! What is tried. Each scenario has a connection, made either way round, or makes its own.

mod by_number;
mod cancelling;
mod connecting;
mod ending;
mod events;
mod every_option;
mod family;
mod handlers;
mod interruptions;
mod messages;
mod numbers;
mod option_values;
mod options;
mod out_of_reach;
mod parts;
mod receiving;
mod reconnecting;
mod sending;
mod sets;
mod splicing;
mod stdio;
mod stopping;
mod zerocopy;

use std::ffi::c_int;
use std::net::{IpAddr, SocketAddr};

use crate::agent::Agent;
use crate::calls::{self, Transcript};

/// What a scenario works with.
pub struct Stage<'a> {
    pub agent: &'a mut Agent,
    pub transcript: &'a mut Transcript,
    /// The subject's own address.
    pub here: IpAddr,
}

/// A scenario that is given a connection.
type OnConnection = fn(&mut Stage<'_>, c_int);
/// A scenario that makes its own.
type Alone = fn(&mut Stage<'_>);

/// Runs all, or the one that is named, and prints what came of them.
pub fn run(agent: &mut Agent, here: IpAddr, only: Option<&str>) {
    // SAFETY: SIGPIPE is counted instead of ending the program.
    unsafe {
        libc::signal(
            libc::SIGPIPE,
            sending::count_broken_pipe as extern "C" fn(c_int) as usize,
        )
    };
    let wanted = |name: &str| match only.and_then(|only| only.strip_prefix('!')) {
        Some(unwanted) => name != unwanted,
        None => only.is_none_or(|only| only == name),
    };
    for (name, scenario) in ON_CONNECTION {
        for accepted in [true, false] {
            let way = if accepted { "accepted" } else { "connected" };
            if !wanted(name) {
                continue;
            }
            let mut transcript = Transcript::default();
            let fd = if accepted {
                accepted_connection(agent, here)
            } else {
                opened_connection(agent)
            };
            scenario(
                &mut Stage {
                    agent,
                    transcript: &mut transcript,
                    here,
                },
                fd,
            );
            // SAFETY: the scenario may have closed it; then this fails, and so be it.
            unsafe { libc::close(fd) };
            agent.tell("close");
            print!("{name}, {way}\n{}", transcript.0);
        }
    }
    for (name, scenario) in ALONE {
        if !wanted(name) {
            continue;
        }
        let mut transcript = Transcript::default();
        scenario(&mut Stage {
            agent,
            transcript: &mut transcript,
            here,
        });
        agent.tell("close");
        agent.tell("unlisten");
        print!("{name}\n{}", transcript.0);
    }
}

/// A connection that the agent opens and the subject accepts.
pub fn accepted_connection(agent: &mut Agent, here: IpAddr) -> c_int {
    let (listener, address) = calls::listening(here, 0);
    agent.tell(&format!("connect {address}"));
    // SAFETY: an own listener; no address is asked for.
    let fd = unsafe { libc::accept(listener, std::ptr::null_mut(), std::ptr::null_mut()) };
    assert!(fd >= 0, "accept: {}", std::io::Error::last_os_error());
    // SAFETY: an own descriptor.
    unsafe { libc::close(listener) };
    fd
}

/// A connection that the subject opens.
pub fn opened_connection(agent: &mut Agent) -> c_int {
    let address = agents_listener(agent);
    let fd = calls::socket(address.ip(), 0);
    let connected = calls::with_address(address, |name, length| {
        // SAFETY: the address is whole.
        unsafe { libc::connect(fd, name, length) }
    });
    assert_eq!(connected, 0, "connect: {}", std::io::Error::last_os_error());
    agent.tell("accept");
    agent.tell("unlisten");
    fd
}

/// Where the agent listens from now on.
pub fn agents_listener(agent: &mut Agent) -> SocketAddr {
    let ip: IpAddr = agent
        .tell("address")
        .parse()
        .expect("the agent knows its address");
    let port = agent.tell("listen").parse().expect("the agent listens");
    SocketAddr::new(ip, port)
}

const ON_CONNECTION: &[(&str, OnConnection)] = &[
    ("receive in parts", receiving::in_parts),
    ("peek", receiving::peek),
    ("do not wait", receiving::do_not_wait),
    ("wait for all", receiving::wait_for_all),
    ("receive into several buffers", receiving::scattered),
    ("receive messages", receiving::messages),
    ("receive messages in time", messages::in_time),
    ("count what waits", receiving::available),
    ("throw away", receiving::truncate),
    ("ask for nothing", receiving::nothing),
    ("receive with a time limit", receiving::time_limit),
    ("receive, interrupted", receiving::interrupted),
    ("receive above a low-water mark", receiving::low_water),
    ("send", sending::plainly),
    ("send from several buffers", sending::gathered),
    ("send until it is full", sending::until_full),
    ("send with a bound for what waits", sending::bounded),
    ("send a file", sending::file),
    (
        "send a file, without waiting",
        sending::file_without_waiting,
    ),
    ("send with a time limit", sending::time_limit),
    ("send without copying", zerocopy::notifications),
    ("splice into a pipe", splicing::into_a_pipe),
    ("splice out of a pipe", splicing::out_of_a_pipe),
    ("read and write at positions", splicing::positions),
    ("the peer ends its direction", ending::half_closed),
    ("the peer closes", ending::peer_closes),
    ("the peer resets", ending::reset),
    ("reset, a part received", parts::received),
    ("reset, a part thrown away", parts::thrown_away),
    ("reset, one message received", parts::received_in_messages),
    ("reset, a part spliced", parts::spliced_into_a_pipe),
    ("reset, a part sent", parts::sent),
    ("reset, a part of a file sent", parts::sent_from_a_file),
    ("shut down writing", ending::shutdown_write),
    ("shut down reading", ending::shutdown_read),
    ("shut down both", ending::shutdown_both),
    ("close with unread data", ending::close_unread),
    ("close in order", ending::close_in_order),
    ("close, lingering", ending::linger),
    (
        "close, lingering for less than no time",
        ending::linger_below_zero,
    ),
    ("close at once", ending::linger_zero),
    ("duplicate", numbers::duplicate),
    ("replace", numbers::replace),
    ("status flags", numbers::flags),
    ("close a range", numbers::close_range),
    ("fork", numbers::fork),
    ("fork while threads wait", family::forked_while_threads_wait),
    ("shut down in a child", family::shut_down_elsewhere),
    ("end reading in a child", family::end_reading_elsewhere),
    ("stopped while it waits", stopping::waiting),
    ("cancelled while it waits", interruptions::cancelled),
    ("cancelled anywhere", interruptions::cancelled_anywhere),
    ("cancelled beside others", cancelling::beside_others),
    ("cancelled beside a pipe", cancelling::beside_a_pipe),
    (
        "cancelled while it closes a file",
        cancelling::in_a_file_on_a_connection,
    ),
    ("calls in a handler", interruptions::calls_in_a_handler),
    ("handlers of two kinds", interruptions::two_kinds),
    ("handlers, as they are asked for", interruptions::asked_for),
    ("handlers by sigset", handlers::by_sigset),
    ("handlers that interrupt", handlers::interrupting),
    ("other ways to fork", interruptions::other_forks),
    ("what a number is", numbers::nature),
    ("wrong arguments", numbers::wrong),
    ("buffered files", stdio::files),
    ("a buffered file in both directions", stdio::both_ways),
    ("standard input and output", stdio::standard),
    ("options by default", options::defaults),
    ("every option by default", every_option::by_default),
    ("every option set", every_option::set),
    ("values of options", option_values::integers),
    ("values of structures", option_values::structures),
    ("values of names", option_values::names),
    ("values without rights", option_values::without_rights),
    ("options set", options::set),
    ("options refused", options::refused),
    ("names", options::names),
    ("poll", events::poll),
    ("select", events::select),
    ("poll and select by number", by_number::waiting),
    ("level-triggered", events::level),
    ("a set with two numbers", events::duplicated_set),
    ("added while threads wait", events::added_while_waiting),
    ("two events for two threads", events::one_each),
    ("a set that is polled", events::polled_set),
    (
        "a set that is slept in and polled",
        events::slept_in_and_polled,
    ),
    ("edge-triggered", events::edge),
    ("one-shot", events::one_shot),
    ("members of a set", events::members),
    ("a set with signals and time", events::timing),
    ("a set in a set", sets::nested),
    ("fork beside calls", family::fork_beside_calls),
    ("a set in a set, edge-triggered", sets::nested_by_edges),
    ("a set in a set after it came", sets::nested_after_it_came),
    ("a set with one place", sets::with_one_place),
];

const ALONE: &[(&str, Alone)] = &[
    ("accept without waiting", connecting::accept_nonblocking),
    ("accept with flags", connecting::accept_flags),
    ("accept, deferred", connecting::accept_deferred),
    ("accept through a set", connecting::accept_through_set),
    ("accept with a time limit", connecting::accept_time_limit),
    ("look once for a client", family::looks_once),
    ("one-shot listener", sets::one_shot_listener),
    (
        "beside a one-shot listener",
        sets::beside_a_one_shot_listener,
    ),
    (
        "one-shot listener of others",
        sets::one_shot_listener_of_others,
    ),
    (
        "one-shot listener and a child",
        sets::one_shot_listener_and_a_child,
    ),
    (
        "one-shot listener, shut down after a fork",
        sets::one_shot_listener_shut_down_after_a_fork,
    ),
    ("changed while it connects", sets::changed_while_it_connects),
    (
        "cancelled while it accepts",
        interruptions::cancelled_in_accept,
    ),
    ("cancelled in a set", cancelling::in_a_set),
    ("cancelled in files", cancelling::in_files),
    ("cancelled in pipes", cancelling::in_pipes),
    ("connected in a child", family::connected_elsewhere),
    (
        "refused before a child looks",
        family::refused_before_a_look,
    ),
    ("listen twice", connecting::listen_twice),
    ("inherited options", connecting::inherited),
    (
        "segments of an accepted connection",
        connecting::segments_of_accepted,
    ),
    (
        "segments of a connected socket",
        connecting::segments_of_connected,
    ),
    ("options set before connect", connecting::options_before),
    ("connect without waiting", connecting::connect_nonblocking),
    ("connect while in a set", connecting::connect_in_set),
    ("connect, refused", connecting::refused),
    (
        "connect, refused, without waiting",
        connecting::refused_nonblocking,
    ),
    ("connect again, refused", reconnecting::refused),
    (
        "connect again, refused, without waiting",
        reconnecting::refused_without_waiting,
    ),
    (
        "connect again, refused, from a port",
        reconnecting::from_a_port,
    ),
    (
        "connect refused, then listen",
        reconnecting::listens_instead,
    ),
    ("connect again, timed out", reconnecting::timed_out),
    ("connect to nobody", reconnecting::to_nobody),
    (
        "shutdown of what is being opened",
        reconnecting::shut_while_opening,
    ),
    (
        "poll of what is given up while it is being opened",
        reconnecting::shut_while_polled,
    ),
    ("connect twice", connecting::twice),
    ("connect by the other family", out_of_reach::other_family),
    ("connect to many", out_of_reach::many),
    ("connect to a mapped address", out_of_reach::mapped),
    ("not connected", connecting::not_connected),
    ("connect from a port", connecting::from_a_port),
    ("connect twice from one port", connecting::from_one_port),
    (
        "connect from a mapped address",
        connecting::from_a_mapped_address,
    ),
    (
        "numbers that are handed out again",
        numbers::handed_out_again,
    ),
];
