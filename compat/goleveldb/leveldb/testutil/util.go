// Package testutil has the sorted pairs of goleveldb's tests, which tests of other programs use, too:
// [KeyValue] can be the array of iterator.NewArrayIterator. What else goleveldb's package has is for
// goleveldb's own tests, and needs ginkgo and gomega: it is not here.
package testutil

import (
	"bytes"
	"flag"
	"math/rand"
	"sync"
	"time"
)

var randomSeed = sync.OnceValue(func() int64 { return time.Now().UnixNano() })

// RandomSeed returns a number that is the same in the whole process. It panics before flags are parsed, as
// goleveldb's does.
func RandomSeed() int64 {
	if !flag.Parsed() {
		panic("testutil: the seed is not known before flag.Parse")
	}
	return randomSeed()
}

// NewRand returns a source that begins with RandomSeed.
func NewRand() *rand.Rand { return rand.New(rand.NewSource(RandomSeed())) }

func orNewRand(rnd *rand.Rand) *rand.Rand {
	if rnd == nil {
		return NewRand()
	}
	return rnd
}

// BytesSeparator returns a slice that is after a, and not after b if possible.
func BytesSeparator(a, b []byte) []byte {
	if bytes.Equal(a, b) {
		return b
	}
	shared := 0
	for shared < min(len(a), len(b)) && a[shared] == b[shared] {
		shared++
	}
	x := append([]byte(nil), a[:shared]...)
	rest := a[shared:]
	if len(rest) > 0 && shared < len(b) {
		if next := rest[0] + 1; next < b[shared] {
			return append(x, next)
		}
		x, rest = append(x, rest[0]), rest[1:]
	}
	return afterRest(x, rest, b)
}

// afterRest appends to x the least change that is after rest.
func afterRest(x, rest, b []byte) []byte {
	for _, c := range rest {
		if c < 0xff {
			return append(x, c+1)
		}
		x = append(x, c)
	}
	if at := len(x); at < len(b) && b[at] > 0 {
		return append(x, b[at]-1)
	}
	return append(x, 'x')
}

// BytesAfter returns a slice that is after b.
func BytesAfter(b []byte) []byte { return afterRest(nil, b, nil) }

// ShuffledIndex calls fn with all indexes below n in random order, round times.
func ShuffledIndex(rnd *rand.Rand, n, round int, fn func(i int)) {
	rnd = orNewRand(rnd)
	for range round {
		for _, i := range rnd.Perm(n) {
			fn(i)
		}
	}
}
