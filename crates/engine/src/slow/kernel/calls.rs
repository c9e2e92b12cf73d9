//! The system calls that an engine which runs makes; every other fails (EPERM) from then on, for its
//! thread and those that it makes.
//!
//! Whoever got to run code of his in an engine would find no way to execute a program, to load BPF or
//! a module, to change namespaces, to look into other processes, or to open other kinds of sockets.
//! The filter is made by the library that Firecracker uses (seccompiler).

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter,
};

/// Calls that are made with any arguments.
const FREELY: &[libc::c_long] = &[
    // What it does for each packet.
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_ppoll,
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_sched_yield,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    // Sockets: its own, of its ports, and those that it is shown.
    libc::SYS_socketpair,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept4,
    libc::SYS_connect,
    libc::SYS_shutdown,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    // Descriptors.
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_fcntl,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_eventfd2,
    libc::SYS_pipe2,
    libc::SYS_pidfd_open,
    libc::SYS_prlimit64,
    // Files: its configuration, what the kernel says of cores and interfaces, its socket's name, and what
    // programs send from.
    libc::SYS_openat,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_lseek,
    libc::SYS_pread64,
    libc::SYS_preadv2,
    libc::SYS_fadvise64,
    libc::SYS_fstatfs,
    libc::SYS_getdents64,
    libc::SYS_readlinkat,
    libc::SYS_getcwd,
    libc::SYS_unlinkat,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    // Memory.
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_mincore,
    libc::SYS_brk,
    libc::SYS_memfd_create,
    libc::SYS_ftruncate,
    // Threads, signals and the end.
    libc::SYS_futex,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_sigaltstack,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_restart_syscall,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_getcpu,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_membarrier,
    libc::SYS_prctl,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_tgkill,
    // Facts.
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getppid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_uname,
    libc::SYS_sysinfo,
    libc::SYS_capget,
    // How its opener ended.
    libc::SYS_waitid,
];

/// The same that only machines with this processor have.
#[cfg(target_arch = "x86_64")]
const FREELY_HERE: &[libc::c_long] = &[
    libc::SYS_open,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_unlink,
    libc::SYS_readlink,
    libc::SYS_poll,
    libc::SYS_epoll_wait,
    libc::SYS_arch_prctl,
    libc::SYS_time,
    libc::SYS_gettimeofday,
];
#[cfg(not(target_arch = "x86_64"))]
const FREELY_HERE: &[libc::c_long] = &[];

/// What a thread does that only writes lines, to a descriptor or to the journal, and allocates for that.
const WRITING: &[libc::c_long] = &[
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_fsync,
    // A long line goes to the journal as a file of memory.
    libc::SYS_memfd_create,
    libc::SYS_fcntl,
    libc::SYS_close,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getrandom,
    libc::SYS_rseq,
    libc::SYS_set_robust_list,
    libc::SYS_sigaltstack,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_restart_syscall,
    libc::SYS_tgkill,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// What an opener does with any arguments, beside [writing](WRITING) what a panic says.
const OPENING: &[libc::c_long] = &[
    libc::SYS_recvmsg,
    libc::SYS_recvfrom,
    libc::SYS_ppoll,
    libc::SYS_bind,
    libc::SYS_setsockopt,
];

/// Kinds of sockets that are opened.
const FAMILIES: &[libc::c_int] = &[
    libc::AF_UNIX,
    libc::AF_INET,
    libc::AF_INET6,
    libc::AF_NETLINK,
];
/// And where nobody else opens them.
const XDP: &[libc::c_int] = &[libc::AF_XDP];
/// Those of an opener.
const OPENED: &[libc::c_int] = &[libc::AF_NETLINK, libc::AF_XDP];

/// What is done with BPF (bpf(2)): its maps are read and written, and the program that is there is
/// taken again or taken away. Nothing is loaded.
const MAPS: std::ops::RangeInclusive<u64> = 1..=4;
const BPF_OBJ_GET_INFO_BY_FD: u64 = 15;
const BPF_LINK_UPDATE: u64 = 29;
const BPF_LINK_DETACH: u64 = 34;
/// Which programs a cgroup has.
const BPF_PROG_QUERY: u64 = 16;

/// `ioctl` of network interfaces: `SIOC*` (linux/sockios.h).
const INTERFACES: u64 = 0x8900;
/// `SIOCETHTOOL`, and `SIOCGIFNAME`, which says the name by which that goes.
const ETHTOOL: u64 = 0x8946;
const NAME_OF_INDEX: u64 = 0x8910;
const FIONBIO: u64 = 0x5421;
/// Whether a descriptor is a terminal.
const TCGETS: u64 = 0x5401;

/// Makes every other call fail from now on, in this thread and those that it makes. Who `opens` does what an opener
/// would.
///
/// # Errors
/// The kernel has no seccomp, or refuses the filter.
pub fn confine(opens: bool) -> io::Result<()> {
    let (threads, calls) = filters(opens).map_err(io::Error::other)?;
    // The second one does not let filters be added.
    apply_filter(&threads).map_err(io::Error::other)?;
    apply_filter(&calls).map_err(io::Error::other)
}

/// The same for a thread that only writes lines: it makes no other calls than those that this takes.
///
/// # Errors
/// As [`confine`].
pub fn confine_to_writing() -> io::Result<()> {
    let calls = writing().map_err(io::Error::other)?;
    apply_filter(&calls).map_err(io::Error::other)
}

/// The same for an opener.
///
/// # Errors
/// As [`confine`].
pub fn confine_to_opening() -> io::Result<()> {
    let calls = opening().map_err(io::Error::other)?;
    apply_filter(&calls).map_err(io::Error::other)
}

fn writing() -> Made<BpfProgram> {
    others_fail(freely(WRITING))
}

fn opening() -> Made<BpfProgram> {
    let mut rules = freely(WRITING);
    rules.append(&mut freely(OPENING));
    rules.insert(libc::SYS_socket, any_of(OPENED)?);
    rules.insert(libc::SYS_bpf, vec![equal(0, BPF_PROG_QUERY)?]);
    // What a device does with the tags of VLANs.
    let of_tags = vec![equal(1, ETHTOOL)?, equal(1, NAME_OF_INDEX)?];
    rules.insert(libc::SYS_ioctl, of_tags);
    others_fail(rules)
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn freely(calls: &[libc::c_long]) -> Rules {
    calls.iter().map(|call| (*call, Vec::new())).collect()
}

/// Sockets of these families.
fn any_of(families: &[libc::c_int]) -> Made<Vec<SeccompRule>> {
    let each = families.iter().map(|family| equal(0, *family as u64));
    each.collect()
}

fn others_fail(rules: Rules) -> Made<BpfProgram> {
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    let arch = std::env::consts::ARCH.try_into()?;
    SeccompFilter::new(rules, refused, SeccompAction::Allow, arch)?.try_into()
}

fn equal(argument: u8, value: u64) -> Made<SeccompRule> {
    condition(argument, SeccompCmpOp::Eq, value)
}

fn masked(argument: u8, mask: u64, value: u64) -> Made<SeccompRule> {
    condition(argument, SeccompCmpOp::MaskedEq(mask), value)
}

fn condition(argument: u8, is: SeccompCmpOp, value: u64) -> Made<SeccompRule> {
    let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, is, value)?;
    SeccompRule::new(vec![condition])
}

type Made<T> = Result<T, seccompiler::BackendError>;

fn filters(opens: bool) -> Made<(BpfProgram, BpfProgram)> {
    let mut rules = freely(FREELY);
    rules.append(&mut freely(FREELY_HERE));
    let mut families = any_of(FAMILIES)?;
    let mut others = vec![BPF_OBJ_GET_INFO_BY_FD, BPF_LINK_UPDATE, BPF_LINK_DETACH];
    if opens {
        families.append(&mut any_of(XDP)?);
        others.push(BPF_PROG_QUERY);
    }
    rules.insert(libc::SYS_socket, families);
    let commands = MAPS.chain(others).map(|command| equal(0, command));
    rules.insert(libc::SYS_bpf, commands.collect::<Made<_>>()?);
    // Threads with a table of descriptors of their own.
    let files = libc::CLONE_FILES as u64;
    rules.insert(libc::SYS_unshare, vec![equal(0, files)?]);
    let thread = libc::CLONE_THREAD as u64;
    rules.insert(libc::SYS_clone, vec![masked(0, thread, thread)?]);
    let of_interfaces = masked(1, 0xffff_ff00, INTERFACES)?;
    rules.insert(
        libc::SYS_ioctl,
        vec![of_interfaces, equal(1, FIONBIO)?, equal(1, TCGETS)?],
    );
    // What clone3 is asked lies where a filter cannot look. Whoever hears that there is no such call
    // makes threads by the older one. Of two filters that refuse, the last one says why: so this one
    // lets it through.
    rules.insert(libc::SYS_clone3, Vec::new());
    let newer = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    let arch = std::env::consts::ARCH.try_into()?;
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    let unknown = SeccompAction::Errno(libc::ENOSYS as u32);
    let calls = SeccompFilter::new(rules, refused, SeccompAction::Allow, arch)?;
    let threads = SeccompFilter::new(newer, SeccompAction::Allow, unknown, arch)?;
    Ok((threads.try_into()?, calls.try_into()?))
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;
    use rustix::net::{AddressFamily, SocketType};

    use super::*;

    #[test]
    fn who_writes_lines_can_do_nothing_else() {
        let (mut to, from) = std::os::unix::net::UnixStream::pair().expect("descriptors");
        let confined = std::thread::spawn(move || {
            confine_to_writing().expect("a kernel with seccomp");
            std::io::Write::write_all(&mut to, b"a line").expect("it writes");
            let opened = std::fs::read_to_string("/proc/thread-self/status");
            let refused = opened.expect_err("no file is opened").kind();
            assert_eq!(refused, io::ErrorKind::PermissionDenied);
            let bound = std::net::UdpSocket::bind("127.0.0.1:0");
            assert!(bound.is_err(), "nor a socket");
            // It may say why it panics, and end.
            drop(vec![0; 1 << 20]);
        });
        confined.join().expect("as said");
        let line = std::io::read_to_string(from).expect("written");
        assert_eq!(line, "a line");
    }

    #[test]
    fn an_opener_opens_two_kinds_of_sockets_and_no_file() {
        let confined = std::thread::spawn(|| {
            confine_to_opening().expect("a kernel with seccomp");
            let read = std::fs::read_to_string("/proc/thread-self/status");
            let refused = read.expect_err("no file is opened").kind();
            assert_eq!(refused, io::ErrorKind::PermissionDenied);
            rustix::net::socket(AddressFamily::NETLINK, SocketType::RAW, None).expect("netlink");
            for family in [
                AddressFamily::INET,
                AddressFamily::UNIX,
                AddressFamily::PACKET,
            ] {
                let socket = rustix::net::socket(family, SocketType::DGRAM, None);
                assert_eq!(socket.expect_err("none of ours"), Errno::PERM);
            }
        });
        confined.join().expect("as said");
    }

    #[test]
    fn nothing_but_what_an_engine_does_is_left() {
        // The filter is this thread's, and that of those which it makes.
        let confined = std::thread::spawn(|| {
            confine(false).expect("a kernel with seccomp");
            let said = std::fs::read_to_string("/proc/thread-self/status").expect("files are read");
            assert!(said.contains("Seccomp:\t2"), "{said}");
            let spawned = std::process::Command::new("/bin/true").status();
            let refused = spawned.expect_err("no program is executed").kind();
            assert_eq!(refused, io::ErrorKind::PermissionDenied);
            let family = AddressFamily::from_raw(libc::AF_ALG as u16);
            let socket = rustix::net::socket(family, SocketType::SEQPACKET, None);
            assert_eq!(socket.expect_err("none of ours"), Errno::PERM);
            let sees_frames = rustix::net::socket(AddressFamily::PACKET, SocketType::RAW, None);
            assert_eq!(sees_frames.expect_err("nor this"), Errno::PERM);
            let request = rustix::io::ioctl_fionread(std::io::stdin());
            assert_eq!(request, Err(Errno::PERM), "of no interface");
            std::net::UdpSocket::bind("127.0.0.1:0").expect("one of ours");
            std::thread::spawn(|| ()).join().expect("threads are made");
            let wire = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC);
            let wire = wire.expect("a descriptor");
            std::thread::spawn(move || netdev::syscalls::leave_descriptors(&wire))
                .join()
                .expect("no panic")
                .expect("threads leave their descriptors");
            let namespace = rustix::thread::UnshareFlags::NEWNS;
            #[expect(deprecated, reason = "the other one is unsafe, and this one fails")]
            let refused = rustix::thread::unshare(namespace);
            assert_eq!(refused, Err(Errno::PERM));
        });
        confined.join().expect("as said");
    }
}
