"""Becomes another program, which cannot be entered, with one of its two connections, at the second
attempt."""
import os, socket, sys

listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("0.0.0.0", 7000))
listener.listen(8)
kept, _ = listener.accept()
passed, _ = listener.accept()
passed.set_inheritable(True)
try:
    os.execv(sys.argv[1], [sys.argv[1]])
except OSError as error:
    print(error.strerror, flush=True)
kept.recv(1)
os.execv(sys.argv[2], [sys.argv[2]])
