package tail

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBytesOfTheTailAreNotReadAgain(t *testing.T) {
	data := make([]byte, 40)
	for i := range data {
		data[i] = byte(i + 1)
	}
	read := func(buf []byte, off int64) error {
		require.Equal(t, len(buf), copy(buf, data[off:]))
		return nil
	}
	for n := 1; n <= len(data); n++ {
		for offset := range data {
			for size := 1; size <= len(data)-offset; size++ {
				var o Opening
				o.read(read, uint64(len(data)), uint64(n))
				got := make([]byte, size)
				rest := o.Take(got, uint64(offset))
				lacking := min(max(len(data)-n-offset, 0), size)
				require.Len(t, rest, lacking)
				copy(rest, data[offset:])
				require.Equal(t, data[offset:offset+size], got)
				cost := Cost{1, uint64(n)}
				if lacking > 0 {
					cost.add(uint64(lacking))
				}
				require.Equal(t, cost, o.End())
			}
		}
	}
}

func TestATailIsBounded(t *testing.T) {
	guess := func(size, tail uint64) *Guess {
		g := new(Guess)
		g.learn(size, tail)
		return g
	}
	for _, c := range []struct {
		name  string
		guess *Guess
		size  uint64
		want  uint64
	}{
		{"a file that is all footer", new(Guess), 48, 48},
		{"a small file is read whole", new(Guess), 4000, 4000},
		{"a page at least", new(Guess), 10_000, minTail},
		{"a sixteenth if nothing is known", new(Guess), 2 << 20, 128<<10 + tailFixed},
		{"the need of the last one and an eighth more", guess(1<<20, 128<<10+tailFixed), 2 << 20, (144+1)<<11 + tailFixed},
		{"a page if almost nothing was needed", guess(1<<20, 600), 2 << 20, minTail},
		{"all of it if all was needed", guess(100<<10, 100<<10), 200 << 10, 200 << 10},
		{"a page if it would be too much", new(Guess), 17 << 20, minTail},
		{"a page of a very large file", guess(1<<20, 600), 1 << 40, minTail},
		{"a page of the largest", guess(100, 100), math.MaxInt64, minTail},
		{"nothing is learned from the largest", guess(math.MaxInt64, 100), 10_000, minTail},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, int(c.want), int(c.guess.bytes(c.size))) })
	}
}
