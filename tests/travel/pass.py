"""A master that accepts, reads the first line, and passes each connection to one of two programs that
it has started, by a message on a UNIX socket. It closes its own descriptor at once."""

import os
import socket
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def line_of(connection):
    line = b""
    while not line.endswith(b"\n"):
        byte = connection.recv(1)
        if not byte:
            break
        line += byte
    return line


def worker(way):
    """Receives connections until there are no more; what is left to read goes back with a name."""
    while True:
        message, fds, _, _ = socket.recv_fds(way, 100, 1)
        if not message:
            return
        with socket.socket(fileno=fds[0]) as connection:
            connection.sendall(b"worker %d " % os.getpid() + message + b" ")
            while data := connection.recv(65536):
                connection.sendall(data)


def main():
    # Without the library it cannot use what it is passed.
    environments = {"with": None, "without": {}}
    ways = {}
    for name, environment in environments.items():
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        arguments = [sys.executable, __file__, str(theirs.fileno())]
        fds = [theirs.fileno()]
        subprocess.Popen(arguments, pass_fds=fds, env=environment, stderr=subprocess.DEVNULL)
        theirs.close()
        ways[name] = ours
    listener = socket.create_server(("", 7000), reuse_port=False, backlog=512)
    while True:
        connection, _ = listener.accept()
        line = line_of(connection).strip()
        connection.sendall(b"master ")
        way = ways["without" if line.startswith(b"without") else "with"]
        socket.send_fds(way, [line], [connection.fileno()])
        connection.close()


if len(sys.argv) > 1:
    worker(socket.socket(fileno=int(sys.argv[1])))
else:
    main()
