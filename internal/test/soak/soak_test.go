package soak

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

var (
	soakFor   = flag.Duration("soak.for", 10*time.Second, "how long the soak test runs")
	soakStall = flag.Duration("soak.stall", 30*time.Second, "the longest wait of a writer that is no fault")
	soakSeed  = flag.Uint64("soak.seed", 0, "what the workers write; 0: choose")
)

const taskEnv = "SIEVEDB_SOAK_TASK"

func TestMain(m *testing.M) {
	if text := os.Getenv(taskEnv); text != "" {
		fmt.Fprintln(os.Stderr, RunChild(text))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// testConfig is a run of keys many keys a worker, as short as one can be.
func testConfig(t *testing.T, keys int) Config {
	seed := *soakSeed
	if seed == 0 {
		seed = rand.Uint64() >> 1
	}
	t.Logf("-soak.seed=%d", seed)
	return Config{
		Dir: t.TempDir(), Seed: seed, Keys: keys, LongestStall: *soakStall,
		Child: func(task string) *exec.Cmd {
			child := exec.Command(os.Args[0], "-test.run=^$")
			child.Env = append(os.Environ(), taskEnv+"="+task)
			return child
		},
		Log: func(format string, args ...any) { fmt.Printf("soak: "+format+"\n", args...) }, // t.Logf would keep it to the end
	}
}

// The bound of a stall: the longest wait is for a merge of level 0 with all that it overlaps. That is at most the whole
// database of some 20 MB, read and written once; a memory card with 2 MB/s takes 20 s for it. What waits longer than 30
// s does not wait for the disk.
func TestSoak(t *testing.T) {
	keys, length := 8000, *soakFor
	if testing.Short() { // under the race detector, most of the time is for comparing all keys
		keys, length = 2000, min(length, time.Second)
	}
	c := testConfig(t, keys)
	c.For = length
	summary, err := Run(c)
	t.Log(summary)
	require.NoError(t, err)
}

// plant plants once, in the first session from the fourth on that ends with Close.
func plant(c *Config, fault func(d *db.DB)) {
	planted := false
	c.Plant = func(d *db.DB, session int) {
		if session >= 4 && !planted {
			planted = true
			fault(d)
		}
	}
}

const plantKeys = 500 // of each worker

func TestLeaksAreFound(t *testing.T) {
	c := testConfig(t, plantKeys)
	var files []*os.File
	var memory [][]byte
	c.Plant = func(*db.DB, int) {
		f, err := os.OpenFile(filepath.Join(c.Dir, fmt.Sprint("left", len(files))), os.O_CREATE|os.O_RDWR, 0o600)
		require.NoError(t, err)
		require.NoError(t, f.Truncate(1<<30)) // without taking a block
		files, memory = append(files, f), append(memory, bytes.Repeat([]byte{1}, 16<<20))
	}
	_, err := Run(c)
	require.ErrorContains(t, err, "descriptors grew")
	require.ErrorContains(t, err, "resident bytes grew")
	require.Regexp(t, `the directory took \d{10,} bytes`, err)
	for _, f := range files {
		require.NoError(t, f.Close())
	}
	require.NotEmpty(t, memory)
}

func TestAWrongValueIsFound(t *testing.T) {
	c := testConfig(t, plantKeys)
	// The first batch wrote the key, and perhaps none since; the second one did not.
	plant(&c, func(d *db.DB) { require.NoError(t, d.Put(keyOf(2, 7), valueOf(2, 7, 2), nil)) })
	_, err := Run(c)
	require.ErrorContains(t, err, `key "w2/000007" is of batch 2, not`)
}

func TestAStoreLeftOpenIsFound(t *testing.T) {
	c := testConfig(t, plantKeys)
	plant(&c, func(*db.DB) {
		other, err := db.Open("other", &db.Options{FS: vfs.NewMem()})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, other.Close()) })
	})
	_, err := Run(c)
	require.ErrorContains(t, err, "goroutines of the store")
}

func TestReadAllFindsForeignKeysAndValues(t *testing.T) {
	for _, c := range []struct{ name, key, value, fault string }{
		{"a key of no worker", "w9/000001", string(valueOf(9, 1, 1)), "follows"},
		{"a key in another format", "w1/1", string(valueOf(1, 1, 1)), "no worker writes"},
		{"another key's value", "w1/000001", string(valueOf(1, 2, 1)), "are not"},
		{"half a value", "w1/000001", "half", "no value is that short"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := db.Open("db", &db.Options{FS: vfs.NewMem()})
			require.NoError(t, err)
			defer d.Close()
			require.NoError(t, d.Put([]byte(c.key), []byte(c.value), nil))
			_, err = readAll(d, 10)
			require.ErrorContains(t, err, c.fault)
		})
	}
}

func TestJudgeGrowth(t *testing.T) {
	run := func(at func(i int) int64) []sample {
		var all []sample
		for i := range longRun + 20 {
			all = append(all, sample{resident: at(i), heap: 1, descriptors: 1})
		}
		return all
	}
	for _, c := range []struct {
		name  string
		at    func(i int) int64
		grows bool
	}{
		{"flat", func(int) int64 { return 1000 }, false},
		{"less is no fault", func(i int) int64 { return int64(10_000 - 10*i) }, false},
		{"growth of the warm-up alone", func(i int) int64 { return int64(min(i, 20) * 1000) }, false},
		{"a few outliers", func(i int) int64 { return 1000 + int64(i%5/4)*5000 }, false},
		{"5 % between the medians", func(i int) int64 { return 1000 + int64(i/60)*50 }, false},
		{"6 % between the medians", func(i int) int64 { return 1000 + int64(i/60)*60 }, true},
		{"a little each time", func(i int) int64 { return int64(1000 + 4*i) }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := judge(run(c.at)); c.grows {
				require.ErrorContains(t, err, "resident bytes grew")
			} else {
				require.NoError(t, err)
			}
		})
	}
}

func TestJudgeStalls(t *testing.T) {
	var c stallCount
	c.add(db.WriteStallInfo{Duration: time.Second})
	c.add(db.WriteStallInfo{Duration: 2 * time.Second, Stopped: true})
	c.add(db.WriteStallInfo{Duration: time.Second})
	require.NoError(t, c.judge(2*time.Second))
	require.ErrorContains(t, c.judge(2*time.Second-1), "waited 2s")
	require.EqualValues(t, 3, c.count.Load())
}

func TestJudgeSpace(t *testing.T) {
	var s space
	s.add(occupancy{100, 0})
	require.ErrorContains(t, s.judge(), "never measured")
	s.add(occupancy{600, 100})
	require.NoError(t, s.judge())
	s.add(occupancy{601, 100})
	s.add(occupancy{100, 100})
	require.ErrorContains(t, s.judge(), "601 bytes for 100 live ones: more than 6")

	closed := func(disk ...int64) (all []sample) {
		for _, d := range disk {
			all = append(all, sample{space: occupancy{d, 100}}, sample{}) // a killed one
		}
		return all
	}
	require.NoError(t, judgeClosed(closed()))
	require.NoError(t, judgeClosed(closed(199, 300, 200, 300, 100)))
	require.ErrorContains(t, judgeClosed(closed(199, 300, 201, 300, 100)), "2.01 times the live bytes")
}

// What a worker had written when it was killed is what it said, or one batch more; after a Close it is what it said.
func TestAtMostOneMoreBatchAfterAKill(t *testing.T) {
	const keys, said = 200, 100
	for _, c := range []struct {
		name    string
		written uint64
		killed  bool
		ok      bool
	}{
		{"as said, closed", said, false, true},
		{"as said, killed", said, true, true},
		{"one more, killed", said + 1, true, true},
		{"one more, closed", said + 1, false, false},
		{"two more, killed", said + 2, true, false},
		{"one less, killed", said - 1, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := db.Open("db", &db.Options{FS: vfs.NewMem()})
			require.NoError(t, err)
			defer d.Close()
			written, expected := newModels(3, keys), newModels(3, keys)
			for w := range workers {
				writer := &worker{model: written[w], d: d, acked: func() {}}
				for written[w].done < said || w == 1 && written[w].done < c.written {
					require.NoError(t, writer.write())
				}
				for expected[w].done < said || w == 1 && c.written < said && expected[w].done < said+1 {
					expected[w].advance()
				}
			}
			if err := compare(d, expected, c.killed); c.ok {
				require.NoError(t, err)
				require.Equal(t, written[1].done, expected[1].done)
			} else {
				require.ErrorContains(t, err, `"w1/`)
			}
		})
	}
}
