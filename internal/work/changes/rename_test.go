package changes

import (
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/vfs"
)

// changingFS is a file system whose directories change while they are listed.
type changingFS struct {
	vfs.FS
	// listed is called after the names of a directory were read, and returns those that the reader gets; nil for no
	// call.
	listed func(dir string, names []string) []string
}

func (c *changingFS) List(dir string) ([]string, error) {
	names, err := c.FS.List(dir)
	if c.listed != nil && err == nil {
		names = c.listed(dir, names)
	}
	return names, err
}

// renamed describes how a reader sees a change whose file is renamed while it lists the directory.
type renamed struct {
	flushed bool // the log before it has been moved to the archive
	more    bool // a log follows it
	hidden  bool // the listing has none of the two names
}

// prepare returns a store in which a load is in force, and a Directory that sees its file being renamed. The load has
// the numbers 2 to 101.
func (c renamed) prepare(t *testing.T) (*store, *Directory) {
	fsys := &changingFS{FS: vfs.NewMem()}
	s := newStore(t, fsys)
	require.NoError(t, s.open())
	s.put("a")
	old := s.num
	require.NoError(t, s.log.Close())
	s.begin()
	s.a.SwitchLog(s.seq, s.seq, s.num)
	if c.flushed {
		require.NoError(t, s.a.Keep(old))
	}
	p, err := s.a.Begin(Load, Event{Manifest: s.manifest}, 101, []string{s.table("l")})
	require.NoError(t, err)
	s.seq = 101
	if c.more {
		s.put("b")
	}
	fsys.listed = func(dir string, names []string) []string {
		if dir != filepath.Join("db", "changes") {
			return names
		}
		fsys.listed = nil
		p.Commit()
		if c.hidden {
			names = slices.DeleteFunc(names, func(name string) bool { return name == "2-101.load.pending" })
		}
		return names
	}
	return s, NewDirectory(fsys, "db", nil)
}

// The file of a load gets its final name after a reader of the directory has listed it, or while it does so: the reader
// said that the changes are gone, and its user copied the whole database.
func TestAChangeIsRenamedWhileTheDirectoryIsListed(t *testing.T) {
	for name, c := range map[string]renamed{
		"at the end":                    {flushed: true},
		"at the end, missed":            {flushed: true, hidden: true},
		"between logs":                  {more: true},
		"between logs, missed":          {more: true, hidden: true},
		"after a kept log":              {flushed: true, more: true},
		"after a kept log, missed":      {flushed: true, more: true, hidden: true},
		"after an open log":             {},
		"after an open log, and missed": {hidden: true},
	} {
		t.Run(name, func(t *testing.T) {
			want := []string{"a", ".load l"}
			if c.more {
				want = append(want, "b")
			}
			for since := range uint64(2) {
				s, d := c.prepare(t)
				got, err := readAll(d, s.fsys, since, s.seq, nil)
				require.NoError(t, err)
				require.Equal(t, want[since:], got)
			}
			s, d := c.prepare(t)
			oldest, err := d.Oldest(s.seq)
			require.NoError(t, err)
			require.Zero(t, oldest)
		})
	}
}

// What is gone is still reported, also when the directory changes with each listing.
func TestGapsAreReportedWhileTheDirectoryChanges(t *testing.T) {
	fsys := &changingFS{FS: vfs.NewMem()}
	s := filled(t, fsys)
	require.NoError(t, fsys.Remove("db/changes/4-103.load"))
	fsys.listed = func(dir string, names []string) []string {
		if dir == filepath.Join("db", "changes") {
			s.put("x")
			require.NoError(t, s.flush())
		}
		return names
	}
	d := NewDirectory(fsys, "db", nil)
	got, err := readAll(d, fsys, 0, 306, nil)
	require.ErrorIs(t, err, ErrGone)
	require.Equal(t, filledChanges[:2], got)
	oldest, err := d.Oldest(306)
	require.NoError(t, err)
	require.Equal(t, uint64(103), oldest)
}

// A file that cannot be opened because too many are open is not gone.
func TestAFileThatCannotBeOpenedIsNotGone(t *testing.T) {
	fsys := fixture.NewFailing()
	s := filled(t, fsys)
	d := NewDirectory(fsys, "db", nil)
	fsys.Fail(wrap.OpOpen, ".load", syscall.EMFILE)
	_, err := readAll(d, fsys, 3, s.seq, nil)
	require.ErrorIs(t, err, syscall.EMFILE)
	require.NotErrorIs(t, err, ErrGone)
	_, err = d.Oldest(s.seq)
	require.ErrorIs(t, err, syscall.EMFILE)
	fsys.Heal()
	got, err := readAll(d, fsys, 3, s.seq, nil)
	require.NoError(t, err)
	require.Equal(t, filledChanges[2:], got)
}
