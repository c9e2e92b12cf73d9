//! Asking a running engine over its control socket.

use anyhow::{Result, anyhow, bail};
use queue_pair::control::{
    Channel, ChannelError, DEFAULT_NAME, Fds, Metric, Reply, Request, socket_path,
};
use rustix::io::Errno;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long an engine may take to answer. One that is alive answers at once, unless the machine has
/// something else to do.
pub const PATIENCE: Duration = Duration::from_secs(15);

/// Which engine is meant.
#[derive(clap::Args, Clone, Debug)]
pub struct Engine {
    /// The engine's name (its socket is /run/outboard/NAME.sock, or $OUTBOARD_SOCKET)
    #[arg(long, value_name = "NAME", default_value = DEFAULT_NAME,
          value_parser = crate::advice::engine_name)]
    engine: String,
}

/// How often counters are asked for anew whose rest the engine has not kept.
const TRIES: u32 = 5;

/// A connection to an engine.
pub struct Control {
    channel: Channel,
    path: PathBuf,
    patience: Duration,
}

impl Engine {
    /// What it is called, in words.
    pub fn name(&self) -> String {
        format!("engine {}", self.engine)
    }

    /// Connects to it.
    pub fn connect(&self) -> Result<Control> {
        let path = socket_path(&self.engine);
        let place = path.display();
        Control::at(&path, PATIENCE).map_err(|error| match error.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => anyhow!(
                "no engine called {} is running (nobody listens at {place}); {}",
                self.engine,
                match &running_beside(&path)[..] {
                    [] => "start one with: outboard engine -i IFACE".to_owned(),
                    others => format!("running: {}", others.join(", ")),
                }
            ),
            ErrorKind::PermissionDenied => {
                anyhow!("not allowed to talk to the engine at {place}; use sudo")
            }
            _ => anyhow!("cannot reach the engine at {place}: {error}"),
        })
    }
}

/// The engines that listen beside where one does not, by their names.
fn running_beside(path: &Path) -> Vec<String> {
    let beside = path
        .parent()
        .and_then(|place| std::fs::read_dir(place).ok());
    let sockets = beside.into_iter().flatten().flatten().map(|one| one.path());
    let mut names: Vec<String> = sockets
        .filter(|one| one.extension().is_some_and(|kind| kind == "sock"))
        .filter(|one| Channel::connect(one).is_ok())
        .filter_map(|one| Some(one.file_stem()?.to_str()?.to_owned()))
        .collect();
    names.sort();
    names
}

impl Control {
    /// To the engine that listens there, which may take so long to answer.
    pub fn at(path: &Path, patience: Duration) -> io::Result<Self> {
        Ok(Self {
            channel: Channel::connect(path)?,
            path: path.to_owned(),
            patience,
        })
    }

    /// All its counters. An engine of before version 7 tells those that one message has room for.
    pub fn metrics(&mut self) -> Result<Vec<Metric>> {
        let again = Errno::AGAIN.raw_os_error();
        for _ in 0..TRIES {
            let mut all = Vec::new();
            loop {
                let more = !all.is_empty();
                match self.request(&Request::Metrics { more }, Fds::new()) {
                    Ok(Reply::Metrics { metrics, more }) => {
                        all.extend(metrics);
                        if !more {
                            return Ok(all);
                        }
                    }
                    Ok(Reply::Error { errno, .. }) if errno == again => break,
                    // It does not know the question.
                    Err(ChannelError::Closed) if !more => {
                        self.channel = Channel::connect(&self.path)?;
                        return self.first_metrics();
                    }
                    Ok(other) => return Err(out_of_place(&other)),
                    Err(error) => return Err(error.into()),
                }
            }
        }
        bail!("the engine is asked for its counters by too many at once; try again")
    }

    fn first_metrics(&mut self) -> Result<Vec<Metric>> {
        match self.ask(&Request::Stats)? {
            Reply::Stats(metrics) => Ok(metrics),
            other => Err(out_of_place(&other)),
        }
    }

    fn request(&mut self, request: &Request, fds: Fds) -> Result<Reply, ChannelError> {
        let (reply, _) = self.channel.request(request, fds, self.patience)?;
        Ok(reply)
    }

    /// The engine's process, as this namespace numbers it; nothing if it is not seen from here.
    pub fn engine_process(&self) -> Option<u32> {
        let engine = netdev::syscalls::peer_credentials(&self.channel).ok()?;
        // 0: it is in another PID namespace.
        Some(engine.pid).filter(|pid| *pid > 0)
    }

    /// Asks, and returns the answer; an error if the engine refuses.
    pub fn ask(&mut self, request: &Request) -> Result<Reply> {
        self.ask_with(request, Fds::new())
    }

    /// Asks, sending descriptors along.
    pub fn ask_with(&mut self, request: &Request, fds: Fds) -> Result<Reply> {
        match self.request(request, fds)? {
            Reply::Error { message, .. } => bail!("the engine says: {message}"),
            reply => Ok(reply),
        }
    }
}

/// What to say of an answer to a question that was not asked.
pub fn out_of_place(_: &Reply) -> anyhow::Error {
    anyhow!("the engine gave an answer to another question; is it of another version?")
}

#[cfg(test)]
mod tests {
    use super::*;
    use queue_pair::control::MetricKind;
    use rustix::net::{
        AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept, bind, listen, socket_with,
    };

    fn metric(value: f64) -> Metric {
        Metric {
            name: "turns".into(),
            labels: Vec::new(),
            kind: MetricKind::Counter,
            value,
            help: String::new(),
            histogram: None,
        }
    }

    /// What is heard of an engine that answers connection after connection so, each until it is told nothing.
    fn heard(name: &str, engine: Vec<Vec<Reply>>) -> Result<Vec<f64>> {
        let name = format!("outboard-{name}-{}.sock", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_file(&path);
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        bind(&socket, &SocketAddrUnix::new(&path)?)?;
        listen(&socket, 4)?;
        let answering = std::thread::spawn(move || {
            for replies in engine {
                let mut channel = Channel::new(accept(&socket).expect("a client"));
                for reply in replies {
                    while channel
                        .try_receive::<Request>()
                        .expect("a question")
                        .is_none()
                    {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    channel.send(&reply, Fds::new()).expect("answered");
                }
            }
        });
        let told = Control::at(&path, PATIENCE)?.metrics();
        answering.join().expect("no panic");
        std::fs::remove_file(&path)?;
        Ok(told?.iter().map(|metric| metric.value).collect())
    }

    fn page(values: [f64; 2], more: bool) -> Reply {
        Reply::Metrics {
            metrics: values.map(metric).into(),
            more,
        }
    }

    #[test]
    fn counters_are_asked_for_until_all_are_told() {
        let all = vec![page([1.0, 2.0], true), page([3.0, 4.0], false)];
        assert_eq!(
            heard("pages", vec![all]).expect("told"),
            [1.0, 2.0, 3.0, 4.0]
        );
    }

    #[test]
    fn what_was_not_kept_is_asked_for_anew() {
        let gone = || Reply::Error {
            errno: Errno::AGAIN.raw_os_error(),
            message: "not kept".into(),
        };
        let replies = vec![page([1.0, 2.0], true), gone(), page([5.0, 6.0], false)];
        assert_eq!(heard("anew", vec![replies]).expect("told"), [5.0, 6.0]);
        let never = (0..TRIES).flat_map(|_| [page([1.0, 2.0], true), gone()]);
        let error = heard("never", vec![never.collect()]).expect_err("too many");
        assert!(error.to_string().contains("try again"), "{error}");
    }

    #[test]
    fn an_engine_that_does_not_know_the_question_is_asked_the_older_one() {
        let older = Reply::Stats(vec![metric(7.0)]);
        assert_eq!(
            heard("older", vec![vec![], vec![older]]).expect("told"),
            [7.0]
        );
    }
}
