//! Where io_uring is refused, all leaves without it. What refuses it is a filter of this thread's system calls, as
//! containers have it.

mod together;

use native::{Context, Errno, KernelSockets, Mode};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use together::Scene;

/// So many connections pay for a ring in a few turns.
const MANY: usize = 12;
const TURNS: usize = 20;

/// From now on this thread is refused `call`.
fn refuse(call: i64) {
    let action = SeccompAction::Errno(Errno::PERM.raw_os_error() as u32);
    let filter = SeccompFilter::new(
        [(call, Vec::new())].into(),
        SeccompAction::Allow,
        action,
        std::env::consts::ARCH.try_into().unwrap(),
    );
    let filter: BpfProgram = filter.unwrap().try_into().unwrap();
    seccompiler::apply_filter(&filter).unwrap();
}

fn served_by(scene: &mut Scene) -> &'static str {
    scene.queue.facts(scene.handles[0]).unwrap().served_by
}

fn echo(scene: &mut Scene) {
    for _ in 0..TURNS {
        scene.tell_of_all();
        scene.answer_all();
    }
}

#[test]
fn who_is_told_of_many_has_io_uring_by_and_by() {
    if Scene::by_io_uring(1).is_none() {
        return;
    }
    let mut scene = Scene::new(MANY, KernelSockets::Auto);
    assert_eq!(served_by(&mut scene), "kernel, epoll");
    echo(&mut scene);
    assert_eq!(served_by(&mut scene), "kernel, io_uring");
    let mut scene = Scene::new(MANY, KernelSockets::Epoll);
    echo(&mut scene);
    assert_eq!(served_by(&mut scene), "kernel, epoll");
}

#[test]
fn a_ring_that_is_refused_is_done_without() {
    refuse(libc::SYS_io_uring_setup);
    let context = Context::attach("nobody", "test", Mode::Kernel).unwrap();
    let wanted = context.clone().with_kernel_sockets(KernelSockets::IoUring);
    assert_eq!(wanted.err(), Some(Errno::PERM));
    let context = context.with_kernel_sockets(KernelSockets::Auto).unwrap();
    let mut scene = Scene::of(&context, MANY);
    echo(&mut scene);
    assert_eq!(served_by(&mut scene), "kernel, epoll");
}

#[test]
fn a_ring_that_is_refused_later_has_lost_nothing() {
    let Some(mut scene) = Scene::by_io_uring(MANY) else {
        return;
    };
    echo(&mut scene);
    assert_eq!(served_by(&mut scene), "kernel, io_uring");
    refuse(libc::SYS_io_uring_enter);
    echo(&mut scene);
    assert_eq!(served_by(&mut scene), "kernel, epoll");
}
