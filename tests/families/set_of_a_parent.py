"""Two children wait in an epoll set that their parent has made, and waited in, before they were born."""
import os, select, socket

listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("0.0.0.0", 7000))
listener.listen(128)
listener.setblocking(False)
ready = select.epoll()
ready.register(listener, select.EPOLLIN)
ready.poll(0)
for _ in range(2):
    if os.fork() == 0:
        break
else:
    os.wait()
while True:
    ready.poll()
    try:
        conn, _ = listener.accept()
    except BlockingIOError:
        continue
    conn.setblocking(True)
    conn.recv(100)
    conn.sendall(b"%d" % os.getpid())
    conn.close()
