package replay_test

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

// damagedLog returns a database whose only log has keys 0 to 19, one per record. Record 10 is damaged.
func damagedLog(t *testing.T) *vfs.Mem {
	killed, log, data := killedWithKeysInTheLog(t, 20)
	data[len(data)*21/40] ^= 1
	fixture.WriteFile(t, killed, log, data)
	return killed
}

func TestSalvageOfAPrefixLeavesLaterLogsUnread(t *testing.T) {
	fs := damagedLog(t)
	log := fixture.Names(t, fs, base.FileLog)[0]
	_, num, _ := base.ParseFileName(log)
	for i := range uint64(2) {
		fixture.WriteFile(t, fs, filepath.Join("db", base.FileName(base.FileLog, num+1+i)), fixture.Log(t, fixture.Batch(21, "", "later")))
	}
	d := storetest.Open(t, &db.Options{FS: fs, Salvage: db.SalvagePrefix})
	_, err := d.Get([]byte("later"))
	require.Equal(t, db.ErrNotFound, err)
	reports := d.OpenReport().Logs
	require.Len(t, reports, 3)
	for _, r := range reports[1:] {
		require.Equal(t, "not read", r.Tail)
		require.NotEmpty(t, fixture.ReadFile(t, fs, filepath.Join("db", r.SetAside)))
	}
}

// The bug: bytes that could not be kept were deleted. They were set aside only after the new state
// was in force, and the log was removed even if that failed.
func TestALogThatCannotBeSetAsideIsNotDeleted(t *testing.T) {
	mem := damagedLog(t)
	log := filepath.Join("db", fixture.Names(t, mem, base.FileLog)[0])
	original := fixture.ReadFile(t, mem, log)
	refuse := wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
		if op.Kind == wrap.OpWrite && strings.Contains(op.Name, manifest.LostDir) {
			return &wrap.Fault{}
		}
		return nil
	})
	_, err := db.Open("db", &db.Options{FS: refuse, Salvage: db.SalvageAll})
	require.ErrorIs(t, err, wrap.ErrInjected)
	require.Equal(t, original, fixture.ReadFile(t, mem, log))
	_, err = mem.Stat(filepath.Join("db", manifest.LostDir))
	require.ErrorIs(t, err, fs.ErrNotExist, "a failed Open leaves no files")
}

// The bug: an existing file of that name in lost/ was overwritten.
func TestSettingAsideOverwritesNothing(t *testing.T) {
	mem := damagedLog(t)
	name := fixture.Names(t, mem, base.FileLog)[0] + ".from-0"
	require.NoError(t, mem.MkdirAll(filepath.Join("db", manifest.LostDir)))
	fixture.WriteFile(t, mem, filepath.Join("db", manifest.LostDir, name), []byte("from before"))
	d := storetest.Open(t, &db.Options{FS: mem, Salvage: db.SalvageAll})
	require.NotEqual(t, filepath.Join(manifest.LostDir, name), d.OpenReport().Logs[0].SetAside)
	require.Equal(t, "from before", string(fixture.ReadFile(t, mem, filepath.Join("db", manifest.LostDir, name))))
}

// damagedFourth returns a database whose only log has keys 0 to 29 with values of 2000 bytes, of
// which the fourth is damaged, and the log's name.
func damagedFourth(t *testing.T) (d fixture.Dir, log string) {
	t.Helper()
	var records [][]byte
	for i := range 30 {
		records = append(records, fixture.Batch(uint64(1+i), strings.Repeat("v", 2000), string(fixture.Key(i))))
	}
	log = base.FileName(base.FileLog, 3)
	d = fixture.Dir{log: fixture.Log(t, records...)}
	d.AddManifest(t, 2, fixture.EmptyEdit())
	d[log][7000] ^= 1
	return d, log
}

// The bug: after damage, bytes that looked like the end that a crash leaves ended the log.
// SalvageAll missed acknowledged writes, and the report did not count them.
func TestSalvageReadsAndReportsRecordsAfterALaterHole(t *testing.T) {
	d, log := damagedFourth(t)
	clear(d[log][40_000:44_000])
	_, err := db.Open("db", &db.Options{FS: d.FS(t)})
	require.ErrorIs(t, err, db.ErrCorruption)
	store := storetest.Open(t, &db.Options{FS: d.FS(t), Salvage: db.SalvageAll})
	var missing []int
	for i := range 30 {
		if _, err := store.Get(fixture.Key(i)); err == db.ErrNotFound {
			missing = append(missing, i)
		}
	}
	require.Equal(t, []int{3, 19, 20, 21}, missing)
	rep := store.OpenReport().Logs[0]
	require.EqualValues(t, 26, rep.Records)
	require.Greater(t, rep.BytesSkipped, int64(4*2000))
	require.Less(t, rep.BytesSkipped, int64(5*2100))
}

func TestSalvageCountsATornEndAfterDamage(t *testing.T) {
	d, log := damagedFourth(t)
	whole := len(d[log])
	d[log] = d[log][:whole-100]
	store := storetest.Open(t, &db.Options{FS: d.FS(t), Salvage: db.SalvageAll})
	rep := store.OpenReport().Logs[0]
	require.EqualValues(t, 28, rep.Records)
	require.Greater(t, rep.BytesSkipped, int64(2000+1900))
}

// The bug: a failed read after damage was treated as the log's end, and the unread records were given up.
func TestSalvageLosesNothingBecauseOfAReadError(t *testing.T) {
	var records [][]byte
	for i := range 6 { // each longer than a block, so that it is read twice
		records = append(records, fixture.Batch(uint64(1+i), string(make([]byte, 40_000)), string(fixture.Key(i))))
	}
	log := base.FileName(base.FileLog, 3)
	d := fixture.Dir{log: fixture.Log(t, records...)}
	d.AddManifest(t, 2, fixture.EmptyEdit())
	d[log][50_000] ^= 1
	for at, opened := 0, false; !opened; at++ {
		reads := 0
		fsys := wrap.NewFaulty(d.FS(t), func(op wrap.Op) *wrap.Fault {
			if op.Kind == wrap.OpRead && strings.HasSuffix(op.Name, log) {
				if reads++; reads == at+1 {
					return &wrap.Fault{}
				}
			}
			return nil
		})
		store, err := db.Open("db", &db.Options{FS: fsys, Salvage: db.SalvageAll, ReadOnly: true})
		if opened = reads <= at; !opened {
			require.ErrorIs(t, err, wrap.ErrInjected, "read %d of the log", at)
			continue
		}
		require.NoError(t, err)
		require.EqualValues(t, 5, store.OpenReport().Logs[0].Records)
		require.NoError(t, store.Close())
	}
}
