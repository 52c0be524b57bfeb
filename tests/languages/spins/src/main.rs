// SPDX-License-Identifier: GPL-2.0-or-later
//! Seven threads: mutex (parking_lot's), split (one each), idle (they wait for jobs at its Condvar), channel (they send
//! to crossbeam's, which is full; one thread receives).
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
fn under_mutex(mutex: &parking_lot::Mutex<()>) {
    let begin = Instant::now();
    let _guard = mutex.lock();
    add_wait(begin);
    work();
}

static JOBS: parking_lot::Mutex<u64> = parking_lot::const_mutex(0);
static FILLED: parking_lot::Condvar = parking_lot::Condvar::new();

#[inline(never)]
fn serve() {
    let mut jobs = JOBS.lock();
    while *jobs == 0 && !STOP.load(Relaxed) {
        FILLED.wait(&mut jobs);
    }
    *jobs = jobs.saturating_sub(1);
}

fn feed() {
    while !STOP.load(Relaxed) {
        thread::sleep(Duration::from_millis(10));
        *JOBS.lock() += 1;
        FILLED.notify_one();
    }
    FILLED.notify_all();
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
                let own = parking_lot::const_mutex(());
                while !STOP.load(Relaxed) {
                    match mode.as_str() {
                        "channel" => publish(&send),
                        "idle" => serve(),
                        "split" => under_mutex(&own),
                        _ => under_mutex(&SHARED),
                    }
                }
            })
        })
        .collect();
    thread::spawn(move || loop {
        let _ = receive.recv();
        work();
    });
    if mode == "idle" {
        thread::spawn(feed);
    }
    println!("ready");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    STOP.store(true, Relaxed);
    for thread in threads {
        thread.join().unwrap();
    }
    println!("waits {}", WAITS.load(Relaxed));
    println!("wait_ns {}", WAIT_NS.load(Relaxed));
}
