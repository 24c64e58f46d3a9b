package manifest

import (
	"fmt"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// Neighbouring stacks, whatever their size, must not go to one stripe much more
// often than chance would have it, and never in all tables.
func TestStacksOfAnySizeHaveStripesOfTheirOwn(t *testing.T) {
	const start, stacks, tables = 0x40400000, 300, 32
	for size := uintptr(4 << 10); size <= 256<<10; size *= 2 {
		for apart := uintptr(1); apart <= 4; apart++ {
			t.Run(fmt.Sprintf("%d stacks of %d KiB away", apart, size>>10), func(t *testing.T) {
				inStore, inTables := 0, 0
				for i := range uintptr(stacks) {
					a, b := laneOf(start+i*size), laneOf(start+(i+apart)*size)
					if a%32 == b%32 {
						inStore++
					}
					here := 0
					for table := range uintptr(tables) {
						if a.stripe(table) == b.stripe(table) {
							here++
						}
					}
					require.Less(t, here, tables*2/3)
					inTables += here
				}
				require.Less(t, inStore, stacks/32*3)
				require.Less(t, inTables, stacks*tables/8*5/4)
			})
		}
	}
}

func TestStripesAreCacheLines(t *testing.T) {
	require.EqualValues(t, 64, unsafe.Sizeof(stripe{}))
	for range 20 {
		c := new(Counters)
		keepOnHeap = c
		require.Zero(t, uintptr(unsafe.Pointer(c))%64)
	}
}

var keepOnHeap *Counters

func TestCountersLoseNothing(t *testing.T) {
	var c Counters
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				c.Add(OwnLane(), FilterNegatives, 1)
				c.Add(OwnLane(), BytesFromDisk, 10)
			}
		})
	}
	wg.Wait()
	sums := c.Sums()
	require.EqualValues(t, 8000, sums[FilterNegatives])
	require.EqualValues(t, 80_000, sums[BytesFromDisk])
	require.Equal(t, sums, c.Take())
	require.Zero(t, c.Sums())
}

// BenchmarkAdd shows what it would cost to count in one place.
func BenchmarkAdd(b *testing.B) {
	for _, own := range []bool{false, true} {
		for _, goroutines := range []int{1, 2} {
			b.Run(fmt.Sprintf("ownStripe=%t/goroutines=%d", own, goroutines), func(b *testing.B) {
				var c Counters
				var wg sync.WaitGroup
				for g := range goroutines {
					stripe := &c.stripes[0]
					if own {
						stripe = &c.stripes[g]
					}
					wg.Go(func() {
						for range b.N / goroutines {
							stripe[FilterNegatives].Add(1)
						}
					})
				}
				wg.Wait()
			})
		}
	}
}
