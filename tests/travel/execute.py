"""A server as inetd is: each connection is the standard input and output of a program. The first line
names it: `cat`, `python` (this file again), `twice` (a shell that runs a pipeline), or `fails`, where
there is no such program and the server itself answers."""

import os
import signal
import socket
import sys

if len(sys.argv) > 1:
    # It writes from where it was told, and reads what the server left.
    stream = socket.socket(fileno=0)
    timeout = stream.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)
    stream.sendall(b"%d %d " % (stream.getpeername()[1], timeout))
    sys.stdout.buffer.write(sys.stdin.buffer.read())
    sys.stdout.flush()
    sys.exit()

# A file that may be executed and is no program.
BROKEN = os.path.join(os.environ["SCRATCH"], "broken")
with open(BROKEN, "w") as broken:
    broken.write("no program")
os.chmod(BROKEN, 0o755)

PROGRAMS = {
    b"cat": ["/bin/cat"],
    b"python": [sys.executable, __file__, "again"],
    b"twice": ["/bin/sh", "-c", "/bin/cat | /bin/cat; echo end"],
    b"fails": [BROKEN],
}

signal.signal(signal.SIGCHLD, signal.SIG_IGN)
listener = socket.create_server(("", 7000), backlog=512)
while True:
    connection, _ = listener.accept()
    if os.fork():
        connection.close()
        continue
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 77)
    line = b""
    while not line.endswith(b"\n"):
        line += connection.recv(1)
    for number in (0, 1):
        os.dup2(connection.fileno(), number)
    program = PROGRAMS[line.strip()]
    try:
        os.execv(program[0], program)
    except OSError as error:
        connection.sendall(b"errno %d " % error.errno)
        while data := connection.recv(65536):
            connection.sendall(data)
    os._exit(0)
