//! libc's buffered files on connections.

use std::ffi::{CStr, c_char, c_int};

use super::Stage;
use crate::calls::Transcript;

unsafe extern "C" {
    static stdin: *mut libc::FILE;
    static stdout: *mut libc::FILE;
    fn dprintf(fd: c_int, format: *const c_char, ...) -> c_int;
}

fn gets(transcript: &mut Transcript, file: *mut libc::FILE) {
    let mut line = [0 as c_char; 64];
    // SAFETY: the buffer has that many bytes, and a line ends with null.
    let got = unsafe { libc::fgets(line.as_mut_ptr(), 64, file) };
    // SAFETY: as above.
    let read = (!got.is_null()).then(|| unsafe { CStr::from_ptr(got) }.to_owned());
    transcript.note(format_args!("fgets = {read:?}"));
}

/// A file for both directions, and one for each.
pub fn files(stage: &mut Stage<'_>, fd: c_int) {
    let Stage {
        agent, transcript, ..
    } = stage;
    // SAFETY: own descriptors and files.
    unsafe {
        let writes = libc::fdopen(libc::dup(fd), c"w".as_ptr());
        let reads = libc::fdopen(fd, c"r".as_ptr());
        transcript.note(format_args!(
            "fileno is the number: {}",
            libc::fileno(reads) == fd
        ));
        transcript.call(
            "fprintf",
            libc::fprintf(writes, c"%s-%d".as_ptr(), c"hello".as_ptr(), 7) as isize,
        );
        transcript.call("fflush", libc::fflush(writes) as isize);
        let got = agent.tell("receive 7");
        transcript.note(got);
        agent.tell("send one");
        // What is read ahead waits in the file.
        transcript.note(format_args!("getc {}", libc::fgetc(reads)));
        transcript.note(format_args!("getc {}", libc::fgetc(reads)));
        transcript.note(format_args!("getc {}", libc::fgetc(reads)));
        transcript.call("fseek", libc::fseek(reads, 0, libc::SEEK_SET) as isize);
        // More than any buffer.
        let many = vec![b'x'; 100_000];
        let wrote = libc::fwrite(many.as_ptr().cast(), 1, many.len(), writes);
        transcript.note(format_args!("fwrite {wrote}"));
        libc::fputs(c"end".as_ptr(), writes);
        transcript.call("fclose", libc::fclose(writes) as isize);
        let got = agent.tell("drain 100000");
        transcript.note(got);
        let got = agent.tell("receive 3");
        transcript.note(got);
        agent.tell("shutdown");
        gets(transcript, reads);
        transcript.note(format_args!("feof {}", libc::feof(reads) != 0));
        transcript.call("fclose", libc::fclose(reads) as isize);
        transcript.call("fcntl", libc::fcntl(fd, libc::F_GETFD) as isize);
    }
    let got = agent.tell("rest");
    transcript.note(got);
}

/// One file in both directions, with lines, and what cannot be a file.
pub fn both_ways(stage: &mut Stage<'_>, fd: c_int) {
    let Stage {
        agent, transcript, ..
    } = stage;
    // SAFETY: own descriptors and files.
    unsafe {
        let none = libc::fdopen(fd, c"x".as_ptr());
        transcript.call("fdopen(x)", if none.is_null() { -1 } else { 0 });
        let file = libc::fdopen(fd, c"r+".as_ptr());
        libc::setvbuf(file, std::ptr::null_mut(), libc::_IOLBF, 0);
        libc::fputs(c"ask\n".as_ptr(), file);
        let got = agent.tell("drain 4");
        transcript.note(got);
        agent.tell("send answer");
        transcript.note(format_args!("getc {}", libc::fgetc(file)));
        let count = dprintf(
            libc::fileno(file),
            c"%d %s %.1f %d %d %d %d".as_ptr(),
            1 as c_int,
            c"two".as_ptr(),
            3.5f64,
            4 as c_int,
            5 as c_int,
            6 as c_int,
            7 as c_int,
        );
        transcript.call("dprintf", count as isize);
        let got = agent.tell("receive 17");
        transcript.note(got);
        transcript.call("fclose", libc::fclose(file) as isize);
        transcript.call("dprintf", dprintf(fd, c"closed".as_ptr()) as isize);
    }
}

/// A server as inetd's: the standard numbers are the connection.
pub fn standard(stage: &mut Stage<'_>, fd: c_int) {
    let Stage {
        agent, transcript, ..
    } = stage;
    // SAFETY: own descriptors; the standard ones are put back.
    unsafe {
        let kept = [libc::dup(0), libc::dup(1)];
        libc::printf(c"moves".as_ptr());
        libc::dup2(fd, 0);
        libc::dup2(fd, 1);
        libc::printf(c"-%d".as_ptr(), 5 as c_int);
        libc::fflush(stdout);
        let got = agent.tell("receive 7");
        libc::puts(c"line".as_ptr());
        libc::fflush(stdout);
        agent.tell("send answer");
        let first = libc::getchar();
        libc::dup2(kept[0], 0);
        libc::dup2(kept[1], 1);
        libc::close(kept[0]);
        libc::close(kept[1]);
        transcript.note(got);
        let line = agent.tell("drain 5");
        transcript.note(line);
        transcript.note(format_args!(
            "getchar {first}, {} {}",
            libc::fileno(stdin),
            libc::fileno(stdout)
        ));
    }
    transcript.send(fd, "still", 0);
    let got = agent.tell("receive 5");
    transcript.note(got);
}
