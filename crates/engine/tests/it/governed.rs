//! Whose files a policy decides about: those of programs that have an adaptive listener, by themselves or through a
//! fork, and that would ask again. What it decides is said elsewhere; of a load that is not known it says nothing yet.

use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use crate::world::{Host, World};
use engine::config::Config;
use engine::slow::desk::ReadLoads;
use netdev::steering::Load;
use queue_pair::control::{Farewell, Fds, Reply, Request, VERSION};
use queue_pair::{Submission, Versions};
use rustix::io::Errno;
use rustix::net::SendFlags;

/// The last version in which a host does not ask again.
const BEFORE: u32 = 14;

/// Says nothing of any load: so however long this takes, the policy leaves nothing to a program.
struct Silent;

impl ReadLoads for Silent {
    fn of_slot(&mut self, _: u16, _: SocketAddr) -> Option<Load> {
        None
    }
}

/// An engine that follows a policy, and a file.
struct Scene {
    world: World,
    file: PathBuf,
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.file);
    }
}

impl Scene {
    /// `None`: there is no file here that can be sent from.
    fn new(name: &str, mut world: World) -> Option<Self> {
        let path = |what| {
            let name = format!("outboard-governed-{what}-{name}-{}", std::process::id());
            std::env::temp_dir().join(name)
        };
        let (file, policy) = (path("file"), path("policy"));
        std::fs::write(&file, b"some bytes").expect("written");
        let band = r#"{ "offload_from_rate": null, "offload_below_rate": null }"#;
        let text =
            format!(r#"{{ "version": 2, "connections": {band}, "rules": [], "above": {band} }}"#);
        std::fs::write(&policy, text).expect("written");
        let settings = format!(
            "placement = \"adaptive\"\npolicy = \"{}\"\n",
            policy.display()
        );
        let config = Config::parse("engine.toml", &settings).expect("valid");
        std::fs::remove_file(policy).expect("it was read");
        world.desk = world
            .desk
            .placing(config.placements(), Some(Box::new(Silent)));
        let mut scene = Self { world, file };
        let mut anybody = scene.world.attach(None);
        match scene.show(&mut anybody) {
            Err(Errno::OPNOTSUPP) => {
                let said = "SKIPPED: nothing in the directory for temporary files is sent from\n";
                let _ = std::io::stderr().write_all(said.as_bytes());
                None
            }
            shown => {
                assert_eq!(shown, Ok(false), "who listens nowhere is not governed");
                drop(anybody);
                scene.world.attend();
                Some(scene)
            }
        }
    }

    fn show(&mut self, host: &mut Host) -> Result<bool, Errno> {
        let file: OwnedFd = File::open(&self.file).expect("readable").into();
        let (reply, _) = self
            .world
            .request(host, &Request::File, [file].into_iter().collect());
        match reply {
            Reply::File { file, by_policy } => {
                host.submit(Submission::ForgetFile { file });
                self.world.settle();
                Ok(by_policy)
            }
            Reply::Error { errno, .. } => Err(Errno::from_raw_os_error(errno)),
            other => panic!("{other:?}"),
        }
    }

    /// Whether the policy decides about a file that this one shows.
    fn governs(&mut self, host: &mut Host) -> bool {
        self.show(host).expect("taken")
    }

    fn fork(&mut self, parent: &mut Host) -> (u64, OwnedFd) {
        let (reply, mut fds) = self.world.request(parent, &Request::Fork, Fds::new());
        let Reply::Forked { token } = reply else {
            panic!("{reply:?}");
        };
        (token, fds.pop().expect("a lifeline"))
    }

    fn adopt(&mut self, child: &mut Host, listener: u32) -> u32 {
        let adopt = Request::AdoptListener { listener };
        match self.world.request(child, &adopt, Fds::new()).0 {
            Reply::Listening { listener } => listener,
            other => panic!("{other:?}"),
        }
    }

    fn unlisten(&mut self, host: &mut Host, listener: u32) {
        let unlisten = Request::Unlisten { listener };
        let (reply, _) = self.world.request(host, &unlisten, Fds::new());
        assert_eq!(reply, Reply::Done);
    }
}

#[test]
fn who_has_an_adaptive_listener_is_governed_while_it_has_it() {
    let Some(mut scene) = Scene::new("own", World::new()) else {
        return;
    };
    let mut host = scene.world.attach(None);
    let (_, one) = scene.world.listen(&mut host);
    let (_, other) = scene.world.listen(&mut host);
    assert!(scene.governs(&mut host));
    scene.unlisten(&mut host, one);
    assert!(scene.governs(&mut host), "it has another one");
    scene.unlisten(&mut host, other);
    assert!(!scene.governs(&mut host));
}

#[test]
fn memory_is_nobodys_to_leave() {
    let Some(mut scene) = Scene::new("memory", World::new()) else {
        return;
    };
    let mut host = scene.world.attach(None);
    scene.world.listen(&mut host);
    let flags = rustix::fs::MemfdFlags::CLOEXEC | rustix::fs::MemfdFlags::ALLOW_SEALING;
    let memory = rustix::fs::memfd_create("registered", flags).expect("a memfd");
    rustix::fs::ftruncate(&memory, 4096).expect("room");
    rustix::fs::fcntl_add_seals(&memory, rustix::fs::SealFlags::SHRINK).expect("sealed");
    let fds: Fds = [memory].into_iter().collect();
    let (reply, _) = scene.world.request(&mut host, &Request::File, fds);
    assert!(
        matches!(
            reply,
            Reply::File {
                by_policy: false,
                ..
            }
        ),
        "{reply:?}"
    );
}

#[test]
fn a_child_is_governed_by_what_it_has_of_its_parents() {
    let Some(mut scene) = Scene::new("child", World::new()) else {
        return;
    };
    let mut parent = scene.world.attach(None);
    let (_, first) = scene.world.listen(&mut parent);
    // What its parent has later a child does not have.
    let (token, _early) = scene.fork(&mut parent);
    let (_, second) = scene.world.listen(&mut parent);
    let mut early = scene.world.attach(Some(token));
    assert!(scene.governs(&mut early));
    scene.unlisten(&mut early, first);
    assert!(!scene.governs(&mut early));

    let (token, _lifeline) = scene.fork(&mut parent);
    let mut child = scene.world.attach(Some(token));
    assert!(scene.governs(&mut child), "before it has adopted any");
    let adopted = scene.adopt(&mut child, first);
    assert!(scene.governs(&mut child));
    // A child of its own has both, of which it has adopted one.
    let (token, _next) = scene.fork(&mut child);
    scene.unlisten(&mut child, second);
    assert!(scene.governs(&mut child), "it has the one that it adopted");
    scene.unlisten(&mut child, adopted);
    assert!(!scene.governs(&mut child));
    let mut grandchild = scene.world.attach(Some(token));
    assert!(scene.governs(&mut grandchild));
    assert!(scene.governs(&mut parent), "which goes on");
}

#[test]
fn what_a_child_closes_before_it_attaches_it_does_not_have() {
    let Some(mut scene) = Scene::new("closed", World::new()) else {
        return;
    };
    let mut parent = scene.world.attach(None);
    let (_, listener) = scene.world.listen(&mut parent);
    let (token, lifeline) = scene.fork(&mut parent);
    let said = Farewell::Listener(listener).encode();
    rustix::net::send(&lifeline, &said, SendFlags::empty()).expect("said");
    scene.world.attend();
    let mut child = scene.world.attach(Some(token));
    assert!(!scene.governs(&mut child));
    assert!(scene.governs(&mut parent));
}

#[test]
fn a_child_at_another_worker_is_governed_as_well() {
    let Some(mut scene) = Scene::new("moved", World::of_workers(2)) else {
        return;
    };
    let mut parent = scene.world.attach(None);
    let (_, listener) = scene.world.listen(&mut parent);
    let (token, _lifeline) = scene.fork(&mut parent);
    let mut child = scene.world.attach(Some(token));
    assert_eq!(scene.world.others[0].sessions(), 1);
    assert!(scene.governs(&mut child));
    let adopted = scene.adopt(&mut child, listener);
    assert!(scene.governs(&mut child));
    scene.unlisten(&mut child, adopted);
    assert!(!scene.governs(&mut child));
}

#[test]
fn who_would_not_ask_again_is_not_governed() {
    let Some(mut scene) = Scene::new("older", World::new()) else {
        return;
    };
    let mut attached = |version, oldest| {
        let mut channel = scene.world.dial();
        let request = Request::Attach {
            version,
            oldest: Some(oldest),
            program: "of its time".to_owned(),
            fork_token: None,
        };
        let (reply, fds) = scene.world.ask(&mut channel, &request, Fds::new());
        assert!(matches!(reply, Reply::Attached { .. }), "{reply:?}");
        let mut host = scene.world.host(channel, fds);
        scene.world.listen(&mut host);
        scene.governs(&mut host)
    };
    assert!(!attached(BEFORE, Versions::SPOKEN.oldest));
    assert!(attached(BEFORE + 1, BEFORE));
    // It speaks more than this engine does: what was agreed on counts.
    assert!(attached(VERSION + 1, BEFORE));
}
