// SPDX-License-Identifier: GPL-2.0-or-later

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpHandler;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicLong;

/**
 * A server of 16 threads whose requests all take one monitor (/), or none (/free). /waited: how long they waited for it,
 * in nanoseconds, by their own clock. Argument: the port.
 */
public final class Server {
    private static final Object LEDGER = new Object();
    private static final AtomicLong WAITED = new AtomicLong();
    private static final int THREADS = 16;
    private static final long WORK_NS = 300_000;

    private static void work() {
        for (long end = System.nanoTime() + WORK_NS; System.nanoTime() < end; ) {
            Thread.onSpinWait();
        }
    }

    static void book() {
        long begin = System.nanoTime();
        synchronized (LEDGER) {
            WAITED.addAndGet(System.nanoTime() - begin);
            work();
        }
    }

    private static void answer(HttpExchange exchange, String text) throws IOException {
        exchange.sendResponseHeaders(200, text.length());
        exchange.getResponseBody().write(text.getBytes("US-ASCII"));
        exchange.close();
    }

    public static void main(String[] arguments) throws IOException {
        InetSocketAddress address = new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0]));
        HttpServer server = HttpServer.create(address, 0);
        HttpHandler booking = exchange -> {
            book();
            answer(exchange, "booked\n");
        };
        server.createContext("/", booking);
        server.createContext("/free", exchange -> answer(exchange, "free\n"));
        server.createContext("/waited", exchange -> answer(exchange, WAITED.get() + "\n"));
        server.setExecutor(Executors.newFixedThreadPool(THREADS));
        server.start();
    }
}
