// Package runtime holds handles, and the memory into which the host writes what it answers.
//
// The host asks for that memory through cabi_realloc: the first time before Go's runtime has started, and later
// in the middle of a call, when a garbage collection would call out and trap. So it is no memory of the
// collector's but a ring: what the host answered stays valid until ringSize more bytes were answered. What a
// plugin keeps for longer, it has to copy. What was asked for before the runtime had started is the adapter's own,
// for good, and the ring begins behind it.
package runtime

import (
	"runtime"
	"unsafe"
)

const ringSize = 4 << 20

var (
	ring  [ringSize]byte
	next  uintptr
	first uintptr
)

func init() { first = next }

//go:wasmexport cabi_realloc
func cabiRealloc(_ unsafe.Pointer, _, align, size uintptr) unsafe.Pointer {
	start := aligned(next, align)
	if start+size > ringSize {
		start = aligned(first, align)
	}
	next = start + size
	// Panics by itself when one answer is larger than the ring.
	return unsafe.Pointer(unsafe.SliceData(ring[start:next]))
}

func aligned(address, align uintptr) uintptr { return (address + align - 1) &^ (align - 1) }

// Unpin has nothing to do: the ring takes its memory back by going round.
func Unpin() {}

// Allocate gives memory of the collector's that stays in place until the pinner lets go of it.
func Allocate(pinner *runtime.Pinner, size, _ uintptr) unsafe.Pointer {
	memory := unsafe.Pointer(unsafe.SliceData(make([]uint64, (size+7)/8)))
	if size > 0 {
		pinner.Pin(memory)
	}
	return memory
}

// Handle is a resource of the host's.
type Handle struct{ value int32 }

func MakeHandle(value int32) *Handle { return &Handle{value} }
func (h *Handle) Use() int32         { return h.value }
func (h *Handle) Set(value int32)    { h.value = value }
func (h *Handle) TakeOrNil() int32   { return h.Take() }
func (h *Handle) Take() int32 {
	value := h.value
	h.value = 0
	return value
}
