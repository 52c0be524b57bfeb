// SPDX-License-Identifier: GPL-2.0-or-later
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.ReentrantLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;
import jdk.jfr.Recording;
import jdk.jfr.consumer.RecordedEvent;
import jdk.jfr.consumer.RecordedFrame;
import jdk.jfr.consumer.RecordingFile;

/**
 * Threads that wait in many places, for the same seconds: two monitors, of which one is entered by three methods and
 * one is also waited on; a ReentrantLock, a ReentrantReadWriteLock, a Semaphore, a BlockingQueue.  Each place counts
 * its own waits, by the clock.
 * Prints "ready", begins at a line of its input, stops at the next one, and prints as JSON what each place waited and
 * what JFR has for it: all events of monitors and of parked threads, however short.
 */
public class Truth {
    static volatile boolean stop;
    static volatile long sink;
    static final List<Place> places = new ArrayList<>();
    static final List<Thread> threads = new ArrayList<>();

    static class Hot {}
    static class Warm {}
    static class Bell {}

    static final Hot hot = new Hot();
    static final Warm warm = new Warm();
    static final Bell bell = new Bell();
    static final ReentrantLock lock = new ReentrantLock();
    static final ReentrantReadWriteLock shared = new ReentrantReadWriteLock();
    static final Semaphore few = new Semaphore(2);
    static final BlockingQueue<Integer> full = new ArrayBlockingQueue<>(1);

    interface Turn {
        void run(Place place) throws InterruptedException;
    }

    static class Place {
        final String lock, function;
        final AtomicLong waits = new AtomicLong(), ns = new AtomicLong();

        Place(String lock, String function) {
            this.lock = lock;
            this.function = "Truth." + function;
        }

        void waited(long begin) {
            ns.addAndGet(System.nanoTime() - begin);
            waits.incrementAndGet();
        }
    }

    static void work(long micros) {
        for (long end = System.nanoTime() + micros * 1000; System.nanoTime() < end;)
            sink++;
    }

    static void rest(long micros) throws InterruptedException {
        Thread.sleep(micros / 1000, (int) (micros % 1000) * 1000);
    }

    /** So many threads that go through one place over and over. */
    static void run(int count, String lock, String function, Turn turn) {
        Place place = new Place(lock, function);
        places.add(place);
        for (; count > 0; count--)
            threads.add(new Thread(() -> {
                try {
                    while (!stop)
                        turn.run(place);
                } catch (InterruptedException e) {
                    return;
                }
            }, function + "-" + count));
    }

    static void hotLong(Place place) throws InterruptedException {
        long begin = System.nanoTime();
        synchronized (hot) {
            place.waited(begin);
            rest(2000);
        }
    }

    static void hotShort(Place place) throws InterruptedException {
        long begin = System.nanoTime();
        synchronized (hot) {
            place.waited(begin);
            work(100);
        }
        rest(500);
    }

    static void hotSeldom(Place place) throws InterruptedException {
        long begin = System.nanoTime();
        synchronized (hot) {
            place.waited(begin);
        }
        rest(20000);
    }

    /** Threads that take turns at two places. */
    static void warmBoth(Place place, Place other) throws InterruptedException {
        warmFirst(place);
        warmSecond(other);
    }

    static void warmFirst(Place place) throws InterruptedException {
        long begin = System.nanoTime();
        synchronized (warm) {
            place.waited(begin);
            rest(300);
        }
        rest(300);
    }

    static void warmSecond(Place place) throws InterruptedException {
        long begin = System.nanoTime();
        synchronized (warm) {
            place.waited(begin);
            rest(1000);
        }
    }

    static void listen(Place place) throws InterruptedException {
        synchronized (bell) {
            long begin = System.nanoTime();
            bell.wait();
            place.waited(begin);
        }
    }

    static void under(Place place, Lock lock, long held) throws InterruptedException {
        long begin = System.nanoTime();
        lock.lock();
        place.waited(begin);
        try {
            rest(held);
        } finally {
            lock.unlock();
        }
        rest(500);
    }

    static void reentrant(Place place) throws InterruptedException {
        under(place, lock, 700);
    }

    static void read(Place place) throws InterruptedException {
        under(place, shared.readLock(), 1000);
    }

    static void write(Place place) throws InterruptedException {
        under(place, shared.writeLock(), 1000);
    }

    static void permit(Place place) throws InterruptedException {
        long begin = System.nanoTime();
        few.acquire();
        place.waited(begin);
        rest(1000);
        few.release();
    }

    static void put(Place place) throws InterruptedException {
        long begin = System.nanoTime();
        full.put(1);
        place.waited(begin);
    }

    static Map<String, Long> profile(Recording recording) throws Exception {
        Map<String, Long> found = new LinkedHashMap<>();
        Path file = Files.createTempFile("truth", ".jfr");
        recording.stop();
        recording.dump(file);
        for (Place place : places)
            found.put(place.function, 0L);
        try (RecordingFile events = new RecordingFile(file)) {
            while (events.hasMoreEvents()) {
                RecordedEvent event = events.readEvent();
                if (event.getStackTrace() == null)
                    continue;
                for (RecordedFrame frame : event.getStackTrace().getFrames()) {
                    String name = frame.getMethod().getType().getName() + "." + frame.getMethod().getName();
                    if (found.computeIfPresent(name, (key, ns) -> ns + event.getDuration().toNanos()) != null)
                        break;
                }
            }
        } finally {
            Files.delete(file);
        }
        return found;
    }

    public static void main(String[] arguments) throws Exception {
        run(2, "hot", "hotLong", Truth::hotLong);
        run(4, "hot", "hotShort", Truth::hotShort);
        run(4, "hot", "hotSeldom", Truth::hotSeldom);
        Place second = new Place("warm", "warmSecond");
        places.add(second);
        run(3, "warm", "warmFirst", place -> warmBoth(place, second));
        run(2, "bell", "listen", Truth::listen);
        run(3, "lock", "reentrant", Truth::reentrant);
        run(4, "shared", "read", Truth::read);
        run(2, "shared", "write", Truth::write);
        run(4, "few", "permit", Truth::permit);
        run(3, "full", "put", Truth::put);
        Thread ring = new Thread(() -> {
            try {
                while (true) {
                    rest(1500);
                    synchronized (bell) {
                        bell.notifyAll();
                    }
                }
            } catch (InterruptedException e) {
                return;
            }
        }, "ring");
        Thread take = new Thread(() -> {
            try {
                while (true) {
                    rest(1000);
                    full.take();
                }
            } catch (InterruptedException e) {
                return;
            }
        }, "take");
        Recording recording = new Recording();
        for (String event : new String[] {"JavaMonitorEnter", "JavaMonitorWait", "ThreadPark"})
            recording.enable("jdk." + event).withoutThreshold().withStackTrace();
        recording.start();
        System.out.println("ready");
        System.in.read();
        for (Thread thread : threads)
            thread.start();
        ring.start();
        take.start();
        System.in.read();
        stop = true;
        for (Thread thread : threads)
            thread.join();
        ring.interrupt();
        take.interrupt();
        Map<String, Long> found = profile(recording);
        StringBuilder text = new StringBuilder("{\"places\": [");
        for (Place place : places)
            text.append(place == places.get(0) ? "" : ", ").append(String.format(
                "{\"lock\": \"%s\", \"function\": \"%s\", \"waits\": %d, \"ns\": %d}", place.lock, place.function,
                place.waits.get(), place.ns.get()));
        text.append("], \"JFR\": {");
        String comma = "";
        for (Map.Entry<String, Long> entry : found.entrySet()) {
            text.append(comma).append(String.format("\"%s\": %d", entry.getKey(), entry.getValue()));
            comma = ", ";
        }
        System.out.println(text.append("}}"));
        System.in.read();
    }
}
