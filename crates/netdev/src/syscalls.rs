//! System calls that the engine needs and that no safe wrapper covers: who is at the other end of
//! a socket, which network namespace a socket is in, how this thread is scheduled, and how part of a file
//! comes into memory.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

/// A descriptor of the process at the other end of a connected UNIX socket (SO_PEERPIDFD): it
/// becomes readable when that process ends, and it can never mean another one.
///
/// # Errors
/// `ENOPROTOOPT` before Linux 6.5; `ESRCH` if the process is gone already.
pub fn peer_pidfd(socket: impl AsFd) -> io::Result<OwnedFd> {
    /// Not yet in the libc crate for every target.
    const SO_PEERPIDFD: libc::c_int = 77;
    let fd: RawFd = socket_option(socket, SO_PEERPIDFD)?;
    // SAFETY: the kernel has just opened this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Who was at the other end of a UNIX socket when it was connected (SO_PEERCRED).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerCredentials {
    /// The process; 0 if it is outside of our PID namespace.
    pub pid: u32,
    /// Its user, as our user namespace knows it.
    pub uid: u32,
}

/// Asks for the credentials of the process at the other end of a connected UNIX socket.
///
/// # Errors
/// What the system call said.
pub fn peer_credentials(socket: impl AsFd) -> io::Result<PeerCredentials> {
    // `struct ucred`: pid, uid, gid.
    let mut bytes = [0u8; 12];
    let length = socket_option_bytes(socket, libc::SOL_SOCKET, libc::SO_PEERCRED, &mut bytes)?;
    let word = |at: usize| bytes.get(at..at + 4)?.try_into().ok();
    match (length, word(0), word(4)) {
        (12, Some(pid), Some(uid)) => Ok(PeerCredentials {
            pid: u32::from_ne_bytes(pid),
            uid: u32::from_ne_bytes(uid),
        }),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// A message, with what the kernel says of it.
#[derive(Debug, Default)]
pub struct Received {
    /// How many bytes of it there are; 0 is the end.
    pub bytes: usize,
    /// The descriptors that came along.
    pub fds: Vec<OwnedFd>,
    /// Who has sent it, if the socket asks for that (SO_PASSCRED).
    pub sender: Option<PeerCredentials>,
}

/// The most descriptors that the kernel lets come with one message (SCM_MAX_FD).
const MOST_RIGHTS: usize = 253;

/// The next message on a UNIX socket, with all that came along. Never waits.
///
/// rustix has it that a process is never 0, which one of another PID namespace is here.
///
/// # Errors
/// `EAGAIN`: there is none yet. Otherwise what the system call said.
pub fn receive_with_sender(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<Received> {
    // Of words, so that it is aligned as a list of parts has to be, and with room for two heads.
    let mut control = [0u64; (MOST_RIGHTS * 4 + 12 + 2 * 32) / 8];
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: a header of zeros is one.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = size_of_val(&control) as _;
    let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
    // SAFETY: the header points to memory of this function's and the caller's, for as long as given.
    let count = unsafe { libc::recvmsg(socket.as_fd().as_raw_fd(), &raw mut header, flags) };
    let bytes = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
    let mut received = Received {
        bytes,
        ..Received::default()
    };
    // SAFETY: the kernel has filled the list and says how far; the macros stay within it. Descriptors are
    // new, and this process's alone.
    unsafe {
        let mut at = libc::CMSG_FIRSTHDR(&raw const header);
        while let Some(head) = at.as_ref() {
            let data = libc::CMSG_DATA(at);
            let length = head.cmsg_len.saturating_sub(data as usize - at as usize);
            match (head.cmsg_level, head.cmsg_type) {
                (libc::SOL_SOCKET, libc::SCM_RIGHTS) => {
                    for index in 0..length / size_of::<RawFd>() {
                        let fd = data.cast::<RawFd>().add(index).read_unaligned();
                        received.fds.push(OwnedFd::from_raw_fd(fd));
                    }
                }
                (libc::SOL_SOCKET, libc::SCM_CREDENTIALS) if length >= size_of::<libc::ucred>() => {
                    let said = data.cast::<libc::ucred>().read_unaligned();
                    received.sender = Some(PeerCredentials {
                        pid: said.pid.cast_unsigned(),
                        uid: said.uid,
                    });
                }
                _ => {}
            }
            at = libc::CMSG_NXTHDR(&raw const header, at);
        }
    }
    Ok(received)
}

/// Names a socket among all that this machine ever has (SO_COOKIE).
///
/// # Errors
/// What the system call said.
pub fn socket_cookie(socket: impl AsFd) -> io::Result<u64> {
    const SO_COOKIE: libc::c_int = 57;
    socket_option(socket, SO_COOKIE)
}

/// The index of the interface that a socket is bound to (SO_BINDTOIFINDEX); 0 if to none.
///
/// # Errors
/// What the system call said.
pub fn bound_interface(socket: impl AsFd) -> io::Result<u32> {
    const SO_BINDTOIFINDEX: libc::c_int = 62;
    socket_option(socket, SO_BINDTOIFINDEX)
}

/// Names the network namespace that a socket belongs to (SO_NETNS_COOKIE); never reused. One that
/// was accepted from a UNIX socket is of the namespace of who connected.
///
/// # Errors
/// `ENOPROTOOPT` before Linux 5.14.
pub fn netns_cookie(socket: impl AsFd) -> io::Result<u64> {
    const SO_NETNS_COOKIE: libc::c_int = 71;
    socket_option(socket, SO_NETNS_COOKIE)
}

/// From now on nobody can send descriptors to this UNIX socket (SO_PASSRIGHTS). For the sender that is `EPERM`.
///
/// # Errors
/// `ENOPROTOOPT` before Linux 6.16: they can.
pub fn refuse_rights(socket: impl AsFd) -> io::Result<()> {
    /// Not yet in the libc crate for every target.
    const SO_PASSRIGHTS: libc::c_int = 83;
    let refused = 0i32.to_ne_bytes();
    set_socket_option_bytes(socket, libc::SOL_SOCKET, SO_PASSRIGHTS, &refused)
}

/// From now on this thread has a table of descriptors of its own, in which there is `kept` alone: it keeps
/// nothing open, whatever becomes of it, and can use no other descriptor.
///
/// # Errors
/// What the system calls said; the thread is to end then.
pub fn leave_descriptors(kept: impl AsFd) -> io::Result<()> {
    let kept = kept.as_fd().as_raw_fd();
    // SAFETY: it changes nothing but the table that this thread uses from now on.
    if unsafe { libc::unshare(libc::CLONE_FILES) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let kept = libc::c_uint::try_from(kept).map_err(io::Error::other)?;
    let others = [
        (0, kept.checked_sub(1)),
        (kept + 1, Some(libc::c_uint::MAX)),
    ];
    for (first, last) in others {
        let Some(last) = last else { continue };
        // SAFETY: these are the thread's own copies, of which its caller says that it uses none; all other
        // threads have theirs in another table.
        if unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Bytes that are asked of a disk at a time: what most take, and what every one does (by default the kernel reads
/// so many ahead). With more at a time it would interrupt longer when it is done.
const PIECES: [usize; 2] = [1 << 20, 128 << 10];

/// Part of a file, mapped so that whoever has no descriptor can bring it into memory. Nobody reads it here.
#[derive(Debug)]
pub struct FileWindow {
    at: usize,
    len: usize,
}

impl FileWindow {
    /// Maps what a file has of `len` bytes from `offset` on, in whole pages.
    ///
    /// # Errors
    /// `ENODATA`: it has nothing there. Otherwise what the system calls said.
    pub fn map(file: impl AsFd, offset: u64, len: u64) -> io::Result<Self> {
        let page = rustix::param::page_size() as u64;
        let size = rustix::fs::fstat(&file)?.st_size;
        let size = u64::try_from(size).map_err(io::Error::other)?;
        let end = offset.saturating_add(len).min(size);
        if offset >= end {
            return Err(io::Error::from_raw_os_error(libc::ENODATA));
        }
        let start = offset - offset % page;
        let len = usize::try_from(end - start).map_err(io::Error::other)?;
        // SAFETY: a new mapping, where the kernel likes: it replaces none.
        let at = unsafe {
            libc::mmap(
                core::ptr::null_mut(),
                len,
                libc::PROT_READ,
                libc::MAP_SHARED,
                file.as_fd().as_raw_fd(),
                libc::off_t::try_from(start).map_err(io::Error::other)?,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let at = at.addr();
        Ok(Self { at, len })
    }

    /// Has the disk begin to read what of it is not in memory, and nothing else. It does not wait for that,
    /// and errors are told to who does.
    pub fn begin(&self) {
        // Of each call the kernel takes as much as the disk does at a time, and forgets the rest.
        for piece in PIECES {
            for start in (0..self.len).step_by(piece) {
                let len = piece.min(self.len - start);
                let at = core::ptr::without_provenance_mut(self.at + start);
                // SAFETY: the range is within our mapping, and the call changes nothing that is seen through it.
                unsafe { libc::madvise(at, len, libc::MADV_WILLNEED) };
            }
        }
    }

    /// Brings it into memory, and waits until it is there.
    ///
    /// # Errors
    /// `EFAULT`: the file has become shorter than that, or cannot be read. Otherwise what the system call
    /// said. What lies before may be there all the same.
    pub fn fetch(&self) -> io::Result<()> {
        self.fetch_first(self.len)
    }

    /// The same of its first page alone.
    ///
    /// # Errors
    /// As for [`fetch`](Self::fetch).
    pub fn fetch_page(&self) -> io::Result<()> {
        self.fetch_first(self.len.min(rustix::param::page_size()))
    }

    fn fetch_first(&self, len: usize) -> io::Result<()> {
        let at = core::ptr::without_provenance_mut(self.at);
        // SAFETY: the range is that of our mapping, and the call changes nothing that is seen through it;
        // what cannot be had is told by the result, and by no signal.
        match unsafe { libc::madvise(at, len, libc::MADV_POPULATE_READ) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for FileWindow {
    fn drop(&mut self) {
        // SAFETY: it is our mapping, to which nobody has a reference.
        unsafe { libc::munmap(core::ptr::without_provenance_mut(self.at), self.len) };
    }
}

/// Schedules this thread as a batch job (SCHED_BATCH): waking it never interrupts what runs on its
/// core.
///
/// # Errors
/// What the system call said.
pub fn schedule_as_batch() -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the parameters are a valid `sched_param`, read during the call only.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &parameters) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Reads any socket option into `value`; returns how many bytes it has.
///
/// # Errors
/// What the system call said.
pub fn socket_option_bytes(
    socket: impl AsFd,
    level: i32,
    option: i32,
    value: &mut [u8],
) -> io::Result<usize> {
    let mut length = value.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `value`, which has as many.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            value.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result == 0 {
        Ok(length as usize)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Sets an option whose value is a `T`: one of the kernel's structures, an integer, or bytes.
///
/// # Errors
/// What the system call said.
pub(crate) fn set_socket_option<T: ?Sized>(
    socket: impl AsFd,
    level: libc::c_int,
    option: libc::c_int,
    value: &T,
) -> io::Result<()> {
    // SAFETY: the kernel reads as many bytes as the value has from a reference to it, and what a T points to lives as
    // long. Pointers in plain bytes (socket filters) are read as such by the kernel alone, which checks what it reads.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            (&raw const *value).cast(),
            size_of_val(value) as libc::socklen_t,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Sets any socket option that is plain bytes to the kernel.
///
/// # Errors
/// What the system call said.
pub fn set_socket_option_bytes(
    socket: impl AsFd,
    level: i32,
    option: i32,
    value: &[u8],
) -> io::Result<()> {
    set_socket_option(socket, level, option, value)
}

/// A socket option of type `T`, an integer.
fn socket_option<T: Default>(socket: impl AsFd, option: libc::c_int) -> io::Result<T> {
    let mut value = T::default();
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `value`, which has as many, and any bits
    // are a valid integer.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    if result == 0 && length as usize == size_of::<T>() {
        Ok(value)
    } else if result == 0 {
        Err(io::Error::from(io::ErrorKind::InvalidData))
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::os::unix::net::UnixStream;

    #[test]
    fn the_peer_of_a_pair_is_this_process() {
        let (a, _b) = UnixStream::pair().expect("a pair");
        let fd = peer_pidfd(&a).expect("Linux 6.5 or later");
        let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", fd.as_raw_fd()));
        let pid = format!("Pid:\t{}\n", std::process::id());
        assert!(info.expect("readable").contains(&pid));
    }

    #[test]
    fn the_credentials_of_a_pair_are_our_own() {
        let (a, _b) = UnixStream::pair().expect("a pair");
        let peer = peer_credentials(&a).expect("a UNIX socket");
        assert_eq!(peer.pid, std::process::id());
        let status = std::fs::read_to_string("/proc/self/status").expect("readable");
        assert!(status.contains(&format!("Uid:\t{}\t", peer.uid)));
    }

    #[test]
    fn a_socket_that_refuses_descriptors_takes_messages() {
        use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, send, sendmsg};
        let (a, b) = UnixStream::pair().expect("a pair");
        match refuse_rights(&a) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => return,
            Err(error) => panic!("{error}"),
        }
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fds = [b.as_fd()];
        assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
        let part = [io::IoSlice::new(&[1])];
        let sent = sendmsg(&b, &part, &mut control, SendFlags::DONTWAIT);
        assert_eq!(sent, Err(rustix::io::Errno::PERM));
        assert_eq!(send(&b, &[1], SendFlags::DONTWAIT), Ok(1));
    }

    #[test]
    fn sockets_of_one_namespace_have_one_cookie() {
        let a = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let b = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let cookie = netns_cookie(&a).expect("Linux 5.14 or later");
        assert_eq!(netns_cookie(&b).expect("the same"), cookie);
    }

    #[test]
    fn a_window_on_a_file_is_fetched_by_whoever_has_no_descriptor() {
        let path = std::env::temp_dir().join(format!("outboard-window-{}", std::process::id()));
        std::fs::write(&path, vec![7; 100_000]).expect("written");
        let file = std::fs::File::open(&path).expect("readable");
        let window = FileWindow::map(&file, 50_000, 1 << 20).expect("mapped");
        assert_eq!(window.len, 100_000 - 49_152);
        let beyond = FileWindow::map(&file, 100_000, 1).expect_err("nothing there");
        assert_eq!(beyond.raw_os_error(), Some(libc::ENODATA));
        drop(file);
        window.begin();
        let fetched = std::thread::spawn(move || window.fetch().map(|()| window)).join();
        let window = fetched.expect("no panic").expect("fetched");
        std::fs::write(&path, [7; 60_000]).expect("shorter");
        assert!(window.fetch().is_err(), "and no signal");
        window.fetch_page().expect("the first page is there");
        std::fs::write(&path, []).expect("empty");
        assert!(window.fetch_page().is_err());
        std::fs::remove_file(&path).expect("there");
    }

    #[test]
    fn any_thread_may_become_a_batch_job() {
        std::thread::spawn(|| schedule_as_batch().expect("allowed to everybody"))
            .join()
            .expect("no panic");
    }
}
