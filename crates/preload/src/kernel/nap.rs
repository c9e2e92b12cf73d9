//! System calls in which a thread sleeps, and that a signal ends even if it comes just before.
//!
//! A handler that runs between the last look at whether one has run and the call would go unnoticed: the
//! kernel ends calls that have begun, and the thread would sleep on, maybe for ever. So the look is part of the
//! call: both are a few instructions, which [`inside::arrived`](crate::thread::inside::arrived) begins again where it
//! finds that it has interrupted them. Once the kernel has begun the call it ends it itself; where it would
//! begin it again after the handler (SA_RESTART), the look does no harm.

use core::ffi::c_long;

use libc::ucontext_t;

// The number, the arguments, the place of a count, and what it is as long as the thread may sleep. Nothing that
// the kernel changes on a call that is begun again (rcx, r11) is used between the look and the call.
#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(
    ".pushsection .text",
    ".globl outboard_nap",
    ".globl outboard_nap_begin",
    ".globl outboard_nap_end",
    ".hidden outboard_nap",
    ".hidden outboard_nap_begin",
    ".hidden outboard_nap_end",
    ".type outboard_nap, @function",
    "outboard_nap:",
    "push rbx",
    "push r12",
    "mov r12, rdx",
    "mov ebx, ecx",
    "mov rax, rdi",
    "mov r11, rsi",
    "mov rdi, [r11]",
    "mov rsi, [r11 + 8]",
    "mov rdx, [r11 + 16]",
    "mov r10, [r11 + 24]",
    "mov r8, [r11 + 32]",
    "mov r9, [r11 + 40]",
    "outboard_nap_begin:",
    "cmp dword ptr [r12], ebx",
    "jne 2f",
    "syscall",
    "outboard_nap_end:",
    "3:",
    "pop r12",
    "pop rbx",
    "ret",
    "2:",
    "mov rax, -{interrupted}",
    "jmp 3b",
    ".size outboard_nap, . - outboard_nap",
    ".popsection",
    interrupted = const libc::EINTR,
);

#[cfg(target_arch = "aarch64")]
core::arch::global_asm!(
    ".pushsection .text",
    ".globl outboard_nap",
    ".globl outboard_nap_begin",
    ".globl outboard_nap_end",
    ".hidden outboard_nap",
    ".hidden outboard_nap_begin",
    ".hidden outboard_nap_end",
    ".type outboard_nap, %function",
    "outboard_nap:",
    "mov x8, x0",
    "mov x9, x1",
    "mov x10, x2",
    "mov w11, w3",
    "ldp x0, x1, [x9]",
    "ldp x2, x3, [x9, #16]",
    "ldp x4, x5, [x9, #32]",
    "outboard_nap_begin:",
    "ldr w12, [x10]",
    "cmp w12, w11",
    "b.ne 2f",
    "svc 0",
    "outboard_nap_end:",
    "ret",
    "2:",
    "mov x0, #-{interrupted}",
    "ret",
    ".size outboard_nap, . - outboard_nap",
    ".popsection",
    interrupted = const libc::EINTR,
);

unsafe extern "C" {
    fn outboard_nap(
        number: c_long,
        arguments: *const usize,
        count: *const u32,
        while_it_is: u32,
    ) -> isize;
    static outboard_nap_begin: u8;
    static outboard_nap_end: u8;
}

/// Makes a system call unless, at the moment at which the kernel begins it, `count` is not `while_it_is` any
/// more: then it is as if a signal had ended it. What the kernel put in the result register.
///
/// # Safety
/// As the call itself. `count` can be read, and only this thread and its handlers change it.
pub unsafe fn nap(
    number: c_long,
    arguments: &[usize; 6],
    count: *const u32,
    while_it_is: u32,
) -> isize {
    // SAFETY: as the caller promises; there are six arguments.
    unsafe { outboard_nap(number, arguments.as_ptr(), count, while_it_is) }
}

/// A handler has run: if what it has interrupted is about to make the call, it looks once more.
///
/// # Safety
/// `context` is the kernel's for this handler.
pub unsafe fn look_once_more(context: *mut ucontext_t) {
    // SAFETY: as the caller promises.
    unsafe {
        let at = instruction(context);
        let (begin, end) = (&raw const outboard_nap_begin, &raw const outboard_nap_end);
        // At the end the call is over.
        if (begin as usize..end as usize).contains(&at.read()) {
            at.write(begin as usize);
        }
    }
}

/// Where the thread goes on.
///
/// # Safety
/// `context` is one of the kernel's.
unsafe fn instruction(context: *mut ucontext_t) -> *mut usize {
    // SAFETY: as the caller promises.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        return (&raw mut (*context).uc_mcontext.gregs[libc::REG_RIP as usize]).cast();
        #[cfg(target_arch = "aarch64")]
        return (&raw mut (*context).uc_mcontext.pc).cast();
    }
}
