// SPDX-License-Identifier: GPL-2.0

// bench-go measures the timers of Go's runtime. bench/timers/rival.c requests operations in shared
// memory. There is one P and no garbage collection, and the CPU time is that of the whole process.
package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// The number of words in a request, as in rival.c.
const maxWords = 16384

const (
	verbOpen = iota
	verbArm
	verbMove
	verbCancel
	verbPair
	verbTurnover
	verbDeliver
)

// request is struct request of rival.c.
type request struct {
	verb     uint64
	nr       uint64
	when     uint64
	step     uint64
	cpu      uint64
	failed   uint64
	reserved [2]uint64
	word     [maxWords]uint64
}

const (
	clockMonotonic  = 1
	clockProcessCPU = 2
)

func clock(id uintptr) uint64 {
	var ts syscall.Timespec

	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0)
	return uint64(ts.Nano())
}

var (
	timers []*time.Timer

	mutex sync.Mutex
	came  []uint64
)

func open(nr uint64) {
	timers = make([]*time.Timer, nr)
	for i := range timers {
		i := uint64(i)
		timers[i] = time.AfterFunc(time.Hour, func() {
			mutex.Lock()
			came = append(came, clock(clockMonotonic), i)
			mutex.Unlock()
		})
		timers[i].Stop()
	}
}

func count(failed bool) uint64 {
	if failed {
		return 1
	}
	return 0
}

// do applies the requested operation to each handle. Each verb has its own loop.
func do(r *request) {
	words, failed := r.word[:r.nr], uint64(0)
	start := clock(clockProcessCPU)
	delay, step := time.Duration(r.when-clock(clockMonotonic)), time.Duration(r.step)
	if r.when == 0 {
		delay = 0
	}

	switch r.verb {
	case verbArm:
		for _, i := range words {
			failed += count(timers[i].Reset(delay))
			delay += step
		}
	case verbMove:
		for _, i := range words {
			failed += count(!timers[i].Reset(delay))
			delay += step
		}
	case verbCancel:
		for _, i := range words {
			failed += count(!timers[i].Stop())
		}
	case verbPair:
		for _, i := range words {
			failed += count(timers[i].Reset(delay))
			failed += count(!timers[i].Stop())
			delay += step
		}
	case verbTurnover:
		for _, i := range words {
			failed += count(!timers[i].Stop())
			failed += count(timers[i].Reset(delay))
			delay += step
		}
	}
	r.cpu = clock(clockProcessCPU) - start
	r.failed = failed
}

func deliver(r *request) {
	time.Sleep(time.Duration(r.when - clock(clockMonotonic)))
	mutex.Lock()
	nr := copy(r.word[:], came)
	came = append([]uint64(nil), came[nr:]...)
	mutex.Unlock()
	r.nr = uint64(nr / 2)
}

func main() {
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(-1)
	memory, err := syscall.Mmap(3, 0, int(unsafe.Sizeof(request{})),
		syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		panic(err)
	}
	r := (*request)(unsafe.Pointer(&memory[0]))
	byte := make([]byte, 1)
	for {
		if nr, _ := syscall.Read(0, byte); nr != 1 {
			os.Exit(0)
		}
		switch r.verb {
		case verbOpen:
			open(r.nr)
		case verbDeliver:
			deliver(r)
		default:
			do(r)
		}
		syscall.Write(0, byte)
	}
}
