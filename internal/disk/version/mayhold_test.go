package version

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
)

func TestMayHoldReturnsTablesInLookupOrder(t *testing.T) {
	v := &Version{Cmp: base.Bytewise}
	v.Levels[0] = newLevel(v.Cmp, 0, []*FileMeta{file(20, "kb", "kd", 1), file(21, "ka", "kz", 1), file(22, "kx", "kz", 1)})
	v.Levels[2] = newLevel(v.Cmp, 2, []*FileMeta{file(1, "ka", "kc", 9), file(2, "kc", "kc", 8), file(3, "kc", "ke", 7), file(4, "kg", "kh", 1)})
	v.Levels[3] = newLevel(v.Cmp, 3, []*FileMeta{file(5, "ka", "kb", 1), file(6, "kd", "kf", 1)})
	v.prepareSearch()
	type table struct {
		level int
		num   uint64
	}
	for key, want := range map[string][]table{
		"ka":     {{0, 21}, {2, 1}, {3, 5}},
		"kc":     {{0, 21}, {0, 20}, {2, 1}, {2, 2}, {2, 3}}, // its versions span three tables
		"kd":     {{0, 21}, {0, 20}, {2, 3}, {3, 6}},
		"kf":     {{0, 21}, {3, 6}}, // between two tables of level 2
		"ky":     {{0, 22}, {0, 21}},
		"kz\x00": nil,
		"j":      nil, // lacks the common prefix of all keys
	} {
		var got []table
		for level, f := range v.MayHold([]byte(key)) {
			got = append(got, table{level, f.Num})
		}
		require.Equal(t, want, got, "%q", key)
		for level, f := range v.MayHold([]byte(key)) {
			require.Equal(t, want[0], table{level, f.Num}, "an iteration can end early")
			break
		}
	}
}
