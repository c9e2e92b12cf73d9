//! `syscall()`: calls by number reach the same code as calls by name.

use core::ffi::{c_int, c_long, c_ulong};
use libc::timespec;

use super::exports;
use super::{clone, confine, data, descriptor, events, makers, message, option, process, socket};
use crate::calls::fork;
use crate::kernel::deadline::Patience;
use crate::kernel::raw;
use crate::numbers;

exports! {
    /// Calls that make a thread, or a process that begins on another stack, must not pass through a frame of ours:
    /// they are made by the few instructions here. All others go on to
    /// [`by_number`], with the arguments where they are.
    #[unsafe(naked)]
    fn syscall(
        number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize,
    ) -> c_long {
        core::arch::naked_asm!(
            "cmp rdi, {clone3}",
            "je 4f",
            "cmp rdi, {clone}",
            "jne {by_number}",
            // Flags and stack are arguments.
            "test esi, {shares_memory}",
            "jz 5f",
            "test esi, {shares_numbers}",
            "jnz 2f",
            "5:",
            "test rdx, rdx",
            "jz {by_number}",
            "jmp 2f",
            // Here they are in a structure, or there is none, and the kernel says so.
            "4:",
            "test rsi, rsi",
            "jz 2f",
            "test dword ptr [rsi], {shares_memory}",
            "jz 6f",
            "test dword ptr [rsi], {shares_numbers}",
            "jnz 2f",
            "6:",
            "cmp qword ptr [rsi + 40], 0",
            "je {by_number}",
            "2:",
            "mov rax, rdi",
            "mov rdi, rsi",
            "mov rsi, rdx",
            "mov rdx, rcx",
            "mov r10, r8",
            "mov r8, r9",
            "mov r9, [rsp + 8]",
            "syscall",
            "cmp rax, -4095",
            "jae 3f",
            "ret",
            "3:",
            "mov rdi, rax",
            "jmp {failed}",
            clone3 = const libc::SYS_clone3,
            clone = const libc::SYS_clone,
            shares_memory = const libc::CLONE_VM,
            shares_numbers = const clone::SHARES_NUMBERS,
            by_number = sym by_number,
            failed = sym failed,
        )
    }
}

/// Makes a call that waits for so long. By its number the kernel tells what was left, which libc does not.
///
/// # Safety
/// `timeout` is null or the program's.
unsafe fn left_of(timeout: *mut timespec, call: impl FnOnce() -> c_int) -> c_long {
    // SAFETY: as the caller promises. What cannot be is refused by the call.
    let patience = unsafe { Patience::timespec(timeout.as_ref()) };
    let deadline = patience.unwrap_or(Patience::FOREVER).begin();
    let result = call();
    if let Some(left) = deadline.left() {
        // SAFETY: as the caller promises: there is a time, or it would be for ever.
        unsafe { timeout.write(left) };
    }
    result.into()
}

/// Whether a call returns a new descriptor, and does nothing else that is of interest here.
fn makes_a_number(number: c_long) -> bool {
    matches!(
        number,
        libc::SYS_open
            | libc::SYS_openat
            | libc::SYS_openat2
            | libc::SYS_creat
            | libc::SYS_open_by_handle_at
            | libc::SYS_open_tree
            | libc::SYS_memfd_create
            | libc::SYS_memfd_secret
            | libc::SYS_timerfd_create
            | libc::SYS_eventfd
            | libc::SYS_eventfd2
            | libc::SYS_signalfd
            | libc::SYS_signalfd4
            | libc::SYS_inotify_init
            | libc::SYS_inotify_init1
            | libc::SYS_fanotify_init
            | libc::SYS_pidfd_open
            | libc::SYS_pidfd_getfd
            | libc::SYS_perf_event_open
            | libc::SYS_userfaultfd
            | libc::SYS_mq_open
    )
}

/// The end of a call that the kernel refused.
extern "C" fn failed(value: isize) -> c_long {
    raw::libc_result(value) as c_long
}

/// # Safety
/// As the call of that number.
unsafe extern "C-unwind" fn by_number(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    let (fd, second) = (a as c_int, b as c_int);
    // SAFETY: the program vouches for these arguments, as it would to the kernel.
    unsafe {
        match number {
            libc::SYS_read => data::read(fd, b as _, c) as c_long,
            libc::SYS_readv => data::readv(fd, b as _, c as c_int) as c_long,
            libc::SYS_write => data::write(fd, b as _, c) as c_long,
            libc::SYS_writev => data::writev(fd, b as _, c as c_int) as c_long,
            libc::SYS_sendfile => data::sendfile(fd, second, c as _, d) as c_long,
            // The position is in two words, of which the second is for smaller machines.
            libc::SYS_preadv2 => {
                data::preadv2(fd, b as _, c as c_int, d as _, f as c_int) as c_long
            }
            libc::SYS_pwritev2 => {
                data::pwritev2(fd, b as _, c as c_int, d as _, f as c_int) as c_long
            }
            libc::SYS_splice => data::splice(fd, b as _, c as c_int, d as _, e, f as u32) as c_long,
            libc::SYS_recvfrom => {
                message::recvfrom(fd, b as _, c, d as c_int, e as _, f as _) as c_long
            }
            libc::SYS_sendto => {
                message::sendto(fd, b as _, c, d as c_int, e as _, f as u32) as c_long
            }
            libc::SYS_recvmsg => message::recvmsg(fd, b as _, c as c_int) as c_long,
            libc::SYS_sendmsg => message::sendmsg(fd, b as _, c as c_int) as c_long,
            libc::SYS_recvmmsg => {
                message::recvmmsg(fd, b as _, c as u32, d as c_int, e as _) as c_long
            }
            libc::SYS_sendmmsg => message::sendmmsg(fd, b as _, c as u32, d as c_int) as c_long,
            libc::SYS_socket => socket::socket(fd, second, c as c_int) as c_long,
            libc::SYS_bind => socket::bind(fd, b as _, c as u32) as c_long,
            libc::SYS_listen => socket::listen(fd, second) as c_long,
            libc::SYS_accept => socket::accept(fd, b as _, c as _) as c_long,
            libc::SYS_accept4 => socket::accept4(fd, b as _, c as _, d as c_int) as c_long,
            libc::SYS_connect => socket::connect(fd, b as _, c as u32) as c_long,
            libc::SYS_shutdown => socket::shutdown(fd, second) as c_long,
            libc::SYS_getsockname => socket::getsockname(fd, b as _, c as _) as c_long,
            libc::SYS_getpeername => socket::getpeername(fd, b as _, c as _) as c_long,
            libc::SYS_getsockopt => {
                option::getsockopt(fd, second, c as c_int, d as _, e as _) as c_long
            }
            libc::SYS_setsockopt => {
                option::setsockopt(fd, second, c as c_int, d as _, e as u32) as c_long
            }
            libc::SYS_fcntl => option::fcntl(fd, second, c) as c_long,
            libc::SYS_ioctl => option::ioctl(fd, b as c_ulong, c) as c_long,
            libc::SYS_close => descriptor::close(fd) as c_long,
            libc::SYS_close_range => {
                descriptor::close_range(a as u32, b as u32, c as c_int) as c_long
            }
            libc::SYS_dup => descriptor::dup(fd) as c_long,
            libc::SYS_dup2 => descriptor::dup2(fd, second) as c_long,
            libc::SYS_dup3 => descriptor::dup3(fd, second, c as c_int) as c_long,
            libc::SYS_epoll_create => events::epoll_create(fd) as c_long,
            libc::SYS_epoll_create1 => events::epoll_create1(fd) as c_long,
            libc::SYS_epoll_ctl => events::epoll_ctl(fd, second, c as c_int, d as _) as c_long,
            libc::SYS_epoll_wait => {
                events::epoll_wait(fd, b as _, c as c_int, d as c_int) as c_long
            }
            libc::SYS_epoll_pwait => {
                events::epoll_pwait(fd, b as _, c as c_int, d as c_int, e as _) as c_long
            }
            libc::SYS_epoll_pwait2 => {
                events::epoll_pwait2(fd, b as _, c as c_int, d as _, e as _) as c_long
            }
            libc::SYS_poll => events::poll(a as _, b as _, c as c_int) as c_long,
            libc::SYS_ppoll => left_of(c as _, || events::ppoll(a as _, b as _, c as _, d as _)),
            libc::SYS_select => events::select(fd, b as _, c as _, d as _, e as _) as c_long,
            libc::SYS_pselect6 => {
                // The mask is behind one more pointer, with its size.
                let mask = (f as *const *const libc::sigset_t).as_ref();
                let mask = mask.map_or(core::ptr::null(), |mask| *mask);
                left_of(e as _, || {
                    events::pselect(fd, b as _, c as _, d as _, e as _, mask)
                })
            }
            libc::SYS_pipe => makers::pipe(a as _) as c_long,
            libc::SYS_pipe2 => makers::pipe2(a as _, second) as c_long,
            libc::SYS_socketpair => socket::socketpair(fd, second, c as c_int, d as _) as c_long,
            libc::SYS_fork | libc::SYS_vfork => {
                let waits = number == libc::SYS_vfork;
                let made = fork::through_and_wait(waits, || raw::call(libc::SYS_fork, [0; 6]));
                raw::libc_result(made) as c_long
            }
            libc::SYS_clone => {
                let flags = clone::with_own_memory(a as u64) as usize;
                let make = || raw::call(number, [flags, b, c, d, e, f]);
                let made = fork::through_and_wait(clone::waits(a as u64), make);
                raw::libc_result(made) as c_long
            }
            libc::SYS_clone3 => {
                let (mut arguments, flags) = clone::copy(a as *const u64, b);
                let made = fork::through_and_wait(clone::waits(flags), || {
                    let at = arguments.as_mut_ptr() as usize;
                    raw::call(number, [at, b, c, d, e, f])
                });
                raw::libc_result(made) as c_long
            }
            libc::SYS_execve => process::execve(a as _, b as _, c as _) as c_long,
            libc::SYS_execveat => {
                process::execveat(fd, b as _, c as _, d as _, e as c_int) as c_long
            }
            libc::SYS_chroot => confine::chroot(a as _) as c_long,
            libc::SYS_prctl => confine::prctl(fd, b as _, c as _, d as _, e as _) as c_long,
            libc::SYS_setuid
            | libc::SYS_setreuid
            | libc::SYS_setresuid
            | libc::SYS_setgid
            | libc::SYS_setregid
            | libc::SYS_setresgid
            | libc::SYS_setgroups => {
                confine::before_other_rights();
                raw::libc_result(raw::call(number, [a, b, c, d, e, f])) as c_long
            }
            libc::SYS_seccomp => {
                confine::before_filter();
                raw::libc_result(raw::call(number, [a, b, c, d, e, f])) as c_long
            }
            libc::SYS_io_uring_setup if crate::calls::io_uring::is_refused() => {
                raw::set_errno(libc::ENOSYS);
                -1
            }
            _ => {
                let result = raw::libc_result(raw::call(number, [a, b, c, d, e, f])) as c_long;
                if makes_a_number(number) {
                    numbers::handed_out(result as c_int);
                }
                result
            }
        }
    }
}
