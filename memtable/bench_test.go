package memtable

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/sievedb/sievedb/internal/base"
)

const (
	benchEntries   = 100_000
	benchValueSize = 100
	benchCapacity  = 16 << 20
)

// benchOrders are kinds of 16-byte keys. They differ in how often the first eight bytes settle a comparison.
var benchOrders = []struct {
	name string
	keys func() [][]byte
}{
	{"keys=decimal/order=sequential", func() [][]byte { return decimalKeys(false) }},
	{"keys=decimal/order=random", func() [][]byte { return decimalKeys(true) }},
	{"keys=uniform/order=random", uniformKeys},
}

// decimalKeys are the even numbers, so that the odd ones are absent keys.
func decimalKeys(shuffle bool) [][]byte {
	keys := make([][]byte, benchEntries)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "%016d", 2*i)
	}
	if shuffle {
		rnd := rand.New(rand.NewPCG(1, 1))
		rnd.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	}
	return keys
}

func uniformKeys() [][]byte {
	rnd := rand.New(rand.NewPCG(2, 2))
	keys := make([][]byte, benchEntries)
	for i := range keys {
		keys[i] = binary.BigEndian.AppendUint64(nil, rnd.Uint64())
		keys[i] = binary.BigEndian.AppendUint64(keys[i], rnd.Uint64()&^1)
	}
	return keys
}

// absentKeys differ from keys in the last byte's lowest bit.
func absentKeys(keys [][]byte) [][]byte {
	absent := make([][]byte, len(keys))
	for i, k := range keys {
		absent[i] = append([]byte(nil), k...)
		absent[i][len(k)-1] ^= 1
	}
	return absent
}

func fill(keys [][]byte) *Memtable {
	m := New(base.Bytewise, benchCapacity)
	value := make([]byte, benchValueSize)
	for i, k := range keys {
		if !m.Add(uint64(i+1), base.KindSet, k, value) {
			panic("the benchmark's arena is too small")
		}
	}
	return m
}

// BenchmarkInsert reports the time of one insertion into a memtable that grows from nothing to 100,000 entries.
func BenchmarkInsert(b *testing.B) {
	value := make([]byte, benchValueSize)
	for _, order := range benchOrders {
		keys := order.keys()
		for _, with := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/inserter=%t", order.name, with), func(b *testing.B) {
				b.ReportAllocs()
				var m *Memtable
				var ins Inserter
				for i := range b.N {
					n := i % len(keys)
					if n == 0 {
						b.StopTimer()
						m = New(base.Bytewise, benchCapacity)
						b.StartTimer()
					}
					if with {
						m.AddWith(&ins, uint64(n+1), base.KindSet, keys[n], value)
					} else {
						m.Add(uint64(n+1), base.KindSet, keys[n], value)
					}
				}
			})
		}
	}
}

// insertTogether fills m with keys from that many concurrent writers.
func insertTogether(m *Memtable, writers int, keys [][]byte, value []byte) {
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			var ins Inserter
			for i := w; i < len(keys); i += writers {
				m.AddWith(&ins, uint64(i+1), base.KindSet, keys[i], value)
			}
		})
	}
	wg.Wait()
}

// BenchmarkInsertParallel fills one memtable from several writers; the time is wall-clock time per insertion.
func BenchmarkInsertParallel(b *testing.B) {
	keys := uniformKeys()
	value := make([]byte, benchValueSize)
	for _, writers := range []int{1, 2, 4} {
		b.Run(fmt.Sprintf("keys=uniform/writers=%d", writers), func(b *testing.B) {
			for done := 0; done < b.N; {
				n := min(b.N-done, len(keys))
				b.StopTimer()
				m := New(base.Bytewise, benchCapacity)
				b.StartTimer()
				insertTogether(m, writers, keys[:n], value)
				done += n
			}
		})
	}
}

// BenchmarkGet looks keys up in an order different from that of their insertion.
func BenchmarkGet(b *testing.B) {
	for _, order := range benchOrders {
		keys := order.keys()
		m := fill(keys)
		rnd := rand.New(rand.NewPCG(3, 3))
		rnd.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		for _, hit := range []bool{true, false} {
			lookups := keys
			if !hit {
				lookups = absentKeys(keys)
			}
			b.Run(fmt.Sprintf("%s/hit=%t", order.name, hit), func(b *testing.B) {
				b.ReportAllocs()
				for i := range b.N {
					if _, _, ok := m.Get(lookups[i%len(lookups)], base.MaxSeq); ok != hit {
						b.Fatal("wrong answer")
					}
				}
			})
		}
	}
}

// BenchmarkIterate reports the time of one step, including the calls of Key and Value.
func BenchmarkIterate(b *testing.B) {
	for _, order := range benchOrders {
		m := fill(order.keys())
		b.Run(order.name+"/direction=forward", func(b *testing.B) {
			benchIterate(b, m.NewIter(), (*Iter).First, (*Iter).Next)
		})
		b.Run(order.name+"/direction=backward", func(b *testing.B) {
			benchIterate(b, m.NewIter(), (*Iter).Last, (*Iter).Prev)
		})
	}
}

func benchIterate(b *testing.B, it *Iter, start, step func(*Iter) bool) {
	b.ReportAllocs()
	size := 0
	for range b.N {
		if !it.Valid() {
			start(it)
		}
		size += len(it.Key()) + len(it.Value())
		step(it)
	}
	if size == 0 {
		b.Fatal("nothing read")
	}
}
