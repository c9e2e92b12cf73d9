//! BPF programs of a cgroup that see the packets, or the connects, of the processes in it: what they
//! decide holds for the kernel's TCP alone.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// `BPF_PROG_QUERY`, a command of bpf(2).
const BPF_PROG_QUERY: libc::c_long = 16;
/// `BPF_F_QUERY_EFFECTIVE`: with those of the cgroups that it is in.
const EFFECTIVE: u32 = 1;
/// `enum bpf_attach_type`, and what systemd.exec(5) and others call it.
const HOOKS: &[(u32, &str)] = &[
    (0, "ingress"),
    (1, "egress"),
    (3, "sock_ops"),
    (10, "connect4"),
    (11, "connect6"),
];

/// The beginning of `union bpf_attr` for this command.
#[repr(C)]
#[derive(Debug, Default)]
struct Query {
    target_fd: u32,
    attach_type: u32,
    query_flags: u32,
    attach_flags: u32,
    prog_ids: u64,
    prog_cnt: u32,
    _unused: u32,
}

/// The hooks at which there are programs, by their names, for processes in this cgroup: one of
/// version 2, by a descriptor of its directory.
///
/// # Errors
/// What bpf(2) says: EPERM without CAP_NET_ADMIN, EINVAL where the kernel has no such hooks, or the
/// directory is no cgroup.
pub fn hooks(cgroup: impl AsFd) -> io::Result<Vec<&'static str>> {
    let mut found = Vec::new();
    for (kind, name) in HOOKS {
        let mut query = Query {
            target_fd: cgroup.as_fd().as_raw_fd() as u32,
            attach_type: *kind,
            query_flags: EFFECTIVE,
            ..Query::default()
        };
        // SAFETY: the kernel reads and writes no more of `query` than the size that it is told, and
        // with no room for numbers of programs (`prog_cnt` is 0) nothing else.
        let said = unsafe {
            libc::syscall(
                libc::SYS_bpf,
                BPF_PROG_QUERY,
                &raw mut query,
                size_of::<Query>(),
            )
        };
        if said < 0 {
            let error = io::Error::last_os_error();
            // There are more of them than there is room for.
            if error.raw_os_error() != Some(libc::ENOSPC) {
                return Err(error);
            }
        }
        if query.prog_cnt > 0 {
            found.push(*name);
        }
    }
    Ok(found)
}
