package changes

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/crashtest/recorder"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/vfs"
)

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
	names, err := mem.List("db")
	require.NoError(t, err)
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
