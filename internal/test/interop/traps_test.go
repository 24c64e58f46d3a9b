package interop

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sievedb/sievedb/db"
	"github.com/stretchr/testify/require"
)

// requireHolds opens dir and compares it with the model.
func requireHolds(t *testing.T, e Engine, dir string, o Options, model *Model) {
	t.Helper()
	o.MustExist = true
	d, err := e.Open(dir, o)
	require.NoError(t, err, "%s opens", e.Name())
	require.NoError(t, model.Check(d), "%s reads", e.Name())
	require.NoError(t, d.Close())
}

// copyOf returns a copy of dir.
func copyOf(t *testing.T, dir string) string {
	t.Helper()
	into := filepath.Join(t.TempDir(), "db")
	require.NoError(t, CopyDir(into, dir))
	return into
}

// newest returns the path of the file of that pattern whose name sorts last.
func newest(t *testing.T, dir, pattern string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	require.NoError(t, err)
	require.NotEmpty(t, names)
	return names[len(names)-1]
}

// sequenceAheadOfLog makes LevelDB write an edit whose last sequence is ahead of records in the live log: it takes the
// number when a memtable's table is installed, and by then writes have gone to the next log.
func sequenceAheadOfLog(t *testing.T) (dir string, model *Model) {
	s := newSession(t, levelDB(t), Options{WriteBufferSize: 64 << 10, HoldBackground: true})
	s.write(Put([]byte("fills the memtable"), s.bytes(70_000)))
	for i := range 20 {
		s.put(fmt.Sprintf("in the live log %d", i), "v")
	}
	require.NoError(t, s.db.(*Driver).RunHeld())
	s.kill()
	return s.dir, s.model
}

func TestLevelDBRecordsSequencesAheadOfTheLiveLogAndNothingIsLost(t *testing.T) {
	dir, model := sequenceAheadOfLog(t)

	requireHolds(t, theLevelDB, copyOf(t, dir), Options{Paranoid: true}, model)

	require.Less(t, len(everything(t, GoLevelDB{}, copyOf(t, dir))), model.Len(), "goleveldb drops records of such a log without a word; "+
		"if it reads them all now, the rule that we never write such an edit has lost its reason")

	requireHolds(t, SieveDB{}, dir, Options{}, model)
	requireHolds(t, GoLevelDB{}, dir, Options{Paranoid: true}, model)
	requireHolds(t, theLevelDB, dir, Options{Paranoid: true}, model)
}

func TestNoEditOfOursIsAheadOfTheLiveLog(t *testing.T) {
	s := newSession(t, SieveDB{}, Options{WriteBufferSize: 16 << 10, TableSize: 16 << 10, LevelBase: 64 << 10})
	for range 25 {
		for range 10 + s.rng.IntN(150) {
			s.write(Put(fmt.Appendf(nil, "key%04d", s.rng.IntN(3000)), s.bytes(200)))
		}
		left := filepath.Join(t.TempDir(), "db")
		require.NoError(t, copyLiveDir(left, s.dir))
		requireHolds(t, GoLevelDB{}, left, Options{}, s.model)
	}
	s.close()
}

func TestTornLogs(t *testing.T) {
	forEachDirection(t, func(t *testing.T, writer, reader Engine) {
		s := newSession(t, writer, Options{})
		log := newest(t, s.dir, "*.log")
		ends := []int64{0}
		models := []*Model{NewModel()}
		for i := range 12 {
			s.write(Put(fmt.Appendf(nil, "key%d", i), s.bytes(i*i*200)), Delete(fmt.Appendf(nil, "key%d", i-5)))
			ends, models = append(ends, recordsOf(t, log)), append(models, s.model.Clone())
		}
		s.kill()
		for _, cut := range cuts(ends, s.rng) {
			torn := copyOf(t, s.dir)
			require.NoError(t, os.Truncate(filepath.Join(torn, filepath.Base(log)), cut))
			whole := 0
			for whole+1 < len(ends) && ends[whole+1] <= cut {
				whole++
			}
			requireHolds(t, reader, torn, Options{}, models[whole])
			requireHolds(t, writer, torn, Options{}, models[whole])
		}
	})
}

// cuts are lengths to cut a log to: around the end of each record, and anywhere.
func cuts(ends []int64, rng *rand.Rand) []int64 {
	var cuts []int64
	for i, end := range ends[1:] {
		cuts = append(cuts, end-1, ends[i]+3, ends[i]+rng.Int64N(end-ends[i]))
	}
	return append(cuts, ends[len(ends)-1])
}

func TestGoLevelDBsStrictModeRefusesATornLogUntilWeHaveOpenedIt(t *testing.T) {
	s := newSession(t, SieveDB{}, Options{})
	s.put("whole", "v")
	kept := s.model.Clone()
	s.write(Put([]byte("torn"), s.bytes(1000)))
	s.kill()
	log := newest(t, s.dir, "*.log")
	require.NoError(t, os.Truncate(log, recordsOf(t, log)-500))

	_, err := GoLevelDB{}.Open(copyOf(t, s.dir), Options{Paranoid: true})
	require.Error(t, err)
	requireHolds(t, SieveDB{}, s.dir, Options{}, kept)
	requireHolds(t, GoLevelDB{}, s.dir, Options{Paranoid: true}, kept)
}

func TestTablesUnderTheirOldName(t *testing.T) {
	forEachDirection(t, func(t *testing.T, writer, reader Engine) {
		s := newSession(t, writer, small)
		fillLevels(s)
		s.flush()
		s.close()
		tables, err := filepath.Glob(filepath.Join(s.dir, "*.ldb"))
		require.NoError(t, err)
		require.NotEmpty(t, tables)
		for i, table := range tables {
			if i%3 != 0 { // both names in one directory
				require.NoError(t, os.Rename(table, strings.TrimSuffix(table, ".ldb")+".sst"))
			}
		}
		s.exchange(writer, reader)
	})
}

func TestManifestsLyingAbout(t *testing.T) {
	forEachDirection(t, func(t *testing.T, writer, reader Engine) {
		s := newSession(t, writer, small)
		fillOverwrites(s)
		s.close()
		old, err := os.ReadFile(newest(t, s.dir, "MANIFEST-*"))
		require.NoError(t, err)
		s.openExisting(writer)
		fillOverwrites(s)
		s.close()
		for name, content := range map[string][]byte{
			"MANIFEST-000999":     old,
			"MANIFEST-001000":     old[:len(old)/2],
			"MANIFEST-001001":     []byte("not a manifest"),
			"MANIFEST-123456789":  nil,
			"CURRENT.bak":         []byte("MANIFEST-001001\n"),
			"000777.dbtmp":        []byte("MANIFEST-001001\n"),
			"000778.tmp":          old,
			"MANIFEST-000001.bak": old,
		} {
			if name == "CURRENT.bak" && (writer == Engine(GoLevelDB{}) || reader == Engine(GoLevelDB{})) {
				continue // goleveldb has a meaning for this name
			}
			require.NoError(t, os.WriteFile(filepath.Join(s.dir, name), content, 0o600))
		}
		s.exchange(writer, reader)
	})
}

// goleveldb prefers a CURRENT.N that a crash left before its renaming to CURRENT,
// where the MANIFEST that it names is there and newer.
func TestGoLevelDBsPendingCurrentIsObsoleteOnceWeHaveWritten(t *testing.T) {
	s := newSession(t, GoLevelDB{}, small)
	fillOverwrites(s)
	s.close()
	manifest, err := os.ReadFile(newest(t, s.dir, "MANIFEST-*"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "MANIFEST-000099"), manifest, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "CURRENT.99"), []byte("MANIFEST-000099\n"), 0o600))
	requireHolds(t, GoLevelDB{}, copyOf(t, s.dir), small, s.model)
	s.continueWith(SieveDB{})
	s.change()
	s.compact()
	s.close()
	requireHolds(t, GoLevelDB{}, s.dir, Options{Paranoid: true}, s.model)
}

// goleveldb removes the log of an empty memtable without an edit, so its MANIFEST
// names one that is gone while a later one is there. We took that for a lost edit.
func TestGoLevelDBsManifestMayNameALogThatIsGone(t *testing.T) {
	for _, last := range []string{"closed", "killed"} {
		t.Run(last, func(t *testing.T) {
			s := newSession(t, GoLevelDB{}, Options{BloomBits: 10})
			s.put("in a table", "v")
			s.flush()
			before := newest(t, s.dir, "*.log")
			s.compact() // with an empty memtable
			require.NotEqual(t, before, newest(t, s.dir, "*.log"))
			require.NoFileExists(t, before)
			s.put("in the log", "v")
			if last == "killed" {
				s.kill()
			} else {
				s.close()
			}
			s.exchange(GoLevelDB{}, SieveDB{})
		})
	}
}

func TestEveryLevelPopulatedByGoLevelDB(t *testing.T) {
	s := newSession(t, GoLevelDB{}, with(small, func(o *Options) {
		o.WriteBufferSize, o.TableSize, o.LevelBase, o.LevelFactor = 16<<10, 8<<10, 16<<10, 2
	}))
	fillEveryLevel(s, 7)
	s.close()
	s.opts.LevelFactor = 0 // or goleveldb would continue to level 7, which no other engine has
	s.exchange(GoLevelDB{}, SieveDB{})
	if levelDBMissing == nil {
		s.exchange(theLevelDB, SieveDB{})
	}
}

// fillEveryLevel writes until every level holds a table and no deeper one does.
func fillEveryLevel(s *session, levels int) {
	full := func(counts []int) bool {
		for _, n := range counts[:levels] {
			if n == 0 {
				return false
			}
		}
		return true
	}
	for range 3000 {
		for range 20 {
			s.write(Put(s.bytes(6), s.bytes(100)))
		}
		if full(s.tables()) {
			return
		}
	}
	require.Fail(s.t, "not every level was populated", "%v", s.tables())
}

func TestEveryLevelPopulatedByLevelDB(t *testing.T) {
	levelDB(t)
	s := newSession(t, SieveDB{}, small)
	s.close()
	seedLevels(t, s.dir, s.model)
	s.openExisting(theLevelDB)
	// LevelDB compacts a range down to the deepest level that holds any of it, so
	// after this the tables of each level are LevelDB's own.
	for level := 1; level < 7; level++ {
		for i := range 300 {
			s.write(Put(fmt.Appendf(nil, "level %d %04d", level, i), s.bytes(100)))
		}
		require.NoError(t, s.db.Compact(fmt.Appendf(nil, "level %d", level), fmt.Appendf(nil, "level %d~", level)))
	}
	// What overlaps level 1 stays on level 0.
	for range 3 {
		s.put("level 0 0000", "v")
		s.put("level 6 0100", "v")
		s.flush()
	}
	for level, n := range s.tables() { // before reads charge seeks, which start compactions
		require.NotZero(t, n, "level %d: %v", level, s.tables())
	}
	s.kill()
	left := s.dir
	s.check(SieveDB{})
	s.dir = copyOf(t, left)
	s.exchange(theLevelDB, SieveDB{})
	s.exchange(GoLevelDB{}, SieveDB{})
}

func TestGoLevelDBsLevelsBelowTheSixthAreRefusedAsLevelDBDoes(t *testing.T) {
	s := newSession(t, GoLevelDB{}, with(small, func(o *Options) {
		o.WriteBufferSize, o.TableSize, o.LevelBase, o.LevelFactor = 16<<10, 8<<10, 16<<10, 1.2
	}))
	fillEveryLevel(s, 9)
	s.close()
	before, err := listing(s.dir)
	require.NoError(t, err)
	_, err = SieveDB{}.Open(s.dir, Options{MustExist: true})
	require.ErrorIs(t, err, db.ErrCorruption)
	require.ErrorContains(t, err, "level")
	if levelDBMissing == nil {
		_, err = theLevelDB.Open(s.dir, Options{MustExist: true})
		require.ErrorContains(t, err, "VersionEdit")
	}
	after, err := listing(s.dir)
	require.NoError(t, err)
	if levelDBMissing != nil { // else there is LevelDB's LOG
		require.Equal(t, before, after)
	}
	requireHolds(t, GoLevelDB{}, s.dir, small, s.model)
}

func TestZstandardIsOursAloneUntilCompacted(t *testing.T) {
	s := newSession(t, SieveDB{}, with(small, func(o *Options) { o.Compression = Zstd }))
	for i := range 3000 {
		s.put(fmt.Sprintf("key%06d", i), strings.Repeat("value that compresses ", 5))
	}
	s.compact()
	s.close()
	for _, o := range others {
		t.Run(o.name+" refuses to read it", func(t *testing.T) {
			d, err := o.engine(t).Open(copyOf(t, s.dir), Options{MustExist: true, Paranoid: true})
			if err != nil {
				return
			}
			_, err = d.Get([][]byte{[]byte("key000001")})
			require.Error(t, err)
			_, err = d.Scan(false)
			require.Error(t, err)
			require.NoError(t, d.Close())
		})
	}
	s.opts.Compression = Snappy
	s.openExisting(SieveDB{})
	s.change() // every table has something to merge
	for _, key := range append([]string{}, s.model.Keys()...) {
		s.write(Put([]byte(key), s.model.Value(key)))
	}
	s.compact()
	s.close()
	for _, o := range others {
		t.Run(o.name+" reads it after a compaction with Snappy", func(t *testing.T) {
			requireHolds(t, o.engine(t), copyOf(t, s.dir), Options{Paranoid: true}, s.model)
		})
	}
}

func TestLevelDBAppendsToOurLogAndManifest(t *testing.T) {
	levelDB(t)
	s := newSession(t, SieveDB{}, Options{BloomBits: 10})
	fillOverwrites(s)
	s.flush()
	fillLog(s)
	s.kill()
	manifest := newest(t, s.dir, "MANIFEST-*")
	s.opts.ReuseLogs = true
	for range 3 {
		s.openExisting(theLevelDB)
		require.Equal(t, manifest, newest(t, s.dir, "MANIFEST-*"), "LevelDB must continue with our MANIFEST")
		s.verify()
		s.change()
		s.close()
	}
	s.check(SieveDB{})
}

func TestWeAndTheOthersLockEachOtherOut(t *testing.T) {
	forEachDirection(t, func(t *testing.T, first, second Engine) {
		s := newSession(t, first, Options{})
		s.put("k", "v")
		_, err := second.Open(s.dir, Options{})
		require.Error(t, err, "%s has it open", first.Name())
		if second == Engine(SieveDB{}) {
			require.ErrorIs(t, err, db.ErrLocked)
		}
		s.put("k2", "v")
		s.verify()
		s.close()
		s.check(second)
	})
}

// LevelDB with reuse_logs appends after the torn end that a crash left, and later reads no more of that block. The
// records after it were acknowledged and no operation is missing, so SieveDB reads them.
func TestLevelDBAppendsAfterATornEndAndWeReadWhatItLoses(t *testing.T) {
	s := newSession(t, levelDB(t), Options{})
	s.put("whole", "v")
	kept := s.model.Clone()
	s.put("torn", "v")
	s.kill()
	log := newest(t, s.dir, "*.log")
	info, err := os.Stat(log)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(log, info.Size()-1))

	s.model = kept
	s.opts.ReuseLogs = true
	s.open(theLevelDB, Options{MustExist: true, ReuseLogs: true})
	s.verify()
	require.Equal(t, filepath.Base(log), filepath.Base(newest(t, s.dir, "*.log")), "LevelDB must continue with that log")
	for i := range 5 {
		s.put(fmt.Sprintf("appended%d", i), "v")
	}
	s.kill()
	require.Less(t, len(everything(t, theLevelDB, copyOf(t, s.dir))), s.model.Len(), "LevelDB loses them")
	requireHolds(t, SieveDB{}, s.dir, Options{}, s.model)
}
