"""Passes connections to itself, and receives them while its engine is stopped: for a moment, and for good."""
import errno, os, signal, socket, sys, threading, time

# Waits until it is told to go on.
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})

address, engine = (sys.argv[1], int(sys.argv[2])), int(sys.argv[3])
listener = socket.create_server(address)
print("listens", flush=True)
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
conns = [listener.accept()[0] for _ in range(6)]
assert all(conn.recv(100) == b"hello" for conn in conns)


def pass_on(conns):
    socket.send_fds(ours, [b"!"], [conn.fileno() for conn in conns])
    # What is passed is had by nobody else.
    for conn in conns:
        conn.close()


def received():
    _, fds, _, _ = socket.recv_fds(theirs, 10, 10)
    return [socket.socket(fileno=fd) for fd in fds]


pass_on(conns[:2])
os.kill(engine, signal.SIGSTOP)
threading.Timer(1, os.kill, (engine, signal.SIGCONT)).start()
for conn in received():
    conn.sendall(b"late")
    assert conn.recv(100) == b""

pass_on(conns[2:])
os.kill(engine, signal.SIGSTOP)
began = time.monotonic()
lost = received()
# Ten seconds are what a connection is worth, and four are worth no more.
assert time.monotonic() - began < 20, time.monotonic() - began
assert len(lost) == 4
for conn in lost:
    try:
        conn.sendall(b"never")
    except OSError as error:
        assert error.errno in (errno.ENOTCONN, errno.EPIPE), error
    else:
        raise AssertionError("it was sent")
os.kill(engine, signal.SIGCONT)
# What nobody has ends, even if this program never asks the engine anything again, and the rest goes on.
for conn in lost:
    conn.close()
signal.sigwait({signal.SIGUSR1})
another, _ = listener.accept()
another.sendall(b"as before")
assert another.recv(100) == b""
print("done", flush=True)
