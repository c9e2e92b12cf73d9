"""An echo server that forks a child for each connection, which waits before it reads."""
import os, select, signal, socket

signal.signal(signal.SIGCHLD, signal.SIG_IGN)
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("0.0.0.0", 7000))
listener.listen(128)
while True:
    conn, _ = listener.accept()
    if os.fork() == 0:
        listener.close()
        while select.select([conn], [], [], 60)[0]:
            data = conn.recv(1000)
            if not data:
                break
            conn.sendall(data)
        os._exit(0)
    conn.close()
