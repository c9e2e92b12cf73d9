"""Has as many descriptors as it may have while it waits for clients, whatever becomes of its engine, and has a child
answer each."""
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

held = []


def fill():
    try:
        while True:
            held.append(os.dup(0))
    except OSError:
        pass


listener = socket.create_server(("", 7000), backlog=16)
waits = select.poll()
waits.register(listener, select.POLLIN)
while True:
    # What an engine that has ended leaves is taken, too.
    fill()
    if not waits.poll(200):
        continue
    # What is woken by descriptors may take one of these first.
    for _ in range(4):
        os.close(held.pop())
    connection, _ = listener.accept()
    fill()
    child = os.fork()
    if child == 0:
        connection.sendall(b"again " + connection.recv(100))
        os._exit(0)
    print(os.waitpid(child, 0), flush=True)
    connection.close()
