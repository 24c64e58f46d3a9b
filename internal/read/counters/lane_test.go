package counters

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// Adjacent stacks of any size must not share a stripe much more often than by chance.
func TestStacksOfAnySizeUseDifferentStripes(t *testing.T) {
	const start, stacks = 0x40400000, 300
	for size := uintptr(4 << 10); size <= 256<<10; size *= 2 {
		for apart := uintptr(1); apart <= 4; apart++ {
			t.Run(fmt.Sprintf("%d stacks of %d KiB away", apart, size>>10), func(t *testing.T) {
				together := 0
				for i := range uintptr(stacks) {
					a, b := laneOf(start+i*size), laneOf(start+(i+apart)*size)
					if a%lookupStripes == b%lookupStripes {
						together++
					}
				}
				require.Less(t, together, stacks/lookupStripes*3)
			})
		}
	}
}
