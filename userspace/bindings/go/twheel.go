// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT

// Package twheel has the timers of package time on the timing wheel of /dev/twheel, without
// cgo. They are for timeouts that are moved much more often than they expire:
//
//	wheel, err := twheel.Open(nil)
//	timeout := wheel.AfterFunc(30*time.Second, func() { conn.Close() })
//	...
//	timeout.Reset(30 * time.Second) // a sign of life
//	...
//	timeout.Stop()
//
// Reset of an armed timer is one atomic exchange, and a timer that is started and stopped
// makes a system call once in 64 times. One goroutine waits for all timers, in the poller of
// the runtime. A timer expires up to a tick late, 0.5 ms by default, and never early.
//
// If the machine has no /dev/twheel or the process may not open it, for example in the tests of
// a program, the timers are those of package time, and do the same. All else that can fail is an
// error, for example a tick below the minimum that the module permits. See Open.
//
// It is a module without an address. A program that uses it calls, in its own module:
//
//	go mod edit -require twheel@v0.3.0 -replace twheel=PATH/userspace/bindings/go
package twheel

import (
	"errors"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Device is the file that Open opens.
const Device = "/dev/twheel"

// Options say which wheel is wanted. A zero means the default.
type Options struct {
	Tick      time.Duration // the resolution
	Slack     time.Duration // how late timers may be beyond their tick, to save wake-ups
	MaxTimers uint32        // of the kernel's wheel; those beyond are timers of package time
	Kernel    bool          // fail if there is no kernel's wheel
}

// A Wheel has timers. All methods may be called by several goroutines at a time.
type Wheel struct {
	k      *kernel // nil: all timers are those of package time
	closed atomic.Bool
	start  time.Time
}

// A Timer is what time.Timer is since Go 1.23, with any version of Go: after Stop or Reset, no value
// of an earlier arming is in C or still comes, and they return true if they kept one back. Only
// len(C) and cap(C) show that C has a buffer of one. If Stop or Reset of AfterFunc's timer returns
// false, its function has been started or will be. The methods may be called by several goroutines
// at a time, also after Close.
type Timer struct {
	C <-chan time.Time
	arming
}

// A Ticker is what time.Ticker is since Go 1.23: after Stop or Reset, no earlier tick is in C.
type Ticker struct {
	C <-chan time.Time
	arming
}

// An arming is what Timer and Ticker share. If it has a slot, it is armed there, or its event
// is on the way from the kernel; the goroutine that reads events takes mu to end that.
type arming struct {
	w      *Wheel
	mu     sync.Mutex
	slot   uint32        // of the kernel's wheel, or noSlot
	period time.Duration // of a Ticker; 0 for a Timer
	due    time.Duration // of a Ticker, since Wheel.start
	c      chan time.Time
	f      func()
	std    *time.Timer // in place of a slot

	// With C and std:
	waiting bool // std is armed, or has called expired, which waits for mu
	stale   int  // so many such calls are of armings that were ended
}

const (
	noSlot = math.MaxUint32
	never  = time.Duration(math.MaxInt64)
)

// Open makes a wheel, the kernel's if it can. If the module is not loaded or too old, or the
// process may not open the device, timers are those of package time, and Backend says so. If the
// device is open and refuses the options, that is an error: EPERM for a tick that is too short,
// for example. The environment variable TWHEEL_BACKEND chooses as it does for libtwheel:
// "kernel" makes it an error to have no device, as Options.Kernel does, and "inprocess" takes
// package time in any case.
func Open(options *Options) (*Wheel, error) {
	var o Options

	if options != nil {
		o = *options
	}
	if o.Tick < 0 || o.Slack < 0 {
		return nil, errors.New("twheel: a negative tick or slack")
	}
	w := &Wheel{start: time.Now()}
	switch backend := os.Getenv("TWHEEL_BACKEND"); backend {
	case "inprocess":
		return w, nil
	case "kernel":
		o.Kernel = true
	case "":
	default:
		return nil, errors.New("twheel: unknown TWHEEL_BACKEND: " + backend)
	}
	k, err := openKernel(&o)
	if err == nil {
		w.k = k
		k.setOrigin(w.start)
		go k.run(w)
		return w, nil
	}
	if !o.Kernel && isAbsent(err) {
		return w, nil
	}
	return nil, err
}

// Backend is "kernel", or "inprocess" if the timers are those of package time.
func (w *Wheel) Backend() string {
	if w.k != nil {
		return "kernel"
	}
	return "inprocess"
}

// Close ends all timers. None expires any more, and those that are started later do not.
func (w *Wheel) Close() error {
	if w.closed.Swap(true) {
		return os.ErrClosed
	}
	if w.k != nil {
		return w.k.close()
	}
	return nil
}

// AfterFunc calls f in a goroutine of its own after d.
func (w *Wheel) AfterFunc(d time.Duration, f func()) *Timer {
	t := &Timer{arming: arming{w: w, slot: noSlot, f: f}}
	t.begin(d)
	return t
}

// NewTimer sends the time to C after d.
func (w *Wheel) NewTimer(d time.Duration) *Timer {
	c := make(chan time.Time, 1)
	t := &Timer{C: c, arming: arming{w: w, slot: noSlot, c: c}}
	t.begin(d)
	return t
}

// After is NewTimer(d).C.
func (w *Wheel) After(d time.Duration) <-chan time.Time {
	return w.NewTimer(d).C
}

// NewTicker sends the time to C every d. Ticks that nobody has received in time are left out.
func (w *Wheel) NewTicker(d time.Duration) *Ticker {
	if d <= 0 {
		panic("twheel: a Ticker needs a positive interval")
	}
	c := make(chan time.Time, 1)
	t := &Ticker{C: c, arming: arming{w: w, slot: noSlot, c: c}}
	t.restart(d)
	return t
}

// Tick is NewTicker(d).C, or nil if d is not positive.
func (w *Wheel) Tick(d time.Duration) <-chan time.Time {
	if d <= 0 {
		return nil
	}
	return w.NewTicker(d).C
}

// ResetMany resets all these timers of the wheel, as a loop does at the end of a turn, and
// wakes the kernel at most once. It returns how many of the calls to Reset would have
// returned true. It panics before it resets any if one is uninitialized or of another wheel.
func (w *Wheel) ResetMany(timers []*Timer, d time.Duration) int {
	for _, t := range timers {
		t.check("ResetMany")
		if t.w != w {
			panic("twheel: ResetMany called on a Timer of another Wheel")
		}
	}
	var kick uint64
	count := 0
	for _, t := range timers {
		if t.reset(d, &kick) {
			count++
		}
	}
	if kick != 0 {
		w.k.kickBefore(kick)
	}
	return count
}

// Reset arms the timer anew. It returns what Stop would.
func (t *Timer) Reset(d time.Duration) bool {
	t.check("Reset")
	return t.reset(d, nil)
}

// Stop disarms the timer. It returns whether the timer was armed, or its time was in C and was
// not received. A function of AfterFunc has been started otherwise, or will be very soon.
func (t *Timer) Stop() bool {
	t.check("Stop")
	t.mu.Lock()
	ended := t.end()
	t.mu.Unlock()
	return ended
}

func (t *Timer) check(verb string) {
	if t.w == nil {
		panic("twheel: " + verb + " called on uninitialized Timer")
	}
}

// Reset begins a new period of length d.
func (t *Ticker) Reset(d time.Duration) {
	if d <= 0 {
		panic("twheel: a Ticker needs a positive interval")
	}
	if t.w == nil {
		panic("twheel: Reset called on uninitialized Ticker")
	}
	t.restart(d)
}

// Stop ends the ticks. It does not close C.
func (t *Ticker) Stop() {
	if t.w == nil {
		return
	}
	t.mu.Lock()
	t.end()
	t.mu.Unlock()
}

func (t *arming) restart(d time.Duration) {
	t.mu.Lock()
	t.period = d
	t.due = t.w.later(d)
	// It may be armed, and have ticked before.
	t.drain()
	t.resetLocked(d, nil)
	t.mu.Unlock()
}

func (w *Wheel) now() time.Duration {
	return time.Since(w.start)
}

// later is a deadline from a delay.
func (w *Wheel) later(d time.Duration) time.Duration {
	return sum(w.now(), d)
}

func sum(a, b time.Duration) time.Duration {
	if a > never-b {
		return never
	}
	return a + b
}

func (t *arming) reset(d time.Duration, kick *uint64) bool {
	t.mu.Lock()
	ended := t.resetLocked(d, kick)
	t.mu.Unlock()
	return ended
}

// resetLocked moves an arming, or ends it and begins another. If a Timer is armed, C is empty. The
// caller holds mu.
func (t *arming) resetLocked(d time.Duration, kick *uint64) bool {
	if t.slot != noSlot && d > 0 && t.w.k.move(t.slot, t.w.later(d), kick) {
		return true
	}
	ended := t.end()
	t.begin(d)
	return ended
}

// begin arms. The caller holds mu, or has the only reference.
func (t *arming) begin(d time.Duration) {
	switch {
	case t.w.closed.Load():
	case d <= 0:
		t.fire()
	case t.w.k != nil && t.w.k.arm(t, t.w.later(d)):
	case t.std == nil:
		t.waiting = true
		// A Ticker that expires at once waits for mu, and then finds std.
		t.std = time.AfterFunc(d, t.expired)
	default:
		t.waiting = true
		t.std.Reset(d)
	}
}

// end disarms, and empties C. The caller holds mu.
func (t *arming) end() bool {
	armed := t.slot != noSlot
	ended := armed && t.w.k.end(t)
	if t.f != nil {
		return ended || !armed && t.std != nil && t.std.Stop()
	}
	// An expiration that is on its way sends nothing any more.
	if t.waiting {
		armed, t.waiting = true, false
		if !t.std.Stop() {
			t.stale++
		}
	}
	return t.drain() || armed
}

// drain takes the value out of C. The caller holds mu.
func (t *arming) drain() bool {
	select {
	case <-t.c:
		return true
	default:
		return false
	}
}

// fire does what a timer is for.
func (t *arming) fire() {
	if t.f != nil {
		go t.f()
		return
	}
	select {
	case t.c <- time.Now():
	default:
	}
}

// advance finds the next tick of a Ticker that is due.
func (t *arming) advance(now time.Duration) {
	t.due = sum(t.due, t.period)
	if t.due <= now {
		t.due = sum(now, t.period-(now-t.due)%t.period)
	}
}

// expired is called by a timer of package time.
func (t *arming) expired() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stale != 0 {
		t.stale--
		return
	}
	t.waiting = false
	if t.w.closed.Load() {
		return
	}
	if t.period != 0 {
		now := t.w.now()
		t.advance(now)
		t.waiting = true
		t.std.Reset(t.due - now)
	}
	t.fire()
}

// read is called for each event of the kernel. The slot has no other from then on.
func (t *arming) read(slot uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	current := t.slot == slot
	if t.period != 0 && current && !t.w.closed.Load() {
		t.advance(t.w.now())
		t.w.k.use(slot, t, t.due)
		t.fire()
		return
	}
	if current {
		t.slot = noSlot
	}
	t.w.k.put(slot)
	// If it was stopped meanwhile, Stop has returned false for a function.
	if (current || t.f != nil) && !t.w.closed.Load() {
		t.fire()
	}
}
