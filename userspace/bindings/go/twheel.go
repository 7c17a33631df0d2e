// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT

//go:build linux && (386 || amd64 || arm || arm64 || loong64 || riscv64 || s390x)

// Package twheel uses the timing wheel of /dev/twheel, without cgo.
//
// A Wheel holds timers. A timer that is armed is moved or disarmed by one atomic
// instruction, without a lock or a system call. Read waits in the poller of the runtime, so
// a goroutine that waits takes no thread.
//
//	w, err := twheel.Open(nil)
//	t, err := w.Add(w.After(5*time.Second), 42)
//	...
//	t.Set(w.After(5 * time.Second))
//	...
//	n, err := w.Read(events)
//
// It is a module without an address. A program that uses it calls, in its own module:
//
//	go mod edit -require twheel@v0.2.0 -replace twheel=PATH/userspace/bindings/go
//
// Without the module there is no wheel.
package twheel

import (
	"errors"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// Device is the file that Open opens.
const Device = "/dev/twheel"

// Never is a deadline that does not come.
const Never = ^uint64(0)

// ErrDeleted is the error of a timer after Delete.
var ErrDeleted = errors.New("twheel: the timer was deleted")

// Options say which wheel is wanted. A zero means the default.
type Options struct {
	Tick      time.Duration // the resolution
	MaxTimers uint32        // how many timers there may be
}

// Event says that a timer has expired. Times are nanoseconds on CLOCK_MONOTONIC.
type Event struct {
	ID          uint64 // of the timer
	UserData    uint64 // as given to Add
	Deadline    uint64 // when the timer should have expired
	Expired     uint64 // when it did
	Expirations uint64 // 1
	_           [8]byte
}

// mapping is the table. It is unmapped when nobody can reach it any more, so a timer that is
// set after Close does no harm.
type mapping struct {
	bytes   []byte
	table   *table
	slots   unsafe.Pointer
	marks   unsafe.Pointer
	summary unsafe.Pointer
}

// A Wheel is one open file. All methods may be called by several goroutines at a time.
type Wheel struct {
	file   *os.File
	conn   syscall.RawConn
	m      *mapping
	closed atomic.Bool
	kicks  atomic.Uint64
	start  time.Time
	origin uint64
}

// A Timer belongs to the program from Add to Delete, whether it expires or not. While one
// goroutine clears or deletes a timer, no other may change it.
type Timer struct {
	w       *Wheel
	id      uint64
	deleted atomic.Bool
}

// Open makes a wheel. If the module is not loaded, the error is fs.ErrNotExist.
func Open(options *Options) (*Wheel, error) {
	if options != nil && options.Tick < 0 {
		return nil, errors.New("twheel: the tick is negative")
	}
	fd, err := syscall.Open(Device, syscall.O_RDWR|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: Device, Err: err}
	}
	if options != nil {
		s := setup{tickNs: uint64(options.Tick), maxTimers: options.MaxTimers}
		if err = ioctl(uintptr(fd), iocSetup, unsafe.Pointer(&s)); err != nil {
			syscall.Close(fd)
			return nil, &os.PathError{Op: "setup", Path: Device, Err: err}
		}
	}
	m, err := mapTable(fd)
	if err != nil {
		syscall.Close(fd)
		return nil, &os.PathError{Op: "mmap", Path: Device, Err: err}
	}
	w := &Wheel{file: os.NewFile(uintptr(fd), Device), m: m}
	if w.conn, err = w.file.SyscallConn(); err != nil {
		w.file.Close()
		return nil, err
	}
	w.setOrigin()
	return w, nil
}

func mapTable(fd int) (*mapping, error) {
	var i info

	if err := ioctl(uintptr(fd), iocInfo, unsafe.Pointer(&i)); err != nil {
		return nil, err
	}
	if i.features&featureMarks == 0 || i.clockID != clockMonotonic {
		return nil, syscall.EOPNOTSUPP
	}
	bytes, err := syscall.Mmap(fd, 0, int(i.tableBytes), syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	m := &mapping{bytes: bytes, table: (*table)(unsafe.Pointer(&bytes[0]))}
	runtime.SetFinalizer(m, func(m *mapping) { syscall.Munmap(m.bytes) })
	t := m.table
	if t.magic != tableMagic || t.features&featureMarks == 0 ||
		uintptr(t.slotSize) < unsafe.Sizeof(slot{}) {
		return nil, syscall.EOPNOTSUPP
	}
	m.slots = unsafe.Pointer(&bytes[t.slotsOffset])
	m.marks = unsafe.Pointer(&bytes[t.marksOffset])
	m.summary = unsafe.Pointer(&bytes[t.summaryOffset])
	return m, nil
}

// setOrigin finds out what CLOCK_MONOTONIC is at a time of package time, whose clock is the
// same, but has another zero. The clock is read second, so that no deadline is too early.
func (w *Wheel) setOrigin() {
	best := time.Duration(1<<63 - 1)
	for i := 0; i < 8; i++ {
		start := time.Now()
		origin := clockNow()
		if took := time.Since(start); took < best {
			best, w.start, w.origin = took, start, origin
		}
	}
}

// Close ends all timers. A Read that waits returns os.ErrClosed.
func (w *Wheel) Close() error {
	if w.closed.Swap(true) {
		return os.ErrClosed
	}
	// The mapping may keep the wheel for a while.
	w.cancelAll()
	return w.file.Close()
}

// cancelAll cancels the timers of the wheel.
func (w *Wheel) cancelAll() {
	var page [64]timer
	l := list{timers: uint64(uintptr(unsafe.Pointer(&page[0])))}
	for {
		for i := range page {
			page[i] = timer{}
		}
		l.count = uint32(len(page))
		if w.ioctl(iocList, unsafe.Pointer(&l)) != nil || page[0].id == 0 {
			return
		}
		for i := range page {
			if page[i].id != 0 {
				w.ioctl(iocCancel, unsafe.Pointer(&page[i]))
			}
		}
	}
}

func (w *Wheel) ioctl(request uintptr, arg unsafe.Pointer) error {
	var err error

	if failed := w.conn.Control(func(fd uintptr) { err = ioctl(fd, request, arg) }); failed != nil {
		return os.ErrClosed
	}
	return err
}

// Now is the time on the clock of the wheel.
func (w *Wheel) Now() uint64 {
	return w.origin + uint64(time.Since(w.start))
}

// After makes a deadline from a delay.
func (w *Wheel) After(delay time.Duration) uint64 {
	if delay < 0 {
		delay = 0
	}
	return w.Now() + uint64(delay)
}

// Add makes a timer and arms it. This is one system call.
func (w *Wheel) Add(deadline, userData uint64) (*Timer, error) {
	t := timer{userData: userData, deadlineNs: deadline, flags: keep | abstime}
	if err := w.ioctl(iocRegister, unsafe.Pointer(&t)); err != nil {
		return nil, os.NewSyscallError("twheel add", err)
	}
	return &Timer{w: w, id: t.id}, nil
}

// Read waits for events and takes as many as fit. SetReadDeadline limits the wait.
func (w *Wheel) Read(events []Event) (int, error) {
	if len(events) == 0 {
		return 0, nil
	}
	size := int(unsafe.Sizeof(Event{}))
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(&events[0])), len(events)*size)
	n, err := w.file.Read(bytes)
	return n / size, err
}

// SetReadDeadline is that of os.File: a Read that waits returns os.ErrDeadlineExceeded then.
func (w *Wheel) SetReadDeadline(t time.Time) error {
	return w.file.SetReadDeadline(t)
}

// ID is that of the events.
func (t *Timer) ID() uint64 {
	return t.id
}

func (t *Timer) slot() *slot {
	m := t.w.m
	return (*slot)(unsafe.Add(m.slots, uintptr(uint32(t.id))*uintptr(m.table.slotSize)))
}

func (t *Timer) check() error {
	if t.deleted.Load() {
		return ErrDeleted
	}
	if t.w.closed.Load() {
		return os.ErrClosed
	}
	return nil
}

// exchange puts next into the word of a timer that is armed. A word of 0 stays: the kernel
// has to say then whether there is an unread event, and to withdraw it.
func (t *Timer) exchange(next uint64) bool {
	word := &t.slot().deadlineNs
	for {
		old := atomic.LoadUint64(word)
		if old == 0 {
			return false
		}
		if atomic.CompareAndSwapUint64(word, old, next) {
			return true
		}
	}
}

func (t *Timer) rearm(deadline uint64, flags uint32) (bool, error) {
	arg := timer{id: t.id, deadlineNs: deadline, flags: keep | flags}
	if err := t.w.ioctl(iocRearm, unsafe.Pointer(&arg)); err != nil {
		return false, os.NewSyscallError("twheel set", err)
	}
	return arg.state != idle, nil
}

// Set arms the timer, or moves it. It returns true if it ended an arming whose event was not
// read and never will be.
func (t *Timer) Set(deadline uint64) (bool, error) {
	if err := t.check(); err != nil {
		return false, err
	}
	if deadline == 0 {
		deadline = 1
	}
	defer runtime.KeepAlive(t.w.m)
	if !t.exchange(deadline) {
		return t.rearm(deadline, abstime)
	}
	if deadline > atomic.LoadUint64(&t.slot().wakeNs) {
		return true, nil
	}
	t.mark()
	if deadline > atomic.LoadUint64(&t.w.m.table.nextNs) {
		return true, nil
	}
	t.w.kicks.Add(1)
	return true, t.w.ioctl(iocKick, nil)
}

// mark asks the kernel to look at the timer before its next turn ends.
func (t *Timer) mark() {
	m := t.w.m
	n := uint32(t.id)
	setBit(m.marks, n)
	setBit(m.summary, n>>m.table.summaryShift)
}

func setBit(bits unsafe.Pointer, n uint32) {
	word := (*uint64)(unsafe.Add(bits, uintptr(n/64)*8))
	bit := uint64(1) << (n % 64)
	for {
		old := atomic.LoadUint64(word)
		if old&bit != 0 || atomic.CompareAndSwapUint64(word, old, old|bit) {
			return
		}
	}
}

// Clear disarms the timer and keeps it. It returns what Set returns.
func (t *Timer) Clear() (bool, error) {
	if err := t.check(); err != nil {
		return false, err
	}
	defer runtime.KeepAlive(t.w.m)
	if t.exchange(0) {
		return true, nil
	}
	return t.rearm(0, disarmed)
}

// Delete ends the timer. It returns what Set returns. This is one system call.
func (t *Timer) Delete() (bool, error) {
	if err := t.check(); err != nil {
		return false, err
	}
	if t.deleted.Swap(true) {
		return false, ErrDeleted
	}
	arg := timer{id: t.id}
	if err := t.w.ioctl(iocCancel, unsafe.Pointer(&arg)); err != nil {
		return false, os.NewSyscallError("twheel delete", err)
	}
	return arg.state != idle, nil
}
