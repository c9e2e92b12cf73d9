"""So many children accept from one listener, and serve one client at a time each."""
import os, signal, socket, sys

listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("0.0.0.0", 7000))
listener.listen(4096)
children = []
for _ in range(int(sys.argv[1])):
    child = os.fork()
    if child == 0:
        while True:
            conn, _ = listener.accept()
            if conn.recv(1):
                conn.sendall(b"%d" % os.getpid())
            conn.close()
    children.append(child)

def end(*_):
    for child in children:
        os.kill(child, signal.SIGKILL)
    for child in children:
        os.waitpid(child, 0)
    os._exit(0)

signal.signal(signal.SIGTERM, end)
while True:
    signal.pause()
