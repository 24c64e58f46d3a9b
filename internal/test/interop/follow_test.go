package interop

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

var (
	followRounds = flag.Int("follow.rounds", 50, "how often TestFollowersOfKilledWriters kills a writer")
	followSeed   = flag.Uint64("follow.seed", 0, "its seed; 0: choose one")
)

// A writer writes to one database and is killed, again and again; each time it is another engine. Meanwhile a follower
// refreshes all the time. It must always show the content after one of the batches, at least the last one that was
// acknowledged before the refresh, and never an earlier one than before. It must not change a file.
func TestFollowersOfKilledWriters(t *testing.T) {
	engines := []Engine{SieveDB{}, GoLevelDB{}}
	if levelDBMissing == nil || os.Getenv(requireAll) != "" {
		engines = append(engines, levelDB(t))
	}
	rounds, seed := *followRounds, *followSeed
	if testing.Short() {
		rounds = min(rounds, 12)
	}
	if seed == 0 {
		seed = rand.Uint64() >> 1
	}
	t.Logf("-follow.seed=%d -follow.rounds=%d", seed, rounds)
	f := &followed{t: t, seed: seed, dir: filepath.Join(t.TempDir(), "db"), rnd: rand.New(rand.NewPCG(seed, 0)), model: NewModel()}
	before := ""
	for round := range rounds {
		e := engines[f.rnd.IntN(len(engines))]
		if before == "leveldb" && e.Name() == "goleveldb" { // which loses records of LevelDB's live log
			e = engines[0]
		}
		before = e.Name()
		goal := int(f.rnd.ExpFloat64() * 300)
		if f.rnd.IntN(5) == 0 {
			goal = -1 // kill it while it opens
		}
		f.round(round, e, goal)
	}
	require.NoError(t, f.reader.Close())
	t.Logf("%d batches, %d refreshes of which %d showed something new", f.last, f.refreshes, f.changes)
	require.Greater(t, f.changes, rounds/2)
}

// followed is a database, its writer and its follower.
type followed struct {
	t    *testing.T
	seed uint64
	dir  string
	rnd  *rand.Rand

	reader             *db.DB
	model              *Model // after batch last
	last               int    // what the reader showed
	refreshes, changes int

	acknowledged atomic.Int64
}

// round runs a writer until it has written goal batches, and kills it.
func (f *followed) round(n int, e Engine, goal int) {
	t := f.t
	executable, err := os.Executable()
	require.NoError(t, err)
	w := exec.Command(executable)
	w.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %d %s", followTaskEnv, e.Name(), f.seed, n, f.dir))
	w.Stderr = struct{ io.Writer }{os.Stderr} // a pipe: Wait waits for LevelDB's process too
	ownGroup(w)                               // LevelDB is a process of its own
	if d, ok := e.(*LevelDB); ok {
		w.Env = append(w.Env, followDriverEnv+"="+d.program)
	}
	out, err := w.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, w.Start())
	defer func() { _ = killGroup(w) }() // if the test fails
	goal += int(f.acknowledged.Load())
	reached, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		f.note(out, goal, reached)
	}()
	for running := true; running; {
		select {
		case <-reached:
			running = false
		case <-ended:
			require.Fail(t, "the writer ended by itself", "%s, round %d", e.Name(), n)
		default:
		}
		f.check(e, n)
	}
	require.NoError(t, killGroup(w))
	<-ended
	_ = w.Wait()
	f.check(e, n)
}

// note reads the numbers of acknowledged batches, and closes reached when there is goal.
func (f *followed) note(out io.Reader, goal int, reached chan struct{}) {
	lines := bufio.NewScanner(out)
	for open := true; lines.Scan(); {
		i, err := strconv.Atoi(lines.Text())
		if err != nil {
			continue // a part of a line
		}
		if int64(i) > f.acknowledged.Load() {
			f.acknowledged.Store(int64(i))
		}
		if open && i >= goal {
			close(reached)
			open = false
		}
	}
}

// check refreshes the follower and compares it with the model.
func (f *followed) check(e Engine, round int) {
	t := f.t
	if f.reader == nil {
		reader, err := db.OpenFollower(f.dir, &db.Options{FS: unchanging{vfs.OS}})
		if err != nil { // perhaps the writer has not created the database yet
			require.Zero(t, f.acknowledged.Load(), "%v", err)
			return
		}
		f.reader = reader
	}
	least := int(f.acknowledged.Load())
	refreshed := f.reader.Refresh(t.Context())
	require.NoError(t, refreshed, "%s, round %d", e.Name(), round)
	f.refreshes++
	entries, err := sieveView(f.reader).Scan(false)
	require.NoError(t, err)
	shown := 0
	for _, entry := range entries {
		if string(entry.Key) == "number" {
			shown, err = strconv.Atoi(string(entry.Value))
			require.NoError(t, err)
		}
	}
	require.GreaterOrEqual(t, shown, max(f.last, least), "%s, round %d", e.Name(), round)
	if shown > f.last {
		f.changes++
	}
	for ; f.last < shown; f.last++ {
		f.model.Apply(followedBatch(f.seed, f.last+1))
	}
	require.NoError(t, f.model.compare(entries), "%s, round %d, after batch %d", e.Name(), round, shown)
	value, err := f.reader.Get([]byte("number"))
	if shown > 0 {
		require.NoError(t, err)
		require.Equal(t, strconv.Itoa(shown), string(value))
	}
}

// followedBatch returns batch i of the writers.
func followedBatch(seed uint64, i int) []Op {
	rnd := rand.New(rand.NewPCG(seed, uint64(i)))
	ops := []Op{Put([]byte("number"), strconv.AppendInt(nil, int64(i), 10))}
	for range rnd.IntN(12) {
		key := fmt.Appendf(nil, "key %03d", rnd.IntN(400))
		if rnd.IntN(5) == 0 {
			ops = append(ops, Delete(key))
		} else {
			ops = append(ops, Put(key, fmt.Appendf(nil, "%-*d", 1+rnd.IntN(400), i)))
		}
	}
	return ops
}

const (
	followTaskEnv   = "SIEVEDB_FOLLOW_TASK"
	followDriverEnv = "SIEVEDB_FOLLOW_DRIVER"
)

// writeForFollower is the writing process. It never returns.
func writeForFollower(task string) {
	err := writeFollowed(task)
	fmt.Fprintln(os.Stderr, "the followed writer:", err)
	os.Exit(1)
}

func writeFollowed(task string) error {
	fields := strings.SplitN(task, " ", 4)
	if len(fields) != 4 {
		return fmt.Errorf("the task is %q", task)
	}
	seed, err := strconv.ParseUint(fields[1], 10, 64)
	if err != nil {
		return err
	}
	round, err := strconv.ParseUint(fields[2], 10, 64)
	if err != nil {
		return err
	}
	rnd := rand.New(rand.NewPCG(seed, round))
	engines := map[string]Engine{"sievedb": SieveDB{}, "goleveldb": GoLevelDB{}, "leveldb": NewLevelDB(os.Getenv(followDriverEnv))}
	o := Options{BloomBits: 10, WriteBufferSize: 64 << 10, TableSize: 32 << 10, LevelBase: 64 << 10, ReuseLogs: rnd.IntN(2) == 0}
	d, err := engines[fields[0]].Open(fields[3], o)
	if err != nil {
		return err
	}
	values, err := d.Get([][]byte{[]byte("number")})
	if err != nil {
		return err
	}
	i := 0
	if values[0] != nil {
		if i, err = strconv.Atoi(string(values[0])); err != nil {
			return err
		}
	}
	for {
		if _, err := fmt.Println(i); err != nil {
			return err
		}
		i++
		if err := d.Write(followedBatch(seed, i), rnd.IntN(20) == 0); err != nil {
			return err
		}
		if rnd.IntN(200) == 0 {
			err = errors.Join(d.Flush(), d.Compact(nil, nil))
		}
		if err != nil {
			return err
		}
	}
}

// unchanging is a file system that only reads.
type unchanging struct{ vfs.FS }

var errChange = errors.New("a follower changes a file")

func (unchanging) Create(string) (vfs.File, error)      { return nil, errChange }
func (unchanging) Remove(string) error                  { return errChange }
func (unchanging) Rename(string, string) error          { return errChange }
func (unchanging) Link(string, string) error            { return errChange }
func (unchanging) MkdirAll(string) error                { return errChange }
func (unchanging) SyncDir(string) error                 { return errChange }
func (unchanging) Lock(string, bool) (io.Closer, error) { return nil, errChange }
