// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT

// This is for platforms on which ioctl numbers are built as in <asm-generic/ioctl.h>.
//go:build linux && (386 || amd64 || arm || arm64 || loong64 || riscv64 || s390x)

package twheel

import (
	"syscall"
	"unsafe"
)

// The structs of <libtwheel/twheel.h>.
type setup struct {
	tickNs    uint64
	clockID   uint32
	maxTimers uint32
	levels    uint32
	slotBits  uint32
	flags     uint32
	reserved  [3]uint32
}

type info struct {
	features   uint64
	tickNs     uint64
	minTickNs  uint64
	horizonNs  uint64
	tableBytes uint64
	clockID    uint32
	maxTimers  uint32
	levels     uint32
	slotBits   uint32
	reserved   [5]uint64
}

type timer struct {
	id         uint64
	userData   uint64
	deadlineNs uint64
	periodNs   uint64
	slackNs    uint64
	flags      uint32
	state      uint32
}

type op struct {
	timer  timer
	opcode uint32
	result int32
}

type batch struct {
	ops   uint64
	count uint32
	flags uint32
}

type event struct {
	id          uint64
	userData    uint64
	deadlineNs  uint64
	expiredNs   uint64
	expirations uint64
	flags       uint32
	reserved    uint32
}

type table struct {
	magic         uint32
	slotsOffset   uint32
	slotSize      uint32
	slots         uint32
	tickNs        uint64
	clockID       uint32
	features      uint32
	nextNs        uint64
	marksOffset   uint32
	summaryOffset uint32
	summaryShift  uint32
	reserved      [3]uint32
}

type slot struct {
	deadlineNs uint64
	wakeNs     uint64
}

const (
	featureMarks = 1 << 1

	keep     = 1 << 1
	disarmed = 1 << 2

	opRegister = 1
	opCancel   = 3

	idle = 0

	tableMagic = 0x6c656877

	clockMonotonic = 1
)

// ioc makes the number of an ioctl; dir is 1 to write, 2 to read, 3 for both.
func ioc(dir, nr, size uintptr) uintptr {
	return dir<<30 | size<<16 | 0xC5<<8 | nr
}

var (
	iocSetup = ioc(3, 0, unsafe.Sizeof(setup{}))
	iocInfo  = ioc(2, 1, unsafe.Sizeof(info{}))
	iocRearm = ioc(3, 3, unsafe.Sizeof(timer{}))
	iocBatch = ioc(1, 6, unsafe.Sizeof(batch{}))
	iocKick  = ioc(0, 9, 0)
)

func ioctl(fd, request uintptr, arg unsafe.Pointer) error {
	for {
		_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, fd, request, uintptr(arg))
		if errno == 0 {
			return nil
		}
		if errno != syscall.EINTR {
			return errno
		}
	}
}

// clockNow reads CLOCK_MONOTONIC.
func clockNow() uint64 {
	var ts syscall.Timespec

	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&ts)), 0)
	return uint64(ts.Nano())
}
