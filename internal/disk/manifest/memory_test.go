package manifest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/disk/wal"
	"github.com/sievedb/sievedb/internal/test/damage"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/vfs"
)

// Decoded edits need more memory than their bytes, and all of them were retained until the last one
// was read. The bound is eight times the file's size plus 64 MiB; this test allows only 8 MiB.
func TestLoadStaysWithinItsMemory(t *testing.T) {
	key := base.AppendInternalKey(nil, nil, 0, base.KindSet)
	file := func(num int) version.LevelFile {
		return version.LevelFile{Level: 0, File: version.NewFileMeta(uint64(num), 1, key, key)}
	}
	first := &Edit{Comparer: base.Bytewise.Name, LogNum: Num(3), NextFileNum: Num(10), LastSeq: Num(5)}
	for name, edits := range map[string]func(write func(*Edit)){
		"a deletion in each edit": func(write func(*Edit)) {
			for i := range 250_000 {
				write(&Edit{Deleted: []version.DeletedFile{{Level: i % 7, Num: uint64(i)}}})
			}
		},
		"empty edits": func(write func(*Edit)) {
			for range 250_000 {
				write(&Edit{})
			}
		},
		"tables that come and go": func(write func(*Edit)) {
			for i := range 125_000 {
				write(&Edit{Added: []version.LevelFile{file(i + 10)}})
				write(&Edit{Deleted: []version.DeletedFile{{Level: 0, Num: uint64(i + 10)}}})
			}
		},
		"many deletions in one edit": func(write func(*Edit)) {
			e := &Edit{}
			for i := range 500_000 {
				e.Deleted = append(e.Deleted, version.DeletedFile{Level: i % 7, Num: uint64(i)})
			}
			write(e)
		},
		"many tables in one edit": func(write func(*Edit)) {
			e := &Edit{}
			for i := range 125_000 {
				e.Added = append(e.Added, file(i+10))
			}
			write(e)
		},
		"many tables in many edits": func(write func(*Edit)) {
			for i := range 125_000 {
				write(&Edit{Added: []version.LevelFile{file(i + 10)}})
			}
		},
		"compact pointers": func(write func(*Edit)) {
			e := &Edit{}
			for range 250_000 {
				e.CompactPointers = append(e.CompactPointers, CompactPointer{Level: 1, Key: key})
			}
			write(e)
		},
	} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewMem()
			f := result.Of(mem.Create("MANIFEST-000002"))(t)
			w := wal.NewWriter(f)
			var buf []byte
			write := func(e *Edit) {
				buf = e.Encode(buf[:0])
				require.NoError(t, w.WriteRecord(buf))
			}
			write(first)
			edits(write)
			require.NoError(t, writeCurrent(mem, ".", 2))
			before := damage.Allocated()
			_, _, err := Load(SetOptions{FS: mem, Dir: ".", Cmp: base.Bytewise, MaxTables: 1000})
			took := damage.Allocated() - before
			t.Logf("%d bytes for a MANIFEST of %d, %.1f times as much: %v", took, w.Size(), float64(took)/float64(w.Size()), err)
			require.LessOrEqual(t, took, damage.MemoryBound(int(w.Size()))-56<<20)
		})
	}
}

// Descriptions of the same tables were kept until there were 1,000 more than twice the tables.
func TestLoadKeepsOneDescriptionOfATable(t *testing.T) {
	edits := []*Edit{{Comparer: base.Bytewise.Name, LogNum: Num(3), NextFileNum: Num(10), LastSeq: Num(5)}}
	for i := range 1500 {
		size := uint64(i + 1)
		e := &Edit{Added: []version.LevelFile{
			{Level: 1, File: file(5, "a", "b", size)}, {Level: 2, File: file(6, "c", "d", size)},
			{Level: 2 + i%2, File: file(7, "e", "f", size)},
		}}
		if i > 0 {
			e.Deleted = []version.DeletedFile{{Level: 1, Num: 5}, {Level: 3 - i%2, Num: 7}}
		}
		edits = append(edits, e)
	}
	o := testSet(withManifest(t, edits...))
	l, _, err := load(&o)
	require.NoError(t, err)
	require.Equal(t, 3, l.count)
	require.Equal(t, 3, cap(l.tables))
	s, _, err := Load(o)
	require.NoError(t, err)
	require.Equal(t, []uint64{5, 6, 7}, files(s.Current()))
	s.Current().Files(func(level int, f *version.FileMeta) {
		require.Equal(t, map[uint64]int{5: 1, 6: 2, 7: 3}[f.Num], level)
		require.Equal(t, uint64(1500), f.Size, "the last description counts")
	})
}

func TestATableOnTwoLevelsIsRefused(t *testing.T) {
	first := &Edit{
		Comparer: base.Bytewise.Name, LogNum: Num(3), NextFileNum: Num(10), LastSeq: Num(5),
		Added: []version.LevelFile{
			{Level: 4, File: file(5, "a", "b", 1)}, {Level: 2, File: file(5, "a", "b", 1)},
			{Level: 3, File: file(6, "c", "d", 1)}, {Level: 1, File: file(6, "c", "d", 1)},
		},
	}
	o := testSet(withManifest(t, first))
	_, _, err := Load(o)
	require.ErrorIs(t, err, base.ErrCorruption)
	require.ErrorContains(t, err, "table 5 is on level 2 and on level 4")
	o.FS = withManifest(t, first, &Edit{Deleted: []version.DeletedFile{{Level: 4, Num: 5}, {Level: 1, Num: 6}}})
	s, _, err := Load(o)
	require.NoError(t, err, "only the result counts")
	require.Equal(t, []uint64{5, 6}, files(s.Current()))
}

// BenchmarkLoad measures the reading of a MANIFEST with one snapshot.
func BenchmarkLoad(b *testing.B) {
	for _, tables := range []int{30, 4_000, 40_000, 400_000} {
		b.Run(fmt.Sprintf("tables=%d", tables), func(b *testing.B) {
			mem := vfs.NewMem()
			e := &Edit{Comparer: base.Bytewise.Name, LogNum: Num(3), NextFileNum: Num(uint64(tables) + 10), LastSeq: Num(5)}
			for i := range tables {
				f := file(uint64(i+10), fmt.Sprintf("k%015d", 2*i), fmt.Sprintf("k%015d", 2*i+1), 2<<20)
				e.Added = append(e.Added, version.LevelFile{Level: version.NumLevels - 1, File: f})
			}
			require.NoError(b, WriteFile(mem, ".", 2, e))
			require.NoError(b, SetCurrent(mem, ".", 2))
			b.ReportAllocs()
			for b.Loop() {
				_, _, err := Load(SetOptions{FS: mem, Dir: ".", Cmp: base.Bytewise})
				require.NoError(b, err)
			}
		})
	}
}
