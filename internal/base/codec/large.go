package codec

import (
	"math/bits"
	"sync"
)

// MaxLarge bounds each large buffer that is kept, in bytes. New memory for a block of 1 MiB, which the system has to
// provide page by page, takes as long as reading and decoding it.
const MaxLarge = 4 << 20

// firstLarge and lastLarge are the bits of a length of MaxScratch and of MaxLarge.
const firstLarge, lastLarge = 19, 23

// large has idle buffers, by the bits of their capacities.
var large [lastLarge - firstLarge + 1]sync.Pool

type largeBuf struct{ b []byte }

// KeepLarge returns buf if that has at most MaxScratch bytes of memory. If it has more, KeepLarge takes it over and
// returns nil; up to MaxLarge it keeps it for Large, until the garbage collector frees it.
func KeepLarge(buf []byte) []byte {
	n := cap(buf)
	if n <= MaxScratch {
		return buf
	}
	if n <= MaxLarge {
		large[bits.Len(uint(n))-firstLarge].Put(&largeBuf{buf})
	}
	return nil
}

// Large returns buf if n bytes fit or are few, or else an idle buffer that they fit in; if there is none, buf. An idle
// one that is too small is dropped, since the caller makes a larger one then, which serves both.
func Large(buf []byte, n int) []byte {
	if n <= cap(buf) || n <= MaxScratch || n > MaxLarge {
		return buf
	}
	i := bits.Len(uint(n)) - firstLarge
	for _, pool := range []*sync.Pool{&large[i], &large[min(i+1, len(large)-1)]} {
		if b, ok := pool.Get().(*largeBuf); ok && cap(b.b) >= n {
			return b.b
		}
	}
	return buf
}
