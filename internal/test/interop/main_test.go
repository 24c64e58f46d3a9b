package interop

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
)

var (
	randomDatabases = flag.Int("interop.random", 50, "random databases for each pair of engines and direction")
	histories       = flag.Int("interop.histories", 100, "random histories of several engines and repair tools")
	historySeed     = flag.Uint64("interop.historyseed", 1, "seed of the first random history; the others count up")
	randomSeed      = flag.Uint64("interop.seed", 0, "seed of the first random database; 0: choose one")
)

// requireAll is set where the tests fail instead of being skipped when a program that they
// need is missing, as in continuous integration.
const requireAll = "SIEVEDB_REQUIRE_ALL"

// The programs that may be missing; nil with the reason why.
var (
	theLevelDB     *LevelDB
	theRocksDB     *RocksDB
	levelDBMissing error
	rocksDBMissing error
)

func TestMain(m *testing.M) {
	if task := os.Getenv(followTaskEnv); task != "" {
		writeForFollower(task)
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	flag.Parse()
	if *randomSeed == 0 {
		*randomSeed = rand.Uint64() >> 1
	}
	if testing.Short() {
		*randomDatabases = min(*randomDatabases, 10)
	}
	dir, err := os.MkdirTemp("", "sievedb-interop-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	theLevelDB, levelDBMissing = BuildDriver(dir)
	theRocksDB, rocksDBMissing = FindRocksDB()
	for _, err := range []error{levelDBMissing, rocksDBMissing} {
		if errors.Is(err, ErrUnavailable) {
			if os.Getenv(requireAll) != "" {
				fmt.Fprintf(os.Stderr, "interop: %v; %s is set, so it must be installed\n", err, requireAll)
				return 1
			}
			fmt.Fprintf(os.Stderr, "interop: %v; the tests that need it are skipped; `make setup` installs it\n", err)
		} else if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return m.Run()
}

// levelDB returns the engine, or leaves the test out where there is none.
func levelDB(t testing.TB) *LevelDB {
	t.Helper()
	if levelDBMissing != nil {
		t.Skipf("left out: %v", levelDBMissing)
	}
	return theLevelDB
}

// rocksDB returns the tools, or leaves the test out where there are none.
func rocksDB(t testing.TB) *RocksDB {
	t.Helper()
	if rocksDBMissing != nil {
		t.Skipf("left out: %v", rocksDBMissing)
	}
	return theRocksDB
}

// others are the engines to exchange databases with. LevelDB is looked up when
// its subtest runs, so that it alone is left out where it is missing.
var others = []struct {
	name   string
	engine func(testing.TB) Engine
}{
	{"leveldb", func(t testing.TB) Engine { return levelDB(t) }},
	{"goleveldb", func(testing.TB) Engine { return GoLevelDB{} }},
}

// forEachDirection runs a test with SieveDB and each other engine, either of them writing first.
func forEachDirection(t *testing.T, test func(t *testing.T, writer, reader Engine)) {
	for _, o := range others {
		t.Run(o.name+" to sievedb", func(t *testing.T) {
			t.Parallel()
			test(t, o.engine(t), SieveDB{})
		})
		t.Run("sievedb to "+o.name, func(t *testing.T) {
			t.Parallel()
			test(t, SieveDB{}, o.engine(t))
		})
	}
}
