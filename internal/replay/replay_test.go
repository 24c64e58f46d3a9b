package replay

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/errors"
	"github.com/sievedb/sievedb/internal/manifest"
)

const name10 = "000010.log"

func TestLogsBecomeTablesAndAreRemoved(t *testing.T) {
	room := newRoom(t)
	room.log(t, 9, puts(1)) // not needed
	room.log(t, 10, puts(1, 2))
	room.log(t, 11, ours(2), puts(3))
	r := room.open(t)
	require.NoError(t, r.Run())
	added, err := r.Finish()
	require.NoError(t, err)
	require.Len(t, added, 1)
	require.Equal(t, []string{"a@1", "b@2", "c@3"}, room.entries)
	require.Equal(t, uint64(3), r.LastSeq())

	logNum := room.set.NewFileNum()
	edit := &manifest.Edit{LogNum: manifest.Num(logNum), LastSeq: manifest.Num(3), Added: added}
	require.NoError(t, room.set.Begin(edit, func(*manifest.Version) {}))
	defer room.set.Close()
	r.RemoveOld(logNum, room.set.ManifestNum())
	table, manifestName := base.FileName(base.FileTable, added[0].File.Num), base.FileName(base.FileManifest, room.set.ManifestNum())
	require.Equal(t, []string{table, base.CurrentName, manifestName}, room.names(t))
	require.Equal(t, Report{FilesRemoved: 4, Logs: []LogReport{
		{Name: name10, Records: 2, Entries: 2, Tail: "clean"}, {Name: "000011.log", Records: 1, Entries: 1, Tail: "clean"},
	}}, r.Report())
}

func TestATornEndIsCutAndKeptInLost(t *testing.T) {
	room := newRoom(t)
	room.log(t, 10, puts(1, 2, 3))
	whole := room.read(t, name10)
	record := len(whole) / 3
	torn := whole[:len(whole)-4]
	room.replace(t, name10, torn)
	before := room.names(t)

	r := room.open(t)
	require.NoError(t, r.Run())
	_, err := r.Finish()
	require.NoError(t, err)
	require.Equal(t, []string{"a@1", "b@2"}, room.entries)
	report := r.Report().Logs[0]
	require.Equal(t, "torn", report.Tail)
	require.Equal(t, int64(record-4), report.BytesDropped)
	require.Equal(t, torn[2*record:], room.read(t, report.SetAside))

	r.Abandon()
	require.Equal(t, before, room.names(t), "Abandon leaves what was there")
	require.Equal(t, torn, room.read(t, name10))
}

func TestKeepLeavesAbandonNothingToRemove(t *testing.T) {
	room := newRoom(t)
	room.log(t, 10, puts(1))
	r := room.open(t)
	require.NoError(t, r.Run())
	_, err := r.Finish()
	require.NoError(t, err)
	written := room.names(t)
	r.Keep()
	r.Abandon()
	require.Equal(t, written, room.names(t))
}

func TestSalvageOfALogThatIsDamagedInTheMiddle(t *testing.T) {
	for name, c := range map[string]struct {
		salvage Salvage
		entries []string // nil: an error
	}{
		"nothing fails":                     {SalvageNothing, nil},
		"prefix ends before the damage":     {SalvagePrefix, []string{"a@1"}},
		"all keeps what follows the damage": {SalvageAll, []string{"a@1", "c@3"}},
	} {
		t.Run(name, func(t *testing.T) {
			room := newRoom(t)
			room.log(t, 10, ours(0), puts(1, 2, 3))
			damaged := room.read(t, name10)
			damaged[bytes.Index(damaged, []byte("\x01b\x05value"))]++
			room.replace(t, name10, damaged)
			room.opts.Salvage = c.salvage
			r := room.open(t)
			err := r.Run()
			if c.entries == nil {
				require.ErrorIs(t, err, base.ErrCorruption)
				require.ErrorContains(t, err, "Options.Salvage opens the database")
				return
			}
			require.NoError(t, err)
			_, err = r.Finish()
			require.NoError(t, err)
			require.Equal(t, c.entries, room.entries)
			report := r.Report().Logs[0]
			require.Equal(t, "damaged", report.Tail)
			require.Positive(t, report.BytesSkipped)
			require.Equal(t, damaged, room.read(t, report.SetAside), "all of a damaged log is kept")
		})
	}
}

func TestSalvageOfAGapBeforeALog(t *testing.T) {
	for name, c := range map[string]struct {
		salvage Salvage
		entries []string // nil: an error
	}{
		"nothing fails":                {SalvageNothing, nil},
		"prefix ends before the gap":   {SalvagePrefix, []string{"a@1", "b@2"}},
		"all: continues after the gap": {SalvageAll, []string{"a@1", "b@2", "e@5"}},
	} {
		t.Run(name, func(t *testing.T) {
			room := newRoom(t)
			room.log(t, 10, ours(0), puts(1, 2))
			room.log(t, 11, ours(4), puts(5))
			room.opts.Salvage = c.salvage
			r := room.open(t)
			err := r.Run()
			if c.entries == nil {
				require.ErrorIs(t, err, base.ErrCorruption)
				require.ErrorContains(t, err, "operations 3 to 4 are missing")
				return
			}
			require.NoError(t, err)
			_, err = r.Finish()
			require.NoError(t, err)
			require.Equal(t, c.entries, room.entries)
			require.Equal(t, uint64(2), r.Report().Logs[1].GapBefore)
		})
	}
}

func TestAReadOnlyReplayWritesNothing(t *testing.T) {
	room := newRoom(t)
	room.log(t, 10, puts(1, 2, 3))
	torn := room.read(t, name10)
	room.replace(t, name10, torn[:len(torn)-1])
	before := room.names(t)
	room.opts.ReadOnly = true
	r := room.open(t)
	require.NoError(t, r.Run())
	mems := r.Memtables()
	require.Len(t, mems, 1)
	require.Equal(t, []string{"a@1", "b@2"}, entriesOf(mems[0]))
	require.Equal(t, uint64(2), r.LastSeq())
	require.Equal(t, "torn", r.Report().Logs[0].Tail)
	require.Empty(t, r.Report().Logs[0].SetAside)
	require.Equal(t, before, room.names(t))
}

func TestAReplayWithoutEntriesHasNoMemtable(t *testing.T) {
	room := newRoom(t)
	room.log(t, 10)
	r := room.open(t)
	require.NoError(t, r.Run())
	require.Empty(t, r.Memtables())
	added, err := r.Finish()
	require.NoError(t, err)
	require.Empty(t, added)
}

func TestAFailedTableLeavesTheDirectoryAsItWas(t *testing.T) {
	room := newRoom(t)
	room.log(t, 10, puts(1))
	before := room.names(t)
	r := room.open(t)
	require.NoError(t, r.Run())
	room.fail = errors.New("no table today")
	_, err := r.Finish()
	require.ErrorIs(t, err, room.fail)
	r.Abandon()
	require.Equal(t, before, room.names(t))
}

func TestAPanicIsAnErrorOfTheReplay(t *testing.T) {
	room := newRoom(t)
	room.log(t, 10, puts(1, 2))
	room.opts.Comparer = &base.Comparer{Name: base.Bytewise.Name, Compare: func(_, _ []byte) int { panic("boom") }}
	err := room.open(t).Run()
	var caught *base.PanicError
	require.ErrorAs(t, err, &caught)
	require.ErrorContains(t, err, "during the replay of the logs: boom")
}

func TestMissingFilesAreCorruption(t *testing.T) {
	t.Run("a table that the version names", func(t *testing.T) {
		room := newRoom(t)
		room.log(t, 10)
		r := room.open(t)
		r.version = &manifest.Version{Cmp: base.Bytewise}
		r.version.Levels[0].Files = []*manifest.FileMeta{{Num: 5, Size: 100}}
		err := r.Run()
		require.ErrorIs(t, err, base.ErrCorruption)
		require.ErrorContains(t, err, "the file is missing; the MANIFEST names it on level 0 with 100 bytes")
	})
	t.Run("the log that the edits need, next to a later one", func(t *testing.T) {
		room := newRoom(t)
		room.log(t, 11, puts(1))
		err := room.open(t).Run()
		require.ErrorIs(t, err, base.ErrCorruption)
		require.ErrorContains(t, err, "the edits need 000010.log, which is missing, although 000011.log exists")
	})
	t.Run("the only log is reported", func(t *testing.T) {
		room := newRoom(t)
		r := room.open(t)
		require.NoError(t, r.Run())
		require.Equal(t, name10, r.Report().MissingLog)
	})
}

func TestRemainsOfADatabaseAreRefused(t *testing.T) {
	room := newRoom(t)
	room.log(t, 10)
	files, err := manifest.ListDir(room.dir.FS, room.dir.Path)
	require.NoError(t, err)
	require.NoError(t, RefuseRemains("dir", files), "an empty log holds nothing")
	room.log(t, 11, puts(1))
	files, err = manifest.ListDir(room.dir.FS, room.dir.Path)
	require.NoError(t, err)
	require.ErrorIs(t, RefuseRemains("dir", files), base.ErrCorruption)
}

// goleveldb gives the number of a write whose sync failed to the next one.
func TestRecordsWithEqualSequencesAreNumberedAnew(t *testing.T) {
	room := newRoom(t)
	room.log(t, 10, puts(1, 2, 2, 3))
	r := room.open(t)
	require.NoError(t, r.Run())
	_, err := r.Finish()
	require.NoError(t, err)
	require.Equal(t, []string{"a@1", "b@3", "b@2", "c@4"}, room.entries)
	require.Equal(t, uint64(4), r.LastSeq())

	room = newRoom(t)
	room.log(t, 10, ours(0), puts(1, 2, 2, 3))
	err = room.open(t).Run()
	require.ErrorIs(t, err, base.ErrCorruption, "a log of ours is judged strictly")
	require.ErrorContains(t, err, "its sequence is 2, want at least 3")
}
