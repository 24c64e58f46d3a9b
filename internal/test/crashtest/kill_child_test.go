package crashtest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/test/crashtest/oracle"
	"github.com/sievedb/sievedb/internal/test/storetest"
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
	// Buffered makes all batches Buffered ones, except those that are synced and every eighth of each writer.
	Buffered bool
}

func (t killTask) String() string {
	text, err := json.Marshal(t)
	if err != nil {
		panic(err) // strings and numbers can be marshalled
	}
	return string(text)
}

func (t *killTask) isBuffered(b *oracle.Batch) bool { return t.Buffered && !b.Sync && b.Number%8 != 0 }

// killBatch returns batch number n of a writer, which depends on seed: a single put of the marker, or several writes
// of the writer's own keys together with it. No value is written twice.
func killBatch(seed uint64, writer, n int) *oracle.Batch {
	rnd := rand.New(rand.NewPCG(seed+uint64(writer), uint64(n)))
	b := &oracle.Batch{Writer: writer, Number: n, Sync: rnd.IntN(16) == 0}
	for i := range max(0, rnd.IntN(10)-3) {
		op := oracle.Op{Key: fmt.Sprintf("%d/key%03d", writer, rnd.IntN(150)), Delete: rnd.IntN(3) == 0}
		if !op.Delete {
			op.Value = fmt.Sprintf("%d %d %d", writer, n, i) + strings.Repeat(".", rnd.IntN(200)*rnd.IntN(2)*(1+rnd.IntN(20)/19*15))
		}
		b.Ops = append(b.Ops, op)
	}
	return b
}

// writeUntilKilled opens the database and writes with all writers concurrently. Each prints when it is
// about to write a batch, and when the batch was acknowledged.
func writeUntilKilled(text string) {
	var task killTask
	if err := json.Unmarshal([]byte(text), &task); err != nil {
		printAndExit(err)
	}
	rnd := rand.New(rand.NewPCG(task.Seed, uint64(task.Cycle)+1))
	o := &db.Options{
		Memtables: db.MemtableOptions{Size: 4 << 10 << rnd.IntN(5)},
		Tables:    db.TableOptions{Size: 4 << 10 << rnd.IntN(4), Compression: db.Compression(rnd.IntN(4))}, Compaction: db.CompactionOptions{
			MaxLevelBase:  8 << 10 << rnd.IntN(4),
			L0Trigger:     1 + rnd.IntN(4),
			MaxConcurrent: 1 + rnd.IntN(3),
		},
		Limits: db.LimitOptions{ManifestSize: 4 << 10},
		Cache:  db.CacheOptions{MaxOpenFiles: 10 + rnd.IntN(100)},
	}
	if task.Cycle%2 == 1 {
		o.Tables.SeparateValues = 10 << rnd.IntN(5)
	}
	fmt.Println("opening 0 0")
	d, err := db.Open(task.Dir, o)
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

// applyKillBatch uses Put for a batch of one write.
func applyKillBatch(d *db.DB, task *killTask, writer, n int) error {
	batch := killBatch(task.Seed, writer, n)
	wo := &db.WriteOptions{NoSync: !batch.Sync, Buffered: task.isBuffered(batch)}
	writes := batch.All()
	if len(writes) == 1 {
		return d.Put([]byte(writes[0].Key), []byte(writes[0].Value), wo)
	}
	var b db.Batch
	addOps(&b, writes)
	if n%3 == 0 {
		return storetest.ApplyInTransaction(d, &b, wo)
	}
	return d.Apply(&b, wo)
}

func printAndExit(err error) {
	fmt.Println("error 0 0", err)
	os.Exit(1)
}
