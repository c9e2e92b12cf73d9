"""Executes itself where it has as many descriptors as it may have. A connection goes along, and an epoll set which it
was put into by a number that is something else by now."""
from limited import fill

import os
import select
import socket
import sys

if sys.argv[1] == "limited":
    listener = socket.create_server(("", 7000), backlog=16)
    connection, _ = listener.accept()
    events = select.epoll()
    events.register(connection, select.EPOLLIN)
    numbers = [events.fileno(), os.dup(connection.fileno())]
    for number in numbers:
        os.set_inheritable(number, True)
    words = [str(number) for number in [*numbers, connection.fileno()]]
    connection.sendall(connection.recv(100))
    connection.close()
    fill()
    os.execv(sys.executable, [sys.executable, __file__, "again", *words])

events, number, before = (int(word) for word in sys.argv[2:])
connection = socket.socket(fileno=number)
told = select.epoll.fromfd(events).poll()
assert told == [(before, select.EPOLLIN)], told
connection.sendall(b"again " + connection.recv(100))
