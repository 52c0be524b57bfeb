// SPDX-License-Identifier: GPL-2.0-or-later
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.ReentrantLock;

/**
 * Eight threads: monitor (one monitor), lock (one ReentrantLock), idle (a queue), split (a monitor each).
 * Prints "ready", runs until its input has a line or ends, then prints its counters.
 */
public class Threads {
    static final int THREADS = 8;
    static volatile boolean stop;
    static volatile long sink;
    static final AtomicLong waits = new AtomicLong();
    static final AtomicLong waitNs = new AtomicLong();

    static void work() {
        long end = System.nanoTime() + 200_000;
        while (System.nanoTime() < end)
            sink++;
    }

    static void entered(long begin) {
        waitNs.addAndGet(System.nanoTime() - begin);
        waits.incrementAndGet();
    }

    static void underMonitor(Object monitor) {
        long begin = System.nanoTime();
        synchronized (monitor) {
            entered(begin);
            work();
        }
    }

    static void underLock(ReentrantLock lock) {
        long begin = System.nanoTime();
        lock.lock();
        try {
            entered(begin);
            work();
        } finally {
            lock.unlock();
        }
    }

    static void serve(LinkedBlockingQueue<Integer> jobs) {
        try {
            while (jobs.take() != 0)
                waits.incrementAndGet();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    static Runnable loop(String mode, Object shared, ReentrantLock lock, LinkedBlockingQueue<Integer> jobs) {
        Object own = new Object();
        switch (mode) {
        case "monitor":
            return () -> { while (!stop) underMonitor(shared); };
        case "split":
            return () -> { while (!stop) underMonitor(own); };
        case "lock":
            return () -> { while (!stop) underLock(lock); };
        default:
            return () -> serve(jobs);
        }
    }

    public static void main(String[] arguments) throws Exception {
        String mode = arguments[0];
        Object shared = new Object();
        ReentrantLock lock = new ReentrantLock();
        LinkedBlockingQueue<Integer> jobs = new LinkedBlockingQueue<>();
        Thread[] threads = new Thread[THREADS];
        for (int i = 0; i < THREADS; i++) {
            threads[i] = new Thread(loop(mode, shared, lock, jobs), "worker-" + i);
            threads[i].start();
        }
        Thread feeder = new Thread(() -> {
            try {
                while (!stop) {
                    Thread.sleep(10);
                    jobs.add(1);
                }
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        }, "feeder");
        if (mode.equals("idle"))
            feeder.start();
        System.out.println("ready");
        System.in.read();
        stop = true;
        feeder.join();
        for (int i = 0; i < THREADS; i++)
            jobs.add(0);
        for (Thread thread : threads)
            thread.join();
        System.out.println("waits " + waits.get());
        System.out.println("wait_ns " + waitNs.get());
    }
}
