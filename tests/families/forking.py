"""A child for each connection, which accepts none itself."""
import os, signal, socket

signal.signal(signal.SIGCHLD, signal.SIG_IGN)
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("0.0.0.0", 7000))
listener.listen(128)
while True:
    conn, _ = listener.accept()
    if os.fork() == 0:
        while data := conn.recv(100):
            conn.sendall(data)
        os._exit(0)
    conn.close()
