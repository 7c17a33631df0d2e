// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT

// Package twheel provides the timers of package time on the timing wheel of /dev/twheel, without
// cgo. Use it for timeouts that are moved much more often than they expire:
//
//	wheel, err := twheel.Open(nil)
//	timeout := wheel.AfterFunc(30*time.Second, func() { conn.Close() })
//	...
//	timeout.Reset(30 * time.Second) // a heartbeat
//	...
//	timeout.Stop()
//
// Reset of an armed timer is one atomic operation, and starting and stopping timers takes one
// system call for 64 of them. One goroutine waits for all timers, in the poller of the runtime. A
// timer never expires early, and at most one tick late, which is 0.5 ms by default.
//
// If there is no /dev/twheel, or the process may not open it, the timers are those of package time
// and behave the same, so that the tests of a program run anywhere. Any other failure of Open is
// an error, for example a tick below the minimum that the module permits.
//
// "go get" cannot fetch this package, because it is not published. To use it, run this in your own
// module:
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

// Options describe the wheel that you want. A zero means the default.
type Options struct {
	Tick      time.Duration // the resolution
	Slack     time.Duration // how late timers may be beyond their tick, to save wake-ups
	MaxTimers uint32        // of the kernel's wheel; further ones are timers of package time
	Kernel    bool          // fail if there is no kernel wheel
}

// A Wheel makes timers. Several goroutines may call its methods at the same time.
type Wheel struct {
	k      *kernel // nil: all timers are those of package time
	closed atomic.Bool
	start  time.Time
}

// A Timer behaves as time.Timer does since Go 1.23, with any version of Go: after Stop or Reset, C
// neither contains nor receives a value of an earlier arming, and both return true if they have
// withheld such a value. Only len(C) and cap(C) reveal that C has a buffer of one. If Stop or Reset
// returns false for a timer of AfterFunc, its function has been started or will be. Several
// goroutines may call the methods at the same time, even after Close.
type Timer struct {
	C <-chan time.Time
	arming
}

// A Ticker behaves as time.Ticker does since Go 1.23: after Stop or Reset, C has no earlier tick.
type Ticker struct {
	C <-chan time.Time
	arming
}

// An arming is shared by Timer and Ticker. If it has a slot, it is armed there, or its event is on
// the way from the kernel. The goroutine that reads events takes mu to end the arming.
type arming struct {
	w      *Wheel
	mu     sync.Mutex
	slot   uint32        // of the kernel's wheel, or noSlot
	period time.Duration // of a Ticker; 0 for a Timer
	due    time.Duration // next tick of a Ticker, since Wheel.start
	c      chan time.Time
	f      func()
	std    *time.Timer // in place of a slot

	// With C and std:
	waiting bool // std is armed, or has called expired, which waits for mu
	stale   int  // number of such calls that belong to armings which were ended
}

const (
	noSlot = math.MaxUint32
	never  = time.Duration(math.MaxInt64)
)

// Open makes a wheel, of the kernel if possible. If the module is not loaded or too old, or the
// process may not open the device, the timers are those of package time, and Backend returns
// "inprocess". If the device is open but refuses the options, Open returns an error, for example
// EPERM for a tick that is too short. The environment variable TWHEEL_BACKEND works as it does for
// libtwheel: with "kernel", as with Options.Kernel, it is an error if there is no device, and with
// "inprocess", Open uses package time even if there is one.
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

// Backend returns "kernel", or "inprocess" if the timers are those of package time.
func (w *Wheel) Backend() string {
	if w.k != nil {
		return "kernel"
	}
	return "inprocess"
}

// Close ends all timers. After that, no timer expires, not even one that is started later.
func (w *Wheel) Close() error {
	if w.closed.Swap(true) {
		return os.ErrClosed
	}
	if w.k != nil {
		return w.k.close()
	}
	return nil
}

// AfterFunc calls f in its own goroutine after d.
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

// After returns NewTimer(d).C.
func (w *Wheel) After(d time.Duration) <-chan time.Time {
	return w.NewTimer(d).C
}

// NewTicker sends the time to C every d. It drops ticks that nobody has received in time.
func (w *Wheel) NewTicker(d time.Duration) *Ticker {
	if d <= 0 {
		panic("twheel: a Ticker needs a positive interval")
	}
	c := make(chan time.Time, 1)
	t := &Ticker{C: c, arming: arming{w: w, slot: noSlot, c: c}}
	t.restart(d)
	return t
}

// Tick returns NewTicker(d).C, or nil if d is not positive.
func (w *Wheel) Tick(d time.Duration) <-chan time.Time {
	if d <= 0 {
		return nil
	}
	return w.NewTicker(d).C
}

// ResetMany resets several timers of the wheel, as a loop does at the end of a turn, and wakes the
// kernel at most once. It returns the number of timers that were active, for which Reset would
// return true. If a timer is uninitialized or belongs to another wheel, it panics before it resets
// any of them.
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

// Reset arms the timer again. It returns what Stop would return.
func (t *Timer) Reset(d time.Duration) bool {
	t.check("Reset")
	return t.reset(d, nil)
}

// Stop disarms the timer. It returns true if the timer was armed, or if its time was in C and had
// not been received. If it returns false for a timer of AfterFunc, the function has been started,
// or will be very soon.
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

// Stop ends the ticks, but does not close C.
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
	// The timer may be armed, and a Ticker may have ticked before.
	t.drain()
	t.resetLocked(d, nil)
	t.mu.Unlock()
}

func (w *Wheel) now() time.Duration {
	return time.Since(w.start)
}

// later makes a deadline from a delay.
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

// resetLocked moves an arming, or ends it and begins another one. A move need not empty C, because
// C of a Timer is empty while the timer is armed. The caller holds mu.
func (t *arming) resetLocked(d time.Duration, kick *uint64) bool {
	if t.slot != noSlot && d > 0 && t.w.k.move(t.slot, t.w.later(d), kick) {
		return true
	}
	ended := t.end()
	t.begin(d)
	return ended
}

// begin begins an arming. The caller holds mu, or has the only reference.
func (t *arming) begin(d time.Duration) {
	switch {
	case t.w.closed.Load():
	case d <= 0:
		t.fire()
	case t.w.k != nil && t.w.k.arm(t, t.w.later(d)):
	case t.std == nil:
		t.waiting = true
		// A Ticker may expire before std is set, but expired waits for mu before it uses std.
		t.std = time.AfterFunc(d, t.expired)
	default:
		t.waiting = true
		t.std.Reset(d)
	}
}

// end ends the arming and empties C. The caller holds mu.
func (t *arming) end() bool {
	armed := t.slot != noSlot
	ended := armed && t.w.k.end(t)
	if t.f != nil {
		return ended || !armed && t.std != nil && t.std.Stop()
	}
	// From here on, an expiration that is on its way sends nothing.
	if t.waiting {
		armed, t.waiting = true, false
		if !t.std.Stop() {
			t.stale++
		}
	}
	return t.drain() || armed
}

// drain removes the value from C. The caller holds mu.
func (t *arming) drain() bool {
	select {
	case <-t.c:
		return true
	default:
		return false
	}
}

// fire sends the time, or calls the function.
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

// read is called for each event of the kernel. The slot has no other event from then on.
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
	// Call a function even if its timer was stopped in the meantime, because Stop has then returned
	// false.
	if (current || t.f != nil) && !t.w.closed.Load() {
		t.fire()
	}
}
