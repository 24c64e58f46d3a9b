package manifest

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/disk/wal"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/damage"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/vfs"
)

func testSet(fs vfs.FS) SetOptions {
	return SetOptions{FS: fs, Dir: "db", Cmp: base.Bytewise, MaxManifestSize: 1 << 20}
}

// beginSet returns a Set over o.FS after Begin.
func beginSet(t *testing.T, o SetOptions) *Set {
	t.Helper()
	require.NoError(t, vfs.MkdirAllSynced(o.FS, o.Dir))
	s := New(o)
	require.NoError(t, s.Begin(&Edit{LogNum: Num(s.NewFileNum()), LastSeq: Num(0)}, nil))
	return s
}

func files(v *version.Version) (nums []uint64) {
	v.Files(func(_ int, f *version.FileMeta) { nums = append(nums, f.Num) })
	return nums
}

func readFile(t *testing.T, fsys vfs.FS, path string) []byte {
	t.Helper()
	b := result.Of(damage.ReadFile(fsys, path))(t)
	return b
}

func writeFile(t *testing.T, fsys vfs.FS, path string, data []byte) {
	t.Helper()
	require.NoError(t, damage.WriteFile(fsys, path, data))
}

func TestAppliedEditsAreLoaded(t *testing.T) {
	mem := vfs.NewMem()
	s := beginSet(t, testSet(mem))
	require.NoError(t, s.Apply(&Edit{LastSeq: Num(7), Added: []version.LevelFile{
		{Level: 0, File: file(s.NewFileNum(), "a", "m", 10)}, {Level: 3, File: file(s.NewFileNum(), "n", "z", 20)},
	}}, nil))
	first := files(s.Current())
	require.NoError(t, s.Apply(&Edit{
		LogNum: Num(9), Deleted: []version.DeletedFile{{Level: 0, Num: first[0]}},
		Added: []version.LevelFile{{Level: 1, File: file(s.NewFileNum(), "a", "m", 5)}},
	}, nil))
	for name, fs := range map[string]vfs.FS{"as it is": mem, "after a power loss": mem.Crash()} {
		t.Run(name, func(t *testing.T) {
			again, st, err := Load(testSet(fs))
			require.NoError(t, err)
			require.Equal(t, files(s.Current()), files(again.Current()))
			require.EqualValues(t, 9, st.LogNum)
			require.EqualValues(t, 7, st.LastSeq, "an edit without a sequence keeps the last one")
			require.Equal(t, wal.TailClean, st.Tail.Kind)
			require.GreaterOrEqual(t, again.NewFileNum(), uint64(4), "numbers are not reused")
		})
	}
	require.NoError(t, s.Close())
	require.ErrorIs(t, s.Apply(&Edit{}, nil), base.ErrClosed)
}

func TestNoEditIsWrittenDuringBetween(t *testing.T) {
	s := beginSet(t, testSet(vfs.NewMem()))
	require.NoError(t, s.Between(func() error {
		require.False(t, s.mu.TryLock(), "Apply has to wait")
		require.Positive(t, s.NewFileNum())
		return nil
	}))
	require.ErrorIs(t, s.Between(func() error { return base.ErrReadOnly }), base.ErrReadOnly)
	require.NoError(t, s.Apply(&Edit{}, nil))
}

func TestFullManifestIsReplaced(t *testing.T) {
	mem := vfs.NewMem()
	o := testSet(mem)
	o.MaxManifestSize = 2000
	s := beginSet(t, o)
	manifests := map[uint64]bool{}
	var last uint64
	for range 200 {
		last = replaceTable(t, s, last, "a")
		manifests[s.ManifestNum()] = true
	}
	require.Greater(t, len(manifests), 3)
	names := result.Of(mem.List("db"))(t)
	require.Len(t, names, 2, "CURRENT and one MANIFEST: %v", names)
	again, _, err := Load(testSet(mem.Crash()))
	require.NoError(t, err)
	require.Equal(t, []uint64{last}, files(again.Current()))
}

// replaceTable adds a table that begins with smallest, and removes the last one, if that is not 0.
func replaceTable(t *testing.T, s *Set, last uint64, smallest string) uint64 {
	t.Helper()
	e := &Edit{Added: []version.LevelFile{{Level: 2, File: file(s.NewFileNum(), smallest, "b", 1)}}}
	if last != 0 {
		e.Deleted = []version.DeletedFile{{Level: 2, Num: last}}
	}
	require.NoError(t, s.Apply(e, nil))
	return e.Added[0].File.Num
}

func TestFailedManifestAcceptsNoEdits(t *testing.T) {
	for _, op := range []wrap.OpKind{wrap.OpWrite, wrap.OpSync} {
		t.Run(op.String(), func(t *testing.T) {
			fail := false
			mem := vfs.NewMem()
			s := beginSet(t, testSet(wrap.NewFaulty(mem, func(o wrap.Op) *wrap.Fault {
				if fail && o.Kind == op {
					fail = false
					return &wrap.Fault{Short: 3}
				}
				return nil
			})))
			before := s.Current()
			fail = true
			installed := false
			add := func() *Edit {
				return &Edit{Added: []version.LevelFile{{Level: 1, File: file(s.NewFileNum(), "a", "b", 1)}}}
			}
			require.ErrorIs(t, s.Apply(add(), func(*version.Version) { installed = true }), wrap.ErrInjected)
			require.ErrorIs(t, s.Apply(add(), nil), wrap.ErrInjected, "nothing is retried")
			require.True(t, s.Failed())
			require.False(t, installed)
			require.Same(t, before, s.Current())
		})
	}
}

// A truncated record at the end is the result of a crash. Any other record that does not decode is
// corruption, never the end.
func TestOnlyACutLastEditIsDropped(t *testing.T) {
	mem := vfs.NewMem()
	s := beginSet(t, testSet(mem))
	for range 3 {
		n := s.NewFileNum()
		require.NoError(t, s.Apply(&Edit{Added: []version.LevelFile{{Level: 0, File: file(n, "a", "b", 1)}}}, nil))
	}
	path := filepath.Join("db", base.FileName(base.FileManifest, s.ManifestNum()))
	whole := readFile(t, mem, path)
	writeFile(t, mem, path, whole[:len(whole)-1])
	again, st, err := Load(testSet(mem))
	require.NoError(t, err)
	require.Len(t, files(again.Current()), 2)
	require.Equal(t, wal.TailTorn, st.Tail.Kind)
	require.Positive(t, st.Tail.Dropped)
	for i := range whole {
		flipped := append([]byte(nil), whole...)
		flipped[i] ^= 1 << (i % 8)
		writeFile(t, mem, path, flipped)
		_, _, err := Load(testSet(mem))
		require.ErrorIs(t, err, base.ErrCorruption, "byte %d", i)
	}
}

// withManifest returns a database whose MANIFEST-000007 has the edits.
func withManifest(t *testing.T, edits ...*Edit) vfs.FS {
	t.Helper()
	mem := vfs.NewMem()
	require.NoError(t, mem.MkdirAll("db"))
	f := result.Of(mem.Create(filepath.Join("db", "MANIFEST-000007")))(t)
	log := wal.NewWriter(f)
	for _, e := range edits {
		require.NoError(t, log.WriteRecord(e.Encode(nil)))
	}
	require.NoError(t, writeCurrent(mem, "db", 7))
	return mem
}

func TestComparerMustMatch(t *testing.T) {
	full := &Edit{Comparer: base.Bytewise.Name, LogNum: Num(1), NextFileNum: Num(2), LastSeq: Num(3)}
	later := &Edit{LogNum: Num(1)} // has no comparer, which changes nothing
	other := testSet(withManifest(t, full, later))
	_, _, err := Load(other)
	require.NoError(t, err)
	reversed := *base.Bytewise
	reversed.Name = "reversed"
	other.Cmp = &reversed
	_, _, err = Load(other)
	require.ErrorContains(t, err, `created with comparer "leveldb.BytewiseComparator", but it is opened with comparer "reversed"`)
	require.NotErrorIs(t, err, base.ErrCorruption, "the caller is at fault, not the file")
}

func TestFileNumbersAreLimited(t *testing.T) {
	for _, c := range []struct {
		next, table uint64
		ok          bool
	}{
		{base.MaxFileNum, 1, true}, {base.MaxFileNum + 1, 1, false},
		{2, base.MaxFileNum, true}, {2, base.MaxFileNum + 1, false},
	} {
		_, _, err := Load(testSet(withManifest(t, &Edit{
			LogNum: Num(1), NextFileNum: Num(c.next), LastSeq: Num(3), Added: []version.LevelFile{{Level: 1, File: file(c.table, "a", "b", 1)}},
		})))
		if c.ok {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, base.ErrCorruption)
			require.ErrorContains(t, err, "file numbers go up to")
		}
	}
}

func TestManifestWithoutARequiredNumberIsCorrupt(t *testing.T) {
	full := Edit{Comparer: base.Bytewise.Name, LogNum: Num(1), NextFileNum: Num(2), LastSeq: Num(3)}
	cases := map[string]func(*Edit){
		"next file number": func(e *Edit) { e.NextFileNum = OptionalNum{} },
		"log number":       func(e *Edit) { e.LogNum = OptionalNum{} },
		"last sequence":    func(e *Edit) { e.LastSeq = OptionalNum{} },
	}
	for what, remove := range cases {
		t.Run(what, func(t *testing.T) {
			e := full
			remove(&e)
			_, _, err := Load(testSet(withManifest(t, &e)))
			require.ErrorIs(t, err, base.ErrCorruption)
			require.ErrorContains(t, err, what)
			require.ErrorContains(t, err, "MANIFEST-000007")
		})
	}
}

func TestCurrentMustBeExact(t *testing.T) {
	require.Equal(t, "MANIFEST-000012", result.Of(parseCurrent([]byte("MANIFEST-000012\n")))(t))
	for _, bad := range []string{
		"", "\n", "MANIFEST-000012", "MANIFEST-\n", "MANIFEST-12a\n", "MANIFEST-+1\n", " MANIFEST-1\n", "MANIFEST-1\r\n",
		"MANIFEST-1\nMANIFEST-1\n", "../MANIFEST-1\n", "000012.log\n", "MANIFEST-" + strings.Repeat("9", 30) + "\n",
	} {
		require.ErrorIs(t, result.Err(parseCurrent([]byte(bad))), base.ErrCorruption, "%q", bad)
	}
}

// Bug: an edit that was refused for violating an invariant left its log number in the Set, and the
// next edit recorded it: the log with unflushed writes was then considered unneeded.
func TestRefusedEditChangesNoNumbers(t *testing.T) {
	fs := vfs.NewMem()
	require.NoError(t, fs.MkdirAll("db"))
	s := beginSet(t, testSet(fs))
	before := s.LogNum()
	overlapping := []version.LevelFile{{Level: 1, File: file(8, "a", "m", 10)}, {Level: 1, File: file(9, "b", "n", 10)}}
	require.ErrorIs(t, s.Apply(&Edit{LogNum: Num(before + 7), Added: overlapping}, nil), base.ErrCorruption)
	require.Equal(t, before, s.LogNum())
	require.NoError(t, s.Apply(&Edit{LastSeq: Num(5)}, nil))
	require.Equal(t, before, s.LogNum())
	require.NoError(t, s.Close())
}
