// SPDX-License-Identifier: GPL-2.0

//go:build linux && (386 || amd64 || arm || arm64 || loong64 || riscv64 || s390x)

package twheel

import (
	"errors"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// openKernel skips if the wheel is not the kernel's. tests/bindings/go.sh counts what is
// skipped in the VM as failed.
func openKernelWheel(t *testing.T, options *Options) *Wheel {
	t.Helper()
	w := open(t, options)
	if w.k == nil {
		t.Skip("no " + Device)
	}
	return w
}

// The ABI: sizes are those of <linux/twheel.h>, as its numbers have them.
func TestABI(t *testing.T) {
	for _, c := range []struct{ got, wanted uintptr }{
		{iocSetup, 0xc028c500}, {iocInfo, 0x8060c501}, {iocRearm, 0xc030c503},
		{iocBatch, 0x4010c506}, {iocKick, 0xc509}, {unsafe.Sizeof(event{}), 48},
		{unsafe.Sizeof(op{}), 56}, {unsafe.Sizeof(table{}), 64},
	} {
		if c.got != c.wanted {
			t.Errorf("%#x, not %#x", c.got, c.wanted)
		}
	}
}

// Only a device that is not there is replaced by package time. An error of a device that is open
// is the caller's.
func TestAbsent(t *testing.T) {
	for _, c := range []struct {
		errno       syscall.Errno
		open, setup bool
	}{
		{syscall.ENOENT, true, false}, {syscall.ENODEV, true, false},
		{syscall.ENXIO, true, false}, {syscall.EACCES, true, false},
		{syscall.EPERM, true, false}, {syscall.EOPNOTSUPP, true, true},
		{syscall.EMFILE, false, false}, {syscall.EINVAL, false, false},
		{syscall.ENOMEM, false, false},
	} {
		for _, op := range []string{"open", "setup", "mmap"} {
			wanted := c.setup
			if op == "open" {
				wanted = c.open
			}
			if isAbsent(&os.PathError{Op: op, Path: Device, Err: c.errno}) != wanted {
				t.Errorf("%s: %v is not %v", op, c.errno, wanted)
			}
		}
	}
}

// A tick below the minimum is refused to a thread without CAP_SYS_RESOURCE. It does not get the
// timers of package time.
func TestTickTooShort(t *testing.T) {
	openKernelWheel(t, nil)
	// It is never unlocked, so the thread ends with the test.
	runtime.LockOSThread()
	header := struct {
		version uint32
		pid     int32
	}{0x20080522, 0}
	var none [2]struct{ effective, permitted, inheritable uint32 }
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CAPSET, uintptr(unsafe.Pointer(&header)),
		uintptr(unsafe.Pointer(&none)), 0); errno != 0 {
		t.Fatal(errno)
	}
	t.Setenv("TWHEEL_BACKEND", "")
	if _, err := Open(&Options{Tick: time.Microsecond}); !errors.Is(err, syscall.EPERM) {
		t.Errorf("%v, not EPERM", err)
	}
	if w := open(t, nil); w.Backend() != "kernel" {
		t.Error(w.Backend())
	}
}

// The clock of package time is the kernel's: a deadline is not before what the clock says.
func TestOrigin(t *testing.T) {
	w := openKernelWheel(t, nil)
	for i := 0; i < 1000; i++ {
		before := clockNow()
		if now := w.k.origin + uint64(w.now()); now < before {
			t.Fatalf("%d ns early", before-now)
		}
	}
}

// Later moves take no system call.
func TestMovesLater(t *testing.T) {
	w := openKernelWheel(t, nil)
	var timers []*Timer
	for i := 0; i < 500; i++ {
		timers = append(timers, w.NewTimer(time.Hour))
	}
	calls := w.k.calls.Load()
	for i := 0; i < 20; i++ {
		for _, timer := range timers {
			is(t, true, timer.Reset(2*time.Hour))
		}
		if n := w.ResetMany(timers, 3*time.Hour); n != len(timers) {
			t.Fatalf("%d", n)
		}
	}
	if made := w.k.calls.Load() - calls; made != 0 {
		t.Errorf("%d calls for moves to later", made)
	}
}

// What is started and stopped takes a system call for 64 timers, and none if they come back.
func TestCached(t *testing.T) {
	w := openKernelWheel(t, nil)
	w.NewTimer(time.Minute)
	calls := w.k.calls.Load()
	for i := 0; i < 10000; i++ {
		is(t, true, w.AfterFunc(time.Hour, nil).Stop())
	}
	if made := w.k.calls.Load() - calls; made != 0 {
		t.Errorf("%d calls for timers that came back", made)
	}
	for i := 0; i < 6400; i++ {
		w.AfterFunc(time.Hour, nil)
	}
	if made := w.k.calls.Load() - calls; made != 100 {
		t.Errorf("%d calls for 6400 timers", made)
	}
}

// A timer that has no room in the wheel expires all the same, and tells the truth.
func TestFull(t *testing.T) {
	w := openKernelWheel(t, &Options{MaxTimers: 3})
	var timers []*Timer
	for i := 0; i < 10; i++ {
		timers = append(timers, w.NewTimer(20*time.Millisecond))
	}
	is(t, true, timers[9].Stop())
	is(t, false, timers[9].Reset(10*time.Millisecond))
	for i, timer := range timers {
		await(t, timer.C)
		if i < 3 {
			continue
		}
		is(t, false, timer.Stop())
	}
}

// After Close nothing is armed in the kernel, though the mapping is still there.
func TestCloseCancels(t *testing.T) {
	w := openKernelWheel(t, nil)
	timer := w.NewTimer(time.Hour)
	slot := w.k.slot(timer.slot)
	w.Close()
	if atomic.LoadUint64(&slot.deadlineNs) != 0 {
		t.Error("a timer is armed after the close")
	}
}
