"""Puts sockets into epoll sets, and connects and listens with them when there are no descriptors left for more."""
import os, resource, select, socket, sys

own, peer, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
LIMIT = resource.getrlimit(resource.RLIMIT_NOFILE)


def fill(room):
    """Leaves room for so many descriptors."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, LIMIT[1]))
    held = []
    try:
        while True:
            held.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        pass
    for _ in range(room):
        os.close(held.pop())
    return held


def give_back(held):
    for fd in held:
        os.close(fd)
    resource.setrlimit(resource.RLIMIT_NOFILE, LIMIT)


def told(held, registered):
    """What one is told of in a set, which is asked when there are descriptors again."""
    give_back(held)
    return [event for _, event in registered.poll(20)] or "nothing"


# The session has what it needs from now on.
first = socket.create_connection((peer, port))
for number, room in enumerate((0, 1, 2, 0)):
    client = socket.socket()
    client.setblocking(False)
    if number == 3:
        client.bind((own, 0))
    registered = select.epoll()
    registered.register(client, select.EPOLLOUT)
    held = fill(room)
    client.connect_ex((peer, port))
    print(number, "connects", told(held, registered), flush=True)
    # It is connected, and by one connection.
    for _ in range(3):
        again = client.connect_ex((peer, port))
    print(number, "is connected", os.strerror(again), flush=True)

listeners = []
for room in range(4):
    listener = socket.socket()
    listener.setblocking(False)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((own, 7000 + room))
    registered = select.epoll()
    registered.register(listener, select.EPOLLIN)
    held = fill(room)
    listener.listen(8)
    print(room, "listens", flush=True)
    print(room, "accepts", told(held, registered), flush=True)
    listener.accept()
    listeners.append(listener)

# Whatever has been missing, it has not ended what was there.
first.send(b"still there")
print("done", flush=True)
first.recv(1)
