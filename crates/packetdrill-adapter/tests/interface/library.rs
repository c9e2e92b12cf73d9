//! The library as the runner sees it: loaded by its file, called through a table of pointers whose
//! order is written down here a second time.

use core::ffi::{CStr, c_char, c_int, c_long, c_uint, c_void};
use std::net::SocketAddr;
use std::path::PathBuf;

use libc::{sockaddr, sockaddr_in, socklen_t, timeval};
use libloading::Library;
use sim::script::datagram::{self, Received};
use sim::script::packet::{Segment, TcpOption};
use wire::ip::Ecn;
use wire::tcp::Flags;

/// Where the functions stand behind `userdata`.
#[derive(Clone, Copy)]
#[repr(usize)]
enum Function {
    Free = 0,
    Socket = 1,
    Bind = 2,
    Listen = 3,
    Accept = 4,
    Connect = 5,
    Read = 6,
    Write = 11,
    Control = 16,
    Close = 18,
    GetOption = 20,
    NetdevSend = 23,
    NetdevReceive = 24,
    Sleep = 25,
    Time = 26,
    EpollCreate = 27,
    EpollControl = 28,
    EpollWait = 29,
    Pipe = 30,
    Splice = 31,
}

#[repr(C)]
struct Table {
    userdata: *mut c_void,
    functions: [*const c_void; 32],
}

/// A loaded library with one host.
pub struct Loaded {
    table: Table,
    _library: Library,
}

// SAFETY: the runner calls from two threads as well; the host behind the table is made for it.
unsafe impl Sync for Loaded {}

pub const LOCAL: &str = "192.0.2.1:8080";
pub const REMOTE: &str = "192.0.2.2:40000";

/// The file: beside this test, or one directory up, whichever is newer.
fn file() -> PathBuf {
    let this = std::env::current_exe().expect("a test has a file");
    let deps = this.parent().expect("in a directory");
    let name = "libpacketdrill_adapter.so";
    let places = [Some(deps.join(name)), deps.parent().map(|up| up.join(name))];
    places
        .into_iter()
        .flatten()
        .filter(|path| path.exists())
        .max_by_key(|path| path.metadata().and_then(|m| m.modified()).ok())
        .expect("cargo build -p packetdrill-adapter makes the library")
}

impl Loaded {
    pub fn new(flags: &CStr) -> Loaded {
        type Init = unsafe extern "C" fn(*const c_char, *mut Table);
        let mut table = Table {
            userdata: core::ptr::null_mut(),
            functions: [core::ptr::null(); 32],
        };
        // SAFETY: the library does nothing when it is loaded, and the function has this signature.
        let library = unsafe {
            let library = Library::new(file()).expect("the library loads");
            let init = library
                .get::<Init>(b"packetdrill_interface_init")
                .expect("the one symbol");
            init(flags.as_ptr(), &raw mut table);
            library
        };
        assert!(table.functions.iter().all(|function| !function.is_null()));
        Loaded {
            table,
            _library: library,
        }
    }

    /// The function at a place, as a pointer of type `F`.
    fn function<F: Copy>(&self, which: Function) -> F {
        assert_eq!(size_of::<F>(), size_of::<*const c_void>());
        // SAFETY: callers name the type of the function that stands there.
        unsafe { core::mem::transmute_copy(&self.table.functions[which as usize]) }
    }

    pub fn socket(&self) -> c_int {
        type F = unsafe extern "C" fn(*mut c_void, c_int, c_int, c_int) -> c_int;
        let call: F = self.function(Function::Socket);
        // SAFETY: as the C function.
        unsafe { call(self.table.userdata, libc::AF_INET, libc::SOCK_STREAM, 0) }
    }

    fn with_address(&self, which: Function, fd: c_int, address: &str) -> c_int {
        type F = unsafe extern "C" fn(*mut c_void, c_int, *const sockaddr, socklen_t) -> c_int;
        let SocketAddr::V4(v4) = address.parse().expect("an address") else {
            panic!("of IPv4");
        };
        let raw = sockaddr_in {
            sin_family: libc::AF_INET as u16,
            sin_port: v4.port().to_be(),
            sin_addr: libc::in_addr {
                s_addr: u32::from(*v4.ip()).to_be(),
            },
            sin_zero: [0; 8],
        };
        let call: F = self.function(which);
        let len = size_of::<sockaddr_in>() as socklen_t;
        // SAFETY: as the C function.
        unsafe { call(self.table.userdata, fd, (&raw const raw).cast(), len) }
    }

    pub fn bind(&self, fd: c_int, address: &str) -> c_int {
        self.with_address(Function::Bind, fd, address)
    }

    pub fn connect(&self, fd: c_int, address: &str) -> c_int {
        self.with_address(Function::Connect, fd, address)
    }

    pub fn listen(&self, fd: c_int, backlog: c_int) -> c_int {
        type F = unsafe extern "C" fn(*mut c_void, c_int, c_int) -> c_int;
        let call: F = self.function(Function::Listen);
        // SAFETY: as the C function.
        unsafe { call(self.table.userdata, fd, backlog) }
    }

    /// The new descriptor, and the port of the peer.
    pub fn accept(&self, fd: c_int) -> (c_int, u16) {
        type F = unsafe extern "C" fn(*mut c_void, c_int, *mut sockaddr, *mut socklen_t) -> c_int;
        let call: F = self.function(Function::Accept);
        // SAFETY: zeros are a valid address of no family; then as the C function.
        unsafe {
            let mut peer: sockaddr_in = core::mem::zeroed();
            let mut len = size_of::<sockaddr_in>() as socklen_t;
            let (peer_at, len_at) = ((&raw mut peer).cast(), &raw mut len);
            let new = call(self.table.userdata, fd, peer_at, len_at);
            (new, u16::from_be(peer.sin_port))
        }
    }

    pub fn read(&self, fd: c_int, count: usize) -> Vec<u8> {
        type F = unsafe extern "C" fn(*mut c_void, c_int, *mut c_void, usize) -> isize;
        let call: F = self.function(Function::Read);
        let mut bytes = vec![0; count];
        // SAFETY: as the C function.
        let read = unsafe { call(self.table.userdata, fd, bytes.as_mut_ptr().cast(), count) };
        bytes.truncate(usize::try_from(read).expect("no error"));
        bytes
    }

    pub fn write(&self, fd: c_int, bytes: &[u8]) -> isize {
        type F = unsafe extern "C" fn(*mut c_void, c_int, *const c_void, usize) -> isize;
        let call: F = self.function(Function::Write);
        // SAFETY: as the C function.
        unsafe { call(self.table.userdata, fd, bytes.as_ptr().cast(), bytes.len()) }
    }

    pub fn close(&self, fd: c_int) -> c_int {
        type F = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;
        let call: F = self.function(Function::Close);
        // SAFETY: as the C function.
        unsafe { call(self.table.userdata, fd) }
    }

    pub fn set_non_blocking(&self, fd: c_int) {
        type F = unsafe extern "C" fn(*mut c_void, c_int, c_int, c_long) -> c_int;
        let call: F = self.function(Function::Control);
        let flags = c_long::from(libc::O_RDWR | libc::O_NONBLOCK);
        // SAFETY: as the C function.
        let result = unsafe { call(self.table.userdata, fd, libc::F_SETFL, flags) };
        assert_eq!(result, 0);
    }

    /// TCP_INFO.
    pub fn info(&self, fd: c_int) -> sim::script::Info {
        type F = unsafe extern "C" fn(
            *mut c_void,
            c_int,
            c_int,
            c_int,
            *mut c_void,
            *mut socklen_t,
        ) -> c_int;
        let call: F = self.function(Function::GetOption);
        let mut bytes = [0_u8; 232];
        let mut len = bytes.len() as socklen_t;
        let (level, name) = (libc::IPPROTO_TCP, libc::TCP_INFO);
        let at = bytes.as_mut_ptr().cast();
        // SAFETY: as the C function.
        let result = unsafe { call(self.table.userdata, fd, level, name, at, &raw mut len) };
        assert_eq!(result, 0);
        sim::script::tcp_info::decode(&bytes[..len as usize])
    }

    /// A segment of the peer's arrives.
    pub fn send(
        &self,
        flags: Flags,
        seq: u32,
        ack: Option<u32>,
        payload: &[u8],
        sack: &[(u32, u32)],
    ) {
        type F = unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> c_int;
        let options = if flags.contains(Flags::SYN) {
            vec![TcpOption::Mss(1000), TcpOption::SackPermitted]
        } else if sack.is_empty() {
            Vec::new()
        } else {
            vec![TcpOption::Sack(sack.to_vec())]
        };
        let segment = Segment {
            flags: flags.with(Flags::ACK, ack.is_some()),
            seq,
            len: payload.len() as u16,
            ack,
            window: Some(65_535),
            urgent: None,
            options: Some(options),
        };
        let (src, dst) = (REMOTE.parse().unwrap(), LOCAL.parse().unwrap());
        let bytes = datagram::segment(src, dst, Ecn::NotCapable, &segment, payload);
        let call: F = self.function(Function::NetdevSend);
        // SAFETY: the datagram is valid for its length.
        let result = unsafe { call(self.table.userdata, bytes.as_ptr().cast(), bytes.len()) };
        assert_eq!(result, 0);
    }

    /// The next segment of the stack's and when it left, in microseconds; `None` for none.
    pub fn receive(&self) -> Option<(Received, i64)> {
        type F = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut usize, *mut i64) -> c_int;
        let call: F = self.function(Function::NetdevReceive);
        let mut bytes = vec![0_u8; 2048];
        let (mut len, mut at) = (bytes.len(), 0);
        let to = bytes.as_mut_ptr().cast();
        // SAFETY: `bytes` has room for as much as `len` says.
        let result = unsafe { call(self.table.userdata, to, &raw mut len, &raw mut at) };
        assert_eq!(result, 0);
        (len > 0).then(|| (datagram::read(&bytes[..len]).expect("a segment"), at))
    }

    /// Waits in the stack's time.
    pub fn sleep(&self, micros: u32) {
        type F = unsafe extern "C" fn(*mut c_void, u32) -> c_int;
        let call: F = self.function(Function::Sleep);
        // SAFETY: as the C function.
        assert_eq!(unsafe { call(self.table.userdata, micros) }, 0);
    }

    /// The stack's time in microseconds.
    pub fn time(&self) -> i64 {
        type F = unsafe extern "C" fn(*mut c_void, *mut timeval, *mut c_void) -> c_int;
        let call: F = self.function(Function::Time);
        let mut time = timeval {
            tv_sec: 0,
            tv_usec: 0,
        };
        let none = core::ptr::null_mut();
        // SAFETY: as the C function.
        unsafe { call(self.table.userdata, &raw mut time, none) };
        time.tv_sec * 1_000_000 + time.tv_usec
    }

    pub fn epoll_create(&self) -> c_int {
        type F = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;
        let call: F = self.function(Function::EpollCreate);
        // SAFETY: as the C function.
        unsafe { call(self.table.userdata, 1) }
    }

    /// Zero, or the negative of `errno`.
    pub fn epoll_ctl(&self, epoll: c_int, operation: c_int, fd: c_int, events: c_int) -> c_int {
        type F =
            unsafe extern "C" fn(*mut c_void, c_int, c_int, c_int, *mut libc::epoll_event) -> c_int;
        let call: F = self.function(Function::EpollControl);
        let mut event = libc::epoll_event {
            events: events as u32,
            u64: fd as u64,
        };
        let at = &raw mut event;
        // SAFETY: as the C function.
        or_errno(unsafe { call(self.table.userdata, epoll, operation, fd, at) } as isize) as c_int
    }

    /// The events that are told, with their descriptors.
    pub fn epoll_wait(&self, epoll: c_int, limit: c_int, timeout: c_int) -> Vec<(c_int, c_int)> {
        type F =
            unsafe extern "C" fn(*mut c_void, c_int, *mut libc::epoll_event, c_int, c_int) -> c_int;
        let call: F = self.function(Function::EpollWait);
        let none = libc::epoll_event { events: 0, u64: 0 };
        let mut events = vec![none; limit as usize];
        let into = events.as_mut_ptr();
        // SAFETY: `events` has room for `limit`.
        let count = unsafe { call(self.table.userdata, epoll, into, limit, timeout) };
        events.truncate(usize::try_from(count).expect("no error"));
        let told = events
            .iter()
            .map(|event| (event.u64 as c_int, event.events as c_int));
        told.collect()
    }

    pub fn pipe(&self) -> [c_int; 2] {
        type F = unsafe extern "C" fn(*mut c_void, *mut c_int) -> c_int;
        let call: F = self.function(Function::Pipe);
        let mut ends = [-1; 2];
        // SAFETY: as the C function.
        assert_eq!(unsafe { call(self.table.userdata, ends.as_mut_ptr()) }, 0);
        ends
    }

    /// As the runner calls it, with addresses of offsets. The negative of `errno` for an error.
    pub fn splice(&self, from: c_int, to: c_int, len: usize, flags: c_uint) -> isize {
        type F = unsafe extern "C" fn(
            *mut c_void,
            c_int,
            *mut libc::off64_t,
            c_int,
            *mut libc::off64_t,
            usize,
            c_uint,
        ) -> isize;
        let call: F = self.function(Function::Splice);
        let (mut first, mut second) = (0, 0);
        let (first, second) = (&raw mut first, &raw mut second);
        // SAFETY: as the C function.
        or_errno(unsafe { call(self.table.userdata, from, first, to, second, len, flags) })
    }

    /// A listener on [`LOCAL`].
    pub fn listener(&self) -> c_int {
        let fd = self.socket();
        assert!(fd >= 0);
        assert_eq!(self.bind(fd, LOCAL), 0);
        assert_eq!(self.listen(fd, 8), 0);
        fd
    }

    /// A connection that the peer opened from sequence number 0: its descriptor, and our initial
    /// sequence number.
    pub fn connection(&self) -> (c_int, u32) {
        let listener = self.listener();
        self.send(Flags::SYN, 0, None, &[], &[]);
        let (syn_ack, _) = self.receive().expect("a SYN-ACK");
        assert_eq!(syn_ack.segment.flags, Flags::SYN | Flags::ACK);
        assert_eq!(syn_ack.segment.ack, Some(1));
        let iss = syn_ack.segment.seq;
        self.send(Flags::NONE, 1, Some(iss + 1), &[], &[]);
        let (fd, port) = self.accept(listener);
        assert!(fd >= 0);
        assert_eq!(port, 40_000);
        (fd, iss)
    }
}

fn or_errno(result: isize) -> isize {
    if result == -1 {
        // SAFETY: the calling thread's own errno.
        return -(unsafe { *libc::__errno_location() } as isize);
    }
    result
}

impl Drop for Loaded {
    fn drop(&mut self) {
        type F = unsafe extern "C" fn(*mut c_void);
        let call: F = self.function(Function::Free);
        // SAFETY: nobody uses the host any more.
        unsafe { call(self.table.userdata) };
    }
}
