// SPDX-License-Identifier: GPL-2.0-or-later
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantReadWriteLock;

/**
 * Six threads: readwrite (a ReentrantReadWriteLock, to write), scheduled (a pool whose workers wait for the clock).
 * Prints "ready", and runs until its input has a line or ends.
 */
public class Kinds {
    static final ReentrantReadWriteLock orders = new ReentrantReadWriteLock();
    static volatile long sink;

    static void work(long micros) {
        long end = System.nanoTime() + micros * 1000;
        while (System.nanoTime() < end)
            sink++;
    }

    static void change() {
        while (true) {
            orders.writeLock().lock();
            work(200);
            orders.writeLock().unlock();
        }
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("readwrite")) {
            for (int i = 0; i < 6; i++)
                new Thread(Kinds::change, "worker-" + i).start();
        } else {
            ScheduledExecutorService pool = Executors.newScheduledThreadPool(6);
            for (int i = 0; i < 6; i++)
                pool.scheduleAtFixedRate(() -> work(50), 1, 10, TimeUnit.MILLISECONDS);
        }
        System.out.println("ready");
        System.in.read();
        Runtime.getRuntime().halt(0);
    }
}
