//! A server of as few system calls as there can be with epoll: of each message one receives and one sends.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::mpsc::Sender;

use rustix::event::epoll;

use crate::{BUFFER, Work, accept};

pub fn serve(work: &mut Work, tell: &Sender<SocketAddr>) {
    let mut streams = accept(work, tell);
    let set = epoll::create(epoll::CreateFlags::CLOEXEC).expect("a set");
    for (at, stream) in streams.iter().enumerate() {
        let data = epoll::EventData::new_u64(at as u64);
        // Told once, as the library is: otherwise the kernel looks at each of them again in the next wait.
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&set, stream, data, flags).expect("a member");
    }
    let mut bytes = vec![0; BUFFER];
    let (mut events, mut ended) = (Vec::with_capacity(256), 0);
    while ended < work.connections {
        events.clear();
        let room = rustix::buffer::spare_capacity(&mut events);
        epoll::wait(&set, room, None).expect("events");
        for event in &events {
            let stream = &mut streams[event.data.u64() as usize];
            match stream.read(&mut bytes).expect("a message") {
                0 => {
                    epoll::delete(&set, stream).expect("a member");
                    ended += 1;
                }
                read => {
                    work.received(read);
                    stream.write_all(&bytes[..read]).expect("an answer");
                }
            }
        }
    }
}
