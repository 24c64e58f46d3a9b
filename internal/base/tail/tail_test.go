package tail

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base/codec"
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

func TestTheNextTailHasWhatTheLastTableNeeded(t *testing.T) {
	data := make([]byte, 64<<10)
	for i := range data {
		data[i] = byte(i * i >> 8)
	}
	size := uint64(len(data))
	var failed error
	read := func(buf []byte, off int64) error {
		copy(buf, data[off:])
		return failed
	}
	filter := codec.Handle{Offset: size - 20_000, Size: 18_000}
	var g Guess
	var first Opening
	first.Read(read, size, &g)
	require.Nil(t, first.Has(filter), "only a sixteenth was read")
	first.Need(filter)
	first.Need(codec.Handle{Offset: 0, Size: 100}) // most of the bytes up to there are not needed
	g.Learn(&first)
	require.Equal(t, Cost{1, size/16 + tailFixed}, first.End())

	var next Opening
	next.Read(read, size, &g)
	require.Equal(t, data[filter.Offset:filter.End()], next.Has(filter))
	cost := next.End()
	require.EqualValues(t, 1, cost.Reads)
	require.Less(t, cost.Bytes, uint64(24_000))

	failed = errors.New("unreadable")
	var unread Opening
	unread.Read(read, size, &g)
	require.Nil(t, unread.Has(filter))
	buf := make([]byte, 10)
	require.Len(t, unread.Take(buf, size-10), 10, "all is read separately")
	(*Opening)(nil).Need(filter) // of a block that is read when the table is open
}
