"""Serves by children, and by theirs, where every process has as many descriptors as it may have. The line that a client
begins with says how: `lines` are answered by one process after the other; of `lowered`, the limit is below what there
is already, so that nothing that is kept is of any use."""
from limited import LIMIT, fill, line

import os
import resource
import select
import socket

GENERATIONS = 4


def serve(connection, ends, generation):
    """Answers a line, by whichever call one waits in, and has a child answer the next."""
    fill()
    if generation % 2 == 1:
        both = select.poll()
        both.register(connection, select.POLLIN)
        both.register(ends[0], select.POLLIN)
        assert both.poll() == [(connection.fileno(), select.POLLIN)]
    connection.sendall(b"%d %s" % (generation, line(connection)))
    if generation < GENERATIONS:
        child = os.fork()
        if child == 0:
            serve(connection, ends, generation + 1)
        assert os.waitpid(child, 0)[1] == 0
    connection.sendall(b"%d again %s" % (generation, line(connection)))
    os._exit(0)


def serve_lowered(connection, told):
    """Its child has not got the connection, and finds that out by an error."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, LIMIT))
    child = os.fork()
    if child == 0:
        try:
            connection.recv(1)
            answer = b"nothing"
        except OSError as error:
            answer = str(error.errno).encode()
        os.write(told[1], answer)
        os._exit(0)
    os.waitpid(child, 0)
    resource.setrlimit(resource.RLIMIT_NOFILE, (LIMIT, LIMIT))
    connection.sendall(os.read(told[0], 100) + b"\n")


listener = socket.create_server(("", 7000), backlog=16)
ends = os.pipe()
while True:
    connection, _ = listener.accept()
    how = line(connection)
    if how == b"lines\n":
        held = fill()
        child = os.fork()
        if child == 0:
            serve(connection, ends, 1)
        print(os.waitpid(child, 0), flush=True)
        for fd in held:
            os.close(fd)
    else:
        serve_lowered(connection, ends)
    connection.close()
