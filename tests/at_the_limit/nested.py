"""A child that has no descriptor left for what wakes it waits in a set for one inside it, in which is its parent's
connection. The line that a client begins with says how the outer set watches the inner one, and whether the limit is
lowered besides, so that no number that becomes free is of any use."""
import os
import resource
import select
import socket
import sys

LIMIT = 256

if len(sys.argv) == 1:
    # The limit is there before anything is laid out by it.
    resource.setrlimit(resource.RLIMIT_NOFILE, (LIMIT, LIMIT))
    os.execv(sys.executable, [sys.executable, __file__, "limited"])


def fill():
    held = []
    try:
        while True:
            held.append(os.dup(0))
    except OSError:
        return held


def line(connection):
    received = b""
    while not received.endswith(b"\n"):
        received += connection.recv(100) or b"end\n"
    return received


def serve(connection, inner, outer, lowered):
    connection.sendall(b"the child\n")
    if lowered:
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, LIMIT))
    while True:
        assert outer.poll() == [(inner.fileno(), select.EPOLLIN)]
        for _ in inner.poll(0):
            received = line(connection)
            if received == b"end\n":
                os._exit(0)
            connection.sendall(received)


listener = socket.create_server(("", 7000), backlog=16)
while True:
    connection, _ = listener.accept()
    how = line(connection).split()
    outer, inner = select.epoll(), select.epoll()
    inner.register(connection, select.EPOLLIN)
    outer.register(inner, select.EPOLLIN | (select.EPOLLET if b"edge" in how else 0))
    held = fill()
    child = os.fork()
    if child == 0:
        serve(connection, inner, outer, b"lowered" in how)
    print(os.waitpid(child, 0), flush=True)
    for fd in held:
        os.close(fd)
    for one in (outer, inner, connection):
        one.close()
