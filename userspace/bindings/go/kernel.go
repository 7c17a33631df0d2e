// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT

//go:build linux && (386 || amd64 || arm || arm64 || loong64 || riscv64 || s390x)

package twheel

import (
	"errors"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// refill is the number of timers that the kernel makes in one call.
const refill = 64

// A slot belongs to the kernel, and is idle, from put until arm takes it. From then on it has an
// owner, until the arming is ended or its event has been read. A word that is not 0 proves that no
// event is outstanding. If it is 0, the goroutine that holds reading learns from the owner whether
// the event has been read, and withdraws it otherwise.
type kernel struct {
	file    *os.File
	conn    syscall.RawConn
	m       *mapping
	origin  uint64 // the clock of the wheel at Wheel.start
	slack   uint64
	reading sync.Mutex
	shadows []atomic.Pointer[chunk]

	pool  sync.Mutex
	free  []uint32
	ops   [refill]op    // not on a stack, which can move
	calls atomic.Uint64 // refills, kicks and withdrawals, for tests
}

// mapping is the table. It is unmapped once nobody can reach it, so a timer that is reset after
// Close does no harm.
type mapping struct {
	bytes   []byte
	table   *table
	slots   unsafe.Pointer
	marks   unsafe.Pointer
	summary unsafe.Pointer
}

// shadow is what the package knows about a slot.
type shadow struct {
	owner atomic.Pointer[arming]
	id    uint64
}

type chunk [1024]shadow

func openKernel(o *Options) (*kernel, error) {
	fd, err := syscall.Open(Device, syscall.O_RDWR|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: Device, Err: err}
	}
	s := setup{tickNs: uint64(o.Tick), maxTimers: o.MaxTimers}
	if err = ioctl(uintptr(fd), iocSetup, unsafe.Pointer(&s)); err != nil {
		syscall.Close(fd)
		return nil, &os.PathError{Op: "setup", Path: Device, Err: err}
	}
	m, err := mapTable(fd)
	if err != nil {
		syscall.Close(fd)
		return nil, &os.PathError{Op: "mmap", Path: Device, Err: err}
	}
	k := &kernel{file: os.NewFile(uintptr(fd), Device), m: m, slack: uint64(o.Slack)}
	k.shadows = make([]atomic.Pointer[chunk], (int(m.table.slots)+len(chunk{})-1)/len(chunk{}))
	if k.conn, err = k.file.SyscallConn(); err != nil {
		k.file.Close()
		return nil, err
	}
	return k, nil
}

// isAbsent returns true if openKernel failed for a reason for which Open uses package time, as
// libtwheel uses its in-process wheel: there is no device, the process may not open it, or the
// module is too old or cannot map its table on this processor.
func isAbsent(err error) bool {
	var failed *os.PathError

	if !errors.As(err, &failed) {
		return false
	}
	switch failed.Err {
	case syscall.ENOENT, syscall.ENODEV, syscall.ENXIO, syscall.EACCES, syscall.EPERM:
		return failed.Op == "open"
	}
	return failed.Err == syscall.EOPNOTSUPP
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

// setOrigin finds out what CLOCK_MONOTONIC was at start. Package time has the same clock with
// another zero. The clock of the kernel is read second, so that no deadline is too early.
func (k *kernel) setOrigin(start time.Time) {
	best := time.Duration(1<<63 - 1)
	for i := 0; i < 8; i++ {
		since := time.Since(start)
		now := clockNow()
		if took := time.Since(start) - since; took < best {
			best, k.origin = took, now-uint64(since)
		}
	}
}

// run reads events until the wheel is closed.
func (k *kernel) run(w *Wheel) {
	var events [refill]event
	var owners [refill]*arming

	for {
		n := 0
		err := k.conn.Read(func(fd uintptr) bool {
			n = k.readEvents(fd, events[:], owners[:])
			return n != 0
		})
		if err != nil || n < 0 {
			return
		}
		for i := 0; i < n; i++ {
			if owners[i] != nil {
				owners[i].read(uint32(events[i].id))
				owners[i] = nil
			}
		}
	}
}

// readEvents reads the pending events, and takes the slots from their owners.
func (k *kernel) readEvents(fd uintptr, events []event, owners []*arming) int {
	size := int(unsafe.Sizeof(event{}))
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(&events[0])), len(events)*size)

	k.reading.Lock()
	defer k.reading.Unlock()
	n, err := syscall.Read(int(fd), bytes)
	if err != nil {
		if err == syscall.EAGAIN || err == syscall.EINTR {
			return 0
		}
		return -1
	}
	n /= size
	for i := 0; i < n; i++ {
		owners[i] = k.shadow(uint32(events[i].id)).owner.Swap(nil)
	}
	return n
}

func (k *kernel) close() error {
	k.pool.Lock()
	defer k.pool.Unlock()
	// The mapping may keep the kernel's wheel alive for a while.
	k.cancelAll()
	return k.file.Close()
}

// exec performs the first n operations of k.ops. The caller holds pool.
func (k *kernel) exec(n int) error {
	b := batch{ops: uint64(uintptr(unsafe.Pointer(&k.ops[0]))), count: uint32(n)}
	return k.ioctl(iocBatch, unsafe.Pointer(&b))
}

// cancelAll cancels the timers of the wheel. The caller holds pool.
func (k *kernel) cancelAll() {
	n := 0
	for i := range k.shadows {
		part := k.shadows[i].Load()
		for j := 0; part != nil && j < len(part); j++ {
			if part[j].id == 0 {
				continue
			}
			k.ops[n] = op{timer: timer{id: part[j].id}, opcode: opCancel}
			if n++; n == refill {
				k.exec(n)
				n = 0
			}
		}
	}
	if n != 0 {
		k.exec(n)
	}
}

func (k *kernel) ioctl(request uintptr, arg unsafe.Pointer) error {
	var err error

	if failed := k.conn.Control(func(fd uintptr) { err = ioctl(fd, request, arg) }); failed != nil {
		return os.ErrClosed
	}
	return err
}

// Slots

func (k *kernel) shadow(n uint32) *shadow {
	return &k.shadows[n/uint32(len(chunk{}))].Load()[n%uint32(len(chunk{}))]
}

func (k *kernel) slot(n uint32) *slot {
	return (*slot)(unsafe.Add(k.m.slots, uintptr(n)*uintptr(k.m.table.slotSize)))
}

// get takes an idle slot, or returns noSlot.
func (k *kernel) get() uint32 {
	k.pool.Lock()
	defer k.pool.Unlock()
	if len(k.free) == 0 {
		k.makeSlots()
	}
	last := len(k.free) - 1
	if last < 0 {
		return noSlot
	}
	n := k.free[last]
	k.free = k.free[:last]
	return n
}

// put returns an idle slot.
func (k *kernel) put(n uint32) {
	k.pool.Lock()
	k.free = append(k.free, n)
	k.pool.Unlock()
}

// makeSlots makes idle timers, as many as there is room for. The caller holds pool.
func (k *kernel) makeSlots() {
	for i := range k.ops {
		k.ops[i] = op{opcode: opRegister}
		k.ops[i].timer.flags = keep | disarmed
		k.ops[i].timer.slackNs = k.slack
	}
	k.calls.Add(1)
	if k.exec(refill) != nil {
		return
	}
	// Take the lowest slot first.
	for i := refill - 1; i >= 0; i-- {
		id := k.ops[i].timer.id
		if k.ops[i].result != 0 || id == 0 {
			continue
		}
		part := &k.shadows[uint32(id)/uint32(len(chunk{}))]
		if part.Load() == nil {
			part.Store(new(chunk))
		}
		k.shadow(uint32(id)).id = id
		k.free = append(k.free, uint32(id))
	}
}

// arm begins an arming in a slot. It returns false if there is no slot.
func (k *kernel) arm(t *arming, due time.Duration) bool {
	n := k.get()
	if n == noSlot {
		return false
	}
	t.slot = n
	k.use(n, t, due)
	return true
}

// use arms an idle slot.
func (k *kernel) use(n uint32, t *arming, due time.Duration) {
	deadline := k.origin + uint64(due)
	k.shadow(n).owner.Store(t)
	atomic.SwapUint64(&k.slot(n).deadlineNs, deadline)
	if k.mark(n, deadline) {
		k.kickBefore(deadline)
	}
}

// move moves an arming, unless it has ended. If the kernel would look too late, move kicks the
// wheel. If kick is not nil, move leaves that to the caller, and lowers *kick to the deadline, which
// the caller passes to kickBefore.
func (k *kernel) move(n uint32, due time.Duration, kick *uint64) bool {
	deadline := k.origin + uint64(due)
	if !k.exchange(n, deadline) {
		return false
	}
	switch {
	case !k.mark(n, deadline):
	case kick == nil:
		k.kickBefore(deadline)
	case *kick == 0 || deadline < *kick:
		*kick = deadline
	}
	return true
}

// exchange puts next into the word of a slot that is armed.
func (k *kernel) exchange(n uint32, next uint64) bool {
	word := &k.slot(n).deadlineNs
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

// mark asks the kernel to look at the slot before the end of its next turn, unless it will do so
// anyway.
func (k *kernel) mark(n uint32, deadline uint64) bool {
	if deadline > atomic.LoadUint64(&k.slot(n).wakeNs) {
		return false
	}
	setBit(k.m.marks, n)
	setBit(k.m.summary, n>>k.m.table.summaryShift)
	return true
}

// kickBefore wakes the kernel if its next turn would be too late for marked slots.
func (k *kernel) kickBefore(deadline uint64) {
	if deadline <= atomic.LoadUint64(&k.m.table.nextNs) {
		k.calls.Add(1)
		k.ioctl(iocKick, nil)
	}
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

// end ends the arming of a timer that has a slot, unless its event has been read. In that case,
// run gives the slot back. The caller holds t.mu.
func (k *kernel) end(t *arming) bool {
	n := t.slot
	t.slot = noSlot
	if !k.exchange(n, 0) && !k.withdraw(n) {
		return false
	}
	k.shadow(n).owner.Store(nil)
	k.put(n)
	return true
}

// withdraw takes back an event that nobody has read.
func (k *kernel) withdraw(n uint32) bool {
	k.reading.Lock()
	defer k.reading.Unlock()
	s := k.shadow(n)
	if s.owner.Load() == nil {
		return false
	}
	k.calls.Add(1)
	arg := timer{id: s.id, flags: keep | disarmed, slackNs: k.slack}
	// After Close, the slot does not belong to the kernel any more.
	return k.ioctl(iocRearm, unsafe.Pointer(&arg)) == nil && arg.state != idle
}
