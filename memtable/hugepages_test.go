package memtable

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOnlyWholeLargePagesAreAskedFor(t *testing.T) {
	const page = hugePageSize
	cases := []struct {
		name             string
		start, end       uintptr
		wantFrom, wantTo uintptr
	}{
		{"both ends within a page", 10 * page, 10*page + 100, 10 * page, 10 * page},
		{"a page less a byte", 10 * page, 11*page - 1, 10 * page, 10 * page},
		{"exactly a page", 10 * page, 11 * page, 10 * page, 11 * page},
		{"parts on both sides", 10*page + 8, 14*page + 4, 11 * page, 14 * page},
		{"parts on both sides and nothing between", 10*page + 8, 11*page + 4, 11 * page, 11 * page},
		{"at the very beginning", 0, page - 1, 0, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			from, to := hugePagesWithin(c.start, c.end)
			require.Equal(t, c.wantTo, to)
			require.Equal(t, c.wantFrom, from)
		})
	}
}
