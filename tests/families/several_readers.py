"""Four processes read one connection, each waiting in its own way, while some are stopped now and then.

The peer sends bytes that count modulo 251; answers with what came of it: bytes read in all, bytes
that did not follow the one before in a read, and the rarest and the most frequent value.
"""
import os, random, select, signal, socket, struct, sys, time

listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("0.0.0.0", 7000))
listener.listen(16)
WAYS = ["recv", "select", "poll", "epoll", "edge", "peek"]
LIMIT = 60


def read_all(conn, way, out):
    rnd = random.Random(way)
    counts, total, wrong = [0] * 251, 0, 0
    epoll, poll = select.epoll(), select.poll()
    poll.register(conn, select.POLLIN)
    if way == "edge":
        epoll.register(conn, select.EPOLLIN | select.EPOLLET)
    else:
        epoll.register(conn, select.EPOLLIN)

    def ready():
        if way == "select":
            return select.select([conn], [], [], LIMIT)[0]
        if way == "poll":
            return poll.poll(LIMIT * 1000)
        if way in ("epoll", "edge"):
            return epoll.poll(LIMIT)
        return True

    while True:
        if not ready():
            break
        more = True
        while more:
            more = way == "edge"
            limit = rnd.randint(1, 3000)
            flags = 0 if way in ("recv", "peek") else socket.MSG_DONTWAIT
            try:
                if way == "peek":
                    conn.recv(limit, socket.MSG_PEEK)
                data = conn.recv(limit, flags)
            except BlockingIOError:
                break
            if not data:
                os.write(out, struct.pack("<QQ251Q", total, wrong, *counts))
                return
            for i, value in enumerate(data):
                counts[value] += 1
                wrong += i > 0 and (data[i - 1] + 1) % 251 != value
            total += len(data)


while True:
    conn, _ = listener.accept()
    result, out = os.pipe()
    children = []
    for way in random.sample(WAYS, 4):
        child = os.fork()
        if child == 0:
            listener.close()
            read_all(conn, way, out)
            os._exit(0)
        children.append(child)
    os.close(out)
    got = b""
    begin = time.time()
    while time.time() - begin < LIMIT:
        try:
            child = random.choice(children)
            os.kill(child, signal.SIGSTOP)
            time.sleep(0.01)
            os.kill(child, signal.SIGCONT)
        except ProcessLookupError:
            pass
        if select.select([result], [], [], 0.01)[0]:
            piece = os.read(result, 65536)
            if not piece:
                break
            got += piece
    for child in children:
        os.waitpid(child, 0)
    size = struct.calcsize("<QQ251Q")
    reports = [struct.unpack("<QQ251Q", got[at:at + size]) for at in range(0, len(got), size)]
    counts = [sum(report[2 + value] for report in reports) for value in range(251)]
    total, wrong = (sum(report[i] for report in reports) for i in range(2))
    conn.sendall(b"%d %d %d %d" % (total, wrong, min(counts), max(counts)))
    conn.close()
    os.close(result)
