"""Waits in a set for those inside it, in each of which is one socket: what comes there is told of by the outer one."""
import select, socket, time

# More than the engine has bells for one process.
MANY = 70
listeners = [socket.create_server(("", port), backlog=512) for port in (7000, 7001, 7002)]


def inside(outer, watched, one):
    """Puts a socket into a set of its own, and that into the outer one."""
    inner = select.epoll()
    inner.register(one, select.EPOLLIN)
    outer.register(inner, watched)
    return inner


def asked(outer):
    """What there is, by one who never sleeps there."""
    while not (told := outer.poll(0)):
        time.sleep(0.001)
    return told


def echo(sets, wait):
    """Sends back what comes, until all connections have ended."""
    while sets:
        for number, _ in wait():
            inner, one = sets[number]
            for _ in inner.poll(0):
                if data := one.recv(100):
                    one.sendall(data)
                else:
                    outer.unregister(inner)
                    del sets[number]


EDGE = select.EPOLLIN | select.EPOLLET
for listener, watched, sleeps in zip(listeners, (select.EPOLLIN, EDGE, EDGE), (True, True, False)):
    outer, sets = select.epoll(), {}
    for _ in range(MANY):
        connection, _ = listener.accept()
        inner = inside(outer, watched, connection)
        sets[inner.fileno()] = inner, connection
    echo(sets, outer.poll if sleeps else lambda: asked(outer))

# From here on this is all that is slept in.
outer = select.epoll()
inner = inside(outer, select.EPOLLIN, listeners[0])
print("sleeps", flush=True)
while True:
    outer.poll()
    if inner.poll(0):
        connection, _ = listeners[0].accept()
        connection.sendall(b"accepted")
        connection.close()
