// SPDX-License-Identifier: GPL-2.0

// Package wheeltime provides the parts of package time that its tests of timers use, on a wheel.
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

// wheel is nil, so all tests fail, if TWHEEL_BACKEND requests a kernel wheel and there is none.
var wheel, _ = twheel.Open(nil)

var (
	Now, Since, Until, Unix = time.Now, time.Since, time.Until, time.Unix
	After, AfterFunc        = wheel.After, wheel.AfterFunc
	NewTimer                = wheel.NewTimer
	NewTicker, Tick         = wheel.NewTicker, wheel.Tick
)

func Sleep(d Duration) { <-After(d) }
func Interrupt()       { syscall.Kill(syscall.Getpid(), syscall.SIGCHLD) }

// CheckRuntimeTimerPeriodOverflow tests from outside what a test of the runtime's data checks.
func CheckRuntimeTimerPeriodOverflow() { NewTicker(1<<63 - 1).Reset(1<<63 - 1) }
