package follow

import (
	"context"
	"io/fs"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/damage"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/vfs"
)

func TestRefreshShowsWhatWasAdded(t *testing.T) {
	run(t, func(d *database) {
		require.NoError(t, batch.BufferPreamble(d.logs[10], 0))
		d.write(10, 1, 2)
		d.mustRefresh()
		d.requireView(2, nil, []uint64{1, 2})
		d.mustRefresh()
		require.Equal(t, 1, d.views, "nothing is new")

		d.write(10, 3)
		d.newLog(11)
		d.write(11, 4)
		d.mustRefresh()
		d.requireView(4, nil, []uint64{1, 2, 3, 4})
		require.Len(t, d.view.Memtables, 2)
		require.Equal(t, uint64(11), d.view.Memtables[0].LogNum)

		d.apply(&manifest.Edit{LogNum: manifest.Num(11), LastSeq: manifest.Num(3), Added: []version.LevelFile{d.added(20, 3)}})
		d.remove(base.FileLog, 10)
		d.write(11, 5)
		d.mustRefresh()
		d.requireView(5, []uint64{20}, []uint64{4, 5})
		require.Equal(t, d.ManifestName(), base.FileName(base.FileManifest, d.set.ManifestNum()))
	})
}

// Readers that still have the old view must not see a record that needs the new version.
func TestNewRecordsAreApartFromAnOldVersion(t *testing.T) {
	run(t, func(d *database) {
		d.write(10, 1)
		d.mustRefresh()
		old := d.view
		d.write(10, 2)
		d.mustRefresh()
		require.Equal(t, old.Memtables, d.view.Memtables, "there is room in the memtable")
		old = d.view
		// A transaction of goleveldb: numbers 3 and 4 are in a table, and its log continues.
		d.apply(&manifest.Edit{LastSeq: manifest.Num(4), Added: []version.LevelFile{d.added(20, 4)}})
		d.write(10, 5)
		d.mustRefresh()
		d.requireView(5, []uint64{20}, []uint64{1, 2, 5})
		old.Seq = 5 // which is published first
		_, seqs := contentOf(old)
		require.Equal(t, []uint64{1, 2}, seqs)
	})
}

func TestARecordBehindAGapIsNotUsed(t *testing.T) {
	run(t, func(d *database) {
		d.write(10, 1, 2)
		d.newLog(11)
		d.write(11, 4) // number 3 is in a table, by an edit that is to come
		err := d.refresh()
		require.True(t, IsGap(err), "%v", err)
		require.ErrorContains(t, err, "000011.log continues with operation 4, but the last one before it that can be read is 2")
		d.requireView(2, nil, []uint64{1, 2})
		lag := d.lag()
		require.Equal(t, uint64(2), lag.Operations)
		require.Positive(t, lag.Bytes)
		d.apply(&manifest.Edit{LogNum: manifest.Num(11), LastSeq: manifest.Num(3), Added: []version.LevelFile{d.added(20, 3)}})
		d.mustRefresh()
		d.requireView(4, []uint64{20}, []uint64{4})
	})
}

func TestHalfOfARecordIsLeftForLater(t *testing.T) {
	run(t, func(d *database) {
		d.write(10, 1)
		d.mustRefresh()
		path := filepath.Join(dir, base.FileName(base.FileLog, 11))
		d.newLog(12)
		d.write(12, 2, 3, 4)
		bytes := fixture.ReadFile(t, d.fs, filepath.Join(dir, base.FileName(base.FileLog, 12)))
		d.remove(base.FileLog, 12)
		f := result.Of(d.fs.Create(path))(t)
		for _, b := range bytes {
			d.mustRefresh()
			d.requireView(1, nil, []uint64{1})
			require.Zero(t, d.lag().Bytes)
			require.NoError(t, result.Err(f.Write([]byte{b})))
		}
		require.NoError(t, f.Close())
		lag := d.lag()
		require.Equal(t, uint64(3), lag.Operations)
		require.EqualValues(t, len(bytes), lag.Bytes)
		d.mustRefresh()
		d.requireView(4, nil, []uint64{1, 2, 3, 4})
	})
}

func TestRemovedTablesCanBeReadWhileAVersionHasThem(t *testing.T) {
	run(t, func(d *database) {
		d.apply(&manifest.Edit{LastSeq: manifest.Num(1), Added: []version.LevelFile{d.added(20, 1), d.added(21, 1)}})
		d.mustRefresh()
		held := d.view.Version
		require.True(t, held.TryRef())
		path := filepath.Join(dir, base.FileName(base.FileTable, 20))
		open := result.Of(d.FS().Open(path))(t)
		d.apply(&manifest.Edit{LastSeq: manifest.Num(2), Added: []version.LevelFile{d.added(22, 2)}, Deleted: []version.DeletedFile{deleted(20)}})
		d.remove(base.FileTable, 20)
		d.mustRefresh()
		d.requireView(2, []uint64{21, 22}, nil)
		require.Equal(t, 3, d.pins.count())
		again := result.Of(d.FS().Open(path))(t)
		require.NoError(t, again.Close())
		require.ErrorIs(t, again.Close(), fs.ErrClosed)
		require.ErrorIs(t, result.Err(again.Size()), fs.ErrClosed)
		require.ErrorIs(t, result.Err(again.ReadAt(make([]byte, 1), 0)), fs.ErrClosed)

		held.Unref()
		require.Equal(t, []uint64{20}, d.dropped)
		require.Equal(t, 2, d.pins.count())
		require.ErrorIs(t, result.Err(d.FS().Open(path)), fs.ErrNotExist)
		require.Equal(t, int64(5), result.Of(open.Size())(t))
		b := make([]byte, 5)
		require.NoError(t, result.Err(open.ReadAt(b, 0)))
		require.Equal(t, "table", string(b))
		require.NoError(t, open.Close())
	})
}

// While the follower opens tables and logs, the writer continues and removes them.
func TestFilesThatVanishMeanwhile(t *testing.T) {
	run(t, func(d *database) {
		d.write(10, 1)
		d.apply(&manifest.Edit{LastSeq: manifest.Num(0), Added: []version.LevelFile{d.added(20, 0)}})
		tableGone, logGone := false, false
		hooked := wrap.NewFaulty(d.fs, func(op wrap.Op) *wrap.Fault {
			switch {
			case !tableGone && op.Kind == wrap.OpOpen && filepath.Base(op.Name) == "000020.ldb":
				tableGone = true
				d.apply(&manifest.Edit{Added: []version.LevelFile{d.added(21, 0)}, Deleted: []version.DeletedFile{deleted(20)}})
				d.remove(base.FileTable, 20)
			case tableGone && !logGone && op.Kind == wrap.OpOpen && filepath.Base(op.Name) == "000010.log":
				logGone = true
				d.newLog(11)
				d.apply(&manifest.Edit{LogNum: manifest.Num(11), LastSeq: manifest.Num(1), Added: []version.LevelFile{d.added(22, 1)}})
				d.remove(base.FileLog, 10)
				d.write(11, 2)
			}
			return nil
		})
		require.NoError(t, d.Close())
		d.Follower = d.newFollower(hooked)
		d.mustRefresh()
		require.True(t, tableGone && logGone)
		d.requireView(2, []uint64{21, 22}, []uint64{2})
		require.Equal(t, 2, d.pins.count())
	})
}

func TestAMissingFileIsCorruption(t *testing.T) {
	run(t, func(d *database) {
		d.apply(&manifest.Edit{LastSeq: manifest.Num(1), Added: []version.LevelFile{d.added(20, 1)}})
		d.remove(base.FileTable, 20)
		err := d.refresh()
		require.ErrorIs(t, err, base.ErrCorruption)
		require.ErrorContains(t, err, "000020.ldb")
		d.create("000020.sst") // as early versions of LevelDB name it
		d.mustRefresh()
		require.Equal(t, uint64(1), d.view.Seq)
		d.view.Version.Files(func(_ int, f *version.FileMeta) { require.Equal(t, "000020.sst", f.Name()) })

		d.newLog(12)
		d.apply(&manifest.Edit{LogNum: manifest.Num(11)})
		err = d.refresh()
		require.ErrorIs(t, err, base.ErrCorruption)
		require.ErrorContains(t, err, "the edits need 000011.log, which is missing")
		require.ErrorContains(t, err, base.FileName(base.FileManifest, d.set.ManifestNum()))
		d.newLog(11)
		d.mustRefresh()
	})
}

// LevelDB opens a database without its log if there is no other one.
func TestWithoutAnyLog(t *testing.T) {
	run(t, func(d *database) {
		d.remove(base.FileLog, 10)
		d.mustRefresh()
		d.requireView(0, nil, nil)
	})
}

func TestANewManifestIsRead(t *testing.T) {
	run(t, func(d *database) {
		d.write(10, 1)
		d.apply(&manifest.Edit{LastSeq: manifest.Num(0), Added: []version.LevelFile{d.added(20, 0)}})
		d.mustRefresh()
		d.newLog(11)
		d.begin(&manifest.Edit{LogNum: manifest.Num(11), LastSeq: manifest.Num(1), Added: []version.LevelFile{d.added(21, 1)}})
		require.Positive(t, d.lag().Bytes)
		d.write(11, 2)
		d.mustRefresh()
		d.requireView(2, []uint64{20, 21}, []uint64{2})
		require.Equal(t, 2, d.pins.count())
		require.Equal(t, []uint64{20}, d.dropped, "the reader of the same table under the old version")
	})
}

func TestADatabaseThatWentBackIsRefused(t *testing.T) {
	run(t, func(d *database) {
		d.write(10, 1, 2, 3)
		d.mustRefresh()
		d.remove(base.FileLog, 10)
		d.newLog(11)
		d.begin(&manifest.Edit{LogNum: manifest.Num(11), LastSeq: manifest.Num(2), Added: []version.LevelFile{d.added(21, 1)}})
		require.ErrorContains(t, d.refresh(), "the last operation is number 2 now, but it was 3")
		d.requireView(3, nil, []uint64{1, 2, 3})
		require.Zero(t, d.pins.count())
		d.write(11, 3) // it is another database, but nothing shows that any more
		d.mustRefresh()
		d.requireView(3, []uint64{21}, []uint64{3})
	})
}

// Lag said that no operation was missing, and gave the size of the new MANIFEST.
func TestLagRefusesADatabaseThatWentBack(t *testing.T) {
	run(t, func(d *database) {
		d.write(10, 1, 2, 3)
		d.mustRefresh()
		d.remove(base.FileLog, 10)
		d.newLog(11)
		d.begin(&manifest.Edit{LogNum: manifest.Num(11), LastSeq: manifest.Num(1)})
		d.write(11, 2)
		for range 2 {
			_, err := d.Lag()
			require.ErrorContains(t, err, "the last operation is number 2 now, but it was 3: the database was restored, repaired or replaced")
		}
		require.ErrorContains(t, d.refresh(), "the last operation is number 2 now, but it was 3")
		d.write(11, 3, 4)
		require.Equal(t, uint64(1), d.lag().Operations)
		d.mustRefresh()
		require.Zero(t, d.lag().Operations)
		d.requireView(4, nil, []uint64{2, 3, 4})
	})
}

// The writer's next opening, or a load, puts operations into tables, where Lag did not look.
func TestLagCountsOperationsInTables(t *testing.T) {
	run(t, func(d *database) {
		d.write(10, 1)
		d.mustRefresh()
		d.apply(&manifest.Edit{LastSeq: manifest.Num(4), Added: []version.LevelFile{d.added(20, 4)}})
		require.Equal(t, uint64(3), d.lag().Operations)
		d.remove(base.FileLog, 10)
		d.newLog(11)
		d.begin(&manifest.Edit{LogNum: manifest.Num(11), LastSeq: manifest.Num(5), Added: []version.LevelFile{d.added(21, 6)}})
		require.Equal(t, uint64(5), d.lag().Operations)
		d.write(11, 7)
		require.Equal(t, uint64(6), d.lag().Operations)
		d.mustRefresh()
		require.Equal(t, report.Lag{Seq: 7}, d.lag())
	})
}

// A database that was restored from a copy may have a log of the same number with other content.
func TestLogsOfAnotherDatabaseAreReadFromTheirBeginning(t *testing.T) {
	run(t, func(d *database) {
		d.write(10, 1, 2)
		d.mustRefresh()
		require.NoError(t, d.logs[10].Close())
		d.remove(base.FileLog, 10)
		d.newLog(10)
		d.begin(&manifest.Edit{LastSeq: manifest.Num(1), Added: []version.LevelFile{d.added(21, 1)}})
		d.write(10, 2, 3)
		d.mustRefresh()
		d.requireView(3, []uint64{21}, []uint64{2, 3})
		require.Len(t, d.view.Memtables, 1)
	})
}

func TestARepeatedNumberWaitsForTheFlush(t *testing.T) {
	run(t, func(d *database) {
		d.write(10, 1, 2)
		d.write(10, 2)
		err := d.refresh()
		require.ErrorIs(t, err, base.ErrCorruption)
		require.ErrorContains(t, err, "its sequence is 2, but an earlier record reaches to 2")
		d.newLog(11)
		d.apply(&manifest.Edit{LogNum: manifest.Num(11), LastSeq: manifest.Num(3), Added: []version.LevelFile{d.added(20, 3)}})
		d.mustRefresh()
		d.requireView(3, []uint64{20}, nil)
	})
}

func TestALargeBatchIsWhole(t *testing.T) {
	run(t, func(d *database) {
		d.write(10, 1)
		d.mustRefresh()
		old := d.view
		var seqs []uint64
		for seq := range uint64(200) {
			seqs = append(seqs, 2+seq)
		}
		for i := 0; i < len(seqs); i += 100 {
			record := recordOf(seqs[i : i+100]...)
			require.NoError(t, d.logs[10].WriteRecord(record))
		}
		big := batch.AppendRecord(nil, 202, base.KindSet, keyOf(202), make([]byte, 3<<20))
		require.NoError(t, d.logs[10].WriteRecord(big))
		d.write(10, 203)
		d.mustRefresh()
		require.Equal(t, uint64(203), d.view.Seq)
		_, got := contentOf(d.view)
		require.Len(t, got, 203)
		old.Seq = 203
		_, got = contentOf(old)
		require.Contains(t, []int{1, 101, 201}, len(got), "whole batches, and not the large one, which has a memtable of its own")
	})
}

func TestAnErrorAtEveryOperation(t *testing.T) {
	for n := uint64(1); ; n++ {
		ended := false
		run(t, func(d *database) {
			d.write(10, 1)
			d.apply(&manifest.Edit{LastSeq: manifest.Num(0), Added: []version.LevelFile{d.added(20, 0)}})
			failure, failing := errors.New("the disk"), uint64(0)
			faulty := wrap.NewFaulty(d.fs, func(op wrap.Op) *wrap.Fault {
				if failing == 0 || op.Index < failing {
					return nil
				}
				return &wrap.Fault{Err: failure}
			})
			require.NoError(t, d.Close())
			d.Follower = d.newFollower(faulty)
			d.mustRefresh()
			d.write(10, 2)
			d.newLog(11)
			d.apply(&manifest.Edit{LogNum: manifest.Num(11), LastSeq: manifest.Num(2), Added: []version.LevelFile{d.added(21, 2)}})
			d.begin(&manifest.Edit{Added: []version.LevelFile{d.added(22, 2)}})
			d.write(11, 3)
			failing = faulty.Ops() + n
			err := d.refresh()
			if err == nil {
				ended = true
			} else {
				require.ErrorIs(t, err, failure)
				require.ErrorIs(t, result.Err(d.Lag()), failure)
			}
			failing = 0
			if !ended {
				d.requireView(1, []uint64{20}, []uint64{1})
			}
			d.mustRefresh()
			d.requireView(3, []uint64{20, 21, 22}, []uint64{3})
			require.Equal(t, 3, d.pins.count())
			require.NoError(t, d.Close())
		})
		if ended {
			require.Greater(t, n, uint64(10))
			return
		}
	}
}

func TestAPanicEndsTheFollower(t *testing.T) {
	run(t, func(d *database) {
		require.Panics(t, func() { _ = d.Refresh(context.Background(), func(View) { panic("here") }) })
		require.ErrorContains(t, d.refresh(), "a panic interrupted an earlier refresh")
	})
}

func TestAClosedFollower(t *testing.T) {
	run(t, func(d *database) {
		require.ErrorIs(t, result.Err(d.Lag()), base.ErrClosed)
		d.mustRefresh()
		require.NoError(t, d.Close())
		require.ErrorIs(t, d.refresh(), base.ErrClosed)
		require.ErrorIs(t, result.Err(d.Lag()), base.ErrClosed)
	})
}

func TestRefreshEndsWithItsContext(t *testing.T) {
	run(t, func(d *database) {
		d.newLog(12)
		d.apply(&manifest.Edit{LogNum: manifest.Num(11)}) // which does not exist
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, d.Refresh(ctx, func(View) {}), context.DeadlineExceeded)
	})
}

func TestTheTimeOfTheWriterIsShown(t *testing.T) {
	run(t, func(d *database) {
		o := manifest.SetOptions{
			FS: d.fs, Dir: dir, Cmp: base.Bytewise, MaxManifestSize: 1 << 20, Clock: func() uint64 { return 12345 },
		}
		require.NoError(t, d.set.Close())
		var err error
		d.set, _, err = manifest.Load(o)
		require.NoError(t, err)
		d.set.RecordPrefixes([][]byte{[]byte("p")})
		require.NoError(t, d.set.Begin(&manifest.Edit{}, nil))
		d.mustRefresh()
		require.Equal(t, [][]byte{[]byte("p")}, d.view.Recorded.Prefixes)
		require.Equal(t, uint64(12345), d.view.Recorded.Time)
	})
}

// The bug: the edits of the new MANIFEST were applied to the old version afterwards.
func TestLogsThatAreNotFoundAtOnce(t *testing.T) {
	run(t, func(d *database) {
		d.write(10, 1)
		d.apply(&manifest.Edit{LastSeq: manifest.Num(0), Added: []version.LevelFile{d.added(20, 0)}})
		failures, failure := 0, errors.New("no more files")
		d.o.FindLogs = func() (vfs.FS, error) {
			if failures--; failures >= 0 {
				return nil, failure
			}
			return d.fs, nil
		}
		d.mustRefresh()
		for _, failing := range []int{1, 100} {
			d.newLog(uint64(11 + failing))
			d.begin(&manifest.Edit{
				LogNum: manifest.Num(uint64(11 + failing)), Deleted: []version.DeletedFile{deleted(20)}, Added: []version.LevelFile{d.added(uint64(30+failing), 1)},
			})
			failures = failing
			if failing > 1 {
				require.ErrorIs(t, d.refresh(), failure)
				failures = 0
			}
			d.mustRefresh()
			tables, _ := contentOf(d.view)
			require.NotContains(t, tables, uint64(20))
			require.Contains(t, tables, uint64(30+failing))
		}
	})
}

// A new database in the directory of an old one has files of the same names.
func TestAReplacedDatabaseIsNotMixedWithTheOldOne(t *testing.T) {
	run(t, func(d *database) {
		d.write(10, 1)
		d.apply(&manifest.Edit{LastSeq: manifest.Num(0), Added: []version.LevelFile{d.added(20, 0)}})
		d.mustRefresh()
		names := result.Of(d.fs.List(dir))(t)
		for _, name := range names {
			require.NoError(t, d.fs.Remove(filepath.Join(dir, name)))
		}
		require.NoError(t, d.set.Close())
		d.set = nil
		d.newLog(10)
		d.begin(&manifest.Edit{LogNum: manifest.Num(10), LastSeq: manifest.Num(4), Added: []version.LevelFile{d.added(20, 4), d.added(21, 4)}})
		require.Positive(t, d.lag().Bytes)
		d.write(10, 5)
		d.mustRefresh()
		d.requireView(5, []uint64{20, 21}, []uint64{5})
		info := result.Of(d.fs.Lstat(filepath.Join(dir, "000020.ldb")))(t)
		require.True(t, d.Pinned(filepath.Join(dir, "000020.ldb"), info))
		require.False(t, d.Pinned(filepath.Join(dir, "000021.ldb"), info))
		require.NoError(t, d.fs.Rename(filepath.Join(dir, "000021.ldb"), filepath.Join(dir, "000020.ldb")))
		info = result.Of(d.fs.Lstat(filepath.Join(dir, "000020.ldb")))(t)
		require.False(t, d.Pinned(filepath.Join(dir, "000020.ldb"), info))
	})
}

func TestANewManifestNeedsNoOtherFiles(t *testing.T) {
	run(t, func(d *database) {
		d.apply(&manifest.Edit{LastSeq: manifest.Num(0), Added: []version.LevelFile{d.added(20, 0), d.added(21, 0)}})
		opened := map[string]int{}
		require.NoError(t, d.Close())
		d.Follower = d.newFollower(wrap.NewFaulty(d.fs, func(op wrap.Op) *wrap.Fault {
			if op.Kind == wrap.OpOpen {
				opened[filepath.Base(op.Name)]++
			}
			return nil
		}))
		d.mustRefresh()
		d.begin(&manifest.Edit{Deleted: []version.DeletedFile{deleted(20)}, Added: []version.LevelFile{d.added(22, 0)}})
		d.mustRefresh()
		d.requireView(0, []uint64{21, 22}, nil)
		require.Equal(t, 1, opened["000021.ldb"])
		require.Equal(t, 2, d.pins.count())
	})
}

// goleveldb removes an empty log without an edit.
func TestALogOfGoleveldbMayBeMissing(t *testing.T) {
	run(t, func(d *database) {
		require.NoError(t, manifest.WriteFile(d.fs, dir, 60, &manifest.Edit{
			Comparer: base.Bytewise.Name, LogNum: manifest.Num(10), NextFileNum: manifest.Num(50), LastSeq: manifest.Num(0),
		}))
		require.NoError(t, manifest.SetCurrent(d.fs, dir, 60))
		d.remove(base.FileLog, 10)
		d.newLog(12)
		d.write(12, 1)
		start := time.Now()
		d.mustRefresh()
		d.requireView(1, nil, []uint64{1})
		require.Zero(t, time.Since(start), "without waiting")
	})
}

func TestMemtablesOfALogAreMerged(t *testing.T) {
	run(t, func(d *database) {
		var want []uint64
		for i := range uint64(100) {
			d.write(10, 2*i+1)
			d.apply(&manifest.Edit{LastSeq: manifest.Num(2*i + 2), Added: []version.LevelFile{d.added(20+i, 2*i+2)}})
			old := d.view
			d.mustRefresh()
			want = append(want, 2*i+1)
			require.LessOrEqual(t, len(d.view.Memtables), maxMemtables+1)
			_, seqs := contentOf(d.view)
			require.Equal(t, want, seqs)
			if i > 0 {
				old.Seq = d.view.Seq
				_, seqs = contentOf(old)
				require.Equal(t, want[:i], seqs)
			}
		}
	})
}

func TestHiddenVersionsOfALogUseNoMemory(t *testing.T) {
	run(t, func(d *database) {
		const writes = 60_000
		for seq := uint64(1); seq <= writes; seq++ {
			require.NoError(t, d.logs[10].BufferRecord(batch.AppendRecord(nil, seq, base.KindDelete, []byte{byte(seq % 3)}, nil)))
		}
		require.NoError(t, d.logs[10].Flush())
		d.mustRefresh()
		total := 0
		for _, m := range d.view.Memtables {
			total += m.Capacity()
		}
		require.Less(t, total, 1<<20)
		require.Equal(t, uint64(writes), d.view.Seq)
		for key := range 3 {
			_, kind, ok := d.view.Memtables[0].Get([]byte{byte(key)}, writes)
			require.True(t, ok || len(d.view.Memtables) > 1)
			require.Equal(t, base.KindDelete, kind)
		}
	})
}

func TestARefreshEndsWhenTheStoreCloses(t *testing.T) {
	run(t, func(d *database) {
		closing := make(chan struct{})
		close(closing)
		d.o.Closing = closing
		d.newLog(12)
		d.apply(&manifest.Edit{LogNum: manifest.Num(11)}) // which does not exist
		require.ErrorIs(t, d.refresh(), base.ErrClosed)
	})
}

// FuzzRefresh follows a database whose MANIFEST and log are any bytes, in two parts: the second is there
// at the second Refresh. Refresh may fail, but must not panic, and must not go back.
func FuzzRefresh(f *testing.F) {
	snapshot := manifest.Edit{
		Comparer: base.Bytewise.Name, LogNum: manifest.Num(3), PrevLogNum: manifest.Num(0), NextFileNum: manifest.Num(9), LastSeq: manifest.Num(0),
	}
	key := base.AppendInternalKey(nil, []byte("k"), 3, base.KindSet)
	added := manifest.Edit{LogNum: manifest.Num(3), LastSeq: manifest.Num(3), Added: []version.LevelFile{{Level: 1, File: version.NewFileMeta(5, 5, key, key)}}}
	edits := fixture.Log(f, snapshot.Encode(nil), added.Encode(nil))
	log := fixture.Log(f, recordOf(1, 2), recordOf(4), recordOf(5, 6))
	f.Add(edits, log, uint16(len(edits)), uint16(len(log)))
	f.Add(edits, log, uint16(60), uint16(30))
	f.Add(edits[:60], log, uint16(60), uint16(0))
	f.Fuzz(func(t *testing.T, edits, log []byte, firstEdits, firstLog uint16) {
		defer damage.Watch("a follower")()
		mem := vfs.NewMem()
		d := database{t: t, fs: mem}
		if err := mem.MkdirAll(dir); err != nil {
			t.Fatal(err)
		}
		d.create(base.FileName(base.FileTable, 5))
		write := func(name string, content []byte) vfs.File {
			file, err := mem.Create(filepath.Join(dir, name))
			if err == nil {
				_, err = file.Write(content)
			}
			if err != nil {
				t.Fatal(err)
			}
			return file
		}
		write(base.CurrentName, []byte("MANIFEST-000002\n"))
		manifestFile := write("MANIFEST-000002", edits[:min(len(edits), int(firstEdits))])
		logFile := write("000003.log", log[:min(len(log), int(firstLog))])
		follower := d.newFollower(mem)
		follower.patience = 1
		seq := uint64(0)
		for range 2 {
			_ = follower.Refresh(context.Background(), func(v View) {
				if v.Seq < seq {
					t.Fatalf("it goes back from %d to %d", seq, v.Seq)
				}
				seq = v.Seq
			})
			_, _ = follower.Lag()
			_, _ = manifestFile.Write(edits[min(len(edits), int(firstEdits)):])
			_, _ = logFile.Write(log[min(len(log), int(firstLog)):])
		}
		if err := follower.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
