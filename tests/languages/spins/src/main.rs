// SPDX-License-Identifier: GPL-2.0-or-later
//! Seven threads: mutex (parking_lot's), channel (they send to crossbeam's, which is full; one thread receives).
//! Prints "ready", runs until its input has a line or ends, then prints its counters.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

static STOP: AtomicBool = AtomicBool::new(false);
static WAITS: AtomicU64 = AtomicU64::new(0);
static WAIT_NS: AtomicU64 = AtomicU64::new(0);
static SHARED: parking_lot::Mutex<()> = parking_lot::const_mutex(());

fn work() {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_micros(200) {}
}

fn add_wait(begin: Instant) {
    WAIT_NS.fetch_add(begin.elapsed().as_nanos() as u64, Relaxed);
    WAITS.fetch_add(1, Relaxed);
}

#[inline(never)]
fn under_mutex() {
    let begin = Instant::now();
    let _guard = SHARED.lock();
    add_wait(begin);
    work();
}

#[inline(never)]
fn publish(channel: &crossbeam_channel::Sender<u64>) {
    let begin = Instant::now();
    channel.send(1).unwrap();
    add_wait(begin);
}

fn main() {
    let mode = std::env::args().nth(1).unwrap_or_default();
    let (send, receive) = crossbeam_channel::bounded(4);
    let threads: Vec<_> = (0..7)
        .map(|_| {
            let (send, mode) = (send.clone(), mode.clone());
            thread::spawn(move || {
                while !STOP.load(Relaxed) {
                    if mode == "channel" {
                        publish(&send);
                    } else {
                        under_mutex();
                    }
                }
            })
        })
        .collect();
    thread::spawn(move || loop {
        let _ = receive.recv();
        work();
    });
    println!("ready");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    STOP.store(true, Relaxed);
    for thread in threads {
        thread.join().unwrap();
    }
    println!("waits {}", WAITS.load(Relaxed));
    println!("wait_ns {}", WAIT_NS.load(Relaxed));
}
