import java.io.IOException;
import java.net.ServerSocket;
import java.net.Socket;

/** An echo server with a thread for each connection. */
class Threads {
    public static void main(String[] arguments) throws IOException {
        try (ServerSocket listener = new ServerSocket(Integer.parseInt(arguments[0]), 512)) {
            while (true) {
                Socket socket = listener.accept();
                new Thread(() -> serve(socket)).start();
            }
        }
    }

    private static void serve(Socket socket) {
        try (socket) {
            socket.getInputStream().transferTo(socket.getOutputStream());
        } catch (IOException gone) {
            // A client that goes away is none of our business.
        }
    }
}
