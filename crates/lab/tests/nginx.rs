//! The lab's own instruments against a server that is known to be right: nginx on the kernel.
#![forbid(unsafe_code)]

use lab::load::Load;
use lab::nginx::Nginx;
use lab::{Side, World, sampler, skip_without_root};
use std::time::Duration;

#[test]
fn a_load_on_nginx_is_answered_and_its_cost_is_seen() {
    if skip_without_root("a_load_on_nginx_is_answered_and_its_cost_is_seen") {
        return;
    }
    let world = World::new().unwrap();
    let site = world.site(&[("16K", &[7; 16 << 10])]).unwrap();
    let nginx = Nginx::start(&world, None, &site, None).unwrap();
    for (path, close) in [("/64", false), ("/64", true), ("/16K", false)] {
        let load = Load {
            server: Nginx::address(),
            path: path.into(),
            close,
            connections: 8,
            rate: 500.0,
            duration: Duration::from_millis(400),
            grace: Duration::from_secs(60),
        };
        let before = sampler::run_time(nginx.worker()).unwrap();
        let outcome = std::thread::scope(|scope| {
            let client = scope.spawn(|| {
                world.enter(Side::Client).unwrap();
                load.run().unwrap()
            });
            client.join().unwrap()
        });
        assert_eq!(
            (outcome.answered, outcome.due),
            (200, 200),
            "{path} {close}"
        );
        assert!(sampler::run_time(nginx.worker()).unwrap() > before);
    }
    nginx.stop().unwrap();
}
