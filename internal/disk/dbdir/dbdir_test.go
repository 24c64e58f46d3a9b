package dbdir

import (
	"bytes"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/disk/wal"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/foreigntest"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/vfs"
)

// with returns a file system in memory whose directory db has empty files of these names.
func with(t *testing.T, names ...string) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem()
	require.NoError(t, mem.MkdirAll("db"))
	for _, name := range names {
		fixture.WriteFile(t, mem, filepath.Join("db", name), nil)
	}
	return mem
}

func open(t *testing.T, path string, o Options) *Dir {
	t.Helper()
	d := result.Of(Open(path, o))(t)
	return d
}

func locked(t *testing.T, d *Dir) error {
	t.Helper()
	require.NoError(t, d.Lock())
	defer func() { require.NoError(t, d.Close()) }()
	files := result.Of(manifest.ListDir(d.FS, d.Path))(t)
	return d.Locked(files)
}

func TestDirectoriesThatMayBeOpened(t *testing.T) {
	for _, c := range []struct {
		name  string
		files []string // nil for no directory
		o     Options
		// The errors of Prepare and Locked, nil for none.
		prepare, locked error
		text            string
	}{
		{name: "new", o: Options{}},
		{name: "new, must exist", o: Options{ErrorIfMissing: true}, prepare: fs.ErrNotExist, text: "Options.ErrorIfMissing is set"},
		{name: "new, read-only", o: Options{ReadOnly: true}, prepare: fs.ErrNotExist, text: "it is opened only for reading"},
		{name: "empty", files: []string{}, o: Options{ErrorIfExists: true}},
		{name: "empty, must exist", files: []string{}, o: Options{ErrorIfMissing: true}, prepare: fs.ErrNotExist},
		{name: "another program locked it first", files: []string{"LOCK"}, o: Options{ErrorIfMissing: true}, locked: fs.ErrNotExist},
		{name: "database", files: []string{"CURRENT"}, o: Options{ErrorIfMissing: true}},
		{name: "database, must not exist", files: []string{"CURRENT"}, o: Options{ErrorIfExists: true}, locked: fs.ErrExist},
		{name: "remains", files: []string{"000005.ldb"}, locked: base.ErrCorruption},
		{name: "remains, must exist", files: []string{"000005.ldb"}, o: Options{ErrorIfMissing: true}, prepare: base.ErrCorruption},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := vfs.NewMem()
			if c.files != nil {
				mem = with(t, c.files...)
			}
			c.o.FS = mem
			d := open(t, "db", c.o)
			created, err := d.Prepare()
			if c.prepare == nil {
				require.NoError(t, err)
				require.Equal(t, c.files == nil, created)
				c.prepare = c.locked
				if err = locked(t, d); c.locked == nil {
					require.NoError(t, err)
					return
				}
			}
			require.ErrorIs(t, err, c.prepare)
			require.ErrorContains(t, err, c.text)
		})
	}
}

func TestAnotherEnginesDirectoryIsRefusedBeforeTheLock(t *testing.T) {
	mem := with(t)
	require.NoError(t, foreigntest.Directories()[0].Files.Write(mem, "db"))
	d := open(t, "db", Options{FS: mem})
	require.ErrorIs(t, result.Err(d.Prepare()), base.ErrForeign)
}

func TestAFileIsNoDatabase(t *testing.T) {
	mem := with(t, "notes.txt")
	d := open(t, filepath.Join("db", "notes.txt"), Options{FS: mem})
	require.ErrorContains(t, result.Err(d.Prepare()), "notes.txt")
}

// A new directory survives a power cut, also if an earlier attempt made it without a sync.
func TestNewDirectoriesAreDurable(t *testing.T) {
	for _, mem := range []*vfs.Mem{vfs.NewMem(), with(t)} {
		d := open(t, "db", Options{FS: mem})
		require.NoError(t, result.Err(d.Prepare()))
		require.NoError(t, locked(t, d))
		require.NoError(t, result.Err(mem.Crash().Stat("db")))
	}
}

// An operation that fails ends the decision, with its error. Only a parent that may not be read is not synced.
func TestAnErrorAtEveryOperation(t *testing.T) {
	failed := errors.New("failed")
	decide := func(fsys vfs.FS, option bool) error {
		d := open(t, "db", Options{FS: fsys, ErrorIfMissing: option})
		if _, err := d.Prepare(); err != nil {
			return err
		}
		if err := d.Lock(); err != nil {
			return err
		}
		defer d.Close()
		files, err := manifest.ListDir(fsys, "db")
		if err != nil {
			return err
		}
		return d.Locked(files)
	}
	for name, start := range map[string]func() *vfs.Mem{
		"new":          vfs.NewMem,
		"empty":        func() *vfs.Mem { return with(t) },
		"closed":       func() *vfs.Mem { return with(t, "CLOSED") },
		"database":     func() *vfs.Mem { return with(t, "CURRENT") },
		"locked empty": func() *vfs.Mem { return with(t, "LOCK") },
	} {
		for _, mustExist := range []bool{false, true} {
			counted := wrap.NewFaulty(start(), nil)
			usual := decide(counted, mustExist)
			require.NotZero(t, counted.Ops())
			for n := range counted.Ops() {
				var at string
				err := decide(wrap.NewFaulty(start(), func(op wrap.Op) *wrap.Fault {
					if op.Index != n {
						return nil
					}
					at = op.Kind.String() + " " + op.Name
					return &wrap.Fault{Err: failed}
				}), mustExist)
				if at == "stat ." || at == "stat db/LOCK" || strings.HasPrefix(at, "close ") { // the root is there; files are only read
					continue
				}
				if usual == nil || err == nil || err.Error() != usual.Error() {
					require.ErrorIs(t, err, failed, "%s, must exist %v: operation %d, %s; without a failure: %v", name, mustExist, n, at, usual)
				}
			}
		}
	}
	mem := with(t)
	unreadable := wrap.NewFaulty(mem, wrap.FailIf(fs.ErrPermission, func(op wrap.Op) bool {
		return op.Kind == wrap.OpSyncDir
	}))
	require.NoError(t, decide(unreadable, false))
}

func TestRemainsOfADatabaseAreRefused(t *testing.T) {
	mem := with(t, "000010.log")
	set := manifest.New(manifest.SetOptions{
		FS: mem, Dir: "db", Cmp: base.Bytewise, MaxManifestSize: 1 << 20, ReadLimit: 1 << 20, MaxTables: 100,
		Obsolete: func([]version.LevelFile) {}, NewHandle: func() any { return nil },
	})
	require.NoError(t, set.Begin(&manifest.Edit{LogNum: manifest.Num(10), LastSeq: manifest.Num(0)}, func(*version.Version) {}))
	require.NoError(t, set.Close())
	list := func() manifest.DirFiles {
		files := result.Of(manifest.ListDir(mem, "db"))(t)
		return files
	}

	files := list()
	require.NoError(t, refuseRemains(mem, "db", files),
		"an empty log has no data, and a MANIFEST with one edit was perhaps never in force")
	closed := files
	closed.All = append(slices.Clone(files.All), manifest.DirFile{Kind: base.FileClosed})
	require.ErrorIs(t, refuseRemains(mem, "db", closed), base.ErrCorruption, "a database was closed")

	f := result.Of(mem.Create(filepath.Join("db", "000011.log")))(t)
	w := wal.NewWriter(f)
	require.NoError(t, w.WriteRecord([]byte("a record")))
	require.NoError(t, w.Close())
	require.ErrorIs(t, refuseRemains(mem, "db", list()), base.ErrCorruption)
}

// directory has one file of each kind; the sizes are powers of two.
func directory(t *testing.T) *vfs.Mem {
	mem := vfs.NewMem()
	require.NoError(t, vfs.MkdirAllSynced(mem, filepath.Join("db", base.LostDir, "deep")))
	require.NoError(t, vfs.MkdirAllSynced(mem, filepath.Join("db", base.ChangesDir)))
	for i, name := range []string{
		"000001.ldb", "000002.ldb", "000003.sst", "000004.log", "MANIFEST-000005", "CURRENT", "LOCK", "CLOSED", "LOG",
		"000006.dbtmp", "unknown", filepath.Join(base.LostDir, "000007.ldb"), filepath.Join(base.LostDir, "000008.log"),
		filepath.Join(base.ChangesDir, "1-2.log"),
	} {
		fixture.WriteFile(t, mem, filepath.Join("db", name), make([]byte, 1<<i))
	}
	return mem
}

func listed(num uint64) bool { return num != 2 }

func TestMeasureSortsFilesByWhatTheyAreFor(t *testing.T) {
	u := result.Of(Measure(directory(t), "db", listed))(t)
	require.Equal(t, report.DiskUsage{
		Tables: 1<<0 + 1<<2, UnlistedTables: 1<<1 + 1<<9, Logs: 1 << 3, Manifest: 1 << 4, Lost: 1<<11 + 1<<12, Changes: 1 << 13,
		Other: 1<<5 + 1<<6 + 1<<7 + 1<<8 + 1<<10, Total: 1<<14 - 1,
	}, u)
}

// An open database reserves space behind the records of its log. A few zeros are the end of a record.
func TestMeasureTellsReservedSpaceFromRecords(t *testing.T) {
	mem := directory(t)
	for zeros, reserved := range map[int]uint64{10: 0, 64 << 10: 64 << 10} {
		fixture.WriteFile(t, mem, filepath.Join("db", "000004.log"), append([]byte("records"), make([]byte, zeros)...))
		u := result.Of(Measure(mem, "db", listed))(t)
		require.EqualValues(t, 7+zeros, u.Logs)
		require.Equal(t, reserved, u.LogsReserved)
		require.EqualValues(t, 1<<14-1-8+7+zeros, u.Total)
	}
}

// A file that goes between the listing and the question for its size does not count; any other error is
// returned with the path.
func TestAnErrorAtEveryOperationOfMeasure(t *testing.T) {
	mem := directory(t)
	counted := wrap.NewFaulty(mem, nil)
	require.NoError(t, result.Err(Measure(counted, "db", listed)))
	require.Greater(t, counted.Ops(), uint64(13))
	for n := range counted.Ops() {
		_, err := Measure(wrap.NewFaulty(mem, wrap.FailNth(n, nil)), "db", listed)
		require.ErrorIs(t, err, wrap.ErrInjected)
		require.ErrorContains(t, err, "db")
	}
	removed := 0
	racing := wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
		if op.Kind == wrap.OpStat && filepath.Base(op.Name) == "000004.log" {
			removed++
			require.NoError(t, mem.Remove(filepath.Join("db", "000004.log")))
		}
		return nil
	})
	u := result.Of(Measure(racing, "db", listed))(t)
	require.Equal(t, 1, removed)
	require.Zero(t, u.Logs)
	require.ErrorContains(t, result.Err(Measure(mem, "nowhere", listed)), "listing nowhere")
}

func TestAReserveIsMadeFreedAndMadeAgain(t *testing.T) {
	full := false
	mem := vfs.NewMem()
	fsys := wrap.NewFaulty(mem, wrap.FailIf(syscall.ENOSPC, func(op wrap.Op) bool {
		return full && op.Kind == wrap.OpWrite
	}))
	require.NoError(t, mem.MkdirAll("db"))
	size := func() int64 {
		info, err := mem.Stat("db/RESERVE")
		if err != nil {
			require.ErrorIs(t, err, fs.ErrNotExist)
			return 0
		}
		return info.Size()
	}
	running := func() bool { return false }
	r := ReserveFor(fsys, "db", 300_000, 0)
	require.False(t, r.Free())
	full = true
	require.ErrorIs(t, r.Keep(0, running), syscall.ENOSPC)
	require.Zero(t, size())
	full = false
	for range 2 {
		require.NoError(t, r.Keep(0, running))
		require.Equal(t, int64(300_000), size())
		require.NoError(t, ReserveFor(fsys, "db", 300_000, 0).Keep(0, running))
		require.False(t, r.Used())
		require.True(t, r.Free())
		require.True(t, r.Used())
		require.False(t, r.Due(0))
		require.NoError(t, r.Keep(0, running))
		require.Zero(t, size(), "it is not wanted again yet")
		r.WantAgain()
	}
	require.True(t, r.Due(0))
	require.NoError(t, r.Keep(0, func() bool { return true }))
	require.Zero(t, size(), "the store closes")
	require.NoError(t, r.Keep(0, running))
	require.False(t, r.Due(0))
	r = ReserveFor(fsys, "db", 100, 0) // another size
	require.NoError(t, r.Keep(0, running))
	require.Equal(t, int64(100), size())
	require.NoError(t, RemoveReserve(fsys, "db"))
	require.Zero(t, size())
	require.NoError(t, RemoveReserve(fsys, "db"), "again")
	none := ReserveFor(fsys, "db", -1, 0)
	require.Nil(t, none)
	none.WantAgain()
	none.Freed()
	require.False(t, none.Due(1<<40))
	require.NoError(t, none.Keep(1<<40, running))
	require.False(t, none.Free())
	require.Zero(t, none.Size())
}

// Open leaves the reserve as it found it until a flush, except for one whose size was asked for.
func TestAStoreBeginsWithTheReserveThatItsOptionsAskFor(t *testing.T) {
	const size = 300_000
	running := func() bool { return false }
	for name, c := range map[string]struct {
		wanted      int64
		freed, full bool
		there, used bool // afterwards
		logs        string
	}{
		"none any more":           {wanted: -1},
		"none, and one stays":     {wanted: -1, full: true, there: true, logs: "cannot be removed"},
		"that of another size":    {wanted: size / 2, there: true},
		"one that Open has freed": {wanted: size, freed: true, there: true, used: true},
		"one that follows tables": {there: true},
		"one that cannot be made": {wanted: 2 * size, full: true, logs: "a later flush tries again"},
	} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewMem()
			require.NoError(t, mem.MkdirAll("db"))
			require.NoError(t, ReserveFor(mem, "db", size, 0).Keep(0, running))
			var logged bytes.Buffer
			fsys := wrap.NewFaulty(mem, wrap.FailIf(syscall.ENOSPC, func(op wrap.Op) bool {
				return c.full && (op.Kind == wrap.OpWrite || op.Kind == wrap.OpRemove && c.wanted < 0)
			}))
			d := &Dir{FS: fsys, Path: "db", Reserve: ReserveFor(fsys, "db", c.wanted, size)}
			d.BeginReserve(c.freed, running, slog.New(slog.NewTextHandler(&logged, nil)))
			require.Equal(t, c.there, result.Err(mem.Stat("db/RESERVE")) == nil)
			require.Equal(t, c.used, d.Reserve.Used())
			if c.logs == "" {
				require.Empty(t, logged.String())
			}
			require.Contains(t, logged.String(), c.logs)
		})
	}
}

func TestErrorsAboutLinksSayWhatToDo(t *testing.T) {
	require.Equal(t, fs.ErrExist, ExplainLink(fs.ErrExist, true))
	for readOnly, says := range map[bool]string{true: "must lead to a plain file", false: "open the database with Options.ReadOnly"} {
		err := ExplainLink(vfs.ErrSymlink, readOnly)
		require.ErrorIs(t, err, vfs.ErrSymlink)
		require.ErrorContains(t, err, says)
	}
}

// By default there is a reserve while the tables are large against it.
func TestTheDefaultReserveFollowsTheTables(t *testing.T) {
	mem := with(t)
	running := func() bool { return false }
	r := ReserveFor(mem, "db", 0, 24<<20)
	require.Equal(t, int64(25<<20), r.Size())
	for _, step := range []struct {
		tables    uint64
		due, made bool
	}{{0, false, false}, {400<<20 - 1, false, false}, {400 << 20, true, true}, {400 << 20, false, true}, {200 << 20, false, true}, {200<<20 - 1, true, false}, {0, false, false}} {
		require.Equal(t, step.due, r.Due(step.tables), step)
		require.NoError(t, r.Keep(step.tables, running))
		_, err := mem.Stat("db/RESERVE")
		require.Equal(t, step.made, err == nil, step)
	}
	r.Freed()
	require.False(t, r.Due(1<<40))
}

// An attempt fills what is left of the disk, so each next one comes later.
func TestFailedReservesAreTriedLessOften(t *testing.T) {
	mem := with(t)
	r := ReserveFor(wrap.NewFaulty(mem, wrap.FailFrom(0, syscall.ENOSPC)), "db", 100, 0)
	var attempts []int
	for i := range 40 {
		if r.Due(0) {
			attempts = append(attempts, i)
			require.ErrorIs(t, r.Keep(0, func() bool { return false }), syscall.ENOSPC)
		}
	}
	require.Equal(t, []int{0, 2, 6, 14, 30}, attempts)
	r.WantAgain()
	require.True(t, r.Due(0))
}

// smallDisk is a file system with little space.
type smallDisk struct {
	vfs.FS
	free uint64
}

func (d *smallDisk) FreeBytes(string) (uint64, error) { return d.free, nil }

// An attempt to make the reserve used the rest of a disk for a moment, in which other writes failed.
func TestAReserveIsNotMadeOnADiskThatIsNearlyFull(t *testing.T) {
	mem := with(t)
	disk := &smallDisk{FS: wrap.NewFaulty(mem, wrap.FailFrom(0, syscall.EIO)), free: 199}
	r := ReserveFor(disk, "db", 100, 0)
	running := func() bool { return false }
	require.ErrorContains(t, r.Keep(0, running), "199 bytes are free, want at least 200")
	disk.free = 200
	require.ErrorIs(t, r.Keep(0, running), syscall.EIO)
	disk.FS = mem
	require.NoError(t, r.Keep(0, running))
	require.False(t, r.Due(0))
}
