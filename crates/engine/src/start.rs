//! Starting an engine on its interfaces, and running it until it is told to stop.

mod error;
mod open;
mod table;

use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;

use netdev::steering::{MAX_QUEUES, Steering};
use netdev::syscalls::{netns_cookie, schedule_as_batch};
use netdev::xdp::Stock;
use netdev::{Device, Interface, Offloads, XdpDevice, xdp};
use rustix::process::{Resource, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::all_or_none::AbortOnPanic;
use crate::config::{Config, Reload, queues};
use crate::exchange;
use crate::fast::common::Common;
use crate::fast::handoff::Handoff;
use crate::fast::memory::guaranteed;
use crate::fast::worker::Worker;
use crate::network::{KernelNetwork, Network};
use crate::slow::control::Control;
use crate::slow::desk::{Desk, Facts};
use crate::slow::kernel::opener::{self, Opener, restock};
use crate::slow::kernel::{memory, netfilter, privileges};

use error::{OLDEST_LINUX, step};
use open::{TagsLeftOn, check_vrfs, open_devices, placement};

pub use error::StartError;

use table::SteeringTable;

/// Takes as many descriptors as this process may have, and says how many that is: each session and
/// each leased port needs some.
fn raise_descriptor_limit() -> u64 {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // With fewer, fewer programs attach and fewer ports are leased; each of them is told.
    let _ = setrlimit(Resource::Nofile, limit);
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Runs an engine on this thread until `stop` becomes readable and its connections have ended, or
/// the time for that is over. `opener` begins the process that keeps the privileges; `ready` is called when
/// programs can attach, `reread` when the configuration is to be read again.
///
/// # Errors
/// It could not start.
pub fn run(
    config: Config,
    opener: opener::Start,
    stop: BorrowedFd<'_>,
    reread: Reload,
    ready: impl FnOnce(),
) -> Result<(), StartError> {
    check_kernel(&rustix::system::uname().release().to_string_lossy())?;
    let (interfaces, shares) = find_shared(&config)?;
    let older_tables = netfilter::OlderTables::of_now();
    check_netfilter(&config)?;
    // Before there is anything that it could inherit.
    let indices = interfaces.iter().map(|interface| interface.index);
    let opener = opener_of(&config, opener, &indices.collect::<Vec<_>>())?;
    let everywhere = sched_getaffinity(None).map_err(step("ask for the cores"))?;
    // Each has a share of every interface.
    let workers = shares.first().map_or(1, Vec::len);
    let descriptors = raise_descriptor_limit();
    // First, because if somebody is there already, this says who.
    let mut steerings = each_if_all(&interfaces, placement, |interface, placement| {
        Ok(Steering::attach(interface, placement)?)
    })?;
    let of_each = interfaces.iter().zip(&shares).zip(&mut steerings);
    let devices = of_each
        .map(|((interface, shares), steering)| open_devices(interface, &config, shares, steering));
    let mut devices = devices.collect::<Result<Vec<_>, _>>()?;
    let (stock, taken) = stock(&interfaces)?;
    let each = devices.iter_mut().flatten();
    each.for_each(|device| device.take_from(&stock));
    let loads: Vec<_> = steerings
        .iter_mut()
        .flat_map(Steering::take_loads)
        .collect();
    let mut seed = [0; 32];
    rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::empty())
        .map_err(step("get random numbers"))?;
    let path = config.socket_path();
    let control = Control::listen_at(&path, &config.limits)
        .map_err(|error| StartError::Control { path, error })?;
    // Most are for the programs.
    let leased = u64::from(config.limits.leased_ports).min(descriptors / 4) as usize;
    let tables = SteeringTable::of(steerings, workers).into_iter();
    let networks = tables
        .map(|table| {
            let network =
                KernelNetwork::of_interfaces(&interfaces, leased / workers, table, &opener);
            network.map(|network| network.among(workers))
        })
        .collect::<Result<Vec<_>, _>>()
        .map_err(step("ask the kernel about the network"))?;
    let cookie = std::net::UdpSocket::bind("127.0.0.1:0")
        .or_else(|_| std::net::UdpSocket::bind("[::]:0"))
        .and_then(netns_cookie)
        .map_err(step("name the network namespace"))?;
    if config.share_core {
        // The threads of all workers come from this one.
        schedule_as_batch().map_err(step("become a batch job"))?;
    }
    let rights = match config.keep_privileges {
        true => privileges::Rights::kept(),
        false => privileges::drop_privileges(opener.rights().is_some()),
    };
    let rights = rights.map_err(step("drop privileges"))?;
    // Only now: its threads have no more rights than are kept.
    let networks = networks.into_iter().map(KernelNetwork::asking_aside);
    let networks = networks
        .collect::<Result<Vec<_>, _>>()
        .map_err(step("start a thread"))?;
    restock(&stock, taken, opener.clone()).map_err(step("start a thread"))?;
    let (capabilities, confined) = (rights.in_words(), rights.confined);
    tracing::info!(capabilities, confined, "privileges kept");
    if let Some(rights) = opener.rights() {
        let (capabilities, confined) = (rights.in_words(), rights.confined);
        tracing::info!(capabilities, confined, "privileges kept by the opener");
    }
    for (interface, devices) in interfaces.iter().zip(&devices) {
        let offloads = devices.first().map(|device| in_words(&device.offloads()));
        let zero_copy = devices.iter().all(XdpDevice::is_zero_copy);
        tracing::info!(
            name = config.name,
            interface = interface.name,
            queues = config.queues.of(interface.receive_queues).len(),
            workers,
            offloads,
            zero_copy,
            "engine running"
        );
    }
    let machine = memory::there_is();
    let receive_memory = match config.limits.receive_memory {
        0 => machine / 2,
        limit => limit,
    };
    let pools = u64::from(config.limits.sessions) * workers as u64;
    let guaranteed = guaranteed(machine, pools);
    let pairs = (0..workers).map(|_| exchange::pair(&config.limits));
    let pairs = pairs.collect::<Result<Vec<_>, _>>();
    let (to_fast, to_slow): (Vec<_>, Vec<_>) =
        pairs.map_err(step("join its halves"))?.into_iter().unzip();
    let indices = interfaces.iter().map(|interface| interface.index);
    let facts = Facts::new(&config, indices, cookie);
    let follows = !config.ignore_netfilter;
    let desk =
        Desk::of_workers(facts, control, to_fast).map_err(step("poll the control socket"))?;
    let desk = desk.placing(config.placements(), Some(Box::new(loads)));
    let mut tags = TagsLeftOn::by(opener.clone());
    let desk = desk.reloading(reread).with(rights).opening_by(opener);
    let desk = desk.with_netfilter(follows).noticing(older_tables);
    let there = interfaces.iter().map(|interface| interface.receive_queues);
    let there: Vec<u32> = there.collect();
    let desk = desk.telling_of_traffic_control(&interfaces);
    let common = Common::of(seed);
    let places = places(&config, workers, &seed)?.into_iter();
    let places = places.map(Some).chain(std::iter::repeat_with(|| None));
    let parts = by_worker(devices, workers)
        .into_iter()
        .zip(networks)
        .zip(to_slow)
        .zip(places);
    let all = parts.map(|(((devices, network), to_slow), place)| {
        let worker = Worker::new(config.clone(), devices, network, to_slow, common)
            .with_receive_memory(receive_memory / workers as u64)
            .with_guaranteed_memory(guaranteed);
        let worker = match place {
            Some(place) => worker.among(place),
            None => worker,
        };
        worker.serving_queues(&there)
    });
    let all: Vec<_> = all.collect();
    // Several drivers begin a link's queues anew for this, and who fails is started again and again. Nothing is steered
    // until somebody has attached.
    tags.see_to_all(&interfaces)?;
    let desk = desk.watching_vlans(interfaces, &tags.indices());
    let slow = run_aside(desk, everywhere).map_err(step("start a thread"))?;
    tags.hand_over();
    ready();
    let ended = run_workers(all, &config, stop);
    // The slow half ends with the fast one.
    let _ = slow.join();
    ended
}

/// Does something with each of these once all are known to be fit for it: many drivers take a link down and up when a
/// program is attached, and for a start that fails nobody's is to be.
fn each_if_all<I, F, T>(
    all: &[I],
    is_fit: impl Fn(&I) -> Result<F, StartError>,
    mut what: impl FnMut(&I, F) -> Result<T, StartError>,
) -> Result<Vec<T>, StartError> {
    let fit = all.iter().map(is_fit).collect::<Result<Vec<F>, _>>()?;
    let each = all.iter().zip(fit);
    each.map(|(one, fit)| what(one, fit)).collect()
}

/// Who does what takes privileges from now on.
fn opener_of(config: &Config, begin: opener::Start, indices: &[u32]) -> Result<Opener, StartError> {
    if !config.keep_privileges {
        match begin(indices).and_then(|begun| Ok(Opener::of(begun)?)) {
            Ok(opener) => return Ok(opener),
            Err(error) => tracing::warn!(
                %error,
                "there is no opener: the engine keeps the privileges that it would have"
            ),
        }
    }
    Opener::here(indices).map_err(step("ask the kernel about the network"))
}

/// Sockets for as many receive queues as there may come to be.
fn stock(interfaces: &[Interface]) -> Result<(Arc<Stock>, Receiver<()>), StartError> {
    let most = interfaces.iter().map(Interface::most_receive_queues);
    let most = most.map(|most| most.min(MAX_QUEUES) as usize);
    Ok(Stock::of(most.sum())?)
}

/// How many workers there are: each has a queue of every interface.
fn workers(config: &Config, interfaces: &[Interface], cores: usize) -> usize {
    let served = interfaces
        .iter()
        .map(|interface| config.queues.of(interface.receive_queues).len());
    config.workers.of(served.min().unwrap_or(1), cores)
}

/// The devices of each worker, of those of each interface.
fn by_worker<D>(of_interfaces: Vec<Vec<D>>, workers: usize) -> Vec<Vec<D>> {
    let mut of_workers: Vec<Vec<D>> = (0..workers).map(|_| Vec::new()).collect();
    for devices in of_interfaces {
        for (worker, device) in of_workers.iter_mut().zip(devices) {
            worker.push(device);
        }
    }
    of_workers
}

/// The queues of an interface that each worker has.
type Shares = Vec<Vec<u32>>;

/// Those that each of so many workers has.
fn shares(interface: &str, queues: &[u32], workers: usize) -> Result<Shares, StartError> {
    let shares = (0..workers).map(|worker| queues::of_worker(queues, worker, workers));
    let shares: Vec<_> = shares.collect();
    match shares.iter().position(Vec::is_empty) {
        Some(idle) => Err(StartError::IdleWorker {
            interface: interface.to_owned(),
            idle,
            workers,
            queues: queues.len(),
        }),
        None => Ok(shares),
    }
}

/// The places of several workers among each other; of a single one none.
fn places(config: &Config, workers: usize, seed: &[u8; 32]) -> Result<Vec<Handoff>, StartError> {
    if workers == 1 {
        return Ok(Vec::new());
    }
    let limits = &config.limits;
    let flows = [limits.connections, limits.half_open, limits.time_wait];
    let flows = flows.iter().map(|flows| *flows as usize).sum();
    Handoff::join(workers, flows, seed).map_err(step("join its workers"))
}

/// Runs the workers, the first on this thread, until all have ended.
fn run_workers<D: Device + Send, N: Network + Send>(
    workers: Vec<Worker<D, N>>,
    config: &Config,
    stop: BorrowedFd<'_>,
) -> Result<(), StartError> {
    let run = |index: usize, mut worker: Worker<D, N>| {
        pin(config, index)?;
        worker.run(stop).map_err(|error| match error {
            rustix::io::Errno::NODEV => {
                StartError::InterfaceGone(worker.interface_gone().to_owned())
            }
            error => step("poll")(error),
        })
    };
    std::thread::scope(|scope| {
        let mut workers = workers.into_iter().enumerate();
        let first = workers.next();
        let mut others = Vec::new();
        for (index, worker) in workers {
            let name = format!("worker-{index}");
            let thread = std::thread::Builder::new().name(name);
            let others_end = move || {
                let _all_or_none = AbortOnPanic;
                run(index, worker)
            };
            others.push(thread.spawn_scoped(scope, others_end));
        }
        let ended = first.map_or(Ok(()), |(index, worker)| run(index, worker));
        let others = others.into_iter().map(|thread| {
            let thread = thread.map_err(step("start a thread"))?;
            // One that panicked has ended the engine.
            thread.join().unwrap_or(Ok(()))
        });
        others.fold(ended, Result::and)
    })
}

/// Runs the slow half on a thread of its own, on any core of `cores`.
fn run_aside(desk: Desk, cores: CpuSet) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new()
        .name("slow".to_owned())
        .spawn(move || {
            let _both_or_none = AbortOnPanic;
            // Where it may not leave the fast half's core, it shares it.
            let _ = sched_setaffinity(None, &cores);
            desk.run();
        })
}

fn check_kernel(release: &str) -> Result<(), StartError> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut number = || numbers.next().and_then(|text| text.parse::<u32>().ok());
    match (number(), number()) {
        (Some(major), Some(minor)) if (major, minor) < OLDEST_LINUX => Err(StartError::OldKernel {
            release: release.to_owned(),
        }),
        // What cannot be read is not held against it.
        _ => Ok(()),
    }
}

/// The features that are on, as `--offload` names them.
fn in_words(offloads: &Offloads) -> String {
    let named = [
        ("txcsum", offloads.transmit_checksum),
        ("rxcsum", offloads.receive_partial_checksum),
        ("tso", offloads.segmentation),
        ("sg", offloads.scatter_gather),
    ];
    let on: Vec<&str> = named
        .iter()
        .filter_map(|(name, on)| on.then_some(*name))
        .collect();
    if on.is_empty() {
        "none".into()
    } else {
        on.join(" ")
    }
}

fn check_netfilter(config: &Config) -> Result<(), StartError> {
    // The first thing that not everybody may do.
    netfilter::are_readable(&Opener::default()).map_err(|error| {
        let error = io::Error::from(error);
        match error.kind() {
            io::ErrorKind::PermissionDenied => StartError::NotPermitted,
            _ => step("look for netfilter rules")(error),
        }
    })?;
    let rules = netfilter::rules_in_the_way();
    if rules.is_empty() {
        return Ok(());
    }
    if !config.ignore_netfilter {
        return Err(StartError::Netfilter(rules));
    }
    let rules = rules.join("; ");
    tracing::warn!(rules, "steered packets are not seen by these rules");
    Ok(())
}

/// The interfaces of a configuration that is right, if there is all that it names.
///
/// # Errors
/// What is wrong with it, or what is not there.
pub fn find(config: &Config) -> Result<Vec<Interface>, StartError> {
    find_shared(config).map(|(interfaces, _)| interfaces)
}

/// They, and how the queues of each are shared out.
fn find_shared(config: &Config) -> Result<(Vec<Interface>, Vec<Shares>), StartError> {
    config.check()?;
    let each = config.interface.names().iter();
    let interfaces = each.map(|name| find_one(config, name));
    let interfaces = interfaces.collect::<Result<Vec<_>, _>>()?;
    check_vrfs(&interfaces)?;
    let cores = sched_getaffinity(None).map_or(1, |cores| cores.count() as usize);
    let workers = workers(config, &interfaces, cores);
    let shares = interfaces.iter().map(|interface| {
        let queues = config.queues.of(interface.receive_queues);
        shares(&interface.name, &queues, workers)
    });
    let shares = shares.collect::<Result<Vec<_>, _>>()?;
    check_cores(config, workers)?;
    Ok((interfaces, shares))
}

/// One of them.
fn find_one(config: &Config, name: &str) -> Result<Interface, StartError> {
    let named = |error| StartError::Interface {
        interface: name.to_owned(),
        error,
    };
    let interface = Interface::find(name).map_err(named)?;
    let there = interface.receive_queues;
    let missing = config
        .queues
        .of(there)
        .into_iter()
        .find(|queue| *queue >= there);
    if let Some(queue) = missing {
        return Err(StartError::Device(xdp::OpenError::NoSuchQueue {
            interface: interface.name,
            queue,
            queues: there,
        }));
    }
    Ok(interface)
}

/// Whether there is a core for each worker, if one is named for the first.
fn check_cores(config: &Config, workers: usize) -> Result<(), StartError> {
    let Some(first) = config.core else {
        return Ok(());
    };
    let is_there = |core: usize| Path::new(&format!("/sys/devices/system/cpu/cpu{core}")).exists();
    match (first..first + workers).find(|core| *core >= CpuSet::MAX_CPU || !is_there(*core)) {
        Some(missing) => Err(StartError::NoSuchCore(missing)),
        None => Ok(()),
    }
}

/// Keeps this thread, a worker's, on its core, if the first has one.
fn pin(config: &Config, worker: usize) -> Result<(), StartError> {
    let Some(core) = config.core.map(|first| first + worker) else {
        return Ok(());
    };
    let mut set = CpuSet::new();
    if core >= CpuSet::MAX_CPU {
        return Err(StartError::NoSuchCore(core));
    }
    set.set(core);
    sched_setaffinity(None, &set).map_err(|error| match error {
        rustix::io::Errno::INVAL => StartError::NoSuchCore(core),
        error => step("run on this core")(error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_kernels_are_refused_in_words() {
        for release in ["6.1.0-56-amd64", "6.12.107+deb12-amd64", "7.0", "odd"] {
            assert!(check_kernel(release).is_ok(), "{release}");
        }
        for release in ["6.0.12", "5.15.0-100-generic", "4.19"] {
            let error = check_kernel(release).expect_err("refused").to_string();
            let expected = format!("this is Linux {release}: the engine needs 6.1 or later");
            assert_eq!(error, expected);
        }
    }

    #[test]
    fn nothing_is_done_to_the_first_if_the_second_is_not_fit() {
        let is_fit = |core: &usize| match core {
            9 => Err(StartError::NoSuchCore(9)),
            fit => Ok(10 * fit),
        };
        let mut done = Vec::new();
        let mut does = |all: &[usize]| {
            each_if_all(all, is_fit, |one, fit| {
                done.push(*one);
                Ok(fit)
            })
        };
        does(&[1, 9]).expect_err("the second is not");
        assert_eq!(does(&[1, 2]).expect("both are"), [10, 20]);
        assert_eq!(done, [1, 2]);
    }

    #[test]
    fn queues_are_shared_out_and_no_worker_is_idle() {
        let shares = |queues: &[u32], workers| shares("eth1", queues, workers);
        assert_eq!(shares(&[0, 1, 2], 1).expect("one"), [vec![0, 1, 2]]);
        let two = shares(&[0, 1, 2, 3, 4], 2).expect("two");
        assert_eq!(two, [vec![0, 2, 4], vec![1, 3]]);
        let error = shares(&[1, 3], 2).expect_err("none for the first");
        assert!(
            error.to_string().contains("worker 0 would have none"),
            "{error}"
        );
        let error = shares(&[0], 2).expect_err("none for the second");
        assert!(
            error.to_string().contains("for 1 receive queue of eth1:"),
            "{error}"
        );
    }

    #[test]
    fn the_log_speaks_as_people_do() {
        let mut offloads = Offloads::NONE;
        assert_eq!(in_words(&offloads), "none");
        offloads.segmentation = true;
        offloads.transmit_checksum = true;
        assert_eq!(in_words(&offloads), "txcsum tso");
    }
}
