// SPDX-License-Identifier: GPL-2.0-or-later

// Prints functions of its own and of Go's library, a line each, as its run time knows them: where they begin, and the
// name.  Then it waits for its input to end.
package main

import (
	"os"
	"reflect"
	"runtime"
	"strconv"
	"sort"
	"sync"
)

type store struct{ mutex sync.Mutex }

//go:noinline
func (s *store) put() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
}

//go:noinline
func largest[T int | string](a, b T) T {
	if a > b {
		return a
	}
	return b
}

func main() {
	var own store
	own.put()
	functions := []interface{}{main, (*store).put, largest[int], (*sync.Mutex).Lock, sort.Strings, os.Exit, runtime.GC}
	for _, function := range functions {
		pc := reflect.ValueOf(function).Pointer()
		os.Stdout.WriteString(strconv.FormatUint(uint64(pc), 16) + " " + runtime.FuncForPC(pc).Name() + "\n")
	}
	os.Stdout.WriteString("ready\n")
	os.Stdin.Read(make([]byte, 1))
}
