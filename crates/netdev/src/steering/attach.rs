//! Hanging the program on an interface by a BPF link.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::{Placement, ProgramOwner, SteeringError};
use crate::interface::{AttachedProgram, Interface, XdpMode};

const BPF_MAP_UPDATE_ELEM: libc::c_long = 2;
const BPF_MAP_DELETE_ELEM: libc::c_long = 3;
const BPF_LINK_CREATE: libc::c_long = 28;
const BPF_LINK_UPDATE: libc::c_long = 29;
const BPF_LINK_DETACH: libc::c_long = 34;
const BPF_XDP: u32 = 37;
const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;

/// The part of `union bpf_attr` that creates a link to an interface.
#[repr(C)]
struct LinkCreate {
    program: u32,
    interface: u32,
    attach_type: u32,
    flags: u32,
}

/// The part of `union bpf_attr` that gives a link another program.
#[repr(C)]
struct LinkUpdate {
    link: u32,
    program: u32,
    flags: u32,
    old_program: u32,
}

/// The part of `union bpf_attr` that detaches a link.
#[repr(C)]
struct LinkDetach {
    link: u32,
}

/// The part of `union bpf_attr` that changes an element of a map.
#[repr(C)]
struct Element {
    map: u32,
    zero: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// Puts a program into slot 0 of an array of programs, or takes away what is there.
pub(super) fn set_program(
    array: BorrowedFd<'_>,
    program: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let key = 0_u32;
    let value = program.map(|program| program.as_raw_fd() as u32);
    let attributes = Element {
        map: array.as_raw_fd() as u32,
        zero: 0,
        key: &raw const key as u64,
        // The command that deletes insists that there be none.
        value: value.as_ref().map_or(0, |value| &raw const *value as u64),
        flags: 0,
    };
    let command = match program {
        Some(_) => BPF_MAP_UPDATE_ELEM,
        None => BPF_MAP_DELETE_ELEM,
    };
    // SAFETY: the layout is that of both commands; key and value, if there is one, are the four bytes
    // each that an array of programs has, and live during the call.
    match unsafe { bpf(command, &attributes) } {
        Err(error) if program.is_none() && error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other.map(drop),
    }
}

/// What holds the program at its interface.
///
/// The kernel lets go when the last copy of the descriptor is closed, so also when the process is
/// killed. Dropping it lets go at once, even if a child that is just being made has a copy.
#[derive(Debug)]
pub(crate) struct Link(OwnedFd);

impl Link {
    /// Puts another program in the place of the one that is there: every frame meets one of them.
    pub(super) fn replace(&self, program: BorrowedFd<'_>) -> io::Result<()> {
        let attributes = LinkUpdate {
            link: self.0.as_raw_fd() as u32,
            program: program.as_raw_fd() as u32,
            flags: 0,
            old_program: 0,
        };
        // SAFETY: the layout is that of the command, and holds no pointers.
        unsafe { bpf(BPF_LINK_UPDATE, &attributes) }.map(drop)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let attributes = LinkDetach {
            link: self.0.as_raw_fd() as u32,
        };
        // If it fails, the interface is gone; and closing the descriptor does the same.
        // SAFETY: the layout is that of the command, and holds no pointers.
        let _ = unsafe { bpf(BPF_LINK_DETACH, &attributes) };
    }
}

/// The system call, with the part of `union bpf_attr` that a command takes.
///
/// # Safety
/// The attributes are of the layout of the command; pointers in them are valid.
unsafe fn bpf<T>(command: libc::c_long, attributes: &T) -> io::Result<libc::c_long> {
    // SAFETY: the kernel reads `size_of::<T>()` bytes of the attributes; the caller answers for
    // what they say.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            &raw const *attributes,
            size_of::<T>(),
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

/// Attaches the program; returns the link, and where the program runs.
pub(crate) fn attach(
    program: BorrowedFd<'_>,
    interface: &Interface,
    placement: Placement,
) -> Result<(Link, XdpMode), SteeringError> {
    let native = || create_link(program, interface, XDP_FLAGS_DRV_MODE);
    let generic = || create_link(program, interface, XDP_FLAGS_SKB_MODE);
    match placement {
        Placement::Native => Ok((
            native().map_err(|error| explain(interface, "native", error))?,
            XdpMode::Native,
        )),
        Placement::Generic => Ok((
            generic().map_err(|error| explain(interface, "generic", error))?,
            XdpMode::Generic,
        )),
        Placement::Auto => match native() {
            Ok(link) => Ok((link, XdpMode::Native)),
            Err(error) if is_of_the_driver(&error) => {
                tracing::warn!(
                    interface = interface.name,
                    driver = interface.driver,
                    %error,
                    "the driver takes no native XDP program: using the generic hook, which is slower"
                );
                let link = generic().map_err(|error| explain(interface, "generic", error))?;
                Ok((link, XdpMode::Generic))
            }
            Err(error) => Err(explain(interface, "native", error)),
        },
    }
}

/// Whether the generic hook might take what the driver refused.
fn is_of_the_driver(error: &io::Error) -> bool {
    !matches!(
        error.raw_os_error(),
        Some(libc::EBUSY | libc::EEXIST | libc::EPERM | libc::EACCES | libc::ENODEV)
    )
}

fn explain(interface: &Interface, mode: &'static str, error: io::Error) -> SteeringError {
    let hint = match error.raw_os_error() {
        Some(libc::EBUSY | libc::EEXIST) => {
            return occupied(interface, interface.attached_program().unwrap_or(None));
        }
        Some(libc::EPERM | libc::EACCES) => return SteeringError::NotPermitted,
        Some(libc::EOPNOTSUPP) if mode == "native" => {
            "; the driver has no native XDP, use the generic hook"
        }
        Some(libc::EINVAL | libc::ERANGE | libc::EOPNOTSUPP) => {
            "; look in the kernel's log, and try a smaller MTU or less offloading \
             (ethtool -K ... lro off)"
        }
        Some(libc::ENOSPC | libc::ENOMEM) => {
            "; the driver lacks queues for it, try fewer channels (ethtool -L ...)"
        }
        _ => "",
    };
    SteeringError::Attach {
        interface: interface.name.clone(),
        mode,
        error,
        hint,
    }
}

/// Somebody else has an interface, by this program, if it is known.
pub(super) fn occupied(interface: &Interface, program: Option<AttachedProgram>) -> SteeringError {
    let id = program.map(|program| program.id).filter(|id| *id != 0);
    SteeringError::Occupied {
        interface: interface.name.clone(),
        program,
        owner: id.and_then(ProgramOwner::find),
    }
}

/// Only a link will do. Loaders that fall back to netlink leave a program behind when they are
/// killed.
fn create_link(program: BorrowedFd<'_>, interface: &Interface, flags: u32) -> io::Result<Link> {
    let attributes = LinkCreate {
        program: program.as_raw_fd() as u32,
        interface: interface.index,
        attach_type: BPF_XDP,
        flags,
    };
    // SAFETY: the layout is that of the command, and holds no pointers.
    let fd = unsafe { bpf(BPF_LINK_CREATE, &attributes)? };
    // SAFETY: a descriptor that was just made and that nobody else has. The kernel makes it
    // close-on-exec.
    Ok(Link(unsafe { OwnedFd::from_raw_fd(fd as i32) }))
}
