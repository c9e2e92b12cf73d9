//! The programs of a cgroup are found, with those of the cgroups around it. Needs root.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;

use netdev::cgroup::{Hook, hooks};

/// `r0 = 1; exit`: let everything pass.
const PASS: [u64; 2] = [0x0000_0001_0000_00b7, 0x95];
const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_PROG_ATTACH: libc::c_long = 8;
const CGROUP_SKB: u32 = 8;
const EGRESS: u32 = 1;

#[repr(C)]
struct Load {
    kind: u32,
    count: u32,
    instructions: *const u64,
    license: *const libc::c_char,
    log: [u64; 3],
}

#[repr(C)]
struct Attach {
    cgroup: u32,
    program: u32,
    kind: u32,
    flags: u32,
}

fn bpf<T>(command: libc::c_long, attributes: &T) -> io::Result<i32> {
    // SAFETY: `attributes` is a beginning of what bpf(2) expects for the command, and what it points to
    // is static.
    let said = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            std::ptr::from_ref(attributes),
            size_of::<T>(),
        )
    };
    if said < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(said as i32)
}

/// A cgroup of this test's, and one in it.
struct Cgroups {
    outer: PathBuf,
    inner: PathBuf,
}

impl Cgroups {
    fn make() -> Option<Self> {
        let root = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
            .map(PathBuf::from)
            .into_iter()
            .find(|root| root.join("cgroup.controllers").exists())?;
        let outer = root.join(format!("outboard-test-{}", std::process::id()));
        let inner = outer.join("inner");
        std::fs::create_dir_all(&inner).ok()?;
        Some(Self { outer, inner })
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        for path in [&self.inner, &self.outer] {
            let _ = std::fs::remove_dir(path);
        }
    }
}

#[test]
fn programs_that_see_packets_are_found() {
    use std::io::Write;
    let Some(cgroups) = Cgroups::make() else {
        let _ = writeln!(io::stderr(), "SKIPPED: no cgroup can be made (not root?)");
        return;
    };
    let inner = File::open(&cgroups.inner).expect("made");
    let before = hooks(&inner).expect("it is a cgroup");
    let of = |hooks: &[Hook]| -> Vec<u32> {
        let egress = hooks.iter().filter(|hook| hook.name == "egress");
        egress.flat_map(|hook| hook.programs.clone()).collect()
    };
    let outside = of(&before);
    let load = Load {
        kind: CGROUP_SKB,
        count: 2,
        instructions: PASS.as_ptr(),
        license: c"GPL".as_ptr(),
        log: [0; 3],
    };
    let program = bpf(BPF_PROG_LOAD, &load).expect("a program that lets everything pass");
    // SAFETY: the kernel has just made this descriptor, and nobody else knows of it.
    let program = unsafe { OwnedFd::from_raw_fd(program) };
    let outer = File::open(&cgroups.outer).expect("made");
    let attach = Attach {
        cgroup: outer.as_raw_fd() as u32,
        program: program.as_raw_fd() as u32,
        kind: EGRESS,
        flags: 0,
    };
    bpf(BPF_PROG_ATTACH, &attach).expect("attached");
    for cgroup in [&outer, &inner] {
        let found = hooks(cgroup).expect("it is a cgroup");
        let named = of(&found);
        let new = named.iter().find(|number| !outside.contains(number));
        assert_eq!(named.len(), outside.len() + 1, "{found:?}");
        assert!(new.is_some_and(|number| *number > 0), "{found:?}");
        let others = |hooks: &[Hook]| -> Vec<Hook> {
            let others = hooks.iter().filter(|hook| hook.name != "egress");
            others.cloned().collect()
        };
        assert_eq!(others(&found), others(&before));
    }
    let other = File::open("/proc/self").expect("a directory");
    hooks(&other).expect_err("it is no cgroup");
}
