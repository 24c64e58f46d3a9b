package dbdir

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/foreigntest"
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
	d, err := Open(path, o)
	require.NoError(t, err)
	return d
}

func locked(t *testing.T, d *Dir) error {
	t.Helper()
	require.NoError(t, d.Lock())
	defer func() { require.NoError(t, d.Close()) }()
	files, err := manifest.ListDir(d.FS, d.Path)
	require.NoError(t, err)
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
	_, err := d.Prepare()
	require.ErrorIs(t, err, base.ErrForeign)
}

func TestAFileIsNoDatabase(t *testing.T) {
	mem := with(t, "notes.txt")
	d := open(t, filepath.Join("db", "notes.txt"), Options{FS: mem})
	_, err := d.Prepare()
	require.ErrorContains(t, err, "notes.txt")
}

// A new directory survives a power cut, also if an earlier attempt made it without a sync.
func TestNewDirectoriesAreDurable(t *testing.T) {
	for _, mem := range []*vfs.Mem{vfs.NewMem(), with(t)} {
		d := open(t, "db", Options{FS: mem})
		_, err := d.Prepare()
		require.NoError(t, err)
		require.NoError(t, locked(t, d))
		_, err = mem.Crash().Stat("db")
		require.NoError(t, err)
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
