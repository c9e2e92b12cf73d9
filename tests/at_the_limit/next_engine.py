"""Has as many descriptors as it may have while it waits for clients, whatever becomes of its engine, and has a child
answer each."""
from limited import fill

import os
import select
import socket

held = []
listener = socket.create_server(("", 7000), backlog=16)
waits = select.poll()
waits.register(listener, select.POLLIN)
while True:
    # What an engine that has ended leaves is taken, too.
    held += fill()
    if not waits.poll(200):
        continue
    # What is woken by descriptors may take one of these first.
    for _ in range(4):
        os.close(held.pop())
    connection, _ = listener.accept()
    held += fill()
    child = os.fork()
    if child == 0:
        connection.sendall(b"again " + connection.recv(100))
        os._exit(0)
    print(os.waitpid(child, 0), flush=True)
    connection.close()
