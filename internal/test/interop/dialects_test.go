package interop

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// goldenModel reads a golden directory's listing and returns it with a copy of the database. Values longer than 64
// bytes are hashed there; databases with such are for package db's tests.
func goldenModel(t *testing.T, name string) (dir string, model *Model) {
	t.Helper()
	golden := filepath.Join("..", "..", "..", "testdata", "golden", name)
	listing, err := os.ReadFile(filepath.Join(golden, "expected.txt"))
	require.NoError(t, err)
	model = NewModel()
	for line := range strings.Lines(string(listing)) {
		fields := strings.Fields(line)
		if fields[0] != "put" {
			continue
		}
		pair := [2][]byte{}
		for i, field := range fields[1:] {
			pair[i], err = hex.DecodeString(strings.TrimPrefix(field, "."))
			require.NoError(t, err)
		}
		model.Apply([]Op{Put(pair[0], pair[1])})
	}
	return copyOf(t, filepath.Join(golden, "db")), model
}

// LevelDB up to 1.17 hashed the last bytes of a key as signed, goleveldb hashes them as unsigned under the same filter
// name. So goleveldb's filter denies most of the keys of this directory, silently.
func TestGoLevelDBLosesKeysOfALevelDB117DirectoryAndWeDoNot(t *testing.T) {
	dir, model := goldenModel(t, "leveldb-1.17-signed-filter")
	d, err := GoLevelDB{}.Open(copyOf(t, dir), Options{BloomBits: 10, MustExist: true})
	require.NoError(t, err)
	values, err := d.Get(model.keyBytes())
	require.NoError(t, err)
	require.NoError(t, d.Close())
	lost := 0
	for _, v := range values {
		if v == nil {
			lost++
		}
	}
	t.Logf("goleveldb finds %d of %d keys with its filter on", model.Len()-lost, model.Len())
	require.Greater(t, lost, model.Len()*9/10)

	s := &session{t: t, dir: dir, model: model, opts: Options{BloomBits: 10}}
	s.continueWith(SieveDB{})
	for _, key := range append([]string{}, model.Keys()...) { // every table is rewritten
		s.write(Put([]byte(key), model.Value(key)))
	}
	s.compact()
	s.verify()
	s.close()
	requireHolds(t, GoLevelDB{}, copyOf(t, dir), Options{BloomBits: 10, Paranoid: true}, model)
}

func TestLevelDBReadsWhatWeMadeOfOldDirectories(t *testing.T) {
	e := levelDB(t)
	for _, name := range []string{"leveldb-1.17-signed-filter", "leveldb-1.23-versions", "goleveldb-filter", "goleveldb-default"} {
		t.Run(name, func(t *testing.T) {
			dir, model := goldenModel(t, name)
			requireHolds(t, SieveDB{}, dir, Options{BloomBits: 10}, model)
			requireHolds(t, e, dir, Options{BloomBits: 10, Paranoid: true}, model)
			requireHolds(t, GoLevelDB{}, dir, Options{Paranoid: true}, model)
		})
	}
}
