//! Another program that is started: this one, which then writes to a descriptor and ends.

use crate::errors::{last, name};
use differ::outcome::{Outcome, step_tag, text};
use differ::program::StartBy;
use std::ffi::{CString, c_char, c_int};
use std::ptr::{null, null_mut};

/// Its first argument then.
pub const NAME: &str = "started";

/// Its status if it has written a part only. Otherwise that is an errno, or 0.
const SHORT: c_int = 200;

unsafe extern "C" {
    static environ: *const *mut c_char;
}

/// Starts it and waits for it. What it returns is its status.
pub fn start(by: StartBy, step: usize, number: c_int, length: u32) -> Outcome {
    let program = std::fs::read_link("/proc/self/exe").expect("there is a program");
    let program = program.to_str().expect("with a name that can be read");
    let arguments = [
        program.to_owned(),
        NAME.to_owned(),
        number.to_string(),
        text(step_tag(step), 0, length as usize),
    ];
    let plain = |text: &str| CString::new(text).expect("no zero in it");
    // SAFETY: texts that end in zero, in lists that end in null.
    let status = unsafe {
        match by {
            StartBy::Spawn => {
                let arguments = arguments.each_ref().map(|text| plain(text));
                let mut list: Vec<_> = arguments.iter().map(|it| it.as_ptr().cast_mut()).collect();
                list.push(null_mut());
                let mut child = 0;
                let (path, at) = (list[0], list.as_ptr());
                let error = libc::posix_spawn(&mut child, path, null(), null(), at, environ);
                if error != 0 {
                    return Outcome::Error(name(error));
                }
                waited_for(child)
            }
            StartBy::System => libc::system(plain(&quoted(&arguments)).as_ptr()),
            StartBy::Popen => {
                let file = libc::popen(plain(&quoted(&arguments)).as_ptr(), c"r".as_ptr());
                if file.is_null() {
                    return last();
                }
                libc::pclose(file)
            }
        }
    };
    match status {
        ..0 => last(),
        _ if libc::WIFEXITED(status) => Outcome::Value(libc::WEXITSTATUS(status).into()),
        _ => Outcome::Text(format!("status {status:#x}")),
    }
}

fn waited_for(child: libc::pid_t) -> c_int {
    let mut status = 0;
    loop {
        // SAFETY: room for a status.
        let waited = unsafe { libc::waitpid(child, &mut status, 0) };
        if waited == child {
            return status;
        }
        if std::io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) {
            return -1;
        }
    }
}

/// A command for a shell. None of its words has an apostrophe.
fn quoted(words: &[String]) -> String {
    let words: Vec<_> = words.iter().map(|word| format!("'{word}'")).collect();
    words.join(" ")
}

/// What the program does that was started.
pub fn write(arguments: &[String]) -> ! {
    let number = arguments[0].parse().expect("a number");
    let text = arguments[1].as_bytes();
    // SAFETY: whole bytes.
    let written = unsafe { libc::write(number, text.as_ptr().cast(), text.len()) };
    let status = match usize::try_from(written) {
        Ok(all) if all == text.len() => 0,
        Ok(_) => SHORT,
        Err(_) => std::io::Error::last_os_error()
            .raw_os_error()
            .unwrap_or(SHORT),
    };
    std::process::exit(status)
}
