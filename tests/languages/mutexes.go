// SPDX-License-Identifier: GPL-2.0-or-later

// Eight goroutines: contended (one sync.Mutex), split (a mutex each), idle (a channel), rwmutex (six read, two write),
// slow (they send to one that is slower), select (the same in a select), source (one of them does), busy (they send,
// and do nothing else), pool (they take one of two values from a channel, and send it back), semaphore (they send to a
// channel with two places, and receive again), database (they share two connections of database/sql), workers (they receive jobs from a channel with a buffer, which another one
// sends), group (each waits for a goroutine that it starts), cond (they wait for a signal).
// Prints "ready", begins at a line of its input, prints "busy" after 500 turns, and at the next line stops and
// prints how long the goroutines have waited, in nanoseconds: by Go's block profile, which ends a wait when another
// goroutine lets go, and by their own clock, from the call to the return.  Ends with its input.
package main

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const goroutines = 8

const turns = 500

var (
	stop int32
	took int64
	done int64
)

func work() {
	for end := time.Now().Add(2 * time.Millisecond); time.Now().Before(end); {
	}
}

//go:noinline
func underMutex(mutex *sync.Mutex) {
	begin := time.Now()
	mutex.Lock()
	atomic.AddInt64(&took, int64(time.Since(begin)))
	work()
	mutex.Unlock()
}

//go:noinline
func underRead(mutex *sync.RWMutex) {
	begin := time.Now()
	mutex.RLock()
	atomic.AddInt64(&took, int64(time.Since(begin)))
	work()
	mutex.RUnlock()
}

//go:noinline
func underWrite(mutex *sync.RWMutex) {
	begin := time.Now()
	mutex.Lock()
	atomic.AddInt64(&took, int64(time.Since(begin)))
	work()
	mutex.Unlock()
}

//go:noinline
func underSend(jobs chan int) {
	begin := time.Now()
	jobs <- 1
	atomic.AddInt64(&took, int64(time.Since(begin)))
}

//go:noinline
func underSelect(jobs, ended chan int) {
	begin := time.Now()
	select {
	case jobs <- 1:
	case <-ended:
	}
	atomic.AddInt64(&took, int64(time.Since(begin)))
}

//go:noinline
func underReceive(values chan int) {
	begin := time.Now()
	<-values
	atomic.AddInt64(&took, int64(time.Since(begin)))
}

//go:noinline
func underSemaphore(places chan int) {
	begin := time.Now()
	places <- 1
	atomic.AddInt64(&took, int64(time.Since(begin)))
	time.Sleep(8 * time.Millisecond)
	<-places
}

// A database that takes its time, without one: what database/sql asks of a driver.
type connection struct{}

func (connection) Open(string) (driver.Conn, error)          { return connection{}, nil }
func (connection) Prepare(string) (driver.Stmt, error)       { return connection{}, nil }
func (connection) Begin() (driver.Tx, error)                 { return nil, nil }
func (connection) Close() error                              { return nil }
func (connection) NumInput() int                             { return 0 }
func (connection) Query([]driver.Value) (driver.Rows, error) { return nil, nil }
func (connection) Exec([]driver.Value) (driver.Result, error) {
	time.Sleep(8 * time.Millisecond)
	return driver.RowsAffected(1), nil
}

//go:noinline
func underDatabase(db *sql.DB) {
	db.ExecContext(context.Background(), "update")
}

//go:noinline
func underGroup() {
	var group sync.WaitGroup
	group.Add(1)
	go func() {
		defer group.Done()
		work()
	}()
	begin := time.Now()
	group.Wait()
	atomic.AddInt64(&took, int64(time.Since(begin)))
}

//go:noinline
func underCond(cond *sync.Cond) {
	cond.L.Lock()
	begin := time.Now()
	cond.Wait()
	atomic.AddInt64(&took, int64(time.Since(begin)))
	cond.L.Unlock()
}

// Nanoseconds of the waits below these functions.
func waited() int64 {
	var text bytes.Buffer
	var speed, cycles int64
	pprof.Lookup("block").WriteTo(&text, 1)
	fmt.Sscanf(strings.SplitN(text.String(), "\n", 3)[1], "cycles/second=%d", &speed)
	records := make([]runtime.BlockProfileRecord, 1000)
	count, _ := runtime.BlockProfile(records)
	for _, record := range records[:count] {
		frames := runtime.CallersFrames(record.Stack())
		for frame, more := frames.Next(); ; frame, more = frames.Next() {
			if strings.HasPrefix(frame.Function, "main.under") {
				cycles += record.Cycles
				break
			}
			if !more {
				break
			}
		}
	}
	return int64(float64(cycles) / float64(speed) * 1e9)
}

func main() {
	var shared sync.Mutex
	var readers sync.RWMutex
	var group sync.WaitGroup
	sql.Register("slow", connection{})
	db, _ := sql.Open("slow", "")
	db.SetMaxOpenConns(2)
	db.SetMaxIdleConns(2)
	mode := os.Args[1]
	jobs, ended := make(chan int), make(chan int)
	values := make(chan int, 2)
	cond := sync.NewCond(&shared)
	input := bufio.NewReader(os.Stdin)
	runtime.SetBlockProfileRate(1)
	fmt.Println("ready")
	input.ReadString('\n')
	for number := 0; number < goroutines; number++ {
		group.Add(1)
		go func(number int) {
			var own sync.Mutex
			defer group.Done()
			for atomic.LoadInt32(&stop) == 0 {
				switch {
				case mode == "idle":
					<-jobs
				case mode == "busy":
					jobs <- 1
				case mode == "slow" || mode == "source" && number == 0:
					underSend(jobs)
				case mode == "select":
					underSelect(jobs, ended)
				case mode == "pool":
					underReceive(values)
					time.Sleep(8 * time.Millisecond)
					values <- 1
				case mode == "semaphore":
					underSemaphore(values)
				case mode == "database":
					underDatabase(db)
				case mode == "workers":
					underReceive(values)
				case mode == "group":
					underGroup()
				case mode == "cond":
					underCond(cond)
				case mode == "source":
					return
				case mode == "split":
					underMutex(&own)
				case mode == "rwmutex" && number < 6:
					underRead(&readers)
				case mode == "rwmutex":
					underWrite(&readers)
				default:
					underMutex(&shared)
				}
				if atomic.AddInt64(&done, 1) == turns {
					fmt.Println("busy")
				}
			}
		}(number)
	}
	if mode == "pool" {
		values <- 1
		values <- 1
	}
	if mode == "workers" {
		go func() {
			for atomic.LoadInt32(&stop) == 0 {
				time.Sleep(time.Millisecond)
				values <- 1
			}
			close(values)
		}()
	}
	if mode == "cond" {
		go func() {
			for {
				time.Sleep(time.Millisecond)
				cond.Signal()
			}
		}()
	}
	if mode == "slow" || mode == "select" || mode == "source" || mode == "busy" {
		go func() {
			for range jobs {
				if mode != "busy" {
					work()
				}
			}
		}()
	}
	if mode == "idle" {
		for number := 0; number < turns; number++ {
			jobs <- number
		}
	}
	input.ReadString('\n')
	atomic.StoreInt32(&stop, 1)
	if mode == "idle" {
		close(jobs)
	}
	group.Wait()
	if mode == "database" {
		took = int64(db.Stats().WaitDuration)
	}
	fmt.Println(waited(), took)
	input.ReadString('\n')
}
