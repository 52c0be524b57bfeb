// SPDX-License-Identifier: GPL-2.0-or-later

// A server whose requests all take one sync.Mutex (/), or none (/free).  /waited: how long they waited for it, in
// nanoseconds, by their own clock.  Argument: the port.
package main

import (
	"fmt"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

var (
	ledger sync.Mutex
	waited int64
)

func work() {
	for end := time.Now().Add(300 * time.Microsecond); time.Now().Before(end); {
	}
}

//go:noinline
func book() {
	begin := time.Now()
	ledger.Lock()
	atomic.AddInt64(&waited, int64(time.Since(begin)))
	work()
	ledger.Unlock()
}

func main() {
	http.HandleFunc("/", func(answer http.ResponseWriter, request *http.Request) {
		book()
		fmt.Fprintln(answer, "booked")
	})
	http.HandleFunc("/free", func(answer http.ResponseWriter, request *http.Request) {
		fmt.Fprintln(answer, "free")
	})
	http.HandleFunc("/waited", func(answer http.ResponseWriter, request *http.Request) {
		fmt.Fprintln(answer, atomic.LoadInt64(&waited))
	})
	if err := http.ListenAndServe("127.0.0.1:"+os.Args[1], nil); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
