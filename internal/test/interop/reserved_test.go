package interop

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/opt"
)

// logBlock and logHeader are the lengths of a block of a log and of the header of a chunk.
const (
	logBlock  = 32 << 10
	logHeader = 7
)

// killedInWrite returns a directory as a SieveDB leaves it that is killed while it appends the record of one Put
// through memory: all bytes of the record are in the log except the first header. after is the record's value, and
// model what the database has without it. The log has reserved space behind it, and before names how many bytes of
// records.
// Of the log, only the first kept bytes are there if that is not 0.
func killedInWrite(t *testing.T, value []byte, kept int) (dir string, model *Model) {
	t.Helper()
	s := newSession(t, SieveDB{}, Options{})
	for range 20 {
		s.write(Put(s.bytes(10), s.bytes(100)))
	}
	model = s.model.Clone()
	before := logOf(t, s.dir)
	if value != nil {
		s.put("unfinished", string(value))
	}
	s.kill()
	log := logOf(t, s.dir)
	if value != nil {
		head := len(before)
		require.Less(t, head%logBlock, logBlock-logHeader)
		clear(log[head : head+logHeader])
	}
	if kept > 0 {
		clear(log[kept:])
	}
	reserved := make([]byte, (len(log)/(64<<10)+1)*(64<<10))
	copy(reserved, log)
	require.NoError(t, os.WriteFile(newest(t, s.dir, "*.log"), reserved, 0o600))
	return s.dir, model
}

// logOf returns the records of the newest log, without reserved space. Their last byte is not zero.
func logOf(t *testing.T, dir string) []byte {
	t.Helper()
	log := newest(t, dir, "*.log")
	data, err := os.ReadFile(log)
	require.NoError(t, err)
	return data[:recordsOf(t, log)]
}

// recordsOf returns how many bytes of a log are records. Their last byte is not zero.
func recordsOf(t *testing.T, log string) int64 {
	t.Helper()
	data, err := os.ReadFile(log)
	require.NoError(t, err)
	return int64(len(bytes.TrimRight(data, "\x00")))
}

// What each engine says about a log of a SieveDB that was killed: "" if it opens the database and reads all that was
// acknowledged, else a part of its error.
func TestOtherEnginesReadTheReservedSpaceOfAKilledSieveDB(t *testing.T) {
	short, long := bytes.Repeat([]byte("v"), 300), bytes.Repeat([]byte("v"), 5*logBlock)
	for _, c := range []struct {
		name                       string
		value                      []byte
		kept                       int
		leveldb, paranoid, journal string // LevelDB, with paranoid_checks, goleveldb with StrictJournal
	}{
		{"zeros", nil, 0, "", "", "zero header"},
		{"an unfinished record", short, 0, "", "", "zero header"},
		{"one of several blocks", long, 0, "", "missing start of fragmented record", "zero header"},
		{"one that is cut in its second block", long, logBlock + 1000, "", "checksum mismatch", "zero header"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, model := killedInWrite(t, c.value, c.kept)
			opens := func(t *testing.T, e Engine, o Options, want string) {
				t.Helper()
				d, err := e.Open(copyOf(t, dir), o)
				if want != "" {
					require.ErrorContains(t, err, want)
					return
				}
				require.NoError(t, err)
				defer d.Close()
				require.NoError(t, model.Check(d))
			}
			t.Run("sievedb", func(t *testing.T) { opens(t, SieveDB{}, Options{MustExist: true}, "") })
			t.Run("goleveldb", func(t *testing.T) {
				opens(t, GoLevelDB{}, Options{MustExist: true}, "")
				opens(t, GoLevelDB{}, Options{MustExist: true, Paranoid: true, ReservedLogs: true}, "")
				_, err := leveldb.OpenFile(copyOf(t, dir), &opt.Options{Strict: opt.StrictJournal})
				require.ErrorContains(t, err, c.journal)
				require.NoError(t, GoLevelDB{}.Repair(copyOf(t, dir), Options{}))
			})
			t.Run("leveldb", func(t *testing.T) {
				e := levelDB(t)
				opens(t, e, Options{MustExist: true}, c.leveldb)
				opens(t, e, Options{MustExist: true, Paranoid: true}, c.paranoid)
			})
			t.Run("rocksdb", func(t *testing.T) {
				entries, err := rocksDB(t).Scan(copyOf(t, dir))
				require.NoError(t, err)
				require.NoError(t, model.compare(entries))
			})
			t.Run("leveldb, reusing logs", func(t *testing.T) {
				s := &session{t: t, dir: copyOf(t, dir), model: model.Clone()}
				s.open(levelDB(t), Options{MustExist: true, ReuseLogs: true})
				s.put("appended", "behind the reserved space")
				s.kill()
				s.open(SieveDB{}, Options{MustExist: true})
				s.verify()
				s.close()
			})
		})
	}
}

// On a file system that is known to keep what it reserves, a kill does leave reserved space, and Close none.
func TestAKilledSieveDBLeavesReservedSpaceAndAClosedOneNone(t *testing.T) {
	s := newSession(t, SieveDB{}, Options{})
	s.put("k", "v")
	log := newest(t, s.dir, "*.log")
	info, err := os.Stat(log)
	require.NoError(t, err)
	used := len(logOf(t, s.dir))
	t.Logf("%d bytes of records, %d of the file", used, info.Size())
	s.close()
	logs, err := filepath.Glob(filepath.Join(s.dir, "*.log"))
	require.NoError(t, err)
	for _, log := range logs {
		data, err := os.ReadFile(log)
		require.NoError(t, err)
		require.Equal(t, len(bytes.TrimRight(data, "\x00")), len(data))
	}
}
