"""A family of processes: a master that forks a worker for each that dies, workers that accept, and
children that serve a connection beside their worker.

Says "worker PID" of each. A connection is greeted by "hello WORKER". "share" has its worker fork a child
for it, "shared CHILD"; anything else comes back, with who says so.
"""
import os, select, signal, socket

WORKERS = 4
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("0.0.0.0", 7000))
listener.listen(64)
listener.setblocking(False)


def answer(conn, others):
    """Reads a request, unless another process does, and answers it. False: there will be no more."""
    try:
        said = conn.recv(1000, socket.MSG_DONTWAIT)
    except BlockingIOError:
        return True
    except ConnectionError:
        return False
    if not said:
        return False
    if said == b"share\n":
        child = os.fork()
        if child == 0:
            listener.close()
            for other in others:
                if other is not conn:
                    other.close()
            while answer(conn, []):
                select.select([conn], [], [])
            os._exit(0)
        conn.sendall(b"shared %d\n" % child)
    else:
        conn.sendall(b"%s %d\n" % (said.split()[-1], os.getpid()))
    return True


def work():
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    conns = []
    while True:
        for ready in select.select([listener, *conns], [], [])[0]:
            if ready is not listener:
                if not answer(ready, conns):
                    conns.remove(ready)
                    ready.close()
                continue
            try:
                conn, _ = listener.accept()
            except BlockingIOError:
                continue
            conn.setblocking(True)
            conn.sendall(b"hello %d\n" % os.getpid())
            conns.append(conn)


def begin_worker():
    child = os.fork()
    if child == 0:
        work()
    print("worker", child, flush=True)


for _ in range(WORKERS):
    begin_worker()
while True:
    os.wait()
    begin_worker()
