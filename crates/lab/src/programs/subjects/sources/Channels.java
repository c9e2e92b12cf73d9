import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;

/** An echo server with one thread and a selector. */
class Channels {
    public static void main(String[] arguments) throws IOException {
        Selector selector = Selector.open();
        ServerSocketChannel listener = ServerSocketChannel.open();
        listener.bind(new InetSocketAddress("0.0.0.0", Integer.parseInt(arguments[0])), 512);
        listener.configureBlocking(false);
        listener.register(selector, SelectionKey.OP_ACCEPT);
        while (true) {
            selector.select();
            for (SelectionKey key : selector.selectedKeys()) {
                if (key.isAcceptable()) {
                    accept(selector, listener);
                } else {
                    serve(key);
                }
            }
            selector.selectedKeys().clear();
        }
    }

    private static void accept(Selector selector, ServerSocketChannel listener) throws IOException {
        SocketChannel channel;
        while ((channel = listener.accept()) != null) {
            channel.configureBlocking(false);
            channel.register(selector, SelectionKey.OP_READ, new Echo());
        }
    }

    private static void serve(SelectionKey key) throws IOException {
        SocketChannel channel = (SocketChannel) key.channel();
        try {
            if (!((Echo) key.attachment()).turn(key, channel)) {
                channel.close();
            }
        } catch (IOException gone) {
            channel.close();
        }
    }

    /** What was read and is not yet written. */
    private static class Echo {
        private final ByteBuffer bytes = ByteBuffer.allocateDirect(64 * 1024);
        private boolean ended;

        /** Reads and writes what can be; whether there is more to do. */
        boolean turn(SelectionKey key, SocketChannel channel) throws IOException {
            if (!ended && bytes.hasRemaining()) {
                ended = channel.read(bytes) < 0;
            }
            bytes.flip();
            channel.write(bytes);
            bytes.compact();
            boolean waiting = bytes.position() > 0;
            if (ended && !waiting) {
                return false;
            }
            int reads = !ended && bytes.hasRemaining() ? SelectionKey.OP_READ : 0;
            key.interestOps(reads | (waiting ? SelectionKey.OP_WRITE : 0));
            return true;
        }
    }
}
