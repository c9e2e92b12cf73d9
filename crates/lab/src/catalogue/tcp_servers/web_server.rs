//! A small web server of ours in each variant that 001 compares, beside nginx, and the files that all of them serve.

use super::super::Setup;
use super::super::bed::{Bed, Cost, RECEIVED, SERVER_CORE, STACKS, stack_of};
use super::super::each::Each;
use super::super::wrk;
use super::{ASYNCHRONOUS, REGISTERED, SYNCHRONOUS, SYNCHRONOUS_REGISTERED, subject};
use crate::caches;
use crate::load::{Asked, Closed};
use crate::nginx::{Lines, Nginx};
use crate::process::Process;
use crate::workload::files::{self, File};
use crate::world::World;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub const NGINX: &str = "nginx on the kernel";
pub const INTERPOSED: &str = "nginx on the engine";
pub const KERNEL: &str = "kernel sockets";
/// The same on a kernel that has its receive work on the server's core; in full runs alone.
pub const KERNEL_RECEIVED: &str = "kernel sockets, received on its core";
pub const PULL: &str = "eager receive, pull";
pub const PUSH: &str = "eager receive, push";
pub const EAGER: &str = "eager accept";
pub const SETUP: &str = "set-up with accept";
pub const ALL: &str = "all together";
/// What a report calls each, and how our server is told of it; nginx is told nothing.
pub const SUBJECTS: [(&str, &[&str]); 13] = [
    (NGINX, &[]),
    (INTERPOSED, &[]),
    (KERNEL, &["kernel"]),
    (KERNEL_RECEIVED, &["kernel"]),
    (SYNCHRONOUS.0, &[SYNCHRONOUS.1]),
    (SYNCHRONOUS_REGISTERED.0, &[SYNCHRONOUS_REGISTERED.1]),
    (ASYNCHRONOUS.0, &[ASYNCHRONOUS.1]),
    (REGISTERED.0, &[REGISTERED.1]),
    (PULL, &[REGISTERED.1, "--receive", "pull"]),
    (PUSH, &[REGISTERED.1, "--receive", "push"]),
    (EAGER, &[REGISTERED.1, "--eager", "64"]),
    (SETUP, &[REGISTERED.1, "--setup"]),
    (
        ALL,
        &[
            REGISTERED.1,
            "--eager",
            "64",
            "--setup",
            "--receive",
            "pull",
        ],
    ),
];
/// What they are.
pub const VARIANTS: &str = "The other subjects are one server of the lab's own, of one thread, which holds its files \
    and their heads in memory and does less than nginx: no log, no Date, of conditions only `If-None-Match: *`. On kernel sockets it makes the \
    same calls of the native interface, which does them over sockets. Synchronous is the source's baseline: a send \
    returns, and the server goes on, when the engine has handed all of it to the wire. The source's engine had it copied \
    by the send call of its own kernel then, and did not wait for the peer's window; its Sync is from registered memory, \
    and its Sock copies. Asynchronous sends are waited for by nobody. Both copy, unless they are from registered memory. \
    The others are asynchronous and from registered memory. Eager receive: a request is looked at where the engine has \
    put it (pull), or has been put into a posted buffer (push); the server copies it all the same, since it understands \
    none that another could change. Eager accept: 64 connections are handed over before one is accepted. Set-up with \
    accept: options and first data in the same step. All together is pull and both of these. What the server computes is \
    sent as files are, and by copying where no registered memory is free of what was computed before.";

/// Bytes of the files of one size together, at least; of small ones there are too few for it.
const SET: u64 = 8 << 20;
const SMALL: usize = 16 << 10;
const MOST_SMALL: usize = 2_048;
/// What is in them is drawn from this.
const SEED: u64 = 8;
/// Where the objects of an access log are, beside the files of each size.
pub const LOG: &str = "log";
/// Nothing takes longer, on however busy a machine.
const LIMIT: Duration = Duration::from_secs(60);
/// Lines that are not more than can be read in one picture.
const LEGIBLE: usize = 8;

/// So many files there are of a size: of one that is not small more than the caches of this machine hold.
pub fn count(size: usize) -> usize {
    let many = (caches::beyond(SET) / size as u64) as usize;
    let most = if size < SMALL { MOST_SMALL } else { many };
    many.min(most).max(1)
}

/// What a report says of the files of one size, which is not small.
pub fn words(size: usize) -> String {
    let set = caches::words((count(size) * size) as u64);
    format!("{} files of {size} bytes ({set})", count(size))
}

/// What a report says of files of any size.
pub fn all_words() -> String {
    let set = caches::words(caches::beyond(SET));
    format!("{set}, or {MOST_SMALL} files of less than 16 KB")
}

/// Bytes of an engine's send area in which all files of a size, and so many bytes of a log's objects, find room as
/// registered memory, of which it gives away seven eighths, besides what is sent by copying.
fn send_area(of_log: u64) -> u64 {
    let wanted = (2 * caches::beyond(SET).max(of_log)).next_power_of_two();
    wanted.clamp(64 << 20, 1 << 31)
}

/// Whose lines are in one picture, and what its title says of them: nothing, where all are and can be read. Subjects have
/// the same mark in both.
pub fn drawn(subjects: &[String]) -> Vec<(&'static str, Vec<&'static str>)> {
    if subjects.len() <= LEGIBLE {
        return vec![("", Vec::new())];
    }
    let sends = vec![
        NGINX,
        INTERPOSED,
        KERNEL,
        KERNEL_RECEIVED,
        SYNCHRONOUS.0,
        SYNCHRONOUS_REGISTERED.0,
        ASYNCHRONOUS.0,
        REGISTERED.0,
    ];
    let others = vec![
        KERNEL,
        KERNEL_RECEIVED,
        REGISTERED.0,
        PULL,
        PUSH,
        EAGER,
        SETUP,
        ALL,
    ];
    vec![
        (", ways to send", sends),
        (", ways to receive and accept", others),
    ]
}

/// Both stacks with nginx on them, and both without a server, as far as they are asked for.
pub struct Beds {
    setup: Setup,
    nginx: Each<Bed>,
    /// By stacks.
    bare: Each<Bed>,
    /// A directory for each size.
    site: PathBuf,
}

/// How our server is told of a subject; by nothing, if it is nginx.
fn way(name: &str) -> Result<&'static [&'static str]> {
    let known = SUBJECTS.iter().find(|(known, _)| *known == name);
    Ok(known.with_context(|| format!("no subject {name}"))?.1)
}

/// The stack of a subject that is our server.
fn stack(name: &str) -> &'static str {
    match name {
        KERNEL => STACKS[0],
        KERNEL_RECEIVED => RECEIVED,
        _ => STACKS[1],
    }
}

impl Beds {
    /// With these worlds, files of these sizes, what an access log asks for, and further lines for nginx.
    pub fn new(
        setup: &Setup,
        sizes: &[usize],
        logged: &[File],
        mut world: impl FnMut() -> Result<World>,
        further: impl Fn(&Path) -> String,
    ) -> Result<Self> {
        let mut by_nginx = Vec::new();
        let mut by_ours = Vec::new();
        for name in &setup.subjects {
            match way(name)?.is_empty() {
                true => by_nginx.push(name.as_str()),
                false => by_ours.push(stack(name)),
            }
        }
        let mut served: Option<PathBuf> = None;
        let mut bare = |stack: &str, is_ours: bool| -> Result<Bed> {
            let world = world()?;
            let told = match is_ours {
                true => vec!["--config".to_owned(), roomy(&world, logged)?],
                false => Vec::new(),
            };
            let told: Vec<&str> = told.iter().map(String::as_str).collect();
            let bed = Bed::with_engine_told(setup, stack, world, SERVER_CORE, &told)?;
            let bed = bed.receiving_as(stack)?;
            // The first one's files are those of all.
            if served.is_none() {
                let files = bed.world().scratch().join("files");
                std::fs::create_dir(&files)?;
                write(&files, sizes, logged)?;
                served = Some(files);
            }
            Ok(bed)
        };
        let nginx = Each::named(by_nginx, |name| bare(stack_of(name), false))?;
        let bare = Each::named(by_ours, |stack| bare(stack, true))?;
        let site = served.context("no site")?;
        let told = place(&site) + &further(&site);
        let nginx = nginx.map(|bed| bed.serving(|_| Ok(Lines::from(told.clone()))))?;
        Ok(Self {
            setup: setup.clone(),
            nginx,
            bare,
            site,
        })
    }

    /// A subject that serves the files of a size, or those of [`LOG`]: nginx has them at `place`, and ours is told
    /// `further` options.
    pub fn start(
        &self,
        name: &str,
        files: &str,
        place: &str,
        further: &[&str],
    ) -> Result<Running<'_>> {
        let way = way(name)?;
        if way.is_empty() {
            return Ok(Running {
                bed: self.nginx.get(name)?,
                server: None,
                place: place.to_owned(),
            });
        }
        let bed = self.bare.get(stack(name))?;
        let (world, at) = (bed.world(), Nginx::address());
        let mut server = subject(&self.setup, bed, false)
            .args(["web", "--at", &at.to_string(), "--site"])
            .arg(self.site.join(files))
            .arg("--way")
            .args(way)
            .args(further)
            .log(world.scratch().join("web.log"))
            .start()?;
        match bed.outboard() {
            Some(outboard) => {
                outboard.wait_until_taken(&mut server, LIMIT, at.port(), || true)?;
            }
            None => server.wait_until(LIMIT, || world.is_reached(at))?,
        }
        Ok(Running {
            bed,
            server: Some(server),
            place: String::new(),
        })
    }
}

/// A server that runs.
pub struct Running<'a> {
    pub bed: &'a Bed,
    /// It, if it is not nginx.
    server: Option<Process>,
    /// What stands before the names of files.
    place: String,
}

impl Running<'_> {
    /// Does `work` and says what it cost, besides what it returned.
    pub fn account<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<(T, Cost)> {
        self.account_closing(|_| work())
    }

    /// As [`account`](Self::account), of the time until `work` says that its window is over.
    pub fn account_closing<T>(
        &self,
        work: impl FnOnce(&mut Closed<'_>) -> Result<T>,
    ) -> Result<(T, Cost)> {
        let server = self.server.as_ref().map(Process::id);
        let (done, cost) = self.bed.account_closing(server.as_slice(), work)?;
        if cost
            .spent
            .engine
            .as_ref()
            .is_some_and(|engine| engine.batch() == 0.0)
        {
            bail!("the connections were not on the engine");
        }
        Ok((done, cost))
    }

    /// As many requests a second as wrk gets answered, for all files of a size in turn.
    pub fn saturate(
        &self,
        size: usize,
        connections: usize,
        close: bool,
        window: Duration,
    ) -> Result<f64> {
        let file = self.bed.world().scratch().join("get.lua");
        std::fs::write(&file, script(&self.place, count(size)))?;
        let mut further = vec!["-s".to_owned(), file.to_string_lossy().into_owned()];
        if close {
            further.extend(["-H", "Connection: close"].map(String::from));
        }
        let url = format!("http://{}/", Nginx::address());
        wrk::run_told(self.bed, &url, connections, &further, window)
    }

    /// Where one is that is called so.
    pub fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.place)
    }

    /// The paths of the same files.
    pub fn paths(&self, size: usize) -> Vec<String> {
        let path = |number: usize| self.path(&number.to_string());
        (0..count(size)).map(path).collect()
    }

    /// Requests for the same files.
    pub fn asked(&self, size: usize, close: bool) -> Asked {
        let paths = self.paths(size);
        let order = (0..paths.len()).map(|number| number as u16).collect();
        Self::asked_for(&paths, order, close)
    }

    /// Requests for paths, in an order.
    pub fn asked_for(paths: &[String], order: Vec<u16>, close: bool) -> Asked {
        let host = Nginx::address();
        let connection = if close { "close" } else { "keep-alive" };
        let text = |path: &String| {
            format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: {connection}\r\n\r\n")
                .into_bytes()
        };
        Asked {
            texts: paths.iter().map(text).collect(),
            wanted: Vec::new(),
            order,
            limit: None,
            due: Vec::new(),
        }
    }
}

/// A file of settings for an engine whose programs register all that they serve.
fn roomy(world: &World, logged: &[File]) -> Result<String> {
    let file = world.scratch().join("engine.toml");
    let bytes = logged.iter().map(|file| file.size).sum();
    let setting = format!("[limits]\nsend_area = {}\n", send_area(bytes));
    std::fs::write(&file, setting).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(file.display().to_string())
}

/// Writes files of each size into a directory of that name, and those of a log into one of its own.
fn write(site: &Path, sizes: &[usize], logged: &[File]) -> Result<()> {
    let log = site.join(LOG);
    std::fs::create_dir(&log)?;
    files::write(logged, &log, SEED)?;
    for size in sizes {
        let directory = site.join(size.to_string());
        std::fs::create_dir(&directory)?;
        let set: Vec<File> = (0..count(*size))
            .map(|number| File {
                name: number.to_string(),
                size: *size as u64,
            })
            .collect();
        files::write(&set, &directory, SEED)?;
    }
    Ok(())
}

/// What nginx is told: the first one's files are those of both, and it keeps them open.
fn place(site: &Path) -> String {
    format!(
        "        location / {{ root {}; open_file_cache max=40000 inactive=600s; }}\n",
        site.display()
    )
}

/// What wrk gets. The requests are made before any is sent.
fn script(place: &str, count: usize) -> String {
    format!(
        "local requests, number = {{}}, 0
init = function()
  for at = 1, {count} do requests[at] = wrk.format(\"GET\", \"{place}/\" .. (at - 1)) end
end
request = function()
  number = number % {count} + 1
  return requests[number]
end
"
    )
}

#[cfg(test)]
mod tests {
    use super::{ALL, EAGER, LEGIBLE, PULL, REGISTERED, SETUP, SUBJECTS, count, drawn, send_area};
    use super::{Beds, KERNEL, KERNEL_RECEIVED, SERVER_CORE, Setup, stack};
    use crate::caches;
    use crate::world::World;

    #[test]
    fn all_together_is_what_the_others_are() {
        let words = |name: &str| {
            let known = SUBJECTS.iter().find(|(known, _)| *known == name);
            known.unwrap().1.to_vec()
        };
        let further = |name: &str| words(name)[1..].to_vec();
        assert_eq!(
            words(ALL),
            [words(EAGER), further(SETUP), further(PULL)].concat()
        );
        assert_eq!(words(ALL)[..1], words(REGISTERED.0));
    }

    #[test]
    fn kernel_sockets_are_received_where_their_name_says() {
        let test = "kernel_sockets_are_received_where_their_name_says";
        if crate::skip_without(test, &["ip"]) || crate::skip_without_root(test) {
            return;
        }
        let setup = Setup {
            binary: "none".into(),
            log: None,
            kept: "none".into(),
            subjects: [KERNEL, KERNEL_RECEIVED].map(String::from).to_vec(),
        };
        let beds = Beds::new(&setup, &[], &[], World::new, |_| String::new()).unwrap();
        let on = |name| beds.bare.get(stack(name)).unwrap().receives_on();
        assert_eq!((on(KERNEL), on(KERNEL_RECEIVED)), (0, 1 << SERVER_CORE));
    }

    #[test]
    fn a_set_is_larger_than_a_cache_unless_its_files_are_small() {
        assert_eq!([64, 4_096].map(count), [2_048, 2_048]);
        let set = caches::beyond(super::SET);
        for size in [16_384, 65_536] {
            assert_eq!((count(size) * size) as u64, set, "{size}");
        }
        // Registered, it leaves an eighth, and as much again for what is copied.
        assert!(send_area(0) >= 2 * set || send_area(0) == 1 << 31);
        assert!(
            send_area(1 << 30) > 1 << 30,
            "all that is replayed of a log"
        );
    }

    #[test]
    fn every_subject_is_in_a_picture_that_can_be_read() {
        let all = SUBJECTS.map(|(name, _)| name.to_owned());
        let drawn = drawn(&all);
        for name in &all {
            let is_there = drawn
                .iter()
                .any(|(_, names)| names.contains(&name.as_str()));
            assert!(is_there, "{name}");
        }
        assert!(drawn.iter().all(|(_, names)| names.len() <= LEGIBLE));
        assert_eq!(super::drawn(&all[..LEGIBLE]), [("", Vec::new())]);
    }
}
