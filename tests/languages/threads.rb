# SPDX-License-Identifier: GPL-2.0-or-later
# Four threads of Ruby: contended (they take turns at the GVL), calls (the same, but none computes until its time is
# up: it calls the system), mutex (at a Mutex, which is held over a sleep), mutexes (at one each), idle (they wait for
# a queue, a clock, a pipe), split (one computes).
# Prints "ready", runs until a line or the end of its input, then prints its counters.

THREADS = 4

def now
  Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
end

# Nanoseconds that this thread has run, and waited for a CPU.
def ran
  File.read("/proc/thread-self/schedstat").split.first(2).sum(&:to_i)
end

# What it neither ran nor waited for a CPU, it waited for the GVL: from its start on, and to read that, too.
def compute(counts, index, begun)
  turns = 0
  turns += 1 until $stop
  ran = ran()
  $waited[index] = now - ran - begun
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
    begun = now
    mutex.synchronize do
      $waited[index] += now - begun
      sleep 0.001
    end
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
$waited = [0] * THREADS
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
  when "mutex", "mutexes"
    Array.new(THREADS) { |i| Thread.new { under_mutex(mode == "mutex" ? mutex : Mutex.new, counts, i) } }
  else
    Array.new(mode == "contended" ? THREADS : 1) { |i| Thread.new(now) { |begun| compute(counts, i, begun) } }
  end
$stdout.puts "ready"
$stdout.flush
$stdin.gets
$stop = true
THREADS.times { jobs << nil }
threads.each(&:join)
puts "turns #{counts.sum}"
puts "waits #{counts.sum}", "wait_ns #{$waited.sum}" if mode.start_with?("mutex", "contended")
