// SPDX-License-Identifier: GPL-2.0-or-later
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantReadWriteLock;

/**
 * Six threads: readwrite (a ReentrantReadWriteLock, to write), scheduled (a pool whose workers wait for the clock),
 * behind (they wait for a queue inside a monitor), full (they fill a queue that one thread empties slowly).
 * Prints "ready", and runs until its input has a line or ends.
 */
public class Kinds {
    static final ReentrantReadWriteLock orders = new ReentrantReadWriteLock();
    static final BlockingQueue<Integer> jobs = new LinkedBlockingQueue<>();
    static final BlockingQueue<Integer> places = new LinkedBlockingQueue<>(4);
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

    static void serve() {
        while (true) {
            synchronized (orders) {
                try {
                    sink += jobs.take();
                } catch (InterruptedException e) {
                    return;
                }
            }
        }
    }

    static void fill() {
        try {
            while (true)
                places.put(1);
        } catch (InterruptedException e) {
            return;
        }
    }

    static void empty() {
        try {
            while (true) {
                sink += places.take();
                work(200);
            }
        } catch (InterruptedException e) {
            return;
        }
    }

    static void giveJobs() {
        try {
            while (true) {
                Thread.sleep(10);
                jobs.add(1);
            }
        } catch (InterruptedException e) {
            return;
        }
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("readwrite")) {
            for (int i = 0; i < 6; i++)
                new Thread(Kinds::change, "worker-" + i).start();
        } else if (arguments[0].equals("behind")) {
            for (int i = 0; i < 6; i++)
                new Thread(Kinds::serve, "worker-" + i).start();
            new Thread(Kinds::giveJobs).start();
        } else if (arguments[0].equals("full")) {
            for (int i = 0; i < 6; i++)
                new Thread(Kinds::fill, "worker-" + i).start();
            new Thread(Kinds::empty).start();
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
