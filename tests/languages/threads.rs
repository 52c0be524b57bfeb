// SPDX-License-Identifier: GPL-2.0-or-later
//! Four threads: contended (one std::sync::Mutex), idle (a channel), split (a mutex each).
//! Prints "ready", runs until its input has a line or ends, then prints its counters.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{mpsc, Arc, Mutex};
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

#[inline(never)]
fn serve(jobs: &Mutex<mpsc::Receiver<()>>) {
    loop {
        let job = jobs.lock().unwrap().recv();
        if job.is_err() {
            return;
        }
        WAITS.fetch_add(1, Relaxed);
    }
}

fn main() {
    let mode = Arc::new(std::env::args().nth(1).unwrap_or_default());
    let (sender, receiver) = mpsc::channel();
    let jobs = Arc::new(Mutex::new(receiver));
    let mut threads: Vec<_> = (0..4)
        .map(|_| {
            let (mode, jobs) = (mode.clone(), jobs.clone());
            thread::spawn(move || {
                let own = Mutex::new(());
                if *mode == "idle" {
                    return serve(&jobs);
                }
                while !STOP.load(Relaxed) {
                    under_mutex(if *mode == "split" { &own } else { &SHARED });
                }
            })
        })
        .collect();
    if *mode == "idle" {
        threads.push(thread::spawn(move || {
            while !STOP.load(Relaxed) {
                thread::sleep(Duration::from_millis(10));
                sender.send(()).unwrap();
            }
        }));
    } else {
        drop(sender);
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
