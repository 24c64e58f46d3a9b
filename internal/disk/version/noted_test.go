package version

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/test/damage"
	"github.com/sievedb/sievedb/internal/test/result"
)

// A reader may open a table when its last version is about to be released. What it learns then was noted for ever.
func TestTablesThatNoVersionContainsAreNotNoted(t *testing.T) {
	v := versionOf(t, map[int][]*FileMeta{6: {file(1, "a", "c", 10_000), file(2, "d", "f", 10_000)}})
	gone, stays, n := v.Levels[6].Files[0], v.Levels[6].Files[1], &v.owner.noted
	next := result.Of(v.Apply(Change{Deleted: []DeletedFile{{6, 1}}}))(t)
	v.Unref()
	for _, f := range []*FileMeta{gone, stays} {
		f.SetCounts(&TableCounts{Entries: 100, Tombstones: 60, LargestSeq: 1, Expiry: 7})
	}
	require.Len(t, n.heavy, 1)
	require.Len(t, n.expiring.tables, 1)
	next.Unref()
	require.Empty(t, n.heavy)
	require.Empty(t, n.expiring.tables)
}

// An edit that copied what it does not change would need far more memory than this.
func TestAFlushNeedsLittleMemoryWithManyTables(t *testing.T) {
	s := newScaleStore(t, 4000)
	s.overlaps()
	s.apply(t, s.flush())
	before := damage.Allocated()
	for range 10 {
		s.apply(t, s.flush())
		s.overlaps()
	}
	require.Less(t, (damage.Allocated()-before)/10, uint64(16<<10))
}

// A database of 1e9 keys may have 34,000 of them.
func TestFileMetaIsSmall(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(FileMeta{}), uintptr(128))
}
