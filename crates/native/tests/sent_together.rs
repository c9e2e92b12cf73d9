//! Small sends on several connections of the kernel's, which leave by one call: when they do, in which order, and what is
//! told of them.

mod together;

use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;

use native::{Errno, Handle, Kind, Queue, Setting, Shutdown};
use together::{HANG, Scene, end_of, expect};

/// What has to be before what is staged does something with its connection.
type Leave = fn(&mut Queue, Handle);

/// What lets it leave, and what of its own follows.
const LEAVE: [(&str, Leave, &[u8]); 9] = [
    (
        "poll",
        |queue, _| queue.poll(&mut Vec::new(), 8).unwrap(),
        b"",
    ),
    ("arm", |queue, _| assert!(queue.arm().is_ok()), b""),
    ("facts", |queue, at| drop(queue.facts(at).unwrap()), b""),
    (
        "option",
        |queue, at| queue.set(at, Setting::NoDelay(true)).unwrap(),
        b"",
    ),
    (
        "shutdown",
        |queue, at| queue.shutdown(at, Shutdown::Write).unwrap(),
        b"",
    ),
    ("close", |queue, at| queue.close(at).unwrap(), b""),
    (
        "large",
        |queue, at| assert_eq!(queue.send(at, &[b'l'; 5000], false), Ok(5000)),
        &[b'l'; 5000],
    ),
    ("room", commit, b"room"),
    ("file", file, &[0; 700]),
];

fn commit(queue: &mut Queue, at: Handle) {
    let room = queue.room(at, 4).unwrap();
    queue_pair::copy_in(room.bytes().unwrap(), b"room");
    assert!(queue.commit(room, 4, false, None).is_ok());
}

fn file(queue: &mut Queue, at: Handle) {
    let file = std::fs::File::open("/dev/zero").unwrap();
    // Of a device sendfile(2) takes what it is asked for.
    assert_eq!(
        queue.send_file(at, file.as_fd(), 0, 700, false, None),
        Ok(700)
    );
}

#[test]
fn what_is_sent_waits_for_the_next_look_or_what_comes_behind_it() {
    for (name, leave, behind) in LEAVE {
        let Some(mut scene) = Scene::by_io_uring(2) else {
            return;
        };
        scene.tell_of_all();
        let [first, second] = scene.handles[..] else {
            panic!()
        };
        assert_eq!(scene.queue.send(first, b"staged", false), Ok(6));
        let early = scene.clients[0]
            .set_nonblocking(true)
            .and_then(|()| scene.clients[0].read(&mut [0]));
        assert_eq!(
            early.unwrap_err().kind(),
            ErrorKind::WouldBlock,
            "before {name}"
        );
        scene.clients[0].set_nonblocking(false).unwrap();
        leave(&mut scene.queue, first);
        expect(&mut scene.clients[0], &[b"staged", behind].concat());
        // It is no more than before to others.
        assert_eq!(scene.queue.send(second, b"other", false), Ok(5));
        scene.queue.poll(&mut Vec::new(), 8).unwrap();
        expect(&mut scene.clients[1], b"other");
        if matches!(name, "shutdown" | "close") {
            assert_eq!(end_of(&mut scene.clients[0]), None);
        }
    }
}

#[test]
fn what_is_sent_leaves_with_the_last_answer_of_those_that_were_asked_for() {
    let Some(mut scene) = Scene::by_io_uring(3) else {
        return;
    };
    for large in [false, true] {
        scene.tell_of_all();
        let [first, second, third] = scene.handles[..] else {
            panic!()
        };
        let last = vec![b'3'; if large { 5000 } else { 5 }];
        // What more follows is not the answer yet.
        for (at, bytes, more) in [
            (first, b"one".as_slice(), false),
            (second, b"two, ".as_slice(), true),
            (third, last.as_slice(), false),
            (second, b"two".as_slice(), false),
        ] {
            let sent = scene.queue.send(at, bytes, more);
            assert_eq!(sent, Ok(bytes.len()));
        }
        // And nobody looks.
        expect(&mut scene.clients[0], b"one");
        expect(&mut scene.clients[1], b"two, two");
        expect(&mut scene.clients[2], &last);
    }
}

#[test]
fn a_queue_that_is_freed_has_sent_all() {
    let Some(mut scene) = Scene::by_io_uring(40) else {
        return;
    };
    scene.tell_of_all();
    for handle in scene.handles.clone() {
        assert_eq!(scene.queue.send(handle, b"staged", false), Ok(6));
    }
    let Scene {
        queue, mut clients, ..
    } = scene;
    drop(queue);
    for client in &mut clients {
        expect(client, b"staged");
        assert_eq!(end_of(client), None);
    }
}

#[test]
fn who_is_told_of_one_connection_sends_at_once() {
    let Some(mut scene) = Scene::by_io_uring(2) else {
        return;
    };
    for _ in 0..3 {
        scene.clients[0].write_all(b"?").unwrap();
        assert_eq!(scene.next().kind, Kind::Receive);
        assert_eq!(scene.queue.send(scene.handles[1], b"at once", false), Ok(7));
        // And nobody looks.
        expect(&mut scene.clients[1], b"at once");
        scene.receive(0);
    }
}

/// A program that arms may sleep at any time, and one that is told of nothing does something else.
#[test]
fn behind_a_look_that_tells_of_nothing_all_is_sent_at_once() {
    for arms in [true, false] {
        let Some(mut scene) = Scene::by_io_uring(2) else {
            return;
        };
        scene.tell_of_all();
        if arms {
            scene.queue.arm().unwrap();
        } else {
            scene.queue.poll(&mut Vec::new(), 8).unwrap();
        }
        for at in [0, 1] {
            assert_eq!(
                scene.queue.send(scene.handles[at], b"at once", false),
                Ok(7)
            );
            expect(&mut scene.clients[at], b"at once");
        }
    }
}

/// Whatever a connection is sent by, its stream is in order, and the others' are not disturbed.
#[test]
fn streams_are_in_order_however_their_parts_leave() {
    let Some(mut scene) = Scene::by_io_uring(5) else {
        return;
    };
    let mut expected = vec![Vec::new(); 5];
    let mut random = 12345_u32;
    let mut draw = |below: u32| {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (random >> 8) % below
    };
    for turn in 0..200_u32 {
        scene.tell_of_all();
        for _ in 0..draw(12) {
            let at = draw(5) as usize;
            let handle = scene.handles[at];
            let len = [1, 60, 700, 4096, 4097, 9000][draw(6) as usize];
            let bytes: Vec<u8> = (0..len).map(|byte| (byte + turn) as u8).collect();
            // The kernel keeps for a while what is not followed by anything.
            let more = draw(3) == 0 && at > 0;
            let sent = match draw(4) {
                0 => {
                    let (head, tail) = bytes.split_at(len as usize / 2);
                    let parts = [head, tail].map(std::io::IoSlice::new);
                    scene.queue.sendv(handle, &parts, more, None)
                }
                1 => scene.queue.send_async(handle, &bytes, more, 7),
                2 => {
                    let mut bytes = bytes.clone();
                    let bytes = queue_pair::as_shared(&mut bytes);
                    scene.queue.send_from(handle, bytes, more, None)
                }
                _ => scene.queue.send(handle, &bytes, more),
            };
            assert_eq!(sent, Ok(bytes.len()));
            expected[at].extend_from_slice(&bytes);
        }
        for (handle, expected) in scene.handles.iter().zip(&mut expected).skip(1) {
            assert_eq!(scene.queue.send(*handle, b"!", false), Ok(1));
            expected.push(b'!');
        }
        scene.queue.poll(&mut Vec::new(), 64).unwrap();
        for (client, expected) in scene.clients.iter_mut().zip(&mut expected) {
            expect(client, expected);
            expected.clear();
        }
    }
}

#[test]
fn a_socket_that_is_full_goes_on_when_there_is_room() {
    let Some(mut scene) = Scene::by_io_uring(2) else {
        return;
    };
    let (full, pattern): (_, Vec<u8>) = (scene.handles[0], (0..=255).cycle().take(4000).collect());
    scene.queue.set(full, Setting::SendBuffer(16384)).unwrap();
    let mut sent = 0;
    loop {
        scene.tell_of_all();
        match scene.queue.send(full, &pattern, false) {
            Ok(taken) => {
                assert_eq!(taken, 4000);
                sent += taken;
            }
            Err(errno) => break assert_eq!(errno, Errno::AGAIN),
        }
        assert!(sent < 100 << 20, "it is never full");
        assert_eq!(scene.queue.send(scene.handles[1], b"other", false), Ok(5));
        scene.queue.poll(&mut Vec::new(), 8).unwrap();
        expect(&mut scene.clients[1], b"other");
    }
    let mut client = scene.clients[0].try_clone().unwrap();
    let reader = std::thread::spawn(move || {
        let mut all = vec![0; sent];
        client.read_exact(&mut all).map(|()| all)
    });
    assert_eq!(scene.until(Kind::Room).handle, full);
    // What was left is gone by then or goes now: it closes by agreement.
    scene.queue.close(full).unwrap();
    while !reader.is_finished() {
        scene
            .queue
            .wait(
                &mut Vec::new(),
                8,
                Some(std::time::Duration::from_millis(5)),
            )
            .unwrap();
    }
    let all = reader.join().unwrap().unwrap();
    assert!(all.chunks(4000).all(|some| some == pattern));
    assert_eq!(end_of(&mut scene.clients[0]), None);
}

/// Resets the first client's connection, and returns when this end knows.
fn reset(scene: &mut Scene) {
    let client = scene.clients.remove(0);
    rustix::net::sockopt::set_socket_linger(&client, Some(std::time::Duration::ZERO)).unwrap();
    drop(client);
    let start = std::time::Instant::now();
    while scene.queue.peer(scene.handles[0]).is_ok() {
        assert!(start.elapsed() < HANG);
        std::thread::yield_now();
    }
}

#[test]
fn what_a_staged_send_meets_the_next_one_is_told() {
    let Some(mut scene) = Scene::by_io_uring(3) else {
        return;
    };
    scene.tell_of_all();
    reset(&mut scene);
    let [first, second, third] = scene.handles[..] else {
        panic!()
    };
    for at in [first, second, third] {
        assert_eq!(scene.queue.send(at, b"staged", false), Ok(6));
    }
    scene.queue.arm().unwrap();
    scene.queue.disarm();
    let mut send = || scene.queue.send(first, b"next", false);
    assert_eq!((send(), send()), (Err(Errno::CONNRESET), Err(Errno::PIPE)));
    for client in &mut scene.clients {
        expect(client, b"staged");
    }
    assert_eq!(scene.until(Kind::End).error, 104);
}

#[test]
fn what_a_staged_send_meets_is_told_of_the_end_and_of_sends_that_come_back() {
    for alone in [true, false] {
        let Some(mut scene) = Scene::by_io_uring(3) else {
            return;
        };
        scene.tell_of_all();
        reset(&mut scene);
        assert_eq!(
            scene
                .queue
                .send_async(scene.handles[0], b"staged", false, 77),
            Ok(6)
        );
        if !alone {
            assert_eq!(scene.queue.send(scene.handles[1], b"other", false), Ok(5));
        }
        let back = scene.until(Kind::Sent);
        assert_eq!((back.cookie, back.error, back.bytes), (77, 104, 6));
        assert_eq!(scene.until(Kind::End).error, 104);
    }
}

#[test]
fn staged_sends_come_back_when_they_are_acknowledged() {
    let Some(mut scene) = Scene::by_io_uring(3) else {
        return;
    };
    scene.tell_of_all();
    for (cookie, at) in (100..).zip(scene.handles.clone()) {
        assert_eq!(scene.queue.send_async(at, b"staged", false, cookie), Ok(6));
    }
    let mut back: Vec<_> = (0..3).map(|_| scene.until(Kind::Sent)).collect();
    back.sort_by_key(|event| event.cookie);
    for (event, (cookie, at)) in back.iter().zip((100..).zip(&scene.handles)) {
        assert_eq!((event.cookie, event.error, event.handle), (cookie, 0, *at));
    }
    let facts = scene.queue.facts(scene.handles[0]).unwrap();
    assert_eq!(facts.unacknowledged, 0);
}

#[test]
fn queues_in_two_threads_have_a_ring_each() {
    let threads = [(); 2].map(|()| {
        std::thread::spawn(|| {
            let Some(mut scene) = Scene::by_io_uring(8) else {
                return;
            };
            for _ in 0..100 {
                scene.tell_of_all();
                scene.answer_all();
            }
        })
    });
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn a_queue_may_go_to_another_thread() {
    let Some(mut scene) = Scene::by_io_uring(4) else {
        return;
    };
    for _ in 0..3 {
        scene = std::thread::spawn(move || {
            scene.tell_of_all();
            scene.answer_all();
            scene
        })
        .join()
        .unwrap();
    }
}
