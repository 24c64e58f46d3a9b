package cache

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
)

// block has the size of a decoded block's value without its bytes.
type block [2][]byte

// filled returns a cache that holds a value in each of n slots, and a random order of them.
func filled(b *testing.B, n int) (*Cache[block], []Slot[block], []uint32) {
	const size = 4096
	c := New[block](int64(n)*size*2, nil)
	slots := make([]Slot[block], n)
	order := make([]uint32, n)
	rng := rand.New(rand.NewPCG(1, 1))
	for i, j := range rng.Perm(n) {
		order[i] = uint32(j)
	}
	for _, i := range rng.Perm(n) {
		put(b, c, &slots[i], block{}, size)
	}
	return c, slots, order
}

func BenchmarkHit(b *testing.B) {
	for _, n := range []int{1 << 10, 1 << 16} {
		b.Run(fmt.Sprintf("slots=%dk/order=random", n>>10), func(b *testing.B) {
			_, slots, order := filled(b, n)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if slots[order[i&(n-1)]].Get() == nil {
					b.Fatal("miss")
				}
				i++
			}
		})
	}
	b.Run("slots=64k/order=random/through=GetOrLoad", func(b *testing.B) {
		const n = 1 << 16
		c, slots, order := filled(b, n)
		load := func() (block, int64, error) { panic("miss") }
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			_, _ = c.GetOrLoad(&slots[order[i&(n-1)]], load)
			i++
		}
	})
}

// hitHundreds hits slots a hundred times for each step of pb, in the given order from start on.
func hitHundreds(pb *testing.PB, slots []Slot[block], order []uint32, start int) {
	i, n := start, len(order)
	for pb.Next() {
		for range 100 {
			if slots[order[i&(n-1)]].Get() == nil {
				panic("miss")
			}
			i++
		}
	}
}

// BenchmarkHitParallel reports the time per 100 hits, over all goroutines: counting
// each hit in the benchmark would cost as much as the hit.
func BenchmarkHitParallel(b *testing.B) {
	for _, n := range []int{1, 1 << 16} { // one slot: all goroutines share its entry
		b.Run(fmt.Sprintf("slots=%d/order=random/hits=100", n), func(b *testing.B) {
			_, slots, order := filled(b, n)
			var goroutine atomic.Uint32
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) { hitHundreds(pb, slots, order, int(goroutine.Add(1))*7919) })
		})
	}
}

// BenchmarkChurn loops over slots for 64 times the capacity, so that all but one GetOrLoad
// in seventy are misses: a flight, an eviction and an insert.
func BenchmarkChurn(b *testing.B) {
	const n, size = 1 << 18, 4096
	load := func() (block, int64, error) { return block{}, size, nil }
	setUp := func() (*Cache[block], []Slot[block]) {
		return New[block](n/64*size, nil), make([]Slot[block], n)
	}
	b.Run("goroutines=1", func(b *testing.B) {
		c, slots := setUp()
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			_, _ = c.GetOrLoad(&slots[i&(n-1)], load)
			i++
		}
	})
	b.Run("goroutines=procs", func(b *testing.B) {
		c, slots := setUp()
		var next atomic.Uint32
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				_, _ = c.GetOrLoad(&slots[next.Add(1)&(n-1)], load)
			}
		})
	})
}
