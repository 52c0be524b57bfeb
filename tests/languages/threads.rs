// SPDX-License-Identifier: GPL-2.0-or-later
//! Four threads: contended (one std::sync::Mutex), idle (a condition variable), split (a mutex each).
//! Prints "ready", runs until its input has a line or ends, then prints its counters.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

static STOP: AtomicBool = AtomicBool::new(false);
static WAITS: AtomicU64 = AtomicU64::new(0);
static WAIT_NS: AtomicU64 = AtomicU64::new(0);
static SINK: AtomicU64 = AtomicU64::new(0);
static SHARED: Mutex<()> = Mutex::new(());

fn work() {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_micros(200) {
        SINK.fetch_add(1, Relaxed);
    }
}

#[inline(never)]
fn under_mutex(mutex: &Mutex<()>) {
    let begin = Instant::now();
    let _guard = mutex.lock().unwrap();
    WAIT_NS.fetch_add(begin.elapsed().as_nanos() as u64, Relaxed);
    WAITS.fetch_add(1, Relaxed);
    work();
}

static JOBS: Mutex<u64> = Mutex::new(0);
static FILLED: Condvar = Condvar::new();

#[inline(never)]
fn serve() {
    while !STOP.load(Relaxed) {
        let mut jobs = JOBS.lock().unwrap();
        while *jobs == 0 && !STOP.load(Relaxed) {
            jobs = FILLED.wait(jobs).unwrap();
        }
        *jobs = jobs.saturating_sub(1);
        WAITS.fetch_add(1, Relaxed);
    }
}

fn feed() {
    while !STOP.load(Relaxed) {
        thread::sleep(Duration::from_millis(10));
        *JOBS.lock().unwrap() += 1;
        FILLED.notify_one();
    }
    let _guard = JOBS.lock().unwrap();
    FILLED.notify_all();
}

fn main() {
    let mode = Arc::new(std::env::args().nth(1).unwrap_or_default());
    let mut threads: Vec<_> = (0..4)
        .map(|_| {
            let mode = mode.clone();
            thread::spawn(move || {
                let own = Mutex::new(());
                if *mode == "idle" {
                    return serve();
                }
                while !STOP.load(Relaxed) {
                    under_mutex(if *mode == "split" { &own } else { &SHARED });
                }
            })
        })
        .collect();
    if *mode == "idle" {
        threads.push(thread::spawn(feed));
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
