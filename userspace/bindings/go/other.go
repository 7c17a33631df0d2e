// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT

//go:build !(linux && (386 || amd64 || arm || arm64 || loong64 || riscv64 || s390x))

package twheel

import (
	"errors"
	"time"
)

var errNoKernel = errors.New("twheel: not supported on this machine")

// There is no kernel wheel on this platform.
type kernel struct{}

func openKernel(*Options) (*kernel, error)               { return nil, errNoKernel }
func isAbsent(error) bool                                { return true }
func (*kernel) setOrigin(time.Time)                      {}
func (*kernel) run(*Wheel)                               {}
func (*kernel) close() error                             { return nil }
func (*kernel) arm(*arming, time.Duration) bool          { return false }
func (*kernel) use(uint32, *arming, time.Duration)       {}
func (*kernel) move(uint32, time.Duration, *uint64) bool { return false }
func (*kernel) end(*arming) bool                         { return false }
func (*kernel) put(uint32)                               {}
func (*kernel) kickBefore(uint64)                        {}
