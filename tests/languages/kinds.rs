// SPDX-License-Identifier: GPL-2.0-or-later
//! Five threads: rwlock (an RwLock, to write), pool (workers that share the receiver of a channel, mostly idle).
//! Prints "ready", and runs until its input has a line or ends.

use std::sync::{mpsc, Arc, Mutex, RwLock};
use std::thread;
use std::time::{Duration, Instant};

static TABLE: RwLock<u64> = RwLock::new(0);

fn work(us: u64) {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_micros(us) {}
}

#[inline(never)]
fn update() {
    let mut table = TABLE.write().unwrap();
    work(200);
    *table += 1;
}

#[inline(never)]
fn serve(jobs: &Mutex<mpsc::Receiver<u64>>) {
    let job = jobs.lock().unwrap().recv();
    work(job.unwrap());
}

fn main() {
    let mode = std::env::args().nth(1).unwrap_or_default();
    let (add, jobs) = mpsc::channel();
    let jobs = Arc::new(Mutex::new(jobs));
    for _ in 0..5 {
        let (jobs, mode) = (jobs.clone(), mode.clone());
        thread::spawn(move || loop {
            if mode == "rwlock" {
                update();
            } else {
                serve(&jobs);
            }
        });
    }
    if mode == "pool" {
        thread::spawn(move || loop {
            thread::sleep(Duration::from_millis(3));
            add.send(20).unwrap();
        });
    }
    println!("ready");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    std::process::exit(0);
}
