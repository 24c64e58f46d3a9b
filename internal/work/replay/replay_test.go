package replay

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/disk/wal"
	"github.com/sievedb/sievedb/internal/test/race"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/memtable"
)

const name10 = "000010.log"

func TestLogsBecomeTablesAndAreRemoved(t *testing.T) {
	d := newDatabase(t)
	d.log(t, 9, puts(1)) // not needed
	d.log(t, 10, puts(1, 2))
	d.log(t, 11, preamble(2), puts(3))
	r := d.open(t)
	require.NoError(t, r.Run())
	added := result.Of(r.Finish())(t)
	require.Len(t, added, 1)
	require.Equal(t, []string{"a@1", "b@2", "c@3"}, d.entries)
	require.Equal(t, uint64(3), r.LastSeq())

	logNum := d.set.NewFileNum()
	edit := &manifest.Edit{LogNum: manifest.Num(logNum), LastSeq: manifest.Num(3), Added: added}
	require.NoError(t, d.set.Begin(edit, func(*version.Version) {}))
	defer d.set.Close()
	r.RemoveOld(logNum, d.set.ManifestNum())
	table := base.FileName(base.FileTable, added[0].File.Num)
	manifestName := base.FileName(base.FileManifest, d.set.ManifestNum())
	require.Equal(t, []string{table, base.CurrentName, manifestName}, d.names(t))
	require.Equal(t, openReport{FilesRemoved: 4, Logs: []logReport{
		{Name: name10, Records: 2, Entries: 2, Tail: "clean"}, {Name: "000011.log", Records: 1, Entries: 1, Tail: "clean"},
	}}, r.Report())
}

func TestATornEndIsCopiedToLost(t *testing.T) {
	d := newDatabase(t)
	d.log(t, 10, puts(1, 2, 3))
	whole := d.read(t, name10)
	record := len(whole) / 3
	torn := whole[:len(whole)-4]
	d.replace(t, name10, torn)
	before := d.names(t)

	r := d.open(t)
	require.NoError(t, r.Run())
	require.NoError(t, result.Err(r.Finish()))
	require.Equal(t, []string{"a@1", "b@2"}, d.entries)
	report := r.Report().Logs[0]
	require.Equal(t, "torn", report.Tail)
	require.Equal(t, int64(record-4), report.BytesDropped)
	require.Equal(t, torn[2*record:], d.read(t, report.SetAside))

	r.Abandon()
	require.Equal(t, before, d.names(t), "Abandon restores the directory")
	require.Equal(t, torn, d.read(t, name10))
}

func TestKeepLeavesAbandonNothingToRemove(t *testing.T) {
	d := newDatabase(t)
	d.log(t, 10, puts(1))
	r := d.open(t)
	require.NoError(t, r.Run())
	require.NoError(t, result.Err(r.Finish()))
	written := d.names(t)
	r.Keep()
	r.Abandon()
	require.Equal(t, written, d.names(t))
}

func TestSalvageKeepsWhatItsModeSays(t *testing.T) {
	damaged := func(t *testing.T, d *database) []byte {
		d.log(t, 10, preamble(0), puts(1, 2, 3))
		log := d.read(t, name10)
		log[bytes.Index(log, []byte("\x01b\x05value"))]++
		d.replace(t, name10, log)
		return log
	}
	gap := func(t *testing.T, d *database) []byte {
		d.log(t, 10, preamble(0), puts(1, 2))
		d.log(t, 11, preamble(4), puts(5))
		return nil
	}
	for name, c := range map[string]struct {
		logs    func(*testing.T, *database) (damaged []byte)
		salvage Salvage
		entries []string // nil: an error
		err     string
	}{
		"damage: SalvageNothing fails":                      {damaged, SalvageNothing, nil, "numbered 2 to 2 cannot be read"},
		"damage: SalvagePrefix ends before the damage":      {damaged, SalvagePrefix, []string{"a@1"}, ""},
		"damage: SalvageAll keeps records after the damage": {damaged, SalvageAll, []string{"a@1", "c@3"}, ""},
		"gap: SalvageNothing fails":                         {gap, SalvageNothing, nil, "operations 3 to 4 are missing"},
		"gap: SalvagePrefix ends before the gap":            {gap, SalvagePrefix, []string{"a@1", "b@2"}, ""},
		"gap: SalvageAll continues after the gap":           {gap, SalvageAll, []string{"a@1", "b@2", "e@5"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDatabase(t)
			log := c.logs(t, d)
			d.opts.Salvage = c.salvage
			r := d.open(t)
			err := r.Run()
			if c.entries == nil {
				require.ErrorIs(t, err, base.ErrCorruption)
				require.ErrorContains(t, err, c.err)
				require.ErrorContains(t, err, "Options.Salvage")
				return
			}
			require.NoError(t, err)
			require.NoError(t, result.Err(r.Finish()))
			require.Equal(t, c.entries, d.entries)
			if log == nil {
				require.Equal(t, uint64(2), r.Report().Logs[1].GapBefore)
				return
			}
			report := r.Report().Logs[0]
			require.Equal(t, "damaged", report.Tail)
			require.Positive(t, report.BytesSkipped)
			require.NotEmpty(t, report.Reason)
			require.Equal(t, log, d.read(t, report.SetAside), "all of a damaged log is kept")
		})
	}
}

func TestAReadOnlyReplayWritesNothing(t *testing.T) {
	d := newDatabase(t)
	d.log(t, 10, puts(1, 2, 3))
	torn := d.read(t, name10)
	d.replace(t, name10, torn[:len(torn)-1])
	before := d.names(t)
	d.opts.ReadOnly = true
	r := d.open(t)
	require.NoError(t, r.Run())
	mems := r.Memtables()
	require.Len(t, mems, 1)
	require.Equal(t, []string{"a@1", "b@2"}, entriesOf(mems[0]))
	require.Equal(t, uint64(2), r.LastSeq())
	require.Equal(t, "torn", r.Report().Logs[0].Tail)
	require.Empty(t, r.Report().Logs[0].SetAside)
	require.Equal(t, before, d.names(t))
}

// The log has many versions and is larger than a memtable.
func TestAReadOnlyReplayDropsOnlyInvisibleVersions(t *testing.T) {
	seed, batches := rand.Uint64(), uint64(300)
	t.Logf("seed %d", seed)
	if race.Sampled() {
		batches = 100
	}
	for _, keys := range []int{1, 3000, 200_000} {
		t.Run(fmt.Sprintf("%d keys", keys), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, uint64(keys)))
			type version struct {
				seq  uint64
				text string // the kind and the value
			}
			var parts []func(*testing.T, *wal.Writer)
			want := map[string]version{}
			last := 500*batches + 1
			for from := uint64(1); from <= last; from += 500 {
				var b batch.Batch
				for seq := from; seq < from+500 && seq <= last; seq++ {
					kind, key, value := base.KindSet, fmt.Sprint(rnd.IntN(keys)), fmt.Appendf(nil, "%0*d", rnd.IntN(100), rnd.Uint32())
					if rnd.IntN(3) == 0 {
						kind, value = base.KindDelete, nil
					}
					if seq == last {
						kind, key, value = base.KindSet, "big", make([]byte, 6<<20) // more than a memtable holds
					}
					b.Add(kind, []byte(key), value)
					want[key] = version{seq, fmt.Sprint(kind, string(value))}
				}
				record := b.Record(from)
				parts = append(parts, func(t *testing.T, w *wal.Writer) { require.NoError(t, w.WriteRecord(record)) })
			}
			d := newDatabase(t)
			d.log(t, 10, parts...)
			d.opts.ReadOnly = true
			r := d.open(t)
			require.NoError(t, r.Run())
			require.Equal(t, last, r.LastSeq())
			kept, newest := 0, map[string]version{}
			for _, m := range r.Memtables() {
				kept += m.Len()
				for ikey, value := range m.All() {
					seq, kind := base.SplitTrailer(base.Trailer(ikey))
					if key := string(base.UserKey(ikey)); seq > newest[key].seq {
						newest[key] = version{seq, fmt.Sprint(kind, string(value))}
					}
				}
			}
			require.True(t, maps.Equal(want, newest))
			if keys < 10_000 {
				require.Less(t, kept, int(last)*2/3)
			}
		})
	}
}

func TestAReplayWithoutEntriesHasNoMemtable(t *testing.T) {
	d := newDatabase(t)
	d.log(t, 10)
	r := d.open(t)
	require.NoError(t, r.Run())
	require.Empty(t, r.Memtables())
	require.Empty(t, result.Of(r.Finish())(t))
}

func TestAFailedTableLeavesTheDirectoryUnchanged(t *testing.T) {
	d := newDatabase(t)
	d.log(t, 10, puts(1))
	before := d.names(t)
	r := d.open(t)
	require.NoError(t, r.Run())
	d.fail = errors.New("injected error")
	require.ErrorIs(t, result.Err(r.Finish()), d.fail)
	r.Abandon()
	require.Equal(t, before, d.names(t))
}

func TestAPanicIsReturnedAsAnError(t *testing.T) {
	d := newDatabase(t)
	d.log(t, 10, puts(1, 2))
	panics := func(_, _ []byte) int { panic("boom") }
	d.opts.Comparer = &base.Comparer{Name: base.Bytewise.Name, Compare: panics}
	err := d.open(t).Run()
	var caught *base.PanicError
	require.ErrorAs(t, err, &caught)
	require.ErrorContains(t, err, "during the replay of the logs: boom")
}

func TestMissingFilesAreCorruption(t *testing.T) {
	t.Run("a table that the version names", func(t *testing.T) {
		d := newDatabase(t)
		d.log(t, 10)
		r := d.open(t)
		r.version = &version.Version{Cmp: base.Bytewise}
		r.version.Levels[0].Files = []*version.FileMeta{{Num: 5, Size: 100}}
		err := r.Run()
		require.ErrorIs(t, err, base.ErrCorruption)
		require.ErrorContains(t, err, "the file is missing; the MANIFEST names it on level 0 with 100 bytes")
	})
	t.Run("the log that the edits need, next to a later one", func(t *testing.T) {
		d := newDatabase(t)
		d.log(t, 11, puts(1))
		err := d.open(t).Run()
		require.ErrorIs(t, err, base.ErrCorruption)
		require.ErrorContains(t, err, "the edits need 000010.log, which is missing, although 000011.log exists")
	})
	t.Run("the only log is reported", func(t *testing.T) {
		d := newDatabase(t)
		r := d.open(t)
		require.NoError(t, r.Run())
		require.Equal(t, name10, r.Report().MissingLog)
	})
}

// goleveldb reuses the sequence number of a write whose sync failed for the next write.
func TestRecordsWithEqualSequencesAreRenumbered(t *testing.T) {
	d := newDatabase(t)
	d.log(t, 10, puts(1, 2, 2, 3))
	r := d.open(t)
	require.NoError(t, r.Run())
	require.NoError(t, result.Err(r.Finish()))
	require.Equal(t, []string{"a@1", "b@3", "b@2", "c@4"}, d.entries)
	require.Equal(t, uint64(4), r.LastSeq())

	d = newDatabase(t)
	d.log(t, 10, preamble(0), puts(1, 2, 2, 3))
	err := d.open(t).Run()
	require.ErrorIs(t, err, base.ErrCorruption, "a log of SieveDB must not have equal sequences")
	require.ErrorContains(t, err, "its sequence is 2, want at least 3")
}

// strayTable writes a table that the MANIFEST does not name. It has one entry, with sequence number seq.
func (r *database) strayTable(t *testing.T, seq uint64) string {
	t.Helper()
	mem := memtable.New(base.Bytewise, 4096)
	require.True(t, mem.Add(seq, base.KindSet, keyOf(seq), nil))
	files := result.Of(r.writeTable(mem, new(manifest.Edit)))(t)
	r.entries = nil
	return base.FileName(base.FileTable, files[0].Num)
}

func TestStrayTables(t *testing.T) {
	for name, c := range map[string]struct {
		seq         uint64 // of the table; the log ends with number 2
		withoutALog bool   // this casts doubt on the MANIFEST
		lost        bool
	}{
		"a table without newer entries is garbage":                       {seq: 2},
		"a table with newer entries is kept":                             {seq: 3, lost: true},
		"a table is kept if the MANIFEST is in doubt and Salvage is set": {seq: 2, withoutALog: true, lost: true},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDatabase(t)
			if !c.withoutALog {
				d.log(t, 10, puts(1, 2))
			}
			stray := d.strayTable(t, c.seq)
			before := d.names(t)
			r := d.open(t)
			if c.withoutALog {
				require.ErrorContains(t, r.Run(), stray)
				r = d.open(t)
				r.opts.Salvage = SalvageAll
			}
			require.NoError(t, r.Run())
			require.NoError(t, result.Err(r.Finish()))
			if !c.lost {
				require.Empty(t, r.Report().TablesSetAside)
				r.RemoveOld(d.set.NewFileNum(), d.set.ManifestNum())
				require.NotContains(t, d.names(t), stray)
				return
			}
			require.Equal(t, []string{"lost/" + stray}, r.Report().TablesSetAside)
			require.Contains(t, d.names(t), "lost/"+stray)
			require.NotContains(t, d.names(t), stray)
			r.Abandon()
			require.Equal(t, before, d.names(t), "Abandon moves it back")
		})
	}
}
