"""One process is both ends of every connection, as in most test suites: blocking calls of one
thread, and of two."""
import errno
import socket
import struct
import sys
import threading
import time

OWN = sys.argv[1]
AMOUNT = 3_000_000


def names(near, far):
    assert near.getpeername()[:2] == far.getsockname()[:2], (near, far)
    assert far.getpeername()[:2] == near.getsockname()[:2], (near, far)


def once(family, bind, connect, **options):
    with socket.create_server((bind, 0), family=family, **options) as listener:
        port = listener.getsockname()[1]
        near = socket.create_connection((connect, port))
        far, address = listener.accept()
        if far.family == near.family:
            names(near, far)
            assert address[:2] == near.getsockname()[:2]
        near.sendall(b"to myself")
        assert far.recv(100) == b"to myself"

        data = bytes(range(256)) * (AMOUNT // 256)
        sender = threading.Thread(target=near.sendall, args=(data,))
        sender.start()
        received = bytearray()
        while len(received) < len(data):
            received += far.recv(1 << 16)
        sender.join()
        assert received == data

        far.shutdown(socket.SHUT_WR)
        assert near.recv(1) == b""
        near.close()
        assert far.recv(1) == b""
        far.close()
    print("done", bind, connect, flush=True)


V4, V6 = socket.AF_INET, socket.AF_INET6
once(V4, "127.0.0.1", "127.0.0.1")
once(V4, "127.0.0.1", "localhost")
once(V4, "0.0.0.0", "127.0.0.1")
once(V4, "0.0.0.0", OWN)
once(V4, OWN, OWN)
once(V4, "127.0.0.5", "127.0.0.5")
once(V6, "::1", "::1")
once(V6, "::", "::1")
once(V6, "::", "127.0.0.1", dualstack_ipv6=True)
once(V4, "0.0.0.0", "0.0.0.0")

# Bound before it connects.
with socket.create_server(("127.0.0.1", 0)) as listener:
    near = socket.create_connection(listener.getsockname(), source_address=("127.0.0.1", 0))
    far, address = listener.accept()
    names(near, far)
    near.close()
    far.close()
print("done bound", flush=True)

# A reset overtakes nothing, and is known without a call that reads.
with socket.create_server(("127.0.0.1", 0)) as listener:
    near = socket.create_connection(listener.getsockname())
    far, _ = listener.accept()
    near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    near.send(b"last words")
    near.close()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            far.getpeername()
        except OSError as error:
            assert error.errno == errno.ENOTCONN
            break
    else:
        sys.exit("the reset is not noticed")
    assert far.recv(100) == b"last words"
    try:
        far.recv(100)
        sys.exit("no reset")
    except ConnectionResetError:
        print("reset", flush=True)
    far.close()

# Nobody listens there: the kernel says so.
with socket.socket() as unused:
    unused.bind(("127.0.0.1", 0))
    try:
        socket.create_connection(unused.getsockname())
        sys.exit("connected to nobody")
    except ConnectionRefusedError:
        print("refused", flush=True)

# One that stays, for whoever looks.
listener = socket.create_server(("0.0.0.0", 5005))
near = socket.create_connection(("127.0.0.1", 5005))
far, _ = listener.accept()
print("stays", flush=True)
while True:
    # A program that is not on the engine comes by the kernel.
    other, _ = listener.accept()
    other.sendall(b"by the kernel")
    other.close()
