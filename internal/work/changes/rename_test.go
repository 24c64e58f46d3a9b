package changes

import (
	"fmt"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/crashtest/recorder"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/result"
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
	p := result.Of(s.a.Begin(Load, Event{Manifest: s.manifest}, 101, []string{s.table("l")}))(t)
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
				got := result.Of(readAll(d, s.fsys, since, s.seq, nil))(t)
				require.Equal(t, want[since:], got)
			}
			s, d := c.prepare(t)
			require.Zero(t, result.Of(d.Oldest(s.seq))(t))
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
	require.Equal(t, uint64(103), result.Of(d.Oldest(306))(t))
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
	require.ErrorIs(t, result.Err(d.Oldest(s.seq)), syscall.EMFILE)
	fsys.Heal()
	got := result.Of(readAll(d, fsys, 3, s.seq, nil))(t)
	require.Equal(t, filledChanges[2:], got)
}

// quiet is a store without loads, ingests and deleted ranges, so that nothing is in progress when the power fails. It
// returns the store after each step, by the operations that were recorded until then.
func quiet(t *testing.T, r *recorder.FS, fsys vfs.FS) map[int]store {
	s := newStore(t, fsys)
	require.NoError(t, fsys.SyncDir("."))
	states := map[int]store{}
	done := func() { states[r.Len()] = *s }
	for opening := range 2 {
		require.NoError(t, s.open())
		done()
		for i := range 3 {
			s.put(fmt.Sprintf("k%d%d", opening, i))
			done()
			// The edit that makes the log superfluous is durable before the log is moved.
			old := s.num
			require.NoError(t, s.log.Close())
			s.begin()
			require.NoError(t, s.fsys.SyncDir("db"))
			s.a.SwitchLog(s.seq, s.seq, s.num)
			s.logNum = s.num
			done()
			require.NoError(t, s.a.Keep(old))
			done()
		}
	}
	return states
}

// The power fails at each operation and leaves a random part of the changes of each directory, in any order. A log that
// was being moved to the archive was in neither directory, and the history restarted although nothing was in progress.
func TestAPowerCutWhileLogsMoveDoesNotEndTheHistory(t *testing.T) {
	noLinks := fixture.NewFailing()
	noLinks.Fail(wrap.OpLink, "", wrap.ErrInjected)
	quiet(t, recorder.New(recorder.Image{}), noLinks) // it works without links, too
	r := recorder.New(recorder.Image{})
	states := quiet(t, r, r)
	trace := r.Trace()
	c := trace.Cursor()
	s, opened := store{}, false
	for cut := 0; cut <= len(trace.Ops); cut++ {
		c.Seek(cut)
		if now, ok := states[cut]; ok {
			s, opened = now, true
		}
		if !opened {
			continue
		}
		for _, m := range []recorder.Model{recorder.M0, recorder.M1, recorder.M3, recorder.M5} {
			for seed := range uint64(8) {
				for state := range c.States(m, seed) {
					requireHistory(t, s, state.Mem(), fmt.Sprintf("%v, seed %d, %s", m, seed, trace.At(cut)))
				}
			}
		}
	}
}

// requireHistory opens what a power cut left. All changes were synced.
func requireHistory(t *testing.T, s store, mem *vfs.Mem, at string) {
	s.fsys, s.o.FS, s.num = mem, mem, s.num+10
	want := s.seq
	names := result.Of(mem.List("db"))(t)
	for _, name := range names { // a change may have been made since
		if kind, num, ok := base.ParseFileName(name); ok && kind == base.FileLog {
			log := segment{path: filepath.Join("db", name), live: num}
			require.NoError(t, log.scan(mem), at)
			s.seq = max(s.seq, log.last)
		}
	}
	require.NoError(t, s.open(), at)
	got, err := s.read(0)
	require.NoError(t, err, at)
	require.GreaterOrEqual(t, len(got), int(want), at)
}
