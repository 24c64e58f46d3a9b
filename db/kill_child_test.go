package db

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
)

// killTaskEnv is set in the environment of the kill test's child process, to its task.
const killTaskEnv = "SIEVEDB_KILL_TEST_TASK"

const killWriters = 4

// killTask is the task of a child: to continue after the batches that each writer has done.
type killTask struct {
	Dir   string
	Seed  uint64
	Cycle int
	Done  [killWriters]int
	Lie   bool // acknowledge every tenth batch without writing it
	// Buffered makes all batches Buffered ones, except those that are synced and every eighth of each
	// writer.
	Buffered bool
}

func (t killTask) String() string {
	text, err := json.Marshal(t)
	if err != nil {
		panic(err) // strings and numbers can be marshalled
	}
	return string(text)
}

func (t *killTask) isBuffered(n int, sync bool) bool { return t.Buffered && !sync && n%8 != 0 }

// killWrite is one write of a batch.
type killWrite struct {
	key, value string
	delete     bool
}

// sharedKey is written by all writers; each other key is written by one of them.
const sharedKey = "shared"

// killBatch returns batch number n of a writer and whether it is synced, which depend on seed: a
// put, a deletion, or several writes together with the shared key. No value is written twice.
func killBatch(seed uint64, writer, n int) (writes []killWrite, sync bool) {
	rnd := rand.New(rand.NewPCG(seed+uint64(writer), uint64(n)))
	own := func(i int, del bool) killWrite {
		w := killWrite{key: fmt.Sprintf("key%03d/%d", rnd.IntN(150), writer), delete: del}
		if !del {
			w.value = fmt.Sprintf("%d %d %d", writer, n, i) + strings.Repeat(".", rnd.IntN(200)*rnd.IntN(2)*(1+rnd.IntN(20)/19*15))
		}
		return w
	}
	switch kind := rnd.IntN(10); {
	case kind < 4:
		writes = append(writes, own(0, false))
	case kind < 6:
		writes = append(writes, own(0, true))
	default:
		for i := range 1 + rnd.IntN(7) {
			writes = append(writes, own(i, i > 0 && rnd.IntN(3) == 0))
		}
		// These come last, because a deletion may have hit the key of the first write. The shared value
		// alone shows that this batch was applied.
		writes = append(writes, killWrite{key: sharedKey, value: fmt.Sprintf("%d %d", writer, n)},
			killWrite{key: fmt.Sprintf("last/%d", writer), value: fmt.Sprintf("%d %d", writer, n)})
	}
	return writes, rnd.IntN(16) == 0
}

// writeUntilKilled opens the database and writes with all writers concurrently. Each prints when it is
// about to write a batch, and when the batch was acknowledged.
func writeUntilKilled(text string) {
	var task killTask
	if err := json.Unmarshal([]byte(text), &task); err != nil {
		printAndExit(err)
	}
	rnd := rand.New(rand.NewPCG(task.Seed, uint64(task.Cycle)+1))
	o := &Options{
		Memtables: MemtableOptions{Size: 4 << 10 << rnd.IntN(5)},
		Tables:    TableOptions{Size: 4 << 10 << rnd.IntN(4), Compression: Compression(rnd.IntN(4))}, Compaction: CompactionOptions{
			MaxLevelBase:  8 << 10 << rnd.IntN(4),
			L0Trigger:     1 + rnd.IntN(4),
			MaxConcurrent: 1 + rnd.IntN(3),
		},
		Limits: LimitOptions{ManifestSize: 4 << 10},
		Cache:  CacheOptions{MaxOpenFiles: 10 + rnd.IntN(100)},
	}
	fmt.Println("opening 0 0")
	d, err := Open(task.Dir, o)
	if err != nil {
		printAndExit(err)
	}
	var writers sync.WaitGroup
	for w := range killWriters {
		writers.Go(func() {
			for n := task.Done[w] + 1; ; n++ {
				fmt.Println("issued", w, n)
				if task.Lie && n%10 == 0 {
					fmt.Println("acknowledged", w, n)
					continue
				}
				if err := applyKillBatch(d, &task, w, n); err != nil {
					printAndExit(err)
				}
				fmt.Println("acknowledged", w, n)
			}
		})
	}
	writers.Wait()
}

// applyKillBatch uses Put or Delete for a batch of one write.
func applyKillBatch(d *DB, task *killTask, writer, n int) error {
	writes, sync := killBatch(task.Seed, writer, n)
	wo := &WriteOptions{NoSync: !sync, Buffered: task.isBuffered(n, sync)}
	if first := writes[0]; len(writes) == 1 && first.delete {
		return d.Delete([]byte(first.key), wo)
	} else if len(writes) == 1 {
		return d.Put([]byte(first.key), []byte(first.value), wo)
	}
	var b Batch
	for _, w := range writes {
		if w.delete {
			b.Delete([]byte(w.key))
		} else {
			b.Put([]byte(w.key), []byte(w.value))
		}
	}
	if n%3 == 0 {
		return applyInTransaction(d, &b, wo)
	}
	return d.Apply(&b, wo)
}

func printAndExit(err error) {
	fmt.Println("error 0 0", err)
	os.Exit(1)
}
