// SPDX-License-Identifier: GPL-2.0-or-later
/** Two threads that each have a monitor and want the other's, and two more that want the first one's. */
public class Deadlock {
    static final Object FIRST = new Object(), SECOND = new Object();

    static void transfer(Object one, Object other) {
        synchronized (one) {
            pause(500);
            synchronized (other) {
                pause(0);
            }
        }
    }

    static void ask() {
        pause(1000);
        synchronized (FIRST) {
            pause(0);
        }
    }

    static void pause(long milliseconds) {
        try {
            Thread.sleep(milliseconds);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    public static void main(String[] arguments) throws Exception {
        Runnable[] threads = {
            () -> transfer(FIRST, SECOND), () -> transfer(SECOND, FIRST), Deadlock::ask, Deadlock::ask,
        };
        String[] names = {"payer", "payee", "web-1", "web-2"};
        for (int at = 0; at < threads.length; at++) {
            Thread thread = new Thread(threads[at], names[at]);
            thread.setDaemon(true);
            thread.start();
        }
        pause(1500);
        System.out.println("ready");
        System.in.read();
    }
}
