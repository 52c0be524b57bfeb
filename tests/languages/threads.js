// SPDX-License-Identifier: GPL-2.0-or-later

// Node.js: contended (five threads and one word of shared memory as their mutex, by Atomics.wait), pool (more jobs than
// libuv's four threads can do), idle (four workers without messages, a web server without requests).
// Prints "ready", runs until a line or the end of its input.
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

function underMutex(word) {
	for (;;) {
		lock(word);
		work(1);
		unlock(word);
		// Else one thread has it again before the woken one runs, for good: it looks like one that brings work.
		work(0.5);
	}
}

function hash() {
	crypto.pbkdf2("secret", "salt", 20000, 32, "sha256", hash);
}

/* Once all of them run, and some time later: what they do to start is over. */
function startWorkers(word) {
	let started = 0;

	for (let i = 0; i < THREADS; i++)
		new Worker(__filename, { workerData: word }).once("message", () => {
			if (++started === THREADS) setTimeout(() => console.log("ready"), 500);
		});
}

function start(mode) {
	if (mode === "contended") {
		startWorkers(new SharedArrayBuffer(4));
	} else if (mode === "pool") {
		for (let i = 0; i < 16; i++) hash();
		setTimeout(() => console.log("ready"), 500);
	} else {
		startWorkers(null);
		require("node:http").createServer().listen(0, "127.0.0.1");
	}
	process.stdin.on("data", () => process.exit(0)).on("end", () => process.exit(0));
}

if (isMainThread) {
	start(process.argv[2]);
} else {
	parentPort.postMessage("started");
	if (workerData) underMutex(new Int32Array(workerData));
	else parentPort.on("message", () => {});
}
