// SPDX-License-Identifier: GPL-2.0

// Package wheeltime is package time as its own tests of timers use it, on a wheel.
package wheeltime

import (
	"syscall"
	"time"

	"twheel"
)

type (
	Duration = time.Duration
	Time     = time.Time
	Timer    = twheel.Timer
	Ticker   = twheel.Ticker
)

const (
	Nanosecond, Microsecond, Millisecond = time.Nanosecond, time.Microsecond, time.Millisecond
	Second, Minute, Hour                 = time.Second, time.Minute, time.Hour
)

// It is nil, and all tests fail, if TWHEEL_BACKEND wants a kernel's wheel that is not there.
var wheel, _ = twheel.Open(nil)

var (
	Now, Since, Until, Unix = time.Now, time.Since, time.Until, time.Unix
	After, AfterFunc        = wheel.After, wheel.AfterFunc
	NewTimer                = wheel.NewTimer
	NewTicker, Tick         = wheel.NewTicker, wheel.Tick
)

func Sleep(d Duration) { <-After(d) }
func Interrupt()       { syscall.Kill(syscall.Getpid(), syscall.SIGCHLD) }

// The test of this is one of the runtime's data structure. This is the same from outside.
func CheckRuntimeTimerPeriodOverflow() { NewTicker(1<<63 - 1).Reset(1<<63 - 1) }
