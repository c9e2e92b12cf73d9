//! Programs that are started, watched and, whatever happens, ended.

use crate::{namespace, tool};
use anyhow::{Context, Result, bail};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process, kill_process_group, waitid,
};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A program that is waited for hangs if it runs for so long.
const HANG_SECONDS: u64 = 600;
/// How long a program that is asked to end may take before it is killed.
pub const ENDING: Duration = Duration::from_secs(10);

/// How a program is to be started: what to run, where, and on which core.
#[derive(Clone, Debug)]
pub struct Program {
    words: Vec<OsString>,
    namespace: Option<String>,
    core: Option<usize>,
    variables: Vec<(OsString, OsString)>,
    log: Option<PathBuf>,
    ends_by: Option<Signal>,
}

impl Program {
    /// The program `name`, looked for in PATH and where administrators' tools are.
    pub fn new(name: impl AsRef<OsStr>) -> Self {
        Self {
            words: vec![name.as_ref().to_owned()],
            namespace: None,
            core: None,
            variables: Vec::new(),
            log: None,
            ends_by: None,
        }
    }

    /// Adds an argument.
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.words.push(argument.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    pub fn args<A: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        for argument in arguments {
            self = self.arg(argument);
        }
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.variables
            .push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Runs it in the network namespace `name`.
    pub fn within(mut self, name: &str) -> Self {
        self.namespace = Some(name.to_string());
        self
    }

    /// Runs it on this core only. Cores are numbered from 0.
    pub fn on_core(mut self, core: usize) -> Self {
        self.core = Some(core);
        self
    }

    /// Sends what it prints to this file, which a failure to start then quotes.
    pub fn log(mut self, file: impl AsRef<Path>) -> Self {
        self.log = Some(file.as_ref().to_owned());
        self
    }

    /// Has it asked by this signal to end, however it comes to be ended: killed at once, it would leave something
    /// behind.
    pub fn ends_by(mut self, signal: Signal) -> Self {
        self.ends_by = Some(signal);
        self
    }

    /// Starts it. It is killed when the thread that started it ends, however that comes about.
    pub fn start(&self) -> Result<Process> {
        let mut command = self.command(&[]);
        // A program that signals its process group (Apache does, to end) means its own.
        command.stdin(Stdio::null()).process_group(0);
        if let Some(log) = &self.log {
            let file =
                File::create(log).with_context(|| format!("cannot make {}", log.display()))?;
            command.stdout(file.try_clone()?).stderr(file);
        } else {
            command.stdout(Stdio::null()).stderr(Stdio::null());
        }
        let child = command
            .spawn()
            .with_context(|| format!("{} cannot be started", self.name()))?;
        Ok(Process {
            name: self.name(),
            child,
            log: self.log.clone(),
            ends_by: self.ends_by,
        })
    }

    /// Runs it to its end and returns what it printed; an error if it fails, or hangs.
    pub fn output(&self) -> Result<String> {
        self.output_within(HANG_SECONDS)
    }

    /// As [`output`](Self::output), of a program that hangs if it takes more than so many seconds.
    pub fn output_within(&self, seconds: u64) -> Result<String> {
        let mut command = self.command(&["timeout", "--kill-after=5", &seconds.to_string()]);
        tool::output(&mut command, &self.name())
    }

    /// The name that errors call it by.
    fn name(&self) -> String {
        Path::new(&self.words[0])
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    }

    /// Each word in front replaces itself by what follows it, so the process that is started is
    /// in the end the program itself.
    ///
    /// What is `around` it does not: it waits for the program, which dies with it.
    fn command(&self, around: &[&str]) -> Command {
        let dies = ["setpriv", "--pdeathsig", "KILL"];
        let mut words: Vec<OsString> = dies.map(OsString::from).to_vec();
        if !around.is_empty() {
            words.extend(around.iter().map(OsString::from));
            words.extend(dies.map(OsString::from));
        }
        if let Some(namespace) = &self.namespace {
            let file = namespace::namespace_file(namespace);
            words.push("nsenter".into());
            words.push(format!("--net={}", file.display()).into());
            words.push("--".into());
        }
        if let Some(core) = self.core {
            words.extend(["taskset".into(), "-c".into(), core.to_string().into()]);
        }
        words.extend(self.words.iter().cloned());
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            .envs(self.variables.iter().cloned())
            .env("PATH", tool::search_path());
        command
    }
}

/// A program that was started. Dropping it ends it, and all that it has started in its group, also where it has ended
/// itself by then: they are killed, or it is asked first if it [ends by](Program::ends_by) a signal.
///
/// Until then nobody takes its end from the kernel. So its number, and that of its group, are nobody else's as long
/// as this is there: numbers come again soon, and a signal would go to whoever has got it. In a process that ignores
/// SIGCHLD the kernel keeps no end: there what a program has left that ended first is not ended with it.
pub struct Process {
    name: String,
    child: Child,
    log: Option<PathBuf>,
    ends_by: Option<Signal>,
}

impl Process {
    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    fn pid(&self) -> Result<Pid> {
        Pid::from_raw(self.id().cast_signed()).context("no process id")
    }

    /// Whether it still runs; how it ended, if not.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.look()
    }

    /// As there. An error: the kernel does not know it as ours (any more), and its number may be another's by now.
    fn look(&self) -> Result<Option<ExitStatus>> {
        let only_looks = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let found = waitid(WaitId::Pid(self.pid()?), only_looks);
        let found = found.with_context(|| format!("cannot look after {}", self.name))?;
        Ok(found.as_ref().map(status))
    }

    /// Waits until `ready` says so; an error, which quotes the log, if it ends before that or if
    /// `limit` passes.
    pub fn wait_until(&mut self, limit: Duration, mut ready: impl FnMut() -> bool) -> Result<()> {
        let started = Instant::now();
        while !ready() {
            if let Some(status) = self.ended()? {
                bail!("{} ended ({status}){}", self.name, self.said());
            }
            if started.elapsed() > limit {
                bail!("{} is not ready after {limit:?}{}", self.name, self.said());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// Sends it a signal. Where it has ended, that does nothing.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        self.look()?;
        kill_process(self.pid()?, signal).with_context(|| format!("cannot signal {}", self.name))
    }

    /// Asks it to end and waits for that; kills it when `limit` passes.
    pub fn stop(mut self, limit: Duration) -> Result<ExitStatus> {
        self.end(limit)
    }

    /// As [`stop`](Self::stop), where it is kept: what it has printed can still be read.
    pub fn end(&mut self, limit: Duration) -> Result<ExitStatus> {
        self.signal(self.ends_by.unwrap_or(Signal::TERM))?;
        self.wait(limit)
    }

    /// Kills it at once, and then what it has started: that finds out only that it is gone.
    pub fn kill(mut self) -> Result<ExitStatus> {
        self.look()?;
        self.child.kill()?;
        self.wait(ENDING)
    }

    /// Waits for its end; kills it when `limit` passes, which is an error.
    pub fn wait(&mut self, limit: Duration) -> Result<ExitStatus> {
        let started = Instant::now();
        loop {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            if started.elapsed() > limit {
                self.kill_group();
                bail!("{} did not end within {limit:?}{}", self.name, self.said());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Kills it and all of its group, whoever is left of that.
    fn kill_group(&mut self) {
        if self.look().is_err() {
            return;
        }
        // Nobody there is left to kill, where that fails.
        let _ = self
            .pid()
            .map(|group| kill_process_group(group, Signal::KILL));
        // It may have left its group.
        let _ = self.child.kill();
    }

    /// What it printed so far, if that goes to a log.
    pub fn printed(&self) -> String {
        self.log
            .as_ref()
            .and_then(|log| std::fs::read(log).ok())
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// The end of what it printed, as the tail of an error message.
    fn said(&self) -> String {
        let printed = self.printed();
        let lines: Vec<&str> = printed.trim().lines().collect();
        let last = &lines[lines.len().saturating_sub(5)..];
        if last.is_empty() {
            String::new()
        } else {
            format!(": {}", last.join(" | "))
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if matches!(self.ended(), Ok(None)) && self.ends_by.is_some() {
            // Whoever does not end by it is killed.
            let _ = self.end(ENDING);
        }
        self.kill_group();
        // Only now: by this its number, and its group's, are free for others.
        let _ = self.child.wait();
    }
}

/// Whether there is a process of that number which has not ended: it keeps its number until it is waited for.
pub(crate) fn runs(process: u32) -> bool {
    let file = format!("/proc/{process}/stat");
    let stat = std::fs::read_to_string(file).unwrap_or_default();
    // What it is called is between parentheses, and may have some, too.
    let state = stat
        .rsplit(") ")
        .next()
        .and_then(|rest| rest.chars().next());
    state.is_some_and(|state| !"ZX".contains(state))
}

/// How a program has ended, in the form in which the library has it (wait(2)).
fn status(found: &WaitIdStatus) -> ExitStatus {
    const DUMPED: i32 = 0x80;
    let by_signal = found
        .terminating_signal()
        .map(|signal| match found.dumped() {
            true => signal | DUMPED,
            false => signal,
        });
    let code = found.exit_status().unwrap_or_default();
    ExitStatus::from_raw(by_signal.unwrap_or(code << 8))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without a group of its own this would end the test itself.
    #[test]
    fn a_program_that_signals_its_group_means_its_own() {
        let mut program = Program::new("sh")
            .args(["-c", "kill -TERM 0; sleep 60"])
            .start()
            .unwrap();
        let status = program.wait(Duration::from_secs(60)).unwrap();
        assert!(!status.success());
    }

    /// A file of a test's own, which is not there yet.
    fn free(name: &str) -> PathBuf {
        let file = std::env::temp_dir().join(format!("lab-{name}-{}", std::process::id()));
        let _ = std::fs::remove_file(&file);
        file
    }

    fn within_a_minute(mut is_so: impl FnMut() -> bool) -> bool {
        let began = Instant::now();
        while !is_so() {
            if began.elapsed() > Duration::from_secs(60) {
                return false;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        true
    }

    /// The number that a program writes into a file as soon as it can.
    fn written(file: &Path) -> String {
        let read = || std::fs::read_to_string(file).unwrap_or_default();
        assert!(within_a_minute(|| read().ends_with('\n')));
        read().trim().to_owned()
    }

    /// Whether a process is no more; somebody may have to wait for it yet.
    fn is_gone(number: &str) -> bool {
        !runs(number.parse().unwrap())
    }

    /// A server's worker would keep its port.
    #[test]
    fn what_a_program_has_started_ends_with_it() {
        let file = free("started");
        let line = "sleep 120 & echo $! >\"$0\"; wait";
        let program = Program::new("sh").args(["-c", line]).arg(&file);
        let program = program.start().unwrap();
        let started = written(&file);
        assert!(!is_gone(&started));
        drop(program);
        std::fs::remove_file(&file).unwrap();
        assert!(within_a_minute(|| is_gone(&started)));
    }

    #[test]
    fn what_a_program_has_left_that_ended_first_ends_with_it_too() {
        let file = free("left");
        let line = "sleep 120 & echo $! >\"$0\"";
        let program = Program::new("sh").args(["-c", line]).arg(&file);
        let mut program = program.start().unwrap();
        assert!(program.wait(Duration::from_secs(60)).unwrap().success());
        let left = written(&file);
        assert!(!is_gone(&left));
        drop(program);
        std::fs::remove_file(&file).unwrap();
        assert!(within_a_minute(|| is_gone(&left)));
    }

    /// Whoever got its number would get its signals.
    #[test]
    fn the_number_of_a_program_that_has_ended_is_its_own_until_it_is_dropped() {
        let mut program = Program::new("true").start().unwrap();
        assert!(program.wait(Duration::from_secs(60)).unwrap().success());
        let own = format!("/proc/{}", program.id());
        assert!(Path::new(&own).exists());
        program.signal(Signal::TERM).unwrap();
        assert!(program.ended().unwrap().unwrap().success());
        drop(program);
        assert!(!Path::new(&own).exists());
    }

    #[test]
    fn nobody_gets_a_signal_by_a_number_that_is_free_again() {
        let file = free("again");
        let line = "sleep 120 & echo $! >\"$0\"";
        let program = Program::new("sh").args(["-c", line]).arg(&file);
        let mut program = program.start().unwrap();
        assert!(program.wait(Duration::from_secs(60)).unwrap().success());
        let left = written(&file);
        // What the kernel does by itself where SIGCHLD is ignored.
        let taken = waitid(WaitId::Pid(program.pid().unwrap()), WaitIdOptions::EXITED);
        assert!(taken.unwrap().is_some());
        assert!(program.ended().is_err());
        assert!(program.signal(Signal::TERM).is_err());
        drop(program);
        assert!(!is_gone(&left));
        let left = Pid::from_raw(left.parse().unwrap()).unwrap();
        kill_process(left, Signal::KILL).unwrap();
        std::fs::remove_file(&file).unwrap();
    }

    #[test]
    fn it_is_known_how_a_program_has_ended() {
        let ended = |line: &str| {
            let mut program = Program::new("sh").args(["-c", line]).start().unwrap();
            let status = program.wait(Duration::from_secs(60)).unwrap();
            (status.code(), status.signal())
        };
        assert_eq!(ended("exit 7"), (Some(7), None));
        assert_eq!(ended("kill -KILL $$"), (None, Some(9)));
        let killed = Program::new("sleep").arg("120").start().unwrap().kill();
        assert_eq!(killed.unwrap().signal(), Some(9));
    }

    #[test]
    fn who_would_leave_something_behind_is_asked_first() {
        let file = free("asked");
        let line =
            "trap 'echo asked >\"$0\"; exit' TERM; echo up >\"$0\"; while :; do sleep 0.01; done";
        let program = Program::new("sh").args(["-c", line]).arg(&file);
        let program = program.ends_by(Signal::TERM).start().unwrap();
        let read = || std::fs::read_to_string(&file).unwrap_or_default();
        assert!(within_a_minute(|| read() == "up\n"));
        drop(program);
        assert_eq!(read(), "asked\n");
        std::fs::remove_file(&file).unwrap();
    }
}
