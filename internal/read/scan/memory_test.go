package scan_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/read/scan"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

// The bug: a value that was changed in place was changed for all readers, and for the next table. It is found in
// builds with the race detector or the tag sievedb_guard; this test needs one of them.
func TestIteratorsFindChangesOfTheirMemory(t *testing.T) {
	if !scan.Guarded {
		t.Skip("needs -race or -tags sievedb_guard")
	}
	d := storetest.Open(t, storetest.Options(vfs.NewMem()))
	storetest.Fill(t, d, 0, 10)
	for _, flushed := range []bool{false, true} {
		if flushed {
			require.NoError(t, d.Flush())
		}
		for name, move := range map[string]func(it *db.Iterator) bool{
			"Next": (*db.Iterator).Next, "Prev": (*db.Iterator).Prev, "First": (*db.Iterator).First, "Last": (*db.Iterator).Last,
			"SeekGE": func(it *db.Iterator) bool { return it.SeekGE(fixture.Key(4)) }, "SeekLT": func(it *db.Iterator) bool { return it.SeekLT(fixture.Key(4)) },
			"SetBounds": func(it *db.Iterator) bool { it.SetBounds(nil, nil); return it.First() },
			"Close":     func(it *db.Iterator) bool { return it.Close() == nil },
		} {
			for _, begin := range []func(it *db.Iterator) bool{(*db.Iterator).First, (*db.Iterator).Last} {
				it := storetest.Iter(t, d, nil)
				require.True(t, begin(it) && it.Valid())
				value := it.Value()
				value[0] ^= 1
				require.False(t, move(it), name)
				value[0] ^= 1
				require.ErrorContains(t, it.Err(), "copy it before changing it", name)
				require.ErrorContains(t, it.Close(), "copy it before changing it", name)
			}
		}
	}
	all, failed := d.All(nil)
	for range all {
		break
	}
	require.NoError(t, failed())
	entries, failure := d.Backward(nil)
	for _, value := range entries {
		value[0] ^= 1
		defer func() { value[0] ^= 1 }()
		break
	}
	require.ErrorContains(t, failure(), "the database's own memory")
}
