package db

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/wal"
	"github.com/sievedb/sievedb/internal/work/repair"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/util"
	"github.com/sievedb/sievedb/vfs"
)

// repairDir has the files of a database directory "db" in memory, to be damaged.
type repairDir map[string][]byte

// readDir returns the files of a directory at this moment, including those of lost/ as "lost/x".
func readDir(t testing.TB, fsys vfs.FS, dir string) repairDir {
	t.Helper()
	fsys = copyFS(t, fsys)
	names, err := fsys.List(dir)
	require.NoError(t, err)
	files := repairDir{}
	for _, name := range names {
		path := filepath.Join(dir, name)
		info, err := fsys.Stat(path)
		require.NoError(t, err)
		if info.IsDir() {
			for sub, b := range readDir(t, fsys, path) {
				files[name+"/"+sub] = b
			}
			continue
		}
		f, err := fsys.Open(path)
		require.NoError(t, err)
		b := make([]byte, info.Size())
		n, err := f.ReadAt(b, 0)
		require.True(t, n == len(b) && (err == nil || err == io.EOF))
		require.NoError(t, f.Close())
		files[name] = b
	}
	return files
}

// fs returns a file system with the files, all durable.
func (d repairDir) fs(t testing.TB) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem()
	require.NoError(t, vfs.MkdirAllSynced(mem, "db/lost"))
	for _, name := range slices.Sorted(maps.Keys(d)) {
		f, err := mem.Create("db/" + name)
		require.NoError(t, err)
		_, err = f.Write(d[name])
		require.NoError(t, err)
		require.NoError(t, f.Sync())
		require.NoError(t, f.Close())
	}
	require.NoError(t, mem.SyncDir("db/lost"))
	require.NoError(t, mem.SyncDir("db"))
	return mem
}

func (d repairDir) clone() repairDir {
	c := repairDir{}
	for name, b := range d {
		c[name] = slices.Clone(b)
	}
	return c
}

// only returns the names of the files of these kinds, sorted.
func (d repairDir) only(kinds ...base.FileKind) []string {
	var names []string
	for name := range d {
		if kind, _, ok := base.ParseFileName(name); ok && slices.Contains(kinds, kind) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (d repairDir) tables() []string { return d.only(base.FileTable, base.FileOldTable) }

// live returns the tables that the current MANIFEST lists, with their levels.
func (d repairDir) live(t testing.TB) map[string]int {
	t.Helper()
	set, _, err := manifest.Load(manifest.SetOptions{FS: d.fs(t), Dir: "db", Cmp: base.Bytewise})
	require.NoError(t, err)
	live := map[string]int{}
	set.Current().Files(func(level int, f *manifest.FileMeta) { live[f.Name()] = level })
	return live
}

// versions are all entries of each key, and contents the value of each key.
type (
	version struct {
		seq   uint64
		kind  base.Kind
		value string
	}
	versions map[string][]version
	contents map[string]string
)

func (v versions) add(seq uint64, kind base.Kind, key, value []byte) {
	v[string(key)] = append(v[string(key)], version{seq, kind, string(value)})
}

func (v versions) newest() contents {
	c := contents{}
	for key, all := range v {
		n := slices.MaxFunc(all, func(a, b version) int { return int(int64(a.seq) - int64(b.seq)) })
		if n.kind == base.KindSet {
			c[key] = n.value
		}
	}
	return c
}

// versions returns all entries of the tables and of the logs, which must be undamaged.
func (d repairDir) versions(t testing.TB) versions {
	t.Helper()
	v := versions{}
	for _, name := range d.tables() {
		v.addTable(t, d[name])
	}
	for _, name := range d.only(base.FileLog) {
		log := wal.NewReader(bytes.NewReader(d[name]), int64(len(d[name])), wal.ReaderOptions{Last: true})
		for record, err := log.Next(); err != io.EOF; record, err = log.Next() {
			require.NoError(t, err)
			require.NoError(t, repair.EachEntry(record, func(seq uint64, kind base.Kind, key, value []byte) error {
				v.add(seq, kind, key, value)
				return nil
			}))
		}
	}
	return v
}

// addTable adds the readable entries of a table.
func (v versions) addTable(t testing.TB, data []byte) {
	t.Helper()
	_, err := sstable.Salvage(openBytes(t, data), sstable.ReaderOptions{}, func(ikey, value []byte) error {
		seq, kind := base.SplitTrailer(base.Trailer(ikey))
		v.add(seq, kind, base.UserKey(ikey), value)
		return nil
	})
	require.NoError(t, err)
}

// contentsIn returns the entries that an iterator finds.
func contentsIn(t testing.TB, d *DB) contents {
	t.Helper()
	entries, err := dump(d)
	require.NoError(t, err)
	c := contents{}
	for _, e := range entries {
		c[e.Key] = e.Value
	}
	return c
}

// contentsOf opens the database, reads all of it by iterator and by Get, and
// closes it.
func contentsOf(t testing.TB, fsys vfs.FS) contents {
	t.Helper()
	o := testOptions(fsys)
	o.ReadOnly = true // so that no background work moves entries meanwhile
	d, err := Open("db", o)
	require.NoError(t, err)
	c := contentsIn(t, d)
	for key, value := range c {
		requireValue(t, d, []byte(key), []byte(value))
	}
	require.NoError(t, d.Close())
	return c
}

func mustRepair(t testing.TB, fsys vfs.FS) *RepairReport {
	t.Helper()
	rep, err := RepairWithReport("db", testOptions(fsys))
	require.NoError(t, err)
	require.NotRegexp(t, `(key|value)[0-9]`, rep.String(), "a report must not hold keys or values")
	return rep
}

// repaired repairs the directory and checks what must hold after every repair. It returns the
// contents of the repaired database, the report, and the files.
func (d repairDir) repaired(t testing.TB) (contents, *RepairReport, repairDir) {
	t.Helper()
	mem := d.fs(t)
	rep := mustRepair(t, mem)
	after := readDir(t, mem, "db")
	d.requireNothingDeleted(t, rep, after)
	c := contentsOf(t, mem)

	again := mustRepair(t, mem)
	require.True(t, again.Healthy, "a second repair must find nothing:\n%s", again)
	requireSameFiles(t, after, readDir(t, mem, "db"))

	writer := mustOpen(t, testOptions(mem))
	require.NoError(t, writer.Put([]byte("key"), []byte("written after"), nil))
	requireValue(t, writer, []byte("key"), []byte("written after"))
	require.NoError(t, writer.Close())
	return c, rep, after
}

// requireSameFiles compares all files except LOCK.
func requireSameFiles(t testing.TB, want, got repairDir) {
	t.Helper()
	sums := func(d repairDir) map[string]uint32 {
		m := map[string]uint32{}
		for name, b := range d {
			if name != base.LockName {
				m[name] = util.CRC32C(b)
			}
		}
		return m
	}
	require.Equal(t, sums(want), sums(got))
}

// requireNothingDeleted requires that the bytes of every file are in their place or in lost/, as
// the report says.
func (d repairDir) requireNothingDeleted(t testing.TB, rep *RepairReport, after repairDir) {
	t.Helper()
	if rep.Healthy {
		requireSameFiles(t, d, after)
		return
	}
	for name, b := range d {
		if name == base.LockName || name == base.CurrentName && strings.HasPrefix(string(b), rep.Manifest+"\n") {
			continue
		}
		if name == base.CurrentName {
			require.Equal(t, b, after["lost/"+fateOf(t, rep, name).LostName])
			continue
		}
		kind, _, ok := base.ParseFileName(name)
		if !ok || kind == base.FileInfoLog {
			require.Equal(t, b, after[name], name)
			continue
		}
		i := slices.IndexFunc(rep.Files, func(f RepairedFile) bool { return f.Name == name })
		require.GreaterOrEqual(t, i, 0, "%s is not in the report", name)
		if lost := rep.Files[i].LostName; lost != "" {
			require.Equal(t, b, after["lost/"+lost], name)
			require.NotContains(t, after, name)
		} else {
			require.Equal(t, FileKept, rep.Files[i].Fate, name)
			require.Equal(t, b, after[name], name)
		}
	}
	require.Empty(t, after.only(base.FileTemp))
}

func fateOf(t testing.TB, rep *RepairReport, name string) RepairedFile {
	t.Helper()
	for _, f := range rep.Files {
		if f.Name == name {
			return f
		}
	}
	require.Fail(t, "not in the report", name)
	return RepairedFile{}
}

// sampleStore makes a database with three levels, overwritten and deleted keys, and entries that
// are only in the log. Its tables do not depend on timing.
func sampleStore(t testing.TB) (repairDir, contents) {
	t.Helper()
	mem := vfs.NewMem()
	o := testOptions(mem)
	o.Compaction.MaxLevelBase, o.Tables.Compression, o.Compaction.MaxConcurrent = 4<<10, NoCompression, 1
	d := mustOpen(t, o)
	model := contents{}
	puts := 0
	put := func(i, generation int) {
		if puts++; puts%100 == 0 { // before the memtable is full, so that compactions do not depend on timing
			settle(t, d)
		}
		value := fmt.Sprintf("value%d.%0100d", generation, i)
		require.NoError(t, d.Put(testKey(i), []byte(value), NoSync))
		model[string(testKey(i))] = value
	}
	for generation := range 4 {
		for i := generation; i < 700; i += 1 + generation {
			put(i, generation)
		}
		for i := 5 * generation; i < 700; i += 11 {
			require.NoError(t, d.Delete(testKey(i), NoSync))
			delete(model, string(testKey(i)))
		}
		settle(t, d)
	}
	for i := 0; i < 60; i += 3 { // for level 0, and then for the log
		put(i, 8)
	}
	require.NoError(t, d.Flush())
	for i := 1; i < 60; i += 3 {
		put(i, 9)
	}
	require.NoError(t, d.Delete(testKey(3), nil))
	delete(model, string(testKey(3)))
	require.NoError(t, d.Close())
	files := readDir(t, mem, "db")
	levels := map[int]bool{}
	for _, level := range files.live(t) {
		levels[level] = true
	}
	require.Len(t, levels, 3)
	require.Equal(t, model, contentsOf(t, files.fs(t)))
	return files, model
}

// craftedEntry is an entry of a crafted table. put and del make such entries.
type craftedEntry struct {
	key   string
	seq   uint64
	kind  base.Kind
	value string
}

func put(key string, seq uint64, value string) craftedEntry {
	return craftedEntry{key, seq, base.KindSet, value}
}
func del(key string, seq uint64) craftedEntry { return craftedEntry{key, seq, base.KindDelete, ""} }

// craftTable returns a table of the entries, which must be in order.
func craftTable(t testing.TB, entries ...craftedEntry) []byte {
	t.Helper()
	var file bytes.Buffer
	w := sstable.NewWriter(&file, sstable.WriterOptions{BlockSize: 64})
	for _, e := range entries {
		require.NoError(t, w.Add(base.AppendInternalKey(nil, []byte(e.key), e.seq, e.kind), []byte(e.value)))
	}
	_, err := w.Finish()
	require.NoError(t, err)
	return file.Bytes()
}

// addManifest adds MANIFEST num with a record for each of edits, and a CURRENT that names it.
func (d repairDir) addManifest(t testing.TB, num uint64, edits ...*manifest.Edit) {
	t.Helper()
	mem := d.fs(t)
	f, err := mem.Create("m")
	require.NoError(t, err)
	log := wal.NewWriter(f)
	for _, e := range edits {
		e.Comparer = base.Bytewise.Name
		require.NoError(t, log.WriteRecord(e.Encode(nil)))
	}
	require.NoError(t, log.Close())
	name := base.FileName(base.FileManifest, num)
	d[name] = readDir(t, mem, ".")["m"]
	d["CURRENT"] = []byte(name + "\n")
}

// edit returns an edit with the numbers that every MANIFEST needs and with the given tables. It
// also makes the log that the edit names.
func (d repairDir) edit(t testing.TB, logNum, lastSeq uint64, levels map[uint64]int) *manifest.Edit {
	t.Helper()
	d[base.FileName(base.FileLog, logNum)] = []byte{}
	e := &manifest.Edit{LogNum: manifest.Num(logNum), NextFileNum: manifest.Num(1000), LastSeq: manifest.Num(lastSeq)}
	for num, level := range levels {
		data := d[base.FileName(base.FileTable, num)]
		r, err := sstable.Open(openBytes(t, data), sstable.ReaderOptions{})
		require.NoError(t, err)
		it, err := r.NewIter(sstable.IterOptions{})
		require.NoError(t, err)
		require.True(t, it.First())
		smallest := bytes.Clone(it.Key())
		require.True(t, it.Last())
		e.Added = append(e.Added, manifest.LevelFile{Level: level, File: manifest.NewFileMeta(num, uint64(len(data)), smallest, bytes.Clone(it.Key()))})
		require.NoError(t, it.Close())
		require.NoError(t, r.Close())
	}
	return e
}

func openBytes(t testing.TB, data []byte) vfs.File {
	t.Helper()
	mem := vfs.NewMem()
	w, err := mem.Create("t")
	require.NoError(t, err)
	_, err = w.Write(data)
	require.NoError(t, err)
	f, err := mem.Open("t")
	require.NoError(t, err)
	return f
}
