// SPDX-License-Identifier: GPL-2.0

package twheel

import (
	"math/rand"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const patience = 60 * time.Second

// open takes the backend that TWHEEL_BACKEND names.
func open(t testing.TB, options *Options) *Wheel {
	t.Helper()
	w, err := Open(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

func is(t *testing.T, wanted, got bool) {
	t.Helper()
	if got != wanted {
		t.Fatalf("%v, not %v", got, wanted)
	}
}

func await(t *testing.T, c <-chan time.Time) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatal("it does not expire")
	}
}

func quiet(t *testing.T, c <-chan time.Time, d time.Duration) {
	t.Helper()
	time.Sleep(d)
	select {
	case <-c:
		t.Fatal("it has expired")
	default:
	}
}

// G1: never early. All ways to arm, near and far deadlines.
func TestNeverEarly(t *testing.T) {
	w := open(t, nil)
	var group sync.WaitGroup
	for i := 0; i < 200; i++ {
		d := time.Duration(rand.Int63n(int64(80 * time.Millisecond)))
		group.Add(2)
		begin := time.Now()
		early := func(way string) {
			if took := time.Since(begin); took < d {
				t.Errorf("%s: after %v in place of %v", way, took, d)
			}
			group.Done()
		}
		w.AfterFunc(d, func() { early("AfterFunc") })
		w.AfterFunc(time.Hour, func() { early("Reset to earlier") }).Reset(d)
		if later := w.NewTimer(d / 4); later.Reset(d) {
			group.Add(1)
			go func() {
				<-later.C
				early("Reset to later")
			}()
		}
	}
	group.Wait()
}

// An earlier deadline wakes who sleeps for a later one.
func TestEarlierWakes(t *testing.T) {
	w := open(t, nil)
	timer := w.NewTimer(time.Hour)
	time.Sleep(20 * time.Millisecond)
	is(t, true, timer.Reset(10*time.Millisecond))
	await(t, timer.C)
}

// G5: Stop and Reset tell the truth and are final.
func TestEnds(t *testing.T) {
	w := open(t, nil)
	a := w.NewTimer(time.Hour)
	is(t, true, a.Stop())
	is(t, false, a.Stop())
	is(t, false, a.Reset(5*time.Millisecond))
	await(t, a.C)
	is(t, false, a.Stop())
	is(t, false, a.Reset(0))
	await(t, a.C)
	is(t, false, a.Reset(20*time.Millisecond))
	is(t, true, a.Reset(30*time.Millisecond))
	is(t, true, a.Stop())
	quiet(t, a.C, 60*time.Millisecond)
}

// As since Go 1.23: Stop and Reset take back a value that was not received.
func TestNothingStale(t *testing.T) {
	w := open(t, nil)
	a := w.NewTimer(5 * time.Millisecond)
	time.Sleep(50 * time.Millisecond)
	is(t, true, a.Stop())
	is(t, false, a.Stop())
	quiet(t, a.C, 0)
	is(t, false, a.Reset(0))
	is(t, true, a.Reset(time.Hour))
	quiet(t, a.C, 20*time.Millisecond)
	is(t, true, a.Stop())
	ticker := w.NewTicker(5 * time.Millisecond)
	time.Sleep(50 * time.Millisecond)
	ticker.Reset(time.Hour)
	quiet(t, ticker.C, 20*time.Millisecond)
	ticker.Reset(5 * time.Millisecond)
	time.Sleep(50 * time.Millisecond)
	ticker.Stop()
	quiet(t, ticker.C, 20*time.Millisecond)
}

// The same while timers expire: whoever wins, C is empty after Stop, and if Stop returned true, the
// value was not received.
func TestNothingStaleInRaces(t *testing.T) {
	w := open(t, nil)
	var group sync.WaitGroup
	for i := 0; i < 8; i++ {
		group.Add(1)
		go func(seed int64) {
			defer group.Done()
			random := rand.New(rand.NewSource(seed))
			timer := w.NewTimer(time.Hour)
			for i := 0; i < 300; i++ {
				timer.Reset(time.Duration(random.Intn(int(time.Millisecond))))
				time.Sleep(time.Duration(random.Intn(int(2 * time.Millisecond))))
				if i%2 == 0 {
					if !timer.Stop() {
						t.Error("nobody has received, and Stop returned false")
					}
					select {
					case <-timer.C:
						t.Error("a value after Stop")
					default:
					}
					continue
				}
				begin, d := time.Now(), 2*time.Millisecond
				if !timer.Reset(d) {
					t.Error("nobody has received, and Reset returned false")
				}
				<-timer.C
				if took := time.Since(begin); took < d {
					t.Errorf("a value of the arming before: after %v", took)
				}
				timer.Reset(time.Hour)
			}
		}(int64(i))
	}
	group.Wait()
}

// The longest delay is never, and a negative one is over.
func TestLimits(t *testing.T) {
	w := open(t, nil)
	long := w.NewTimer(1<<63 - 1)
	await(t, w.After(-1<<63))
	quiet(t, long.C, 20*time.Millisecond)
	is(t, true, long.Stop())
}

// A Ticker keeps its rate, leaves out what nobody receives, and stops.
func TestTicker(t *testing.T) {
	const d = 10 * time.Millisecond
	w := open(t, nil)
	begin := time.Now()
	ticker := w.NewTicker(d)
	for i := time.Duration(1); i <= 10; i++ {
		await(t, ticker.C)
		if took := time.Since(begin); took < i*d {
			t.Fatalf("tick %d after %v", i, took)
		}
	}
	time.Sleep(5 * d)
	await(t, ticker.C)
	ticker.Reset(time.Hour)
	quiet(t, ticker.C, 5*d)
	ticker.Reset(d)
	await(t, ticker.C)
	ticker.Stop()
	quiet(t, ticker.C, 5*d)
}

// ResetMany does what Reset does, to timers in all states.
func TestResetMany(t *testing.T) {
	w := open(t, nil)
	begin := time.Now()
	var timers []*Timer
	for i := 0; i < 300; i++ {
		timer := w.NewTimer(time.Hour)
		if i%3 == 0 {
			timer.Stop()
		}
		timers = append(timers, timer)
	}
	if n := w.ResetMany(timers, 30*time.Millisecond); n != 200 {
		t.Errorf("%d were armed", n)
	}
	for _, timer := range timers {
		await(t, timer.C)
	}
	if took := time.Since(begin); took < 30*time.Millisecond {
		t.Errorf("early: %v", took)
	}
	if n := w.ResetMany(timers, 0); n != 0 {
		t.Errorf("%d were armed", n)
	}
	for _, timer := range timers {
		await(t, timer.C)
	}
}

// ResetMany refuses timers that it cannot reset, and then resets none.
func TestResetManyRefuses(t *testing.T) {
	w, other := open(t, nil), open(t, nil)
	for name, bad := range map[string]*Timer{
		"uninitialized": {}, "of another wheel": other.NewTimer(time.Hour),
	} {
		timer := w.NewTimer(time.Hour)
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			w.ResetMany([]*Timer{timer, bad}, 0)
		}()
		is(t, true, timer.Stop())
	}
}

func TestClose(t *testing.T) {
	w := open(t, nil)
	timer, ticker := w.NewTimer(20*time.Millisecond), w.NewTicker(20*time.Millisecond)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != os.ErrClosed {
		t.Errorf("the second: %v", err)
	}
	quiet(t, timer.C, 60*time.Millisecond)
	timer.Reset(time.Millisecond)
	late := w.NewTimer(0)
	quiet(t, ticker.C, 20*time.Millisecond)
	quiet(t, timer.C, 0)
	quiet(t, late.C, 0)
	ticker.Reset(time.Second)
	ticker.Stop()
	timer.Stop()
}

func TestOpen(t *testing.T) {
	if _, err := Open(&Options{Tick: -time.Millisecond}); err == nil {
		t.Error("a negative tick is taken")
	}
	w := open(t, nil)
	if wanted := os.Getenv("TWHEEL_BACKEND"); wanted != "" && w.Backend() != wanted {
		t.Errorf("%s, not %s", w.Backend(), wanted)
	}
	t.Setenv("TWHEEL_BACKEND", "nonsense")
	if _, err := Open(nil); err == nil {
		t.Error("any backend is taken")
	}
	t.Setenv("TWHEEL_BACKEND", "inprocess")
	if w := open(t, &Options{Kernel: true}); w.Backend() != "inprocess" {
		t.Error(w.Backend())
	}
}

// G3: each arming ends in one call of the function or in one call that ended it, whoever arms
// meanwhile: here two goroutines the same timers.
func TestEachOnce(t *testing.T) {
	const goroutines, each, rounds = 4, 50, 200
	w := open(t, nil)
	var armings, ended, calls atomic.Int64
	var group sync.WaitGroup
	var timers [goroutines / 2][each]*Timer
	for g := range timers {
		for i := range timers[g] {
			armings.Add(1)
			timers[g][i] = w.AfterFunc(time.Millisecond, func() { calls.Add(1) })
		}
	}
	for g := 0; g < goroutines; g++ {
		group.Add(1)
		go func(g int) {
			defer group.Done()
			for r := 0; r < rounds; r++ {
				for i, timer := range timers[g/2] {
					var was bool
					if (i+r)%7 == 0 {
						was = timer.Stop()
					} else {
						armings.Add(1)
						was = timer.Reset(time.Duration((i*r)%3) * time.Millisecond)
					}
					if was {
						ended.Add(1)
					}
				}
			}
		}(g)
	}
	group.Wait()
	for g := range timers {
		for _, timer := range timers[g] {
			if timer.Stop() {
				ended.Add(1)
			}
		}
	}
	for until := time.Now().Add(patience); time.Now().Before(until); {
		if armings.Load() == ended.Load()+calls.Load() {
			break
		}
		time.Sleep(time.Millisecond)
	}
	time.Sleep(50 * time.Millisecond)
	if armings.Load() != ended.Load()+calls.Load() {
		t.Fatalf("%d armings, but %d were ended and %d expired", armings.Load(), ended.Load(),
			calls.Load())
	}
	t.Logf("%d armings, %d expired", armings.Load(), calls.Load())
}

// Benchmarks, each beside package time.

type rival struct {
	name string
	fn   func(time.Duration, func()) interface {
		Reset(time.Duration) bool
		Stop() bool
	}
}

func rivals(b *testing.B) []rival {
	type timer = interface {
		Reset(time.Duration) bool
		Stop() bool
	}
	w := open(b, nil)
	return []rival{
		{"twheel-" + w.Backend(), func(d time.Duration, f func()) timer { return w.AfterFunc(d, f) }},
		{"time", func(d time.Duration, f func()) timer { return time.AfterFunc(d, f) }},
	}
}

// One timer after the other, each of which starts the next.
func BenchmarkChain(b *testing.B) {
	for _, d := range []time.Duration{0, 1} {
		for _, r := range rivals(b) {
			b.Run(r.name+"/"+d.String(), func(b *testing.B) {
				n := b.N
				done := make(chan bool)
				var f func()
				f = func() {
					if n--; n < 0 {
						close(done)
					} else {
						r.fn(d, f)
					}
				}
				f()
				<-done
			})
		}
	}
}

func BenchmarkStartStop(b *testing.B) {
	for _, r := range rivals(b) {
		b.Run(r.name, func(b *testing.B) {
			for i := 0; i < b.N; i++ {
				r.fn(time.Hour, nil).Stop()
			}
		})
	}
}

func BenchmarkReset(b *testing.B) {
	for _, r := range rivals(b) {
		b.Run(r.name, func(b *testing.B) {
			timers := make([]interface{ Reset(time.Duration) bool }, 10000)
			for i := range timers {
				timers[i] = r.fn(time.Hour, nil)
			}
			b.ResetTimer()
			for i := 0; i < b.N; i++ {
				timers[i%len(timers)].Reset(time.Hour)
			}
		})
	}
}
