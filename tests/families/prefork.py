"""Four processes accept from one listener. One that is told to works for a while before it answers."""
import os, socket, time

listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("0.0.0.0", 7000))
listener.listen(128)
for _ in range(3):
    if os.fork() == 0:
        break
while True:
    conn, _ = listener.accept()
    request = conn.recv(100)
    if request == b"slow":
        time.sleep(3)
    conn.sendall(b"%d" % os.getpid())
    conn.close()
