// Package testutil has what goleveldb's own tests share: sorted pairs, checks of databases and iterators
// against them, and a storage that fails on demand. The checks use ginkgo and gomega.
package testutil

import (
	"bytes"
	"flag"
	"math/rand"
	"reflect"
	"sync"

	"github.com/onsi/ginkgo/config"
)

// deferred are the functions of Defer, by group.
var deferred = struct {
	sync.Mutex
	groups map[string][]func()
}{groups: map[string][]func(){}}

// Defer registers the function among args for RunDefer, in the group that the string among args names.
func Defer(args ...interface{}) bool {
	group := ""
	var fn func()
	for _, arg := range args {
		switch v := reflect.ValueOf(arg); v.Kind() {
		case reflect.String:
			group = v.String()
		case reflect.Func:
			fn = v.Interface().(func())
		}
	}
	if fn != nil {
		deferred.Lock()
		defer deferred.Unlock()
		deferred.groups[group] = append(deferred.groups[group], fn)
	}
	return true
}

// RunDefer calls the functions of the groups, or those without a group, once. It reports whether there
// were any.
func RunDefer(groups ...string) bool {
	if len(groups) == 0 {
		groups = []string{""}
	}
	var fns []func()
	deferred.Lock()
	for _, g := range groups {
		fns = append(fns, deferred.groups[g]...)
		delete(deferred.groups, g)
	}
	deferred.Unlock()
	for _, fn := range fns {
		fn()
	}
	return len(fns) > 0
}

// RandomSeed returns ginkgo's seed. It panics before flags are parsed.
func RandomSeed() int64 {
	if !flag.Parsed() {
		panic("testutil: the seed is not known before flag.Parse")
	}
	return config.GinkgoConfig.RandomSeed
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

// RandomIndex calls fn with round random indexes below n. A nil rnd is NewRand.
func RandomIndex(rnd *rand.Rand, n, round int, fn func(i int)) {
	rnd = orNewRand(rnd)
	for range round {
		fn(rnd.Intn(n))
	}
}

// ShuffledIndex calls fn with all indexes below n in random order, round times.
func ShuffledIndex(rnd *rand.Rand, n, round int, fn func(i int)) {
	rnd = orNewRand(rnd)
	for range round {
		for _, i := range rnd.Perm(n) {
			fn(i)
		}
	}
}

// RandomRange calls fn with round random ranges of indexes up to n.
func RandomRange(rnd *rand.Rand, n, round int, fn func(start, limit int)) {
	rnd = orNewRand(rnd)
	for range round {
		start := rnd.Intn(n)
		length := 0
		if n > start {
			length = rnd.Intn(n - start)
		}
		fn(start, start+length)
	}
}

// Max returns the greater number.
func Max(x, y int) int { return max(x, y) }

// Min returns the smaller number.
func Min(x, y int) int { return min(x, y) }
