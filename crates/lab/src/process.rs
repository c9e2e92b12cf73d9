//! Programs that are started, watched and, whatever happens, ended.

use crate::{namespace, tool};
use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A program that is waited for hangs if it runs for so long.
const HANG_SECONDS: &str = "600";
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
        let mut command = self.command(&["timeout", "--kill-after=5", HANG_SECONDS]);
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

/// A running program. Dropping it ends it, and all that it has started in its group: it is killed, or asked first if
/// it [ends by](Program::ends_by) a signal.
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

    /// Whether it still runs; how it ended, if not.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
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

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let pid = Pid::from_raw(self.id().cast_signed()).context("no process id")?;
        kill_process(pid, signal).with_context(|| format!("cannot signal {}", self.name))
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

    /// Kills it at once, and nothing that it has started.
    pub fn kill(mut self) -> Result<ExitStatus> {
        self.child.kill()?;
        Ok(self.child.wait()?)
    }

    /// Waits for its end; kills it when `limit` passes, which is an error.
    pub fn wait(&mut self, limit: Duration) -> Result<ExitStatus> {
        let started = Instant::now();
        loop {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            if started.elapsed() > limit {
                self.kill_all();
                bail!("{} did not end within {limit:?}{}", self.name, self.said());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Kills it and all of its group. Nobody has waited for it yet, so that the group's number is its own.
    fn kill_all(&mut self) {
        if let Some(group) = Pid::from_raw(self.id().cast_signed()) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        // It may have left its group. If it has ended, there is nothing to kill, and that is well.
        let _ = self.child.kill();
        let _ = self.child.wait();
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
        if matches!(self.ended(), Ok(None)) {
            self.kill_all();
        }
    }
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

    /// A server's worker would keep its port.
    #[test]
    fn what_a_program_has_started_ends_with_it() {
        let file = free("started");
        let line = "sleep 600 & echo $! >\"$0\"; wait";
        let program = Program::new("sh").args(["-c", line]).arg(&file);
        let program = program.start().unwrap();
        let read = || std::fs::read_to_string(&file).unwrap_or_default();
        assert!(within_a_minute(|| read().ends_with('\n')));
        let state = format!("/proc/{}/stat", read().trim());
        drop(program);
        std::fs::remove_file(&file).unwrap();
        // Somebody may have to wait for it yet.
        assert!(within_a_minute(|| {
            std::fs::read_to_string(&state).map_or(true, |text| text.contains(") Z "))
        }));
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
