package manifest

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/vfs"
)

// followed is a Set and a Tail that reads what it writes.
type followed struct {
	t    *testing.T
	fs   *vfs.Mem
	set  *Set
	tail *Tail
	have *Reading
}

func newFollowed(t *testing.T, o SetOptions) *followed {
	f := &followed{t: t, fs: o.FS.(*vfs.Mem), set: beginSet(t, o), tail: NewTail(o)}
	t.Cleanup(func() { require.NoError(t, f.tail.Close()) })
	return f
}

// add applies an edit with one more table on level 1, whose entries go up to seq.
func (f *followed) add(seq uint64) {
	num := f.set.NewFileNum()
	key := []byte{byte(num >> 8), byte(num)}
	k := base.AppendInternalKey(nil, key, seq, base.KindSet)
	table := version.NewFileMeta(num, 100, k, k)
	require.NoError(f.t, f.set.Apply(&Edit{Added: []version.LevelFile{{Level: 1, File: table}}}, nil))
}

// read requires that the Tail reads the state of the Set, as a whole if fresh is true.
func (f *followed) read(fresh bool) {
	f.t.Helper()
	r, whole, err := f.tail.Read(f.have)
	require.NoError(f.t, err)
	require.Equal(f.t, fresh, whole)
	f.have = r
	f.tail.Publish(r, nil)
	want, got := f.set.Current(), f.tail.Set().Current()
	require.Same(f.t, r.Version, got)
	require.Equal(f.t, files(want), files(got))
	require.Equal(f.t, f.set.LogNum(), f.tail.Set().LogNum())
	require.GreaterOrEqual(f.t, f.tail.Set().NextFileNum(), f.set.NextFileNum()-1)
	require.Equal(f.t, base.FileName(base.FileManifest, f.set.ManifestNum()), f.tail.Name())
}

func TestATailReadsTheEditsThatAreAdded(t *testing.T) {
	o := testSet(vfs.NewMem())
	o.Clock = func() uint64 { return 77 }
	f := newFollowed(t, o)
	f.set.RecordPrefixes([][]byte{[]byte("t/")})
	f.read(true)
	require.False(t, f.have.ByGoLevelDB)
	for seq := uint64(10); seq < 20; seq++ {
		f.add(seq)
		if seq == 15 {
			f.add(12)
		}
		u := result.Of(f.tail.Unread())(t)
		require.Equal(t, seq, u.LastSeq, "that bounds a table")
		require.Positive(t, u.Bytes)
		require.False(t, u.Replaced)
		f.read(false)
		require.Equal(t, seq, f.have.LastSeq)
		require.Equal(t, Recorded{Time: 77, Prefixes: [][]byte{[]byte("t/")}}, f.have.Recorded)
	}
	again, fresh, err := f.tail.Read(f.have)
	require.NoError(t, err)
	require.False(t, fresh)
	require.Same(t, f.have, again, "nothing was added")
	require.Equal(t, Unread{}, result.Of(f.tail.Unread())(t))

	// What was read and is not published holds no file.
	f.add(30)
	unpublished, _, err := f.tail.Read(f.have)
	require.NoError(t, err)
	added := unpublished.Version.TableNumbered(f.set.NextFileNum() - 1)
	require.True(t, added.InVersion())
	unpublished.Discard()
	require.False(t, added.InVersion())
}

func TestATailReadsAnotherManifestAsAWhole(t *testing.T) {
	o := testSet(vfs.NewMem())
	o.MaxManifestSize = 1 // each edit begins another, once they are twice as long as the first
	f := newFollowed(t, o)
	f.read(true)
	before, seq := f.tail.Name(), uint64(10)
	for ; base.FileName(base.FileManifest, f.set.ManifestNum()) == before; seq++ {
		f.add(seq)
	}
	u := result.Of(f.tail.Unread())(t)
	require.True(t, u.Replaced)
	require.Equal(t, f.set.LogNum(), u.LogNum)
	require.Equal(t, seq-1, u.LastSeq)
	require.Equal(t, manifestSize(t, f.set), u.Bytes)
	f.read(true)

	// Another file of the same name is another MANIFEST too, as after a directory was replaced.
	path := filepath.Join("db", f.tail.Name())
	data := readFile(t, f.fs, path)
	require.NoError(t, f.fs.Remove(path))
	writeFile(t, f.fs, path, data)
	require.True(t, result.Of(f.tail.Unread())(t).Replaced)
	f.read(true)
}

// So many edits would need far more memory than their bytes if all were decoded.
func TestATailThatIsFarBehindReadsAll(t *testing.T) {
	o := testSet(vfs.NewMem())
	o.MaxManifestSize = 1 << 30
	f := newFollowed(t, o)
	f.read(true)
	for range 6 {
		require.NoError(t, addWide(f.set, maxEdits/10))
	}
	f.read(true)
}

func TestATailReadsAllAgainAfterAnError(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(f *followed, path string)
		says   string
	}{
		"the MANIFEST is missing": {func(f *followed, path string) { require.NoError(f.t, f.fs.Remove(path)) }, "MANIFEST"},
		"an edit is damaged": {func(f *followed, path string) {
			file := result.Of(f.fs.Open(path))(f.t)
			size := result.Of(file.Size())(f.t)
			require.NoError(f.t, file.Close())
			f.add(20)
			f.add(21)
			data := readFile(f.t, f.fs, path)
			data[size+10] ^= 1
			overwrite(f.t, f.fs, path, data)
		}, "MANIFEST"},
		"it is too large": {func(f *followed, _ string) { f.add(20); f.tail.set.opts.ReadLimit = 1 }, "Options.Limits.ManifestRead"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFollowed(t, testSet(vfs.NewMem()))
			f.add(10)
			f.read(true)
			path := filepath.Join("db", f.tail.Name())
			whole := readFile(t, f.fs, path)
			c.damage(f, path)
			_, _, err := f.tail.Read(f.have)
			require.ErrorContains(t, err, c.says)
			require.Empty(t, f.tail.Name())

			f.tail.set.opts.ReadLimit = 0
			overwrite(t, f.fs, path, whole)
			r, fresh, err := f.tail.Read(f.have)
			require.NoError(t, err)
			require.True(t, fresh)
			require.Equal(t, files(f.have.Version), files(r.Version))
			r.Discard()
		})
	}
}

// overwrite puts a file with these bytes in the place of the one at path, if there is one.
func overwrite(t *testing.T, fsys *vfs.Mem, path string, data []byte) {
	if err := fsys.Remove(path); err != nil {
		require.ErrorIs(t, err, fs.ErrNotExist)
	}
	writeFile(t, fsys, path, data)
}

func TestASnapshotIsLoadedAsItWasWritten(t *testing.T) {
	o := testSet(vfs.NewMem())
	o.Clock = func() uint64 { return 99 }
	s := beginSet(t, o)
	s.RecordPrefixes([][]byte{[]byte("a/"), []byte("b/")})
	require.NoError(t, s.Apply(&Edit{
		LogNum: Num(7), LastSeq: Num(40), Added: []version.LevelFile{{Level: 3, File: file(s.NewFileNum(), "a", "b", 10)}, addedValues(50, 100)},
		Values: []version.ValueDelta{{ID: 50, File: 50, Live: 100}},
	}, nil))
	later := file(60, "c", "d", 10)
	for name, snapshot := range map[string]Snapshot{"of the present": s.Snapshot(), "of a version": s.SnapshotOf(s.Current(), 40)} {
		t.Run(name, func(t *testing.T) {
			snapshot.Added = []version.LevelFile{{Level: 0, File: later}}
			if snapshot.NextFileNum < 61 {
				snapshot.NextFileNum = 61
			}
			require.NoError(t, vfs.MkdirAllSynced(o.FS, "copy of it "+name))
			to := o
			to.Dir = "copy of it " + name
			sum := result.Of(snapshot.Write(o.FS, to.Dir))(t)
			to.FS = o.FS.(*vfs.Mem).Crash()
			copied, state, err := Load(to)
			require.NoError(t, err)
			require.Equal(t, sum, state.FirstRecordSum)
			require.Equal(t, []uint64{60, files(s.Current())[0]}, files(copied.Current()))
			require.Equal(t, valueTables(s.Current()), valueTables(copied.Current()))
			require.Equal(t, uint64(40), state.LastSeq)
			require.Equal(t, snapshot.LogNum, state.LogNum)
			require.Equal(t, uint64(99), state.Recorded.Time)

			recorded, comparer, err := ReadRecorded(to.FS, to.Dir, 0)
			require.NoError(t, err)
			require.Equal(t, state.Recorded, recorded)
			require.True(t, strings.HasSuffix(comparer, base.Bytewise.Name))
			require.Error(t, result.Err(snapshot.Write(o.FS, "a directory that is missing")))
		})
	}
	s.Current().Unref()
	require.NoError(t, s.Close())
}
