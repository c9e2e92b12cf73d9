"""A program that imports this before all else has as many descriptors as it may have at most."""
import os
import resource
import sys

LIMIT = 256

if len(sys.argv) == 1:
    # The limit is there before anything is laid out by it.
    resource.setrlimit(resource.RLIMIT_NOFILE, (LIMIT, LIMIT))
    os.execv(sys.executable, [sys.executable, sys.argv[0], "limited"])


def fill():
    """Takes every number that is free."""
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
