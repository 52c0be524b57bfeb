// SPDX-License-Identifier: GPL-2.0-or-later

// Goroutines that wait in many places, for the same seconds: three mutexes of different heat, one of them from three
// functions; a sync.RWMutex; a channel; groups; a condition.  Each place counts its own waits, by the clock.
// Prints "ready", begins at a line of its input, stops at the next one, and prints as JSON what each place waited and
// what Go's own profiles have for it: the block profile (at who waits) and the mutex profile (at who unlocks).
package main

import (
	"bufio"
	"encoding/json"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

type place struct {
	Lock     string `json:"lock"`
	Function string `json:"function"`
	Waits    int64  `json:"waits"`
	Ns       int64  `json:"ns"`
}

var (
	stop   atomic.Bool
	places []*place
	group  sync.WaitGroup
)

// All turns are so much longer: 5,000 traps a second and not 20,000, as lockline takes its probes away where traps take
// more than 10 % of the CPUs, and on some virtual machines one takes 14 us.
const slower = 4

func long(micros int) time.Duration { return slower * time.Duration(micros) * time.Microsecond }

func work(micros int) {
	for end := time.Now().Add(long(micros)); time.Now().Before(end); {
	}
}

func rest(micros int) { time.Sleep(long(micros)) }

func (p *place) waited(begin time.Time) {
	atomic.AddInt64(&p.Ns, int64(time.Since(begin)))
	atomic.AddInt64(&p.Waits, 1)
}

// So many goroutines that go through one place over and over.
func run(count int, lock, function string, turn func(*place)) {
	p := &place{Lock: lock, Function: "main." + function}
	places = append(places, p)
	for ; count > 0; count-- {
		group.Add(1)
		go func() {
			defer group.Done()
			for !stop.Load() {
				turn(p)
			}
		}()
	}
}

func (p *place) under(lock sync.Locker, held func()) {
	begin := time.Now()
	lock.Lock()
	p.waited(begin)
	held()
	lock.Unlock()
}

//go:noinline
func hotLong(p *place, m *sync.Mutex) { p.under(m, func() { rest(2000) }) }

//go:noinline
func hotShort(p *place, m *sync.Mutex) {
	p.under(m, func() { work(100) })
	rest(500)
}

//go:noinline
func hotSeldom(p *place, m *sync.Mutex) {
	p.under(m, func() {})
	rest(20000)
}

//go:noinline
func warm(p *place, m *sync.Mutex) {
	p.under(m, func() { rest(300) })
	rest(300)
}

//go:noinline
func cool(p *place, m *sync.Mutex) {
	p.under(m, func() { rest(1000) })
	rest(2000)
}

//go:noinline
func read(p *place, m *sync.RWMutex) {
	p.under(m.RLocker(), func() { rest(1000) })
	rest(500)
}

//go:noinline
func write(p *place, m *sync.RWMutex) {
	p.under(m, func() { rest(1000) })
	rest(2000)
}

//go:noinline
func send(p *place, jobs chan int) {
	begin := time.Now()
	jobs <- 1
	p.waited(begin)
}

//go:noinline
func await(p *place) {
	var done sync.WaitGroup
	done.Add(1)
	go func() {
		rest(2000)
		done.Done()
	}()
	begin := time.Now()
	done.Wait()
	p.waited(begin)
}

//go:noinline
func listen(p *place, cond *sync.Cond) {
	cond.L.Lock()
	begin := time.Now()
	cond.Wait()
	p.waited(begin)
	cond.L.Unlock()
}

// What a profile has by place, that is by function.
func profile(records []runtime.BlockProfileRecord, speed float64) map[string]int64 {
	found := map[string]int64{}
	for _, p := range places {
		found[p.Function] = 0
	}
	for _, record := range records {
		frames := runtime.CallersFrames(record.Stack())
		for frame, more := frames.Next(); ; frame, more = frames.Next() {
			if _, is := found[frame.Function]; is {
				found[frame.Function] += int64(float64(record.Cycles) / speed * 1e9)
				break
			}
			if !more {
				break
			}
		}
	}
	return found
}

// Go tells how fast its profiles' clock goes in their text alone.
func cyclesPerSecond() float64 {
	var text strings.Builder
	var speed float64
	pprof.Lookup("block").WriteTo(&text, 1)
	for _, line := range strings.Split(text.String(), "\n") {
		if strings.Contains(line, "cycles/second=") {
			json.Unmarshal([]byte(line[strings.Index(line, "=")+1:]), &speed)
		}
	}
	return speed
}

func main() {
	var hot, warmed, cooled, listened sync.Mutex
	var shared sync.RWMutex
	jobs := make(chan int)
	cond := sync.NewCond(&listened)
	input := bufio.NewReader(os.Stdin)
	runtime.SetBlockProfileRate(1)
	runtime.SetMutexProfileFraction(1)
	os.Stdout.WriteString("ready\n")
	input.ReadString('\n')
	run(2, "hot", "hotLong", func(p *place) { hotLong(p, &hot) })
	run(4, "hot", "hotShort", func(p *place) { hotShort(p, &hot) })
	run(4, "hot", "hotSeldom", func(p *place) { hotSeldom(p, &hot) })
	run(4, "warm", "warm", func(p *place) { warm(p, &warmed) })
	run(2, "cool", "cool", func(p *place) { cool(p, &cooled) })
	run(6, "shared", "read", func(p *place) { read(p, &shared) })
	run(2, "shared", "write", func(p *place) { write(p, &shared) })
	run(3, "jobs", "send", func(p *place) { send(p, jobs) })
	run(2, "group", "await", await)
	run(2, "cond", "listen", func(p *place) { listen(p, cond) })
	ended := make(chan bool)
	go func() {
		for {
			rest(1000)
			select {
			case <-jobs:
			case <-ended:
				return
			}
		}
	}()
	go func() {
		for {
			rest(1500)
			cond.Broadcast()
		}
	}()
	input.ReadString('\n')
	stop.Store(true)
	group.Wait()
	close(ended)
	speed := cyclesPerSecond()
	records := make([]runtime.BlockProfileRecord, 10000)
	count, _ := runtime.BlockProfile(records)
	block := profile(records[:count], speed)
	count, _ = runtime.MutexProfile(records)
	mutex := profile(records[:count], speed)
	json.NewEncoder(os.Stdout).Encode(map[string]any{"places": places, "waiting": block, "unlocking": mutex})
	input.ReadString('\n')
}
