package checkpoint_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/race"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

// A checkpoint has the state of its moment, whatever is in tables, full logs and the newest log. Later
// writes to either database do not change the other.
func TestACheckpointHasTheStateOfItsMoment(t *testing.T) {
	for name, logDir := range map[string]string{"one directory": "", "logs elsewhere": "logs"} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewMem()
			o := storetest.Options(mem)
			o.LogDir = logDir
			d := storetest.Open(t, o)
			model := fixture.Contents{}
			for round := range 6 {
				for i := range 300 {
					key, value := fmt.Sprintf("key%04d", (i*7+round*100)%700), fmt.Sprintf("%d-%d", round, i)
					require.NoError(t, d.Put([]byte(key), []byte(value), &db.WriteOptions{NoSync: i%2 == 0, Buffered: i%3 == 0}))
					model[key] = value
				}
				key := fmt.Sprintf("key%04d", round)
				require.NoError(t, d.Delete([]byte(key), db.NoSync))
				delete(model, key)
				dir := fmt.Sprintf("copies/%d", round)
				info := storetest.CheckpointTo(t, d, dir)
				require.Equal(t, d.Metrics().LastSequence, info.Seq)
				require.NoError(t, d.Put([]byte("later"), nil, nil))
				after := mem.Crash() // it is durable
				require.NoError(t, d.Delete([]byte("later"), nil))
				for _, fsys := range []*vfs.Mem{mem, after} {
					c := result.Of(db.Open(dir, &db.Options{FS: fsys}))(t)
					require.True(t, c.OpenReport().ClosedCleanly)
					require.Equal(t, model, storetest.Contents(t, c))
					require.NoError(t, c.Put([]byte("only in the copy"), nil, nil))
					require.NoError(t, c.Compact(context.Background(), nil, nil))
					require.NoError(t, c.Close())
				}
				require.Equal(t, model, storetest.Contents(t, d))
			}
		})
	}
}

// requireCopy requires that a copy in dir opens and has these contents.
func requireCopy(t *testing.T, fsys vfs.FS, dir string, want fixture.Contents) {
	t.Helper()
	c := result.Of(db.Open(dir, &db.Options{FS: fsys, ErrorIfMissing: true}))(t)
	require.Equal(t, want, storetest.Contents(t, c))
	storetest.RequireNoFaults(t, c)
	require.NoError(t, c.Close())
}

// With writers, flushes and compactions at the same time, each checkpoint has a prefix of each writer's
// writes: those before the call, and none after it.
func TestCheckpointsDuringWrites(t *testing.T) {
	mem := vfs.NewMem()
	o := storetest.Options(mem)
	o.Memtables.Size = 16 << 10
	d := storetest.Open(t, o)
	var done atomic.Bool
	var group sync.WaitGroup
	var written [3]atomic.Int64
	for w := range written {
		group.Go(func() {
			for i := int64(0); !done.Load(); i++ {
				var b db.Batch
				b.Put(fmt.Appendf(nil, "w%d/%08d", w, i), make([]byte, 100))
				b.Put(fmt.Appendf(nil, "newest/%d", w), fmt.Appendf(nil, "%d", i))
				if d.Apply(&b, &db.WriteOptions{NoSync: i%5 > 0, Buffered: i%2 == 0}) != nil {
					return
				}
				written[w].Store(i + 1)
			}
		})
	}
	rounds := 60
	if race.Sampled() {
		rounds = 12
	}
	for n := range rounds {
		var least [3]int64
		for w := range written {
			least[w] = written[w].Load()
		}
		dir := fmt.Sprintf("copies/%d", n)
		_, err := d.Checkpoint(context.Background(), dir, &db.CheckpointOptions{Flush: n%4 == 0})
		require.NoError(t, err)
		c := result.Of(db.Open(dir, &db.Options{FS: mem}))(t)
		for w := range written {
			most := written[w].Load() + 1
			count := int64(0)
			entries, failed := c.All(db.PrefixBounds(fmt.Appendf(nil, "w%d/", w)))
			for range entries {
				count++
			}
			require.NoError(t, failed())
			require.GreaterOrEqual(t, count, least[w])
			require.LessOrEqual(t, count, most)
			newest, err := c.Get(fmt.Appendf(nil, "newest/%d", w))
			if count > 0 {
				require.NoError(t, err)
				require.Equal(t, fmt.Sprint(count-1), string(newest))
			}
		}
		require.NoError(t, c.Close())
		require.NoError(t, db.Destroy(dir, &db.Options{FS: mem}))
	}
	done.Store(true)
	group.Wait()
}

// copyFaults counts the operations of checkpoints, and fails one, or all from one on.
type copyFaults struct {
	active atomic.Bool
	next   atomic.Int64
	at     int64 // of the first that fails
	sticky bool
	kind   atomic.Int64 // of that one, -1 if it was not reached
}

func (f *copyFaults) fault(op wrap.Op) *wrap.Fault {
	own := strings.HasPrefix(op.Name, "copies") || op.Kind == wrap.OpLink || op.Kind == wrap.OpOpen
	if !f.active.Load() || !own { // the store itself prepares a log
		return nil
	}
	n := f.next.Add(1) - 1
	if n == f.at {
		f.kind.Store(int64(op.Kind))
	}
	if n == f.at || f.sticky && n > f.at {
		return &wrap.Fault{Err: syscall.EIO}
	}
	return nil
}

// storeToCopy returns a store with tables and two logs.
func storeToCopy(t *testing.T, mem *vfs.Mem, f *copyFaults) *db.DB {
	t.Helper()
	d := storetest.Open(t, storetest.Options(wrap.NewFaulty(mem, f.fault)))
	resume := result.Of(d.PauseCompactions(t.Context()))(t)
	t.Cleanup(resume)
	storetest.Fill(t, d, 0, 200)
	require.NoError(t, d.Flush())
	storetest.Fill(t, d, 100, 300)
	return d
}

// A checkpoint that fails leaves nothing of it, and one that is interrupted makes way for the next.
func TestAnErrorAtEveryOperationOfACheckpoint(t *testing.T) {
	counting := &copyFaults{at: -1}
	d := storeToCopy(t, vfs.NewMem(), counting)
	counting.active.Store(true)
	storetest.CheckpointTo(t, d, "copies/one")
	total := counting.next.Load()
	require.Greater(t, total, int64(20))
	for at := range total {
		for _, sticky := range []bool{false, true} {
			mem := vfs.NewMem()
			f := &copyFaults{at: at, sticky: sticky}
			f.kind.Store(-1)
			d := storeToCopy(t, mem, f)
			want := storetest.Contents(t, d)
			f.active.Store(true)
			_, err := d.Checkpoint(context.Background(), "copies/one", nil)
			f.active.Store(false)
			kind := wrap.OpKind(f.kind.Load())
			_, there := mem.Stat("copies/one")
			switch {
			case f.kind.Load() < 0: // it needed fewer operations than the first one
				require.NoError(t, err)
			case err == nil: // it copied instead of linking, or had all it needed
				require.Contains(t, []wrap.OpKind{wrap.OpLink, wrap.OpClose, wrap.OpStat, wrap.OpRemove}, kind, "operation %d", at)
				require.NoError(t, there)
			case there == nil: // the last sync of the directory failed
				require.Contains(t, []wrap.OpKind{wrap.OpSyncDir, wrap.OpClose}, kind, "operation %d", at)
			default:
				require.ErrorIs(t, err, syscall.EIO)
				require.ErrorIs(t, there, fs.ErrNotExist)
				if !sticky {
					_, left := mem.Stat("copies/one.checkpoint")
					require.ErrorIs(t, left, fs.ErrNotExist, "operation %d, %v", at, kind)
				}
				storetest.CheckpointTo(t, d, "copies/one")
			}
			requireCopy(t, mem, "copies/one", want)
		}
	}
}

// A symbolic link leads into the database's directory, where the checkpoint would be taken for a part of it.
func TestACheckpointThroughALinkIntoTheDatabaseIsRefused(t *testing.T) {
	dir := t.TempDir()
	d, err := db.Open(filepath.Join(dir, "db"), &db.Options{LogDir: filepath.Join(dir, "logs")})
	require.NoError(t, err)
	defer d.Close()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "db", "changes"), 0o700))
	for i, target := range []string{"db", "logs", "db/changes"} {
		link := filepath.Join(dir, fmt.Sprint("link", i))
		if err := os.Symlink(filepath.Join(dir, target), link); err != nil {
			t.Skip("no symbolic links:", err)
		}
		_, err = d.Checkpoint(context.Background(), filepath.Join(link, "copy"), nil)
		require.ErrorContains(t, err, "which belongs to the database; choose a directory outside", target)
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "elsewhere"), 0o700))
	require.NoError(t, os.Symlink(filepath.Join(dir, "elsewhere"), filepath.Join(dir, "db", "out")))
	storetest.CheckpointTo(t, d, filepath.Join(dir, "db", "out", "copy")) // a link out of it
}

func TestCheckpointsThatAreRefused(t *testing.T) {
	mem := vfs.NewMem()
	d := storetest.Open(t, storetest.Options(mem))
	storetest.Fill(t, d, 0, 100)
	var none context.Context
	_, err := d.Checkpoint(none, "copy", nil)
	require.ErrorContains(t, err, "Checkpoint: the context is nil")
	for _, dir := range []string{"db", "db/copy", "db/LOGDIR", "db/../db/000100.ldb"} {
		_, err = d.Checkpoint(context.Background(), dir, nil)
		require.ErrorContains(t, err, "within db, which belongs to the database; choose a directory outside", dir)
	}
	require.NoError(t, mem.MkdirAll("there"))
	require.ErrorIs(t, result.Err(d.Checkpoint(context.Background(), "there", nil)), fs.ErrExist)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, result.Err(d.Checkpoint(ctx, "copy", nil)), context.Canceled)
	require.NoError(t, vfs.MkdirAllSynced(mem, "taken.checkpoint"))
	fixture.WriteFile(t, mem, filepath.Join("taken.checkpoint", "notes.txt"), nil)
	_, err = d.Checkpoint(context.Background(), "taken", nil)
	require.ErrorContains(t, err, "taken.checkpoint exists, and is not what an interrupted checkpoint left; move it away")
	require.NoError(t, mem.Remove(filepath.Join("taken.checkpoint", "notes.txt")))
	lock := result.Of(mem.Lock(filepath.Join("taken.checkpoint", base.LockName), false))(t)
	require.ErrorIs(t, result.Err(d.Checkpoint(context.Background(), "taken", nil)), db.ErrLocked)
	require.NoError(t, lock.Close())
	for _, dir := range []string{"copy", "copy.checkpoint"} {
		require.ErrorIs(t, result.Err(mem.Stat(dir)), fs.ErrNotExist)
	}
}

// The bug: the temporary directory was emptied whatever it was.
func TestACheckpointSparesOtherDirectories(t *testing.T) {
	mem := vfs.NewMem()
	d := storetest.Open(t, storetest.Options(mem))
	storetest.Fill(t, d, 0, 10)
	storetest.CheckpointTo(t, d, "copy.checkpoint")
	_, err := d.Checkpoint(context.Background(), "copy", nil)
	require.ErrorContains(t, err, "copy.checkpoint exists, and is not what an interrupted checkpoint left; move it away")
	requireCopy(t, mem, "copy.checkpoint", storetest.Contents(t, d))

	require.NoError(t, mem.MkdirAll("other.checkpoint"))
	fixture.WriteFile(t, mem, filepath.Join("other.checkpoint", base.FileName(base.FileTemp, 0)), []byte("that one"))
	fixture.WriteFile(t, mem, filepath.Join("other.checkpoint", base.CurrentName), nil)
	_, err = d.Checkpoint(context.Background(), "other", nil)
	require.ErrorContains(t, err, "is of an interrupted checkpoint to another directory; remove it")

	dir := t.TempDir()
	o := &db.Options{Memtables: db.MemtableOptions{Size: 64 << 10}}
	real := result.Of(db.Open(filepath.Join(dir, "db"), o))(t)
	defer real.Close()
	require.NoError(t, real.Put([]byte("a"), []byte("1"), nil))
	linked := filepath.Join(dir, "linked")
	require.NoError(t, result.Err(real.Checkpoint(context.Background(), linked, nil)))
	if err := os.Symlink(linked, filepath.Join(dir, "new.checkpoint")); err != nil {
		require.ErrorIs(t, err, fs.ErrPermission, "Windows does not let everybody make links")
		return
	}
	_, err = real.Checkpoint(context.Background(), filepath.Join(dir, "new"), nil)
	require.ErrorContains(t, err, "it is a symbolic link, want a directory")
	requireCopy(t, nil, linked, fixture.Contents{"a": "1"})
}

// A read-only store can be copied too. What its logs have is in tables of the copy: the logs may be
// damaged, or of another engine whose MANIFEST says other things about them.
func TestACheckpointOfAReadOnlyStore(t *testing.T) {
	fsys := fixture.NewFailing()
	mem := fsys.Mem
	d := storetest.MustOpen(t, storetest.Options(fsys))
	storetest.Fill(t, d, 0, 200)
	require.NoError(t, d.Flush())
	storetest.Fill(t, d, 100, 300)
	storetest.WaitUntilIdle(d) // or the flush of a memtable that became full arrives, and Flush waits for it, as do writes
	arrived, open := make(chan struct{}, 100), make(chan struct{})
	fsys.On(func(op wrap.Op) *wrap.Fault {
		if op.Kind == wrap.OpCreate && fixture.IsTable(op.Name) {
			arrived <- struct{}{}
			<-open
		}
		return nil
	})
	flushed := make(chan error)
	go func() { flushed <- d.Flush() }()
	<-arrived
	fsys.Heal()
	storetest.Fill(t, d, 250, 350)
	require.NoError(t, d.SyncLog())
	want := storetest.Contents(t, d)
	crashed := mem.Crash() // with two logs
	close(open)
	require.NoError(t, <-flushed)
	require.NoError(t, d.Close())
	for _, mem := range []*vfs.Mem{mem, crashed} {
		o := storetest.Options(mem)
		o.ReadOnly = true
		d := storetest.Open(t, o)
		info := storetest.CheckpointTo(t, d, "copy")
		require.Equal(t, d.Metrics().LastSequence, info.Seq)
		require.Equal(t, d.Metrics().Total().Bytes, info.BytesLinked, "only tables")
		require.Zero(t, info.Logs)
		if mem == crashed {
			require.Positive(t, info.BytesCopied)
		}
		requireCopy(t, mem.Crash(), "copy", want)
	}
}

func TestDirIsTheDirectoryOfTheStore(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	d := result.Of(db.Open("fruit", nil))(t)
	require.NoError(t, d.Close())
	require.True(t, filepath.IsAbs(d.Dir()))
	require.Equal(t, "fruit", filepath.Base(d.Dir()))
	require.Empty(t, (*db.DB)(nil).Dir())
	require.Empty(t, new(db.DB).Dir())
}

// Tables are linked: a checkpoint writes no more than the newest log and a few small files.
func TestACheckpointCopiesNoTables(t *testing.T) {
	mem := vfs.NewMem()
	counting := wrap.NewCounting(mem)
	o := storetest.Options(counting)
	o.Memtables.Size = 64 << 10
	d := storetest.Open(t, o)
	storetest.Fill(t, d, 0, 20000)
	storetest.Settle(t, d)
	require.NoError(t, d.Flush())
	require.NoError(t, d.Put([]byte("k"), []byte("v"), db.Sync))
	resume := result.Of(d.PauseCompactions(t.Context()))(t)
	defer resume()
	before := counting.Snapshot()
	info := storetest.CheckpointTo(t, d, "copy")
	moved := counting.Snapshot().Sub(before).Total
	require.Greater(t, info.Tables, 10)
	require.Greater(t, info.BytesLinked, uint64(500<<10))
	require.Less(t, info.BytesCopied, uint64(100))
	require.Less(t, moved.WriteBytes, uint64(200*info.Tables))
	require.Less(t, moved.ReadBytes, uint64(128<<10))
}

// Where the file system cannot link, everything is copied.
func TestACheckpointWithoutLinks(t *testing.T) {
	fsys := fixture.NewFailing()
	fsys.Fail(wrap.OpLink, "", syscall.EXDEV)
	d := storetest.Open(t, storetest.Options(fsys))
	storetest.Fill(t, d, 0, 3000)
	info := storetest.CheckpointTo(t, d, "copy")
	require.Zero(t, info.BytesLinked)
	require.Positive(t, info.Tables)
	requireCopy(t, fsys.Mem.Crash(), "copy", storetest.Contents(t, d))
}

// The bugs: the copy had no log that an old LevelDB's MANIFEST needs besides its newest one, and the
// damage that Options.Salvage had skipped.
func TestACheckpointHasWhatAReadOnlyStoreShows(t *testing.T) {
	mem := vfs.NewMem()
	d := storetest.MustOpen(t, storetest.Options(mem))
	storetest.Fill(t, d, 0, 50)
	want := storetest.Contents(t, d)
	require.NoError(t, d.SyncLog())
	mem = mem.Crash()
	require.NoError(t, d.Close())
	_, st, err := manifest.Load(manifest.SetOptions{FS: mem, Dir: "db", Cmp: base.Bytewise})
	require.NoError(t, err)
	e := &manifest.Edit{
		Comparer: base.Bytewise.Name, LogNum: manifest.Num(90), PrevLogNum: manifest.Num(st.LogNum), NextFileNum: manifest.Num(200), LastSeq: manifest.Num(0),
	}
	require.NoError(t, manifest.WriteFile(mem, "db", 91, e))
	require.NoError(t, manifest.SetCurrent(mem, "db", 91))
	fixture.WriteFile(t, mem, filepath.Join("db", base.FileName(base.FileLog, 90)), nil)
	copied := func(dir string, o *db.Options) fixture.Contents {
		o.ReadOnly = true
		d := storetest.Open(t, o)
		shown := storetest.Contents(t, d)
		storetest.CheckpointTo(t, d, dir)
		requireCopy(t, mem, dir, shown)
		return shown
	}
	require.Equal(t, want, copied("copy", storetest.Options(mem)))

	path := filepath.Join("db", base.FileName(base.FileLog, st.LogNum))
	log := fixture.ReadLog(t, mem, path)
	log[len(log)/2]++
	fixture.WriteFile(t, mem, path, log)
	o := storetest.Options(mem)
	o.Salvage = db.SalvageAll
	require.Less(t, len(copied("salvaged", o)), len(want))
}

// A follower copies what it shows, also tables that the writer has removed, and nothing that was written since.
func TestACheckpointOfAFollower(t *testing.T) {
	mem := vfs.NewMem()
	o := storetest.Options(mem)
	d := storetest.Open(t, o)
	storetest.Fill(t, d, 0, 200)
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	storetest.Fill(t, d, 100, 300)
	f := storetest.MustFollow(t, o)
	want := storetest.Contents(t, f)
	storetest.Fill(t, d, 0, 400)
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	info := storetest.CheckpointTo(t, f, "copy")
	require.Positive(t, info.BytesCopied)
	require.Zero(t, info.Logs)
	requireCopy(t, mem, "copy", want)
	require.Equal(t, info.Seq, f.Metrics().LastSequence)
}

// The directory was replaced under the follower: files of the same names are of another database.
func TestACheckpointOfAFollowerHasItsOwnTables(t *testing.T) {
	mem := vfs.NewMem()
	o := storetest.Options(mem)
	fillWith := func(value string) {
		d := storetest.MustOpen(t, o)
		storetest.PutAll(t, d, "a", value)
		require.NoError(t, d.Flush())
		require.NoError(t, d.Close())
	}
	fillWith("old")
	f := storetest.MustFollow(t, o)
	require.NoError(t, db.Destroy("db", o))
	fillWith("new")
	storetest.CheckpointTo(t, f, "copy")
	requireCopy(t, mem, "copy", fixture.Contents{"a": "old"})
}

func TestMain(m *testing.M) { os.Exit(fixture.Run(m)) }
