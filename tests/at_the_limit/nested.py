"""A child that has no descriptor left for what wakes it waits in a set for one inside it, in which is its parent's
connection. The line that a client begins with says how the outer set watches the inner one, whether the limit is
lowered besides, so that no number that becomes free is of any use, whether the outer set is the child's own, whether
that is made late, when something is there already, and whether the child dies of the first event. Then its parent
waits in the inner set, in which there is nothing."""
from limited import LIMIT, fill, line

import os
import resource
import select
import socket
import time


def nest(inner, how):
    outer = select.epoll()
    outer.register(inner, select.EPOLLIN | (select.EPOLLET if b"edge" in how else 0))
    return outer


def serve(connection, inner, outer, how):
    # By this it attaches.
    connection.sendall(b"the child\n")
    if b"own" in how:
        if b"late" in how:
            time.sleep(0.3)
        os.close(held.pop())
        outer = nest(inner, how)
    if b"lowered" in how:
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, LIMIT))
    while True:
        assert outer.poll() == [(inner.fileno(), select.EPOLLIN)]
        if b"dies" in how:
            os._exit(0)
        for _ in inner.poll(0):
            received = line(connection)
            if received == b"end\n":
                os._exit(0)
            connection.sendall(received)


listener = socket.create_server(("", 7000), backlog=16)
while True:
    connection, _ = listener.accept()
    how = line(connection).split()
    inner = select.epoll()
    inner.register(connection, select.EPOLLIN)
    outer = None if b"own" in how else nest(inner, how)
    held = fill()
    child = os.fork()
    if child == 0:
        serve(connection, inner, outer, how)
    print(os.waitpid(child, 0), flush=True)
    if b"dies" in how:
        received = line(connection)
        before = os.times()
        found = inner.poll(0.5)
        after = os.times()
        print(how, found, before, after, flush=True)
        spent = after.user + after.system - before.user - before.system
        busy = b"busy " if found or spent > 0.25 else b"idle "
        connection.sendall(busy + received)
    for fd in held:
        os.close(fd)
    for one in (outer, inner, connection):
        if one is not None:
            one.close()
