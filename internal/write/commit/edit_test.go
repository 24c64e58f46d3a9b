package commit

import (
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/read/lookup"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/memtable"
	"github.com/sievedb/sievedb/sstable"
)

// recording makes s record its edits in a MANIFEST. The first table is in level 6.
func recording(t *testing.T) *store {
	s := open(t, config{})
	dir := s.o.Dir
	s.set = manifest.New(manifest.SetOptions{
		FS: dir.FS, Dir: dir.Path, Cmp: base.Bytewise, MaxManifestSize: 1 << 20, NewHandle: tables.NewHandle,
	})
	s.set.MarkUsed(100)
	begin := &manifest.Edit{Added: []version.LevelFile{{Level: 6, File: s.table(900, false)}}}
	require.NoError(t, s.set.Begin(begin, func(v *version.Version) {
		s.Install(func(state *lookup.State) { state.Version = v })
	}))
	cache := tables.NewCache(tables.CacheOptions{
		FS: dir.FS, Dir: dir.Path, MaxOpen: 10, Reader: sstable.ReaderOptions{Comparer: base.Bytewise},
	})
	t.Cleanup(func() { cache.Close(); _ = s.set.Close() })
	st := &s.Committer.store
	st.Set, st.Tables, st.Obsolete = s.set, cache, tables.NewObsolete(dir, cache, func(uint64) {})
	return s
}

// table returns a table of one key, whose file nobody reads.
func (s *store) table(num uint64, values bool) *version.FileMeta {
	k := base.AppendInternalKey(nil, key(1), 1, base.KindSet)
	f := version.NewFileMeta(num, 1, k, k)
	if f.Handle = tables.NewHandle(); values {
		f.SetValueBytes(10)
	}
	fixture.WriteFile(s.t, s.mem, s.path(f), []byte("x"))
	return f
}

func (s *store) path(f *version.FileMeta) string { return filepath.Join("dir", f.Name()) }

func (s *store) there(f *version.FileMeta) bool {
	_, err := s.mem.Stat(s.path(f))
	return err == nil
}

// What becomes of the tables that were written for an edit, and of those of an earlier one that may be in force.
func TestTablesOfAnEditStayUntilItsFateIsCertain(t *testing.T) {
	manifestOf := func(op wrap.Op) bool {
		kind, _, ok := base.ParseFileName(filepath.Base(op.Name))
		return ok && kind == base.FileManifest
	}
	refs := []version.ValueDelta{{ID: 903, Live: 1}} // so that the added tables are asked what they refer to
	for name, c := range map[string]struct {
		level            int
		values           []version.ValueDelta
		fails            error
		op               wrap.OpKind
		earlier, written bool // there afterwards
		ended            bool
	}{
		"it is in force":                {level: 5, written: true},
		"it is refused":                 {level: 6, earlier: true},
		"the table cannot be read":      {level: 5, values: refs, earlier: true},
		"the MANIFEST cannot be synced": {level: 5, fails: syscall.EIO, op: wrap.OpSync, earlier: true, written: true, ended: true},
		"the disk is full":              {level: 5, fails: syscall.ENOSPC, op: wrap.OpWrite, earlier: true, written: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := recording(t)
			earlier, meanwhile := s.table(901, false), s.table(902, false)
			s.Committer.store.Obsolete.AddUncertain(earlier)
			written := []*version.FileMeta{s.table(904, false), s.table(905, true)} // to 905, nothing refers
			edit := &manifest.Edit{Added: []version.LevelFile{{Level: c.level, File: written[0]}}, Values: c.values}
			if c.fails != nil {
				s.faults.On(failing(c.fails, func(op wrap.Op) bool { return op.Kind == c.op && manifestOf(op) }))
			}
			before := s.state().Version
			err := s.ApplyEdit(edit, written, func(state *lookup.State) {
				require.NotSame(t, before, state.Version)
				s.Committer.store.Obsolete.AddUncertain(meanwhile) // of an edit that follows
			})
			inForce := c.written && c.fails == nil
			require.Equal(t, inForce, err == nil, err)
			require.Equal(t, inForce, s.state().Version != before)
			require.Equal(t, c.earlier, s.there(earlier), "earlier")
			require.Equal(t, c.written, s.there(written[0]), "written")
			require.Equal(t, c.fails != nil, s.there(written[1]), "values")
			require.True(t, s.there(meanwhile))
			require.Equal(t, c.ended, s.Failure() != nil)

			s.faults.Heal()
			err = s.ApplyEdit(&manifest.Edit{}, nil, nil)
			require.Equal(t, c.ended, err != nil)
			require.Equal(t, c.ended, s.there(earlier))
			require.Equal(t, c.ended || inForce, s.there(written[0]))
			require.Equal(t, !inForce, s.there(meanwhile))
		})
	}
}

func TestAStoreNoticesWhichOfItsFilesWasTakenAway(t *testing.T) {
	for name, says := range map[string]string{
		"000001.log": "the log is gone", base.CurrentName: "the MANIFEST cannot be written", "000900.ldb": "",
	} {
		t.Run(name, func(t *testing.T) {
			s := recording(t)
			s.Verify()
			require.NoError(t, s.Err())
			require.NoError(t, s.mem.Remove(filepath.Join("dir", name)))
			s.Verify()
			if says == "" {
				require.NoError(t, s.put(0, OnDisk))
				return
			}
			require.Len(t, s.causes, 1)
			require.ErrorContains(t, s.causes[0], says)
			require.True(t, manifest.IsGone(s.causes[0]))
			require.Error(t, s.put(0, OnDisk))
			s.Verify()
			require.Len(t, s.causes, 1, "it is reported once")
			require.False(t, errors.Is(s.causes[0], fs.ErrNotExist), "it is not that a file was never there")
		})
	}
}

// A queue whose consumers look for its first entry steps over the tombstones of all that were taken before.
func TestAMemtableWhoseTombstonesHinderIsFlushed(t *testing.T) {
	mayRelieve := false
	s := open(t, config{
		limits: Limits{MemtableSize: 1 << 20, MaxMemtables: 2, L0Slowdown: 8, L0Stop: 12},
		change: func(o *Start) { o.CanRelieve = func() bool { return mayRelieve } },
	})
	mem := s.state().Mem
	for i := range leastHindering {
		require.NoError(t, s.Put(base.KindDelete, key(i), nil, InBuffer))
	}
	s.Hindered(versionOf(t, 1), mostHidden)
	mayRelieve = true
	require.NoError(t, s.put(0, InBuffer))
	require.Same(t, mem, s.state().Mem, "that was in another version")
	s.Hindered(s.state().Version, mostHidden)
	mayRelieve = false
	require.NoError(t, s.put(1, InBuffer))
	require.Same(t, mem, s.state().Mem, "a compaction of level 0 may not follow")
	mayRelieve = true
	fixture.Eventually(t, func() bool { // the successor is made in the background
		require.NoError(t, s.put(2, InBuffer))
		return s.state().Mem != mem
	})
	require.True(t, mem.Hinders)
	s.flush()
	require.Same(t, mem, s.tables[0])
}

func TestAMemtableThatFreesSpaceIsFlushedWhenItIsQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gain := &version.Gain{All: 1 << 20}
		s := open(t, config{change: func(o *Start) {
			o.WouldFree = func(mem *memtable.Memtable, _ bool) (*version.Gain, bool) {
				if mem.Tombstones() == 0 {
					return nil, true
				}
				return gain, true
			}
		}})
		s.flushAlways()
		require.NoError(t, s.put(0, InBuffer))
		time.Sleep(3 * quietFor)
		require.Zero(t, s.full, "a value frees nothing")
		require.NoError(t, s.Put(base.KindDelete, key(0), nil, InBuffer))
		time.Sleep(3 * quietFor)
		synctest.Wait()
		s.locked(func() {
			require.Len(t, s.tables, 1)
			require.Same(t, gain, s.tables[0].Gain)
		})
	})
}
