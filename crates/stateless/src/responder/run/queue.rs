//! The way by a netfilter queue: for interfaces without XDP, and beside rules that are to see the
//! packets first. A rule in the raw table sends packets to the queue; the answers leave by an
//! AF_PACKET socket, and the kernel is told to drop the questions.

use std::io;
use std::net::IpAddr;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use netdev::Interface;
use netdev::packet::RawSocket;

use super::{Listen, Options, StartError, step};
use crate::responder::Responder;
use crate::responder::counters::Counts;
use crate::responder::settings::Settings;
use crate::responder::tables::Tables;

/// Packets that the kernel holds for us; what comes when it is full, it drops and counts.
const BACKLOG: u32 = 8192;

pub(super) struct Queue {
    counts: Arc<Mutex<Counts>>,
    /// It ends with the process, or when the kernel refuses.
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Queue {
    pub fn start(
        options: &Options,
        settings: Settings,
        tables: Tables,
    ) -> Result<Self, StartError> {
        check_rule(options)?;
        let mut queue = nfq::Queue::open().map_err(step("open a netfilter queue"))?;
        queue
            .bind(options.queue)
            .map_err(step("take the netfilter queue (has another process it?)"))?;
        queue
            .set_queue_max_len(options.queue, BACKLOG)
            .map_err(step("set the length of the netfilter queue"))?;
        let socket = RawSocket::open_sender(&options.interface)
            .map_err(step("open an AF_PACKET socket for the answers"))?;
        let counts = Arc::new(Mutex::new(Counts::default()));
        let shared = Arc::clone(&counts);
        let responder = Arc::new(Mutex::new(Responder::new(settings, tables)));
        let socket = Arc::new(socket);
        let interface = options.interface.clone();
        let (ours, sender) = (Arc::downgrade(&responder), Arc::clone(&socket));
        let repaired = Arc::clone(&counts);
        std::thread::Builder::new()
            .name("repair".into())
            .spawn(move || repair(&ours, &sender, &repaired))
            .map_err(step("start a thread"))?;
        let thread = std::thread::Builder::new()
            .name("queue".into())
            .spawn(move || work(&mut queue, &responder, &interface, &socket, &shared))
            .map_err(step("start a thread"))?;
        Ok(Self {
            counts,
            thread: Some(thread),
        })
    }

    pub fn counts(&self) -> Counts {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says why it ended, if it did.
    pub fn check(&mut self) -> io::Result<()> {
        if self.thread.as_ref().is_some_and(JoinHandle::is_finished)
            && let Some(thread) = self.thread.take()
        {
            thread
                .join()
                .map_err(|_| io::Error::other("the queue's thread panicked"))??;
        }
        Ok(())
    }
}

/// How often is looked for what is to be sent again.
const REPAIRING: Duration = Duration::from_millis(20);

/// Sends again what nobody acknowledges, as long as the responder is there.
fn repair(responder: &Weak<Mutex<Responder>>, socket: &RawSocket, counts: &Mutex<Counts>) {
    let began = Instant::now();
    loop {
        std::thread::sleep(REPAIRING);
        let Some(responder) = responder.upgrade() else {
            return;
        };
        let now_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let mut responder = responder.lock().unwrap_or_else(PoisonError::into_inner);
        responder.tick(now_ns, |answer| {
            // What is lost here is sent again, too.
            let _ = socket.send(answer);
        });
        *counts.lock().unwrap_or_else(PoisonError::into_inner) = *responder.counts();
    }
}

fn work(
    queue: &mut nfq::Queue,
    responder: &Mutex<Responder>,
    interface: &Interface,
    socket: &RawSocket,
    counts: &Mutex<Counts>,
) -> io::Result<()> {
    let mut frame = Vec::new();
    loop {
        let mut message = match queue.recv() {
            Ok(message) => message,
            // The queue was full, and packets were lost.
            Err(error) if error.raw_os_error() == Some(ENOBUFS) => continue,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let packet = message.get_payload();
        frame.clear();
        frame.extend_from_slice(&interface.mac);
        let sender = message.get_hw_addr().and_then(|address| address.get(..6));
        frame.extend_from_slice(sender.unwrap_or(&[0; 6]));
        let ipv6 = packet.first().is_some_and(|byte| byte >> 4 == 6);
        frame.extend_from_slice(if ipv6 { &[0x86, 0xdd] } else { &[0x08, 0x00] });
        frame.extend_from_slice(packet);
        let mut responder = responder.lock().unwrap_or_else(PoisonError::into_inner);
        responder.respond(&frame, |answer| {
            // What is lost here is asked for again, as on a wire.
            let _ = socket.send(answer);
        });
        *counts.lock().unwrap_or_else(PoisonError::into_inner) = *responder.counts();
        drop(responder);
        message.set_verdict(nfq::Verdict::Drop);
        queue.verdict(message)?;
    }
}

/// `ENOBUFS`.
const ENOBUFS: i32 = 105;

/// The rules that a tool lists; otherwise what it said, in a line.
fn list(tool: &str) -> Result<String, String> {
    let listed = Command::new(tool)
        .args(["-t", "raw", "-S", "PREROUTING"])
        .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
        .output()
        .map_err(|error| format!("{tool}: {error}"))?;
    let said = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
    if listed.status.success() {
        return Ok(said(&listed.stdout));
    }
    let complaint = said(&listed.stderr);
    Err(complaint.lines().next().unwrap_or(tool).to_owned())
}

/// Refuses to start where nothing would ever arrive.
fn check_rule(options: &Options) -> Result<(), StartError> {
    let number = options.queue.to_string();
    let listed = ["iptables-legacy", "ip6tables-legacy"].map(list);
    if listed
        .iter()
        .flatten()
        .any(|rules| has_rule(rules, &number))
    {
        return Ok(());
    }
    if let [Err(said), Err(_)] = listed {
        let queue = options.queue;
        return Err(StartError::NoRules { queue, said });
    }
    Err(StartError::NoRule {
        queue: options.queue,
        rule: rules(&options.interface.name, &options.listen, options.queue),
    })
}

/// The commands that add what is missing: a rule a range of ports, for each family that has it.
fn rules(interface: &str, listen: &[Listen], queue: u16) -> String {
    let rule = |listen: &Listen, tool: &str| {
        let (first, last) = (listen.ports.start(), listen.ports.end());
        let ports = if first == last {
            first.to_string()
        } else {
            format!("{first}:{last}")
        };
        format!(
            "{tool} -t raw -A PREROUTING -i {interface} -p tcp --dport {ports} -j NFQUEUE \
             --queue-num {queue}"
        )
    };
    let all = listen.iter().flat_map(|listen| {
        let tools: &[&str] = match listen.address {
            Some(IpAddr::V4(_)) => &["iptables-legacy"],
            Some(IpAddr::V6(_)) => &["ip6tables-legacy"],
            None => &["iptables-legacy", "ip6tables-legacy"],
        };
        tools.iter().map(|tool| rule(listen, tool))
    });
    all.collect::<Vec<_>>().join(" && ")
}

fn has_rule(listing: &str, queue: &str) -> bool {
    listing.lines().any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.windows(2).any(|pair| pair == ["-j", "NFQUEUE"])
            && words.windows(2).any(|pair| pair == ["--queue-num", queue])
    })
}

#[cfg(test)]
mod tests {
    use super::{has_rule, rules};

    #[test]
    fn the_rules_are_of_all_ports_and_families() {
        let listen = [":80", "10.0.0.1:8000-8009", "[fd00::1]:81"];
        let listen = listen.map(|text| text.parse().expect("well formed"));
        let said = rules("v0", &listen, 5);
        let rules: Vec<_> = said.split(" && ").collect();
        assert_eq!(rules.len(), 4);
        for (rule, (tool, ports)) in rules.iter().zip([
            ("iptables-legacy", "80"),
            ("ip6tables-legacy", "80"),
            ("iptables-legacy", "8000:8009"),
            ("ip6tables-legacy", "81"),
        ]) {
            let whole = format!(
                "{tool} -t raw -A PREROUTING -i v0 -p tcp --dport {ports} -j NFQUEUE --queue-num 5"
            );
            assert_eq!(*rule, whole);
            assert!(has_rule(rule, "5"));
        }
    }

    #[test]
    fn the_rule_is_told_from_others() {
        let rule = "-A PREROUTING -i v0 -p tcp -m tcp --dport 80 -j NFQUEUE --queue-num 5";
        assert!(has_rule(&format!("-P PREROUTING ACCEPT\n{rule}\n"), "5"));
        assert!(!has_rule(rule, "6"));
        assert!(!has_rule("-A PREROUTING -j DROP", "5"));
    }
}
