// SPDX-License-Identifier: GPL-2.0-or-later

// Eight goroutines: contended (one sync.Mutex), idle (a channel), split (a mutex each).
// Prints "ready", runs until its input has a line or ends, then prints its counters.
package main

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const goroutines = 8

var (
	stop   atomic.Bool
	waits  atomic.Int64
	waitNs atomic.Int64
	sink   atomic.Int64
)

func work() {
	for end := time.Now().Add(200 * time.Microsecond); time.Now().Before(end); {
		sink.Add(1)
	}
}

//go:noinline
func underMutex(mutex *sync.Mutex) {
	begin := time.Now()
	mutex.Lock()
	waitNs.Add(int64(time.Since(begin)))
	waits.Add(1)
	work()
	mutex.Unlock()
}

//go:noinline
func serve(jobs chan int) {
	for range jobs {
		waits.Add(1)
	}
}

func main() {
	var shared sync.Mutex
	var group sync.WaitGroup
	mode := os.Args[1]
	jobs := make(chan int)
	for range goroutines {
		group.Add(1)
		go func() {
			var own sync.Mutex
			defer group.Done()
			switch mode {
			case "idle":
				serve(jobs)
			case "split":
				for !stop.Load() {
					underMutex(&own)
				}
			default:
				for !stop.Load() {
					underMutex(&shared)
				}
			}
		}()
	}
	if mode == "idle" {
		go func() {
			for !stop.Load() {
				time.Sleep(10 * time.Millisecond)
				jobs <- 1
			}
			close(jobs)
		}()
	}
	fmt.Println("ready")
	os.Stdin.Read(make([]byte, 1))
	stop.Store(true)
	group.Wait()
	fmt.Println("waits", waits.Load())
	fmt.Println("wait_ns", waitNs.Load())
}
