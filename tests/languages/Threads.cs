// SPDX-License-Identifier: GPL-2.0-or-later
// Threads that wait for each other in .NET: "Threads MODE", until a line comes in; then it prints its own counters.
//
// contended: four threads on one object's monitor; split: each has its own; idle: they wait in Monitor.Wait(), as
// workers without work do; pool: tasks of the thread pool on one monitor.
using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Threading;
using System.Threading.Tasks;

public static class Threads {
	const int Count = 4;
	static volatile bool stop;
	static long waited, rounds;
	static double sink;

	static double Compute(int rounds) {
		double value = 1;
		for (int index = 0; index < rounds; index++)
			value = value * 1.0000001 + index;
		return value;
	}

	static void UnderMutex(object one) {
		while (!stop) {
			long begin = Stopwatch.GetTimestamp();
			lock (one) {
				Interlocked.Add(ref waited, Stopwatch.GetTimestamp() - begin);
				rounds++;
				sink += Compute(200000);
			}
		}
	}

	static void Idle(object queue) {
		lock (queue)
			while (!stop)
				Monitor.Wait(queue);
	}

	static void Start(List<Thread> threads, ThreadStart run) {
		var thread = new Thread(run);
		thread.Start();
		threads.Add(thread);
	}

	public static int Main(string[] arguments) {
		string mode = arguments[0];
		var shared = new object();
		var threads = new List<Thread>();
		var tasks = new List<Task>();
		for (int index = 0; index < Count; index++) {
			var one = mode == "split" ? new object() : shared;
			switch (mode) {
			case "contended": case "split": Start(threads, () => UnderMutex(one)); break;
			case "idle": Start(threads, () => Idle(one)); break;
			case "pool": tasks.Add(Task.Run(() => UnderMutex(one))); break;
			default: Console.Error.WriteLine("Threads: unknown mode " + mode); return 1;
			}
		}
		Console.WriteLine("ready");
		Console.ReadLine();
		stop = true;
		lock (shared)
			Monitor.PulseAll(shared);
		foreach (var thread in threads)
			thread.Join();
		Task.WaitAll(tasks.ToArray());
		Console.WriteLine("rounds " + rounds);
		Console.WriteLine("wait_ns " + (long)(waited * 1e9 / Stopwatch.Frequency));
		return 0;
	}
}
