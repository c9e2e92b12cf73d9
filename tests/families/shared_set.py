"""A process waits in an epoll set that it shares with another since a fork, and the other changes the set.

The peer sends the name of a case. It reads "go" when the set is changed and the other sleeps, sends bytes, and
has them back after the word "told" from whoever was told of them. Where a case accepts another connection, the
peer sends them there, too.
"""
import os, select, signal, socket, threading, time

IN = select.EPOLLIN


def listener(port):
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(("0.0.0.0", port))
    made.listen(16)
    return made


first, second, third = listener(7000), listener(7001), listener(7002)


def until_asleep(pid, thread=None):
    """Until the thread sleeps, or all of the process."""
    tasks = f"/proc/{pid}/task"
    awake = True
    while awake:
        time.sleep(0.001)
        threads = [thread] if thread else os.listdir(tasks)
        states = [open(f"{tasks}/{it}/stat").read().rsplit(")", 1)[1].split()[0] for it in threads]
        awake = any(state != "S" for state in states)


def forked(work):
    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os._exit(0)
    return pid


def answer(conn, told):
    """Sends back what has come, if `told` is what was to be."""
    data = conn.recv(100)
    conn.sendall(b"told " + data if told == [(conn.fileno(), IN)] else repr(told).encode())


def child_is_told(conn, wait, change):
    begun, begin = os.pipe()

    def work():
        os.write(begin, b".")
        answer(conn, wait())

    pid = forked(work)
    os.read(begun, 1)
    until_asleep(pid)
    change()
    conn.sendall(b"go")
    os.waitpid(pid, 0)
    os.close(begun)
    os.close(begin)


def parent_is_told(conn, wait, change):
    parent = os.getpid()

    def work():
        until_asleep(parent)
        change()
        conn.sendall(b"go")
        signal.pause()

    pid = forked(work)
    answer(conn, wait())
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def thread_is_told(conn, wait, change):
    """It has slept since before the fork."""
    thread = threading.Thread(target=lambda: answer(conn, wait()))
    thread.start()
    until_asleep(os.getpid(), thread.native_id)

    def work():
        change()
        conn.sendall(b"go")
        signal.pause()

    pid = forked(work)
    thread.join()
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def added(conn, ready):
    child_is_told(conn, ready.poll, lambda: ready.register(conn, IN))


def added_at_the_edge(conn, ready):
    child_is_told(conn, ready.poll, lambda: ready.register(conn, IN | select.EPOLLET))


def added_by_the_child(conn, ready):
    parent_is_told(conn, ready.poll, lambda: ready.register(conn, IN))


def added_beside_another(conn, ready):
    other, client = socket.create_server(("127.0.0.1", 0)), socket.socket()
    client.connect(other.getsockname())
    # The kernel's, and one of the engine's that says nothing.
    ready.register(client, IN)
    peer = third.accept()[0]
    ready.register(peer, IN)
    child_is_told(conn, ready.poll, lambda: ready.register(conn, IN))


def modified(conn, ready):
    ready.register(conn, 0)
    child_is_told(conn, ready.poll, lambda: ready.modify(conn, IN))


def polled(conn, ready):
    poll = select.poll()
    poll.register(ready, select.POLLIN)
    child_is_told(conn, lambda: poll.poll() and ready.poll(0), lambda: ready.register(conn, IN))


def selected(conn, ready):
    wait = lambda: select.select([ready], [], []) and ready.poll(0)
    child_is_told(conn, wait, lambda: ready.register(conn, IN))


def in_another_set(conn, ready):
    outer = select.epoll()
    outer.register(ready, IN)

    def wait():
        told = []
        # The outer one may be told of a set that has nothing to report.
        while not told:
            outer.poll()
            told = ready.poll(0)
        return told

    child_is_told(conn, wait, lambda: ready.register(conn, IN))


def thread_of_the_parent(conn, ready):
    thread_is_told(conn, ready.poll, lambda: ready.register(conn, IN))


def thread_beside_another(conn, ready):
    peer = third.accept()[0]
    ready.register(peer, IN)
    thread_is_told(conn, ready.poll, lambda: ready.register(conn, IN))


def two_threads(conn, ready):
    """One of them goes on sleeping."""
    idle = threading.Thread(target=ready.poll, daemon=True)
    idle.start()
    until_asleep(os.getpid(), idle.native_id)
    thread_of_the_parent(conn, ready)


def removed(conn, ready):
    ready.register(conn, IN)
    begun, begin = os.pipe()

    def work():
        os.read(begun, 1)
        conn.recv(1, socket.MSG_PEEK)
        left = ready.poll(0)
        conn.sendall(b"told " + conn.recv(100) if not left else repr(left).encode())

    pid = forked(work)
    ready.unregister(conn)
    os.write(begin, b".")
    conn.sendall(b"go")
    os.waitpid(pid, 0)


def listens(conn, ready):
    begun, begin = os.pipe()

    def work():
        os.write(begin, b".")
        told = ready.poll()
        accepted = second.accept()[0]
        data = accepted.recv(100)
        conn.recv(100)
        conn.sendall(b"told " + data if told == [(second.fileno(), IN)] else repr(told).encode())

    pid = forked(work)
    os.read(begun, 1)
    until_asleep(pid)
    ready.register(second, IN)
    conn.sendall(b"go")
    os.waitpid(pid, 0)


def not_had(conn, ready):
    """The child has not got the connection: the parent is told, and the child goes on sleeping."""
    begun, begin = os.pipe()

    def work():
        os.write(begin, b".")
        ready.poll()

    pid = forked(work)
    os.read(begun, 1)
    until_asleep(pid)
    conn.sendall(b"go")
    later = third.accept()[0]
    ready.register(later, IN)
    told = ready.poll()
    later.recv(100)
    answer(conn, [(conn.fileno(), IN)] if told == [(later.fileno(), IN)] else told)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


while True:
    conn, _ = first.accept()
    ready = select.epoll()
    globals()[conn.recv(100).decode()](conn, ready)
    ready.close()
    conn.close()
