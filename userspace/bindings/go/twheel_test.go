// SPDX-License-Identifier: GPL-2.0

//go:build linux && (386 || amd64 || arm || arm64 || loong64 || riscv64 || s390x)

package twheel

import (
	"errors"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"
)

const patience = 60 * time.Second

// open skips where there is no module. tests/bindings/go.sh counts what is skipped as failed.
func open(t *testing.T) *Wheel {
	t.Helper()
	w, err := Open(nil)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("no " + Device)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	w.SetReadDeadline(time.Now().Add(patience))
	return w
}

func add(t *testing.T, w *Wheel, deadline, data uint64) *Timer {
	t.Helper()
	timer, err := w.Add(deadline, data)
	if err != nil {
		t.Fatal(err)
	}
	return timer
}

// is fails unless a call returned this and no error.
func is(t *testing.T, wanted bool) func(bool, error) {
	return func(got bool, err error) {
		t.Helper()
		if err != nil || got != wanted {
			t.Fatalf("%v, %v, not %v", got, err, wanted)
		}
	}
}

func next(t *testing.T, w *Wheel) Event {
	t.Helper()
	var events [1]Event
	n, err := w.Read(events[:])
	if n != 1 || err != nil {
		t.Fatalf("read: %d, %v", n, err)
	}
	return events[0]
}

func quiet(t *testing.T, w *Wheel, d time.Duration) {
	t.Helper()
	var events [1]Event
	w.SetReadDeadline(time.Now().Add(d))
	n, err := w.Read(events[:])
	if n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("read: %d, %v, event %v", n, err, events[0])
	}
	w.SetReadDeadline(time.Now().Add(patience))
}

// The ABI: sizes are those of <linux/twheel.h>, as its numbers have them.
func TestABI(t *testing.T) {
	for _, c := range []struct{ got, wanted uintptr }{
		{iocSetup, 0xc028c500}, {iocInfo, 0x8060c501}, {iocRegister, 0xc030c502},
		{iocRearm, 0xc030c503}, {iocCancel, 0xc030c504}, {iocList, 0xc010c508},
		{iocKick, 0xc509}, {unsafe.Sizeof(Event{}), 48}, {unsafe.Sizeof(table{}), 64},
	} {
		if c.got != c.wanted {
			t.Errorf("%#x, not %#x", c.got, c.wanted)
		}
	}
}

// G1: never early.
func TestExpires(t *testing.T) {
	w := open(t)
	before := clockNow()
	timer := add(t, w, w.After(20*time.Millisecond), 42)
	e := next(t, w)
	if e.ID != timer.ID() || e.UserData != 42 || e.Expirations != 1 {
		t.Fatalf("%+v", e)
	}
	if e.Deadline < before+20e6 || e.Expired < e.Deadline || clockNow() < e.Expired {
		t.Fatalf("early: %+v", e)
	}
	is(t, false)(timer.Set(w.After(10 * time.Millisecond)))
	if e := next(t, w); e.UserData != 42 {
		t.Fatalf("%+v", e)
	}
}

// The clock of package time is the kernel's: Now is neither before the clock nor far behind.
func TestNow(t *testing.T) {
	w := open(t)
	for i := 0; i < 1000; i++ {
		before := clockNow()
		if now := w.Now(); now < before {
			t.Fatalf("%d ns early", before-now)
		}
	}
}

// Later moves take no system call, and put the expiration off.
func TestMoves(t *testing.T) {
	w := open(t)
	var timers []*Timer
	for i := uint64(0); i < 500; i++ {
		timers = append(timers, add(t, w, w.After(time.Hour), i))
	}
	kicks := w.kicks.Load()
	for i := 0; i < 20; i++ {
		for _, timer := range timers {
			is(t, true)(timer.Set(w.After(2 * time.Hour)))
		}
	}
	if w.kicks.Load() != kicks {
		t.Errorf("%d kicks for moves to later", w.kicks.Load()-kicks)
	}
	for _, timer := range timers {
		is(t, true)(timer.Set(w.After(10 * time.Millisecond)))
	}
	seen := map[uint64]bool{}
	for len(seen) < len(timers) {
		e := next(t, w)
		if seen[e.UserData] {
			t.Fatalf("twice: %+v", e)
		}
		seen[e.UserData] = true
	}
	quiet(t, w, 50*time.Millisecond)
}

// An earlier deadline wakes a goroutine that sleeps for a later one.
func TestEarlierWakes(t *testing.T) {
	w := open(t)
	timer := add(t, w, w.After(time.Hour), 1)
	go func() {
		time.Sleep(20 * time.Millisecond)
		timer.Set(w.After(10 * time.Millisecond))
	}()
	if e := next(t, w); e.UserData != 1 {
		t.Fatalf("%+v", e)
	}
}

// G5: cancel tells the truth and is final.
func TestEnds(t *testing.T) {
	w := open(t)
	a := add(t, w, w.After(time.Hour), 1)
	is(t, true)(a.Clear())
	is(t, false)(a.Clear())
	is(t, false)(a.Set(0))
	time.Sleep(20 * time.Millisecond)
	// It has expired, and the event is withdrawn.
	is(t, true)(a.Clear())
	is(t, false)(a.Set(1))
	time.Sleep(20 * time.Millisecond)
	is(t, true)(a.Set(w.After(time.Hour)))
	is(t, true)(a.Delete())
	quiet(t, w, 30*time.Millisecond)
	if _, err := a.Set(1); err != ErrDeleted {
		t.Errorf("set: %v", err)
	}
	if _, err := a.Delete(); err != ErrDeleted {
		t.Errorf("delete: %v", err)
	}
	b := add(t, w, Never, 2)
	is(t, true)(b.Delete())
}

func TestClose(t *testing.T) {
	w := open(t)
	timer := add(t, w, w.After(time.Hour), 1)
	ended := make(chan error)
	go func() {
		var events [1]Event
		_, err := w.Read(events[:])
		ended <- err
	}()
	time.Sleep(20 * time.Millisecond)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, os.ErrClosed) {
		t.Errorf("read: %v", err)
	}
	// The mapping is still there.
	if atomic.LoadUint64(&timer.slot().deadlineNs) != 0 {
		t.Error("a timer is armed after the close")
	}
	if _, err := timer.Set(1); !errors.Is(err, os.ErrClosed) {
		t.Errorf("set: %v", err)
	}
	if _, err := w.Add(1, 1); !errors.Is(err, os.ErrClosed) {
		t.Errorf("add: %v", err)
	}
}

func TestLimits(t *testing.T) {
	w := open(t)
	w.Close()
	if _, err := Open(&Options{Tick: -time.Millisecond}); err == nil {
		t.Error("a negative tick is taken")
	}
	w, err := Open(&Options{MaxTimers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	add(t, w, Never, 1)
	if _, err := w.Add(Never, 2); err == nil {
		t.Error("a full wheel takes another")
	}
}

// G3: each arming ends in one event or in one call that ended it, whoever arms meanwhile.
func TestEachOnce(t *testing.T) {
	const goroutines, each, rounds = 4, 50, 200
	w := open(t)
	var armings, ended, events atomic.Int64
	var group sync.WaitGroup
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]Event, 64)
		for {
			n, err := w.Read(buf)
			events.Add(int64(n))
			if err != nil {
				return
			}
		}
	}()
	for g := 0; g < goroutines; g++ {
		group.Add(1)
		go func() {
			defer group.Done()
			var timers [each]*Timer
			for i := range timers {
				timer, err := w.Add(w.After(time.Millisecond), 0)
				if err != nil {
					t.Error(err)
					return
				}
				armings.Add(1)
				timers[i] = timer
			}
			for r := 0; r < rounds; r++ {
				for i, timer := range timers {
					was, err := timer.Set(w.After(time.Duration((i*r)%3) * time.Millisecond))
					if err != nil {
						t.Error(err)
						return
					}
					armings.Add(1)
					if was {
						ended.Add(1)
					}
				}
			}
			for _, timer := range timers {
				was, err := timer.Delete()
				if err != nil {
					t.Error(err)
				}
				if was {
					ended.Add(1)
				}
			}
		}()
	}
	group.Wait()
	w.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	<-done
	if armings.Load() != ended.Load()+events.Load() {
		t.Fatalf("%d armings, but %d were ended and %d events read", armings.Load(),
			ended.Load(), events.Load())
	}
	t.Logf("%d armings, %d events, %d kicks", armings.Load(), events.Load(), w.kicks.Load())
}
