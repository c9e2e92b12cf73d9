//! BPF programs of a cgroup that see the packets, or the connects, of the processes in it: what they
//! decide holds for the kernel's TCP alone.

use std::fmt;
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
    (21, "getsockopt"),
    (22, "setsockopt"),
    (29, "getpeername4"),
    (30, "getpeername6"),
    (31, "getsockname4"),
    (32, "getsockname6"),
];
/// Programs of a hook that are named: a cgroup can have no more of its own there.
const NAMED: usize = 64;

/// A hook at which there are programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    /// What people call it.
    pub name: &'static str,
    /// Their numbers, by which bpftool(8) shows them; none where there are too many to name.
    pub programs: Vec<u32>,
}

impl Hook {
    /// Hooks, as they travel between processes of one program.
    pub fn encode(hooks: &[Self]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for hook in hooks {
            let number = HOOKS.iter().position(|(_, name)| *name == hook.name);
            bytes.push(number.unwrap_or_default() as u8);
            // There are no more than NAMED.
            bytes.push(hook.programs.len() as u8);
            let programs = hook.programs.iter();
            bytes.extend(programs.flat_map(|program| program.to_ne_bytes()));
        }
        bytes
    }

    /// The same, read; what is no hook ends it.
    pub fn decode(mut bytes: &[u8]) -> Vec<Self> {
        let mut hooks = Vec::new();
        while let Some(([number, count], rest)) = bytes.split_first_chunk() {
            let name = HOOKS.get(usize::from(*number)).map(|(_, name)| *name);
            let programs = rest.split_at_checked(4 * usize::from(*count));
            let (Some(name), Some((programs, rest))) = (name, programs) else {
                break;
            };
            let programs = programs.chunks_exact(4);
            let programs =
                programs.filter_map(|four| Some(u32::from_ne_bytes(four.try_into().ok()?)));
            hooks.push(Self {
                name,
                programs: programs.collect(),
            });
            bytes = rest;
        }
        hooks
    }
}

impl fmt::Display for Hook {
    /// "egress (BPF program 12)".
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.name)?;
        let numbers: Vec<String> = self.programs.iter().map(u32::to_string).collect();
        match &numbers[..] {
            [] => Ok(()),
            [one] => write!(formatter, " (BPF program {one})"),
            several => write!(formatter, " (BPF programs {})", several.join(" and ")),
        }
    }
}

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
    /// Kernels write further facts there, whatever length they are told.
    _rest: [u64; 4],
}

/// The hooks at which there are programs for processes in this cgroup: one of version 2, by a descriptor of its
/// directory. Those that the kernel does not know have none.
///
/// # Errors
/// What bpf(2) says of the first: EPERM without CAP_NET_ADMIN, EINVAL where the kernel has no such hooks, or the
/// directory is no cgroup.
pub fn hooks(cgroup: impl AsFd) -> io::Result<Vec<Hook>> {
    let mut found = Vec::new();
    for (at, (kind, name)) in HOOKS.iter().enumerate() {
        match programs(&cgroup, *kind) {
            Ok(None) => {}
            Ok(Some(programs)) => found.push(Hook { name, programs }),
            Err(error) if at == 0 => return Err(error),
            Err(_) => {}
        }
    }
    Ok(found)
}

/// The programs at a hook, if there are any.
fn programs(cgroup: impl AsFd, kind: u32) -> io::Result<Option<Vec<u32>>> {
    let mut numbers = [0u32; NAMED];
    let mut query = Query {
        target_fd: cgroup.as_fd().as_raw_fd() as u32,
        attach_type: kind,
        query_flags: EFFECTIVE,
        prog_ids: numbers.as_mut_ptr() as u64,
        prog_cnt: NAMED as u32,
        ..Query::default()
    };
    // SAFETY: the kernel reads and writes no more of `query` than the size that it is told, and of `numbers` as
    // many as there is said to be room for; both live until it returns.
    let said = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            BPF_PROG_QUERY,
            &raw mut query,
            size_of::<Query>(),
        )
    };
    let count = if said >= 0 {
        query.prog_cnt as usize
    } else {
        let error = io::Error::last_os_error();
        // There are more of them than there is room for.
        if error.raw_os_error() != Some(libc::ENOSPC) {
            return Err(error);
        }
        0
    };
    let named = numbers.get(..count).unwrap_or(&[]);
    Ok((query.prog_cnt > 0).then(|| named.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hooks_are_read_as_they_were_written() {
        let hook = |number: usize, programs: &[u32]| Hook {
            name: HOOKS[number].1,
            programs: programs.to_vec(),
        };
        let hooks = vec![hook(0, &[1, u32::MAX]), hook(4, &[]), hook(10, &[7; NAMED])];
        let bytes = Hook::encode(&hooks);
        assert_eq!(Hook::decode(&bytes), hooks);
        for len in 0..bytes.len() {
            assert!(Hook::decode(&bytes[..len]).len() < 3, "{len}");
        }
        assert!(Hook::decode(&[HOOKS.len() as u8, 0]).is_empty());
    }

    #[test]
    fn a_hook_is_named_with_its_programs() {
        let said = |programs: &[u32]| {
            let hook = Hook {
                name: "connect4",
                programs: programs.to_vec(),
            };
            hook.to_string()
        };
        assert_eq!(said(&[12]), "connect4 (BPF program 12)");
        assert_eq!(said(&[12, 7]), "connect4 (BPF programs 12 and 7)");
        assert_eq!(said(&[]), "connect4");
    }
}
