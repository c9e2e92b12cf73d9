"""Starts programs in one thread while another closes copies of a connection and opens files, which get their numbers."""
import os, socket, stat, threading

listener = socket.create_server(("", 7000))
conn, _ = listener.accept()
conn.recv(1)
is_over = False


def starts():
    global is_over
    for _ in range(150):
        os.system(":")
    is_over = True


starter = threading.Thread(target=starts)
starter.start()
wrong = rounds = 0
while not is_over:
    number = os.dup(conn.fileno())
    os.set_inheritable(number, True)
    os.close(number)
    file = os.open("/dev/null", os.O_RDWR)
    for _ in range(5):
        wrong += not stat.S_ISCHR(os.fstat(file).st_mode)
    os.close(file)
    rounds += 1
starter.join()
conn.sendall(b"%d wrong of many" % wrong if rounds > 150 else b"few rounds")
