"""A server that listens, serves, closes its listener and listens anew, as it is told by datagrams."""

import errno
import os
import socket
import sys

PORT = int(sys.argv[1])
PATIENCE = 60

told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
told.bind(os.environ["SCRATCH"] + "/server.told")


def listen():
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("0.0.0.0", PORT))
    listener.listen(512)
    return listener


def serve():
    """Says to one client what that has said."""
    listener.settimeout(PATIENCE)
    client, _ = listener.accept()
    with client:
        client.settimeout(PATIENCE)
        client.sendall(client.recv(64))


listener = listen()
while True:
    words, teller = told.recvfrom(64)
    try:
        for word in words.decode().split():
            if word == "close":
                listener.close()
            elif word == "listen":
                listener = listen()
            elif word == "serve":
                serve()
            elif word == "series":
                # One client for each listener, and a last one that says so.
                served = b""
                while served != b"end":
                    listener.settimeout(PATIENCE)
                    client, _ = listener.accept()
                    try:
                        with client:
                            client.settimeout(PATIENCE)
                            served = client.recv(64)
                            client.sendall(served)
                            client.recv(64)
                    except OSError:
                        pass
                    listener.close()
                    listener = listen()
        answer = "done"
    except OSError as error:
        answer = errno.errorcode.get(error.errno, str(error))
    told.sendto(answer.encode(), teller)
