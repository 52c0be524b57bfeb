# SPDX-License-Identifier: GPL-2.0-or-later
# Four threads of Ruby: contended (they take turns at the GVL), calls (the same, but none computes until its time is
# up: it calls the system), mutex (at a Mutex, which is held over a sleep), idle (they wait for a queue, a clock, a
# pipe), split (one computes).
# Prints "ready", runs until a line or the end of its input, then prints its counters.

THREADS = 4

def compute(counts, index)
  turns = 0
  turns += 1 until $stop
  counts[index] = turns
end

def call(counts, index)
  pipe = IO.pipe
  until $stop
    2000.times { |i| i * i }
    pipe[1].write("x")
    pipe[0].sysread(1)
    counts[index] += 1
  end
end

def under_mutex(mutex, counts, index)
  until $stop
    mutex.synchronize { sleep 0.001 }
    counts[index] += 1
  end
end

def serve(jobs, counts, index)
  counts[index] += 1 while jobs.pop
end

# Neither has work for longer than a moment.
def wait_elsewhere(pipe)
  until $stop
    sleep 0.01
    IO.select([pipe], nil, nil, 0.01)
  end
end

mode = ARGV[0]
$stop = false
counts = [0] * THREADS
jobs = Queue.new
reader, _writer = IO.pipe
mutex = Mutex.new
threads =
  case mode
  when "idle"
    Array.new(THREADS) { |i| Thread.new { serve(jobs, counts, i) } } +
      [Thread.new { wait_elsewhere(reader) }, Thread.new { (sleep 0.01; jobs << 1) until $stop }]
  when "calls"
    Array.new(THREADS) { |i| Thread.new { call(counts, i) } }
  when "mutex"
    Array.new(THREADS) { |i| Thread.new { under_mutex(mutex, counts, i) } }
  else
    Array.new(mode == "contended" ? THREADS : 1) { |i| Thread.new { compute(counts, i) } }
  end
$stdout.puts "ready"
$stdout.flush
$stdin.gets
$stop = true
THREADS.times { jobs << nil }
threads.each(&:join)
puts "turns #{counts.sum}"
