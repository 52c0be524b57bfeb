// SPDX-License-Identifier: GPL-2.0-or-later

// Node.js: contended (five threads and one word of shared memory as their mutex, by Atomics.wait), split (a word each),
// pool (more jobs than libuv's four threads can do), idle (five workers without messages, a web server without requests).
// Prints "ready", runs until a line or the end of its input, then prints how long the threads have waited for words.
"use strict";

const { Worker, isMainThread, parentPort, workerData } = require("node:worker_threads");
const crypto = require("node:crypto");

const THREADS = 5;

function lock(word) {
	if (Atomics.compareExchange(word, 0, 0, 1) === 0) return;
	while (Atomics.exchange(word, 0, 2) !== 0) Atomics.wait(word, 0, 2);
}

function unlock(word) {
	if (Atomics.exchange(word, 0, 0) === 2) Atomics.notify(word, 0, 1);
}

function work(ms) {
	const end = performance.now() + ms;
	while (performance.now() < end);
}

// The second word ends it.
function underMutex(word) {
	let [waits, ms] = [0, 0];

	while (Atomics.load(word, 1) === 0) {
		const begin = performance.now();

		lock(word);
		ms += performance.now() - begin;
		waits++;
		work(1);
		unlock(word);
		// Else one thread has it again before the woken one runs, for good: it looks like one that brings work.
		work(0.5);
	}
	return { waits, ms };
}

function hash() {
	crypto.pbkdf2("secret", "salt", 20000, 32, "sha256", hash);
}

let ended = 0;
const sums = { waits: 0, ms: 0 };

function add(told) {
	sums.waits += told.waits;
	sums.ms += told.ms;
	if (++ended < THREADS) return;
	console.log(`waits ${sums.waits}\nwait_ns ${Math.round(sums.ms * 1e6)}`);
	process.exit(0);
}

/* Once all of them run, and some time later: what they do to start is over. */
function startWorkers(words) {
	let started = 0;

	for (let i = 0; i < THREADS; i++) {
		const worker = new Worker(__filename, { workerData: words[i % words.length] });

		worker.once("message", () => {
			worker.on("message", add);
			if (++started === THREADS) setTimeout(() => console.log("ready"), 500);
		});
	}
}

function end(words) {
	if (words.length === 0) process.exit(0);
	for (const word of words) Atomics.store(new Int32Array(word), 1, 1);
}

function start(mode) {
	const many = { contended: 1, split: THREADS }[mode] || 0;
	const words = Array.from({ length: many }, () => new SharedArrayBuffer(8));

	if (many) {
		startWorkers(words);
	} else if (mode === "pool") {
		for (let i = 0; i < 16; i++) hash();
		setTimeout(() => console.log("ready"), 500);
	} else {
		startWorkers([null]);
		require("node:http").createServer().listen(0, "127.0.0.1");
	}
	process.stdin.on("data", () => end(words)).on("end", () => end(words));
}

if (isMainThread) {
	start(process.argv[2]);
} else {
	parentPort.postMessage("started");
	if (workerData) parentPort.postMessage(underMutex(new Int32Array(workerData)));
	else parentPort.on("message", () => {});
}
