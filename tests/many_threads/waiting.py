"""Threads that wait, more than an engine has bells for: some to accept, each of which answers a byte and closes;
and on each connection to a second port one in poll, for that and for a pipe that nothing ever comes through.
"""
import select, socket, os, threading

ACCEPTING = 150


def listener(port):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(("0.0.0.0", port))
    s.listen(512)
    return s


def accept(where):
    while True:
        conn, _ = where.accept()
        conn.sendall(b"x")
        conn.close()


def echo(conn, pipe):
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    poll.register(conn, select.POLLIN)
    while True:
        poll.poll()
        data = conn.recv(100)
        if not data:
            return
        conn.sendall(data)


where = listener(7000)
for _ in range(ACCEPTING):
    threading.Thread(target=accept, args=(where,), daemon=True).start()
polled = listener(7001)
pipe, kept = os.pipe()
while True:
    conn, _ = polled.accept()
    threading.Thread(target=echo, args=(conn, pipe), daemon=True).start()
