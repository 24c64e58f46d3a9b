package follow

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/result"
)

// A writer that appends through memory reserves megabytes behind its last record. A follower reads the records, and
// the zeros cost it neither reads nor memory.
func TestAFollowerDoesNotReadReservedSpace(t *testing.T) {
	run(t, func(d *database) {
		const reserved = 4 << 20
		fsys := fixture.NewReserved(d.fs, reserved)
		d.Follower = d.newFollower(fsys)
		d.mustRefresh()
		require.Less(t, fsys.Read.Load(), int64(reserved+100<<10), "once: another program may have appended behind it")
		d.requireView(0, nil, nil)
		require.Zero(t, d.lag())
		d.write(10, 1, 2)
		lag := d.lag()
		require.EqualValues(t, 2, lag.Operations)
		require.Less(t, lag.Bytes, int64(1000))
		d.mustRefresh()
		d.requireView(2, nil, []uint64{1, 2})
		require.Less(t, d.view.Memtables[0].Capacity(), 16<<10, "reserved space is no reason for a large memtable")

		fsys.Read.Store(0)
		for range 100 {
			d.mustRefresh()
		}
		require.LessOrEqual(t, fsys.Read.Load(), int64(100*7))

		d.write(10, 3)
		d.newLog(11)
		d.mustRefresh()
		d.requireView(3, nil, []uint64{1, 2, 3})
		fsys.Zeros.Store(0) // the writer has cut the log
		d.mustRefresh()
		d.write(11, 4)
		fsys.Zeros.Store(reserved)
		d.mustRefresh()
		d.requireView(4, nil, []uint64{1, 2, 3, 4})
		d.apply(&manifest.Edit{LogNum: manifest.Num(11), LastSeq: manifest.Num(3), Added: []version.LevelFile{d.added(20, 3)}})
		d.write(11, 5)
		d.mustRefresh()
		d.requireView(5, []uint64{20}, []uint64{4, 5})
	})
}

// LevelDB with reuse_logs appends to the log of a killed SieveDB, behind the space that was reserved.
func TestAFollowerReadsWhatWasAppendedBehindReservedSpace(t *testing.T) {
	run(t, func(d *database) {
		d.write(10, 1, 2)
		d.mustRefresh()
		path := filepath.Join(dir, base.FileName(base.FileLog, 11))
		f := result.Of(d.fs.Create(path))(t)
		appendTo := func(b []byte) {
			t.Helper()
			require.NoError(t, result.Err(f.Write(b)))
			d.mustRefresh()
		}
		first := fixture.Log(t, recordOf(3))
		appendTo(append(first, make([]byte, 96<<10-len(first))...))
		d.requireView(3, nil, []uint64{1, 2, 3})
		appendTo(fixture.Log(t, recordOf(4, 5)))
		d.requireView(5, nil, []uint64{1, 2, 3, 4, 5})
		appendTo(fixture.Log(t, recordOf(6)))
		d.requireView(6, nil, []uint64{1, 2, 3, 4, 5, 6})
		size := result.Of(f.Size())(t)
		appendTo(append(make([]byte, 128<<10-size), fixture.Log(t, recordOf(9))...)) // 7 and 8 are lost: a hole
		d.requireView(6, nil, []uint64{1, 2, 3, 4, 5, 6})
		require.NoError(t, f.Close())
	})
}

// A value may contain a copy of a log. While such a value is written, or if the writer is killed, the copy is no
// record.
func TestAFollowerDoesNotReadACopyOfALogInAnUnfinishedRecord(t *testing.T) {
	run(t, func(d *database) {
		d.write(10, 1, 2)
		d.mustRefresh()
		copied := fixture.Log(t, recordOf(3))
		value := append(append(make([]byte, 1000), copied...), make([]byte, 100)...)
		unfinished := fixture.Log(t, batch.AppendRecord(nil, 3, base.KindSet, keyOf(4), value))
		clear(unfinished[:7])
		f := result.Of(d.fs.Create(filepath.Join(dir, base.FileName(base.FileLog, 11))))(t)
		require.NoError(t, result.Err(f.Write(append(unfinished, make([]byte, 128<<10-len(unfinished))...))))
		d.mustRefresh()
		d.requireView(2, nil, []uint64{1, 2})
		_, err := f.Write(make([]byte, 64<<10)) // more is reserved
		require.NoError(t, err)
		d.mustRefresh()
		d.requireView(2, nil, []uint64{1, 2})
		_, err = f.Write(fixture.Log(t, recordOf(3))) // by LevelDB
		require.NoError(t, err)
		d.mustRefresh()
		d.requireView(3, nil, []uint64{1, 2, 3})
		require.NoError(t, f.Close())
	})
}
