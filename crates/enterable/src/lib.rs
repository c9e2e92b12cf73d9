//! Which programs the interposed library can be in: those that glibc's loader loads, and whose calls go
//! through libc. `outboard run` asks this of the program that it is given, the library itself of every
//! program that is executed later. Before that it asks whether the library is the one that it was built with ([`made`]).
//!
//! Only what matters of a file is read: its first bytes, the lists of its segments and sections, and names.
//! Rights that a file gives to who executes it are another matter, which depends on who that is.

//!
//! Files are read by system calls of its own: in the library, libc's are the library's.
#![forbid(unsafe_code)]

mod file;
pub mod made;

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use object::elf;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};
use object::read::{ReadCache, ReadRef};

use file::File;

type Header = elf::FileHeader64<object::Endianness>;

/// Interpreters in a row that are followed from one script to the next, as the kernel does.
const MOST_SCRIPTS: usize = 4;

/// The longest first line of a script (BINPRM_BUF_SIZE).
const FIRST_LINE: usize = 256;

/// The processor of programs that the library was made for.
const MACHINE: u16 = if cfg!(target_arch = "aarch64") {
    elf::EM_AARCH64
} else {
    elf::EM_X86_64
};

/// What a file is to the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// A program that it can be in.
    Enterable,
    /// A program whose calls do not pass through it, for this reason.
    Apart(&'static str),
    /// Nothing that the kernel could execute by itself.
    Unknown,
}

/// The file that is executed for `path`: where that is a script, its interpreter.
///
/// # Errors
/// A file on the way cannot be opened or read.
pub fn executed(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_path_buf();
    for _ in 0..MOST_SCRIPTS {
        match interpreter_of_script(&path)? {
            Some(interpreter) => path = interpreter,
            None => break,
        }
    }
    Ok(path)
}

/// What the file at `path` is, which is no script.
///
/// # Errors
/// It cannot be opened or read.
pub fn look_at(path: &Path) -> io::Result<Program> {
    let file = File::open(path)?;
    let begin = file.begin::<5>()?;
    if !begin.starts_with(&elf::ELFMAG) {
        return Ok(Program::Unknown);
    }
    if begin.ends_with(&[elf::ELFCLASS32]) {
        return Ok(Program::Apart(
            "it is a 32-bit program, and the library is not",
        ));
    }
    Ok(read(&ReadCache::new(file)).unwrap_or(Program::Unknown))
}

fn interpreter_of_script(path: &Path) -> io::Result<Option<PathBuf>> {
    let begin = File::open(path)?.begin::<FIRST_LINE>()?;
    let Some(rest) = begin.strip_prefix(b"#!") else {
        return Ok(None);
    };
    let line = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let interpreter = line
        .trim_ascii()
        .split(|byte| byte.is_ascii_whitespace())
        .next();
    Ok(interpreter.map(|name| PathBuf::from(OsStr::from_bytes(name))))
}

/// What a file of ELF is. `None`: it is damaged.
fn read<'data>(data: impl ReadRef<'data>) -> Option<Program> {
    let header = Header::parse(data).ok()?;
    let endian = header.endian().ok()?;
    if header.e_machine(endian) != MACHINE {
        return Some(Program::Apart("it is made for another kind of processor"));
    }
    // A file may do without sections, and then is no less of a program.
    if let Ok(sections) = header.sections(endian, data) {
        for section in sections.iter() {
            let name = sections.section_name(endian, section).unwrap_or_default();
            if matches!(name, b".go.buildinfo" | b".note.go.buildid") && section.sh_size(endian) > 0
            {
                return Some(Program::Apart(
                    "it is a Go program, which makes its system calls without libc",
                ));
            }
        }
    }
    let mut loader = None;
    for segment in header.program_headers(endian, data).ok()? {
        if let Some(name) = segment.interpreter(endian, data).ok()? {
            loader = Some(name);
        }
    }
    Some(match loader {
        None => Program::Apart("it is statically linked, so there is no libc to take the place of"),
        Some(name) if name.windows(4).any(|window| window == b"musl") => {
            Program::Apart("it is linked with musl, and the interposer with glibc")
        }
        Some(_) => Program::Enterable,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This test's own executable.
    fn own() -> Vec<u8> {
        let this = std::env::current_exe().expect("a test has an executable");
        std::fs::read(this).expect("and can read it")
    }

    /// What an executable is without the segment that names its loader.
    fn without_loader(mut bytes: Vec<u8>) -> Vec<u8> {
        let header = Header::parse(&*bytes).expect("it is ELF");
        let endian = header.endian().expect("of a known order");
        let segments = header
            .program_headers(endian, &*bytes)
            .expect("with segments");
        let at = segments
            .iter()
            .position(|segment| segment.p_type(endian) == elf::PT_INTERP)
            .expect("one names the loader");
        let offset = header.e_phoff(endian) as usize
            + at * size_of::<elf::ProgramHeader64<object::Endianness>>();
        bytes[offset..offset + 4].copy_from_slice(&elf::PT_NULL.to_ne_bytes());
        bytes
    }

    fn why(program: Option<Program>) -> &'static str {
        match program {
            Some(Program::Apart(why)) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn dynamic_programs_and_scripts_can_be_entered() {
        let shell = executed(Path::new("/bin/sh")).expect("there is a shell");
        assert_eq!(look_at(&shell).expect("to be read"), Program::Enterable);
        assert_eq!(read(&*own()), Some(Program::Enterable));
        let scratch = std::env::temp_dir().join(format!("outboard-script-{}", std::process::id()));
        std::fs::write(&scratch, "#! /bin/sh -e\nexit\n").expect("a script");
        let interpreter = executed(&scratch);
        std::fs::remove_file(&scratch).expect("no script");
        assert_eq!(interpreter.expect("followed"), Path::new("/bin/sh"));
    }

    #[test]
    fn what_is_static_cannot() {
        assert!(why(read(&*without_loader(own()))).contains("statically"));
    }

    #[test]
    fn what_other_loaders_load_cannot() {
        let mut bytes = own();
        let name = b"/lib64/ld-linux";
        let at = bytes
            .windows(name.len())
            .position(|window| window == name)
            .expect("its loader");
        bytes[at..at + name.len()].copy_from_slice(b"/lib64/ld-musl-");
        assert!(why(read(&*bytes)).contains("musl"));
    }

    #[test]
    fn what_is_for_other_processors_cannot() {
        let mut bytes = own();
        // e_machine.
        bytes[18..20].copy_from_slice(&elf::EM_RISCV.to_le_bytes());
        assert!(why(read(&*bytes)).contains("processor"));
    }

    #[test]
    fn go_programs_cannot() {
        let Some(go) = ["/usr/local/go/bin/go", "/usr/bin/go"]
            .iter()
            .find(|path| Path::new(path).exists())
        else {
            return;
        };
        assert!(why(look_at(Path::new(go)).ok()).contains("Go program"));
    }

    #[test]
    fn what_is_no_program_is_told_from_it() {
        assert_eq!(read(&b"hello"[..]), None);
        let this = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        assert_eq!(look_at(&this).expect("to be read"), Program::Unknown);
        assert!(look_at(Path::new("/nonexistent")).is_err());
    }
}
