package scan

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/tabletest"
	"github.com/sievedb/sievedb/internal/write/txn"
)

func TestWalks(t *testing.T) {
	key := tabletest.Key
	for _, c := range []struct {
		name         string
		lower, upper []byte
		walk         func(w *walk)
		want         []int // of 0 to 9
	}{
		{"forward to a key", nil, nil, func(w *walk) { w.begin(true, key(2), false); w.end(key(4)) }, []int{2, 3, 4}},
		{"forward to the end", nil, nil, func(w *walk) { w.begin(true, key(7), false); w.end(nil) }, []int{7, 8, 9}},
		{"forward to the bound", nil, key(8), func(w *walk) { w.begin(true, key(6), false); w.end(nil) }, []int{6, 7}},
		{"forward from the bound", key(5), nil, func(w *walk) { w.begin(true, nil, false); w.end(key(6)) }, []int{5, 6}},
		{"forward from the beginning", nil, nil, func(w *walk) { w.begin(true, nil, false); w.end(key(1)) }, []int{0, 1}},
		{"backward to a key", nil, nil, func(w *walk) { w.begin(false, key(4), false); w.end(key(2)) }, []int{2, 3}},
		{"backward from a key shown", nil, nil, func(w *walk) { w.begin(false, key(4), true); w.end(key(3)) }, []int{3, 4}},
		{"backward to the beginning", nil, nil, func(w *walk) { w.begin(false, key(2), false); w.end(nil) }, []int{0, 1}},
		{"backward to the bound", key(1), nil, func(w *walk) { w.begin(false, key(3), false); w.end(nil) }, []int{1, 2}},
		{"backward from the end", nil, nil, func(w *walk) { w.begin(false, nil, false); w.end(key(8)) }, []int{8, 9}},
		{"backward from the bound", nil, key(5), func(w *walk) { w.begin(false, nil, false); w.end(key(4)) }, []int{4}},
		{"nothing", nil, nil, func(w *walk) { w.end(key(4)) }, nil},
		{"two walks", nil, nil, func(w *walk) {
			w.begin(true, key(1), false)
			w.end(key(2))
			w.end(key(9))
			w.begin(true, key(5), false)
			w.end(key(5))
		}, []int{1, 2, 5}},
	} {
		t.Run(c.name, func(t *testing.T) {
			reads := &txn.Reads{Comparer: base.Bytewise}
			c.walk(&walk{reads: reads, lower: c.lower, upper: c.upper})
			reads.Prepare()
			var got []int
			for n := range 10 {
				if reads.Covers(key(n)) {
					got = append(got, n)
				}
			}
			require.Equal(t, c.want, got)
		})
	}
}
