"""A listening socket that blocks goes from program to program: by a message to one that was started
beside, and from there through exec, with an environment of its own, to the last, which accepts."""

import os
import socket
import subprocess
import sys
import time


def main():
    # Only bound: whoever gets it listens.
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("", 7000))
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    arguments = [sys.executable, __file__, "second", str(theirs.fileno())]
    child = subprocess.Popen(arguments, pass_fds=[theirs.fileno()])
    theirs.close()
    socket.send_fds(ours, [b"take it"], [listener.fileno()])
    listener.close()
    sys.exit(child.wait())


def second(way):
    _, fds, _, _ = socket.recv_fds(socket.socket(fileno=way), 100, 1)
    listener = socket.socket(fileno=fds[0])
    listener.listen(512)
    # Until there are clients in the queue, of whom this program accepts none.
    while not os.path.exists(os.path.join(os.environ["SCRATCH"], "go")):
        time.sleep(0.01)
    # To and fro: a listening socket that is sent, too.
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.setblocking(False)
    listener.setblocking(True)
    socket.send_fds(ours, [b"again"], [listener.fileno()])
    listener.close()
    _, fds, _, _ = socket.recv_fds(theirs, 100, 1)
    listener = socket.socket(fileno=fds[0])
    assert os.get_blocking(listener.fileno())
    listener.set_inheritable(True)
    arguments = [sys.executable, __file__, "third", str(listener.fileno())]
    os.execve(sys.executable, arguments, {})


def third(number):
    assert os.get_blocking(number)
    listener = socket.socket(fileno=number)
    while True:
        connection, _ = listener.accept()
        with connection:
            assert os.get_blocking(connection.fileno())
            connection.sendall(b"third ")
            while data := connection.recv(65536):
                connection.sendall(data)


match sys.argv[1:]:
    case []:
        main()
    case ["second", number]:
        second(int(number))
    case ["third", number]:
        third(int(number))
